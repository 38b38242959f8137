/* hub/fetch.h - one attempt at one file: resume, receive, verify, rename (internal).
 *
 * Thread: one per struct hub_fetch.
 */
#ifndef HUB_FETCH_H
#define HUB_FETCH_H

#include "hub/download.h"
#include "hub/http.h"

struct hub_fetch {
    struct hub_http *http;                /* borrowed */
    const struct hub_manifest_file *file; /* borrowed */
    const char *dir;
    const atomic_bool *cancel;
    /* Bytes that are there, and the current state; called often. */
    void (*on_progress)(void *ctx, enum hub_file_state state, uint64_t done);
    void *ctx;

    /* Results. */
    uint64_t new_bytes;     /* received and kept */
    uint32_t retry_after_s; /* requested by the server */
};

/* OK: the file has its final name and is verified.
 *   UPSTREAM, RATE_LIMITED          another attempt may help; received bytes are kept
 *   MODEL_CORRUPT                   size or hash is wrong: received bytes are dropped
 *   UNAVAILABLE                     the disk is full; received bytes are kept
 *   NOT_FOUND, PERMISSION_DENIED, IO, CANCELLED */
LR_MUST_USE lr_code hub_fetch_file(struct hub_fetch *f, struct lr_error *err);

/* Bytes of the file on disk that may be usable, unverified; for the disk space check. */
uint64_t hub_fetch_have(const char *dir, const struct hub_manifest_file *file);

#endif
