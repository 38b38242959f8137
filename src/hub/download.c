/* hub/download.c - the downloads of a process: creating, watching and ending them. */
#include "hub/download.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "hub/downloads.h"

enum { MOST_CONNECTIONS = 64 };

pthread_mutex_t hub_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t hub_work = PTHREAD_COND_INITIALIZER;
pthread_cond_t hub_ended = PTHREAD_COND_INITIALIZER;

const char *hub_file_state_name(enum hub_file_state state)
{
    static const char *const names[] = {"waiting", "checking", "fetching", "retrying",
                                        "done",    "skipped",  "failed"};
    return names[state];
}

const char *hub_download_state_name(enum hub_download_state state)
{
    static const char *const names[] = {"running", "done", "failed", "cancelled"};
    return names[state];
}

/* ---- all downloads ---- */

static void fill_options(struct hub_downloads_options *o)
{
    if (o->connections == 0)
        o->connections = 4;
    if (o->connections > MOST_CONNECTIONS)
        o->connections = MOST_CONNECTIONS;
    if (o->attempts == 0)
        o->attempts = 8;
    if (o->backoff_ms == 0)
        o->backoff_ms = 500;
    if (o->backoff_max_ms == 0)
        o->backoff_max_ms = 300000;
    if (o->disk_reserve == 0)
        o->disk_reserve = (uint64_t)256 << 20;
}

