/* hub/download.h - fetching a manifest's files, several at once.
 *
 * A file gets its final name only when it is whole: size and sha256 checked, on disk,
 * renamed in one step.  Until then it lies in DIR/.download/, with a note of what it is a
 * part of, and the next start goes on from there: after a crash, a kill or a full disk
 * nothing is fetched twice but what was proved wrong.  Two starts for one folder are one
 * download.  Nothing else in DIR is touched.
 *
 * Thread: any; callbacks come from download threads and must not block or call back in,
 * except for hub_download_progress.
 */
#ifndef HUB_DOWNLOAD_H
#define HUB_DOWNLOAD_H

#include <stdbool.h>

#include "hub/client.h"
#include "hub/manifest.h"

enum hub_download_state {
    HUB_DOWNLOAD_RUNNING, /* also while it waits for its turn */
    HUB_DOWNLOAD_DONE,    /* every file that is not optional is there and verified */
    HUB_DOWNLOAD_FAILED,  /* error says why; what was fetched is kept */
    HUB_DOWNLOAD_CANCELLED,
};

enum hub_file_state {
    HUB_FILE_WAITING,
    HUB_FILE_CHECKING, /* bytes that were there are being hashed */
    HUB_FILE_FETCHING,
    HUB_FILE_RETRYING, /* waits before the next attempt; reason says why */
    HUB_FILE_DONE,
    HUB_FILE_SKIPPED, /* optional, and it failed; reason says why */
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
    uint64_t total_bytes, done_bytes; /* of the files this node takes */
    uint64_t rate;                    /* bytes a second, over the last seconds */
    uint64_t remaining_ms;            /* at that rate; UINT64_MAX: not known */
    uint32_t file_count, files_done;
    bool is_checking;      /* files that were there are being hashed, none is fetched */
    struct lr_error error; /* of FAILED */
};

struct hub_downloads; /* all downloads of a process and their threads */
struct hub_download;  /* one model's */

struct hub_downloads_options {
    uint32_t connections;    /* files at once, of all models together; 0: 4 */
    uint32_t attempts;       /* in a row without a new byte before a file fails; 0: 8 */
    uint32_t backoff_ms;     /* before the second attempt, doubled each time; 0: 500 */
    uint32_t backoff_max_ms; /* also the longest Retry-After that is waited for; 0: 300000 */
    uint64_t disk_reserve;   /* bytes to leave free; 0: 256 MiB */
};

/* client is copied; its borrowed strings must outlive the downloads. */
LR_MUST_USE lr_code hub_downloads_create(const struct hub_client *client,
                                         const struct hub_downloads_options *options,
                                         struct hub_downloads **out, struct lr_error *err);
/* Stops everything (partial files stay) and waits for the threads, a second at most.  Downloads
 * still referenced end as CANCELLED.  NULL is fine. */
void hub_downloads_destroy(struct hub_downloads *downloads);

/* Called when the state, or the state of a file, changes; not for every byte. */
typedef void (*hub_download_fn)(void *arg, struct hub_download *download);

/* Begins, or joins the download of that folder.  The manifest is copied.  dir is created.
 * Waits for a cancelled download of the same folder to leave, a second at most.
 *   UNSUPPORTED  the filter has none of the manifest's runtimes
 *   UNAVAILABLE  too little disk space; both numbers
 *   CONFLICT     another process downloads into dir; or this one, another manifest
 * *out is a reference. */
LR_MUST_USE lr_code hub_download_start(struct hub_downloads *downloads,
                                       const struct hub_manifest *manifest, const char *dir,
                                       const struct hub_filter *filter,
                                       hub_download_fn on_change, void *arg,
                                       struct hub_download **out, struct lr_error *err);

/* Every file that is not optional lies in dir, unchanged since it was verified: there is
 * nothing to fetch and nothing to check.  Looks at sizes and times only. */
bool hub_download_is_whole(const struct hub_manifest *manifest, const char *dir,
                           const struct hub_filter *filter);

/* ---- one folder's download for another ---- */

/* Gives dir what the manifest wants and what lies in `from`, verified: as links, no byte is
 * copied.  What cannot be linked will be fetched. */
void hub_download_reuse(const struct hub_manifest *manifest, const char *from, const char *dir);
/* Moves the manifest's files, which lie whole in `from`, into dir, over those that have their
 * names; one that lies in neither is gone from dir as well.  After a crash it is called
 * again and moves the rest.  Both are in one file system. */
LR_MUST_USE lr_code hub_download_move(const struct hub_manifest *manifest, const char *from,
                                      const char *dir, struct lr_error *err);
/* Removes from dir the files of `old` that `kept` does not name. */
void hub_download_drop(const struct hub_manifest *old, const struct hub_manifest *kept,
                       const char *dir);

/* For everybody who joined it.  Partial files stay. */
void hub_download_cancel(struct hub_download *download);
/* After this returns no callback of this reference's on_change comes.  A running download
 * goes on without its last reference. */
void hub_download_release(struct hub_download *download, hub_download_fn on_change, void *arg);

void hub_download_progress(struct hub_download *download, struct hub_progress *out);
/* How many were written, at most count. */
size_t hub_download_files(struct hub_download *download, struct hub_file_progress *out,
                          size_t count);
/* True when it is no longer RUNNING; timeout_ms -1: for ever. */
bool hub_download_wait(struct hub_download *download, int timeout_ms);

#endif
