/* hub/downloads.h - shared by the files download*.c (internal).
 *
 * Locks: `lock` guards all lists, jobs and states.  `notify_lock` of a download is held while
 * its listeners are called, added or removed; it is taken before `lock`, never after.
 */
#ifndef HUB_DOWNLOADS_H
#define HUB_DOWNLOADS_H

#include <pthread.h>

#include "base/file.h"
#include "hub/download.h"
#include "hub/fetch.h"

enum { HUB_RATE_SAMPLES = 16, HUB_RATE_STEP_MS = 400 };

struct hub_job {
    struct hub_download *download;
    const struct hub_manifest_file *file; /* borrowed from the download's manifest */
    enum hub_file_state state;
    uint64_t done;
    uint32_t attempts;   /* in a row without a new byte */
    uint32_t mismatches; /* complete files with a wrong size or hash */
    uint64_t not_before_ms;
    bool is_busy; /* a thread works on it */
    char reason[256];
};

struct hub_listener {
    struct hub_listener *next;
    hub_download_fn fn;
    void *arg;
};

struct hub_download {
    struct hub_downloads *owner; /* NULL once the owner is destroyed */
    struct hub_download *next;   /* of the owner's list while RUNNING */
    unsigned refs;
    char dir[LR_PATH_MAX];
    struct hub_manifest *manifest; /* our own copy */
    struct hub_job *jobs;          /* by priority */
    size_t job_count;
    enum hub_download_state state;
    struct lr_error error;
    atomic_bool cancel;
    struct lr_file_lock file_lock;
    pthread_mutex_t notify_lock;
    struct hub_listener *listeners;
    struct {
        uint64_t at_ms, bytes;
    } samples[HUB_RATE_SAMPLES]; /* a ring, newest at sample_at */
    size_t sample_at, sample_count;
    uint64_t received; /* over the network, for the rate */
};

/* Shared by the downloads of a process and by every struct hub_download, which may outlive this
 * struct. */
struct hub_downloads {
    struct hub_client client;
    struct hub_downloads_options options;
    struct hub_download *list; /* RUNNING ones; a reference each */
    pthread_t *threads;
    uint32_t thread_count;
    bool is_stopping;
};

extern pthread_mutex_t hub_lock; /* `lock` above: one for the process */
extern pthread_cond_t hub_work;  /* there is work, or a stop */
extern pthread_cond_t hub_ended; /* a download is no longer RUNNING */

void *hub_download_thread(void *downloads);

/* With the lock held: ends the download if no job is left; true when that happened. */
bool hub_download_settle(struct hub_download *d);
struct hub_download *hub_download_ref_locked(struct hub_download *d);
void hub_download_unref_locked(struct hub_download *d);
void hub_download_free(struct hub_download *d); /* no references are left */
/* Without the lock. */
void hub_download_notify(struct hub_download *d);

#endif