lr_code hub_downloads_create(const struct hub_client *client,
                             const struct hub_downloads_options *options,
                             struct hub_downloads **out, struct lr_error *err)
{
    *out = NULL;
    struct hub_downloads *all = calloc(1, sizeof(*all));
    if (all == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for downloads");
    all->client = *client;
    if (options != NULL)
        all->options = *options;
    fill_options(&all->options);
    all->threads = calloc(all->options.connections, sizeof(*all->threads));
    int rc = all->threads != NULL ? 0 : ENOMEM;
    for (; rc == 0 && all->thread_count < all->options.connections; all->thread_count++) {
        rc = pthread_create(&all->threads[all->thread_count], NULL, hub_download_thread, all);
        if (rc != 0)
            break;
    }
    if (rc != 0) {
        hub_downloads_destroy(all);
        errno = rc;
        return lr_fail_errno(err, LR_OUT_OF_RAM, "cannot start a thread for downloads");
    }
    *out = all;
    return LR_OK;
}

void hub_downloads_destroy(struct hub_downloads *downloads)
{
    if (downloads == NULL)
        return;
    (void)pthread_mutex_lock(&hub_lock);
    downloads->is_stopping = true;
    for (struct hub_download *d = downloads->list; d != NULL; d = d->next)
        atomic_store(&d->cancel, true);
    (void)pthread_cond_broadcast(&hub_work);
    (void)pthread_mutex_unlock(&hub_lock);
    for (uint32_t i = 0; i < downloads->thread_count; i++)
        (void)pthread_join(downloads->threads[i], NULL);
    (void)pthread_mutex_lock(&hub_lock);
    while (downloads->list != NULL) {
        struct hub_download *d = downloads->list;
        if (!hub_download_settle(d))
            abort(); /* no thread works on it any more */
    }
    (void)pthread_mutex_unlock(&hub_lock);
    free(downloads->threads);
    free(downloads);
}

/* ---- one download ---- */

void hub_download_free(struct hub_download *d)
{
    while (d->listeners != NULL) {
        struct hub_listener *listener = d->listeners;
        d->listeners = listener->next;
        free(listener);
    }
    lr_file_unlock(&d->file_lock);
    hub_manifest_destroy(d->manifest);
    (void)pthread_mutex_destroy(&d->notify_lock);
    free(d->jobs);
    free(d);
}

struct hub_download *hub_download_ref_locked(struct hub_download *d)
{
    d->refs++;
    return d;
}

void hub_download_unref_locked(struct hub_download *d)
{
    if (--d->refs == 0)
        hub_download_free(d);
}

bool hub_download_settle(struct hub_download *d)
{
    bool is_stopped = atomic_load(&d->cancel);
    for (size_t i = 0; i < d->job_count; i++) {
        const struct hub_job *job = &d->jobs[i];
        bool is_over = job->state == HUB_FILE_DONE || job->state == HUB_FILE_SKIPPED ||
                       job->state == HUB_FILE_FAILED;
        if (job->is_busy || (!is_over && !is_stopped))
            return false;
    }
    if (d->state != HUB_DOWNLOAD_RUNNING)
        return false;
    d->state = d->error.code != LR_OK ? HUB_DOWNLOAD_FAILED
               : is_stopped           ? HUB_DOWNLOAD_CANCELLED
                                      : HUB_DOWNLOAD_DONE;
    lr_log_info(NULL, "download.end model=%s state=%s dir=%s", d->manifest->id,
                hub_download_state_name(d->state), d->dir);
    lr_file_unlock(&d->file_lock);
    for (struct hub_download **link = &d->owner->list; *link != NULL; link = &(*link)->next) {
        if (*link == d) {
            *link = d->next;
            break;
        }
    }
    d->owner = NULL;
    (void)pthread_cond_broadcast(&hub_ended);
    hub_download_unref_locked(d);
    return true;
}

void hub_download_notify(struct hub_download *d)
{
    (void)pthread_mutex_lock(&d->notify_lock);
    for (struct hub_listener *l = d->listeners; l != NULL; l = l->next)
        l->fn(l->arg, d);
    (void)pthread_mutex_unlock(&d->notify_lock);
}

/* ---- watching and ending ---- */

void hub_download_cancel(struct hub_download *download)
{
    bool is_ended = false;
    (void)pthread_mutex_lock(&hub_lock);
    (void)hub_download_ref_locked(download);
    if (download->state == HUB_DOWNLOAD_RUNNING) {
        atomic_store(&download->cancel, true);
        is_ended = hub_download_settle(download);
    }
    (void)pthread_mutex_unlock(&hub_lock);
    if (is_ended)
        hub_download_notify(download);
    (void)pthread_mutex_lock(&hub_lock);
    hub_download_unref_locked(download);
    (void)pthread_mutex_unlock(&hub_lock);
}

void hub_download_release(struct hub_download *download, hub_download_fn on_change, void *arg)
{
    if (download == NULL)
        return;
    (void)pthread_mutex_lock(&download->notify_lock);
    for (struct hub_listener **link = &download->listeners; *link != NULL;
         link = &(*link)->next) {
        struct hub_listener *listener = *link;
        if (listener->fn == on_change && listener->arg == arg) {
            *link = listener->next;
            free(listener);
            break;
        }
    }
    (void)pthread_mutex_unlock(&download->notify_lock);
    (void)pthread_mutex_lock(&hub_lock);
    hub_download_unref_locked(download);
    (void)pthread_mutex_unlock(&hub_lock);
}

/* Bytes a second between the oldest stored sample and now. */
static uint64_t rate_of(const struct hub_download *d)
{
    if (d->sample_count < 2 || d->state != HUB_DOWNLOAD_RUNNING)
        return 0;
    size_t oldest = (d->sample_at + HUB_RATE_SAMPLES + 1 - d->sample_count) % HUB_RATE_SAMPLES;
    uint64_t ms = lr_clock_ms(NULL) - d->samples[oldest].at_ms;
    return ms != 0 ? (d->received - d->samples[oldest].bytes) * 1000 / ms : 0;
}

void hub_download_progress(struct hub_download *download, struct hub_progress *out)
{
    bool is_fetching = false;
    memset(out, 0, sizeof(*out));
    (void)pthread_mutex_lock(&hub_lock);
    out->state = download->state;
    out->error = download->error;
    out->rate = rate_of(download);
    for (size_t i = 0; i < download->job_count; i++) {
        const struct hub_job *job = &download->jobs[i];
        if (job->state == HUB_FILE_SKIPPED)
            continue; /* this file will not be fetched */
        out->file_count++;
        out->files_done += job->state == HUB_FILE_DONE;
        out->is_checking |= job->state == HUB_FILE_CHECKING;
        is_fetching |= job->state == HUB_FILE_FETCHING || job->state == HUB_FILE_RETRYING;
        out->total_bytes += job->file->size;
        out->done_bytes += job->done;
    }
    (void)pthread_mutex_unlock(&hub_lock);
    out->is_checking &= !is_fetching;
    uint64_t left = out->total_bytes - out->done_bytes;
    out->remaining_ms = left == 0 ? 0 : out->rate == 0 ? UINT64_MAX : left * 1000 / out->rate;
}

size_t hub_download_files(struct hub_download *download, struct hub_file_progress *out,
                          size_t count)
{
    (void)pthread_mutex_lock(&hub_lock);
    size_t n = download->job_count < count ? download->job_count : count;
    for (size_t i = 0; i < n; i++) {
        const struct hub_job *job = &download->jobs[i];
        out[i] = (struct hub_file_progress){.name = job->file->name,
                                            .size = job->file->size,
                                            .done = job->done,
                                            .state = job->state,
                                            .optional = job->file->optional,
                                            .attempts = job->attempts};
        memcpy(out[i].reason, job->reason, sizeof(out[i].reason));
    }
    (void)pthread_mutex_unlock(&hub_lock);
    return n;
}

bool hub_download_wait(struct hub_download *download, int timeout_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    if (timeout_ms > 0) {
        until.tv_sec += timeout_ms / 1000;
        until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
    }
    (void)pthread_mutex_lock(&hub_lock);
    int rc = 0;
    while (download->state == HUB_DOWNLOAD_RUNNING && rc == 0)
        rc = timeout_ms < 0 ? pthread_cond_wait(&hub_ended, &hub_lock)
                            : pthread_cond_timedwait(&hub_ended, &hub_lock, &until);
    bool is_over = download->state != HUB_DOWNLOAD_RUNNING;
    (void)pthread_mutex_unlock(&hub_lock);
    return is_over;
}
