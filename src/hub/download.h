/* hub/download.h - fetching a manifest's files, several at once.
 *
 * A file gets its final name only when it is complete: size and sha256 checked, synced to disk,
 * renamed in one step.  Until then the file lies in DIR/.download/, with a note that says which
 * file it belongs to, and the next start continues there.  After a crash, a kill or a full disk
 * only bytes that were proved wrong are fetched again.  Two starts for one folder share one
 * download.  Other files in DIR are not touched.
 *
 * Thread: any.  Callbacks come from download threads and must not block or call functions of
 * this header, except for hub_download_progress.
 */
#ifndef HUB_DOWNLOAD_H
#define HUB_DOWNLOAD_H

#include <stdbool.h>

#include "hub/client.h"
#include "hub/manifest.h"

enum hub_download_state {
    HUB_DOWNLOAD_RUNNING, /* also while it waits for a free connection */
    HUB_DOWNLOAD_DONE,    /* every required file is there and verified */
    HUB_DOWNLOAD_FAILED,  /* error says why; fetched bytes are kept */
    HUB_DOWNLOAD_CANCELLED,
};

enum hub_file_state {
    HUB_FILE_WAITING,
    HUB_FILE_CHECKING, /* existing bytes are being hashed */
    HUB_FILE_FETCHING,
    HUB_FILE_RETRYING, /* waits before the next attempt; reason says why */
    HUB_FILE_DONE,
    HUB_FILE_SKIPPED, /* optional, and failed; reason says why */
    HUB_FILE_FAILED,
};
const char *hub_file_state_name(enum hub_file_state state);         /* "fetching" */
const char *hub_download_state_name(enum hub_download_state state); /* "running" */

struct hub_file_progress {
    const char *name; /* borrowed from the download */
    uint64_t size, done;
    enum hub_file_state state;
    bool optional;
    uint32_t attempts;
    char reason[256]; /* of the last failure, "" */
};

struct hub_progress {
    enum hub_download_state state;
    uint64_t total_bytes, done_bytes; /* of the files that this node needs */
    uint64_t rate;                    /* bytes a second, over the last seconds */
    uint64_t remaining_ms;            /* at that rate; UINT64_MAX: not known */
    uint32_t file_count, files_done;
    bool is_checking;      /* existing files are being hashed, none is fetched */
    struct lr_error error; /* of FAILED */
};

struct hub_downloads; /* all downloads of a process and their threads */
struct hub_download;  /* one model's */

struct hub_downloads_options {
    uint32_t connections;    /* files at once over all models; 0: 4 */
    uint32_t attempts;       /* attempts in a row without progress before a file fails; 0: 8 */
    uint32_t backoff_ms;     /* before the second attempt, doubled each time; 0: 500 */
    uint32_t backoff_max_ms; /* also the longest Retry-After that is honoured; 0: 300000 */
    uint64_t disk_reserve;   /* bytes to leave free; 0: 256 MiB */
};

/* client is copied; its borrowed strings must outlive the downloads. */
LR_MUST_USE lr_code hub_downloads_create(const struct hub_client *client,
                                         const struct hub_downloads_options *options,
                                         struct hub_downloads **out, struct lr_error *err);
/* Stops everything, keeps partial files, and waits for the threads, a second at most.
 * Downloads that are still referenced end as CANCELLED. NULL is fine. */
void hub_downloads_destroy(struct hub_downloads *downloads);

/* Called when the state of the download or of a file changes; not for every byte. */
typedef void (*hub_download_fn)(void *arg, struct hub_download *download);

/* Starts a download, or joins the running one of that folder.  The manifest is copied; dir is
 * created.  Waits for a cancelled download of the same folder to end, a second at most.
 *   UNSUPPORTED  the filter has none of the manifest's runtimes
 *   UNAVAILABLE  too little disk space; both numbers
 *   CONFLICT     another process downloads into dir; or this one, another manifest
 * *out is a reference. */
LR_MUST_USE lr_code hub_download_start(struct hub_downloads *downloads,
                                       const struct hub_manifest *manifest, const char *dir,
                                       const struct hub_filter *filter,
                                       hub_download_fn on_change, void *arg,
                                       struct hub_download **out, struct lr_error *err);

/* True when every required file lies in dir, unchanged since it was verified: nothing to fetch,
 * nothing to check.  Reads only sizes and times. */
bool hub_download_is_whole(const struct hub_manifest *manifest, const char *dir,
                           const struct hub_filter *filter);

/* ---- using a download in another folder ---- */

/* Links the manifest's files that lie verified in `from` into dir; no bytes are copied.  Files
 * that cannot be linked will be fetched. */
void hub_download_reuse(const struct hub_manifest *manifest, const char *from, const char *dir);
/* Moves the manifest's complete files from `from` into dir and replaces files of the same
 * names. For a file that lies in neither folder, an old file of that name is removed from dir.
 * After a crash the next call moves the rest.  Both folders are in one file system. */
LR_MUST_USE lr_code hub_download_move(const struct hub_manifest *manifest, const char *from,
                                      const char *dir, struct lr_error *err);
/* Removes from dir the files of `old` that `kept` does not name. */
void hub_download_drop(const struct hub_manifest *old, const struct hub_manifest *kept,
                       const char *dir);

/* Cancels for every caller that joined the download.  Partial files stay. */
void hub_download_cancel(struct hub_download *download);
/* After this returns the callback of this reference is not called any more.  A running download
 * continues without references. */
void hub_download_release(struct hub_download *download, hub_download_fn on_change, void *arg);

void hub_download_progress(struct hub_download *download, struct hub_progress *out);
/* Returns how many were written, at most count. */
size_t hub_download_files(struct hub_download *download, struct hub_file_progress *out,
                          size_t count);
/* True when it is no longer RUNNING; timeout_ms -1: for ever. */
bool hub_download_wait(struct hub_download *download, int timeout_ms);

#endif
