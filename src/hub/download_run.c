/* hub/download_run.c - the download threads, and the decision after each attempt. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "hub/downloads.h"

enum {
    MOST_MISMATCHES = 3,
    /* Fewer bytes do not count as progress: a server that sends one byte per connection must
     * not keep a download alive for ever. */
    PROGRESS_BYTES = 64 << 10,
};

/* ---- after an attempt (lock held) ---- */

static uint64_t backoff_ms(const struct hub_downloads_options *o, uint32_t attempts,
                           uint32_t retry_after_s)
{
    uint64_t wait = o->backoff_ms;
    for (uint32_t i = 1; i < attempts && wait < o->backoff_max_ms; i++)
        wait *= 2;
    /* Jitter: nodes that lost the hub at the same moment must not all retry at the same
     * moment. */
    wait += lr_random_below(wait / 2 + 1);
    if (wait < (uint64_t)retry_after_s * 1000)
        wait = (uint64_t)retry_after_s * 1000;
    return wait < o->backoff_max_ms ? wait : o->backoff_max_ms;
}

static void fail_job(struct hub_job *job, const struct lr_error *err)
{
    struct hub_download *d = job->download;
    job->state = job->file->optional ? HUB_FILE_SKIPPED : HUB_FILE_FAILED;
    if (job->file->optional) {
        lr_log_warn(LR_LOG_OF(err), "download.skip model=%s file=%s error=%s", d->manifest->id,
                    job->file->name, err->text);
        return;
    }
    lr_log_warn(LR_LOG_OF(err), "download.fail model=%s file=%s error=%s", d->manifest->id,
                job->file->name, err->text);
    if (d->error.code == LR_OK)
        d->error = *err;
    atomic_store(&d->cancel, true); /* the other files stop too; their bytes are kept */
}

static void conclude(struct hub_downloads *all, struct hub_job *job,
                     const struct hub_fetch *fetch, lr_code code, const struct lr_error *err)
{
    struct hub_download *d = job->download;
    bool may_help = code == LR_UPSTREAM || code == LR_RATE_LIMITED || code == LR_MODEL_CORRUPT;
    if (code == LR_OK) {
        job->state = HUB_FILE_DONE;
        job->done = job->file->size;
        job->reason[0] = '\0';
        return;
    }
    (void)snprintf(job->reason, sizeof(job->reason), "%.255s", err->text);
    if (code == LR_CANCELLED || atomic_load(&d->cancel)) {
        job->state = HUB_FILE_WAITING;
        return;
    }
    if (fetch->new_bytes >= PROGRESS_BYTES && code != LR_MODEL_CORRUPT)
        job->attempts = 0;
    job->attempts++;
    job->mismatches += code == LR_MODEL_CORRUPT;
    if (!may_help || job->attempts >= all->options.attempts ||
        job->mismatches >= MOST_MISMATCHES) {
        fail_job(job, err);
        return;
    }
    uint64_t wait = backoff_ms(&all->options, job->attempts, fetch->retry_after_s);
    job->state = HUB_FILE_RETRYING;
    job->not_before_ms = lr_clock_ms(NULL) + wait;
    lr_log_info(NULL, "download.retry model=%s file=%s attempt=%u wait_ms=%llu error=%s",
                d->manifest->id, job->file->name, job->attempts, (unsigned long long)wait,
                err->text);
}

/* ---- choosing (lock held) ---- */

static bool is_open(const struct hub_job *job)
{
    return !job->is_busy && (job->state == HUB_FILE_WAITING || job->state == HUB_FILE_RETRYING);
}

/* The first job that may run now; else *wake_ms is when the next may run (UINT64_MAX: none). */
static struct hub_job *choose(const struct hub_downloads *all, uint64_t now_ms,
                              uint64_t *wake_ms)
{
    *wake_ms = UINT64_MAX;
    for (struct hub_download *d = all->list; d != NULL; d = d->next) {
        for (size_t i = 0; i < d->job_count && !atomic_load(&d->cancel); i++) {
            struct hub_job *job = &d->jobs[i];
            if (!is_open(job))
                continue;
            if (job->state == HUB_FILE_WAITING || job->not_before_ms <= now_ms)
                return job;
            if (job->not_before_ms < *wake_ms)
                *wake_ms = job->not_before_ms;
        }
    }
    return NULL;
}

static void sleep_until(uint64_t wake_ms, uint64_t now_ms)
{
    struct timespec until;
    if (wake_ms == UINT64_MAX) {
        (void)pthread_cond_wait(&hub_work, &hub_lock);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (wake_ms - now_ms) % 1000 * 1000000;
    until.tv_sec += (time_t)((wake_ms - now_ms) / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    (void)pthread_cond_timedwait(&hub_work, &hub_lock, &until);
}

/* ---- running one ---- */

struct attempt {
    struct hub_job *job;
    uint64_t last_done;
    bool has_begun;
};

static void take_sample(struct hub_download *d)
{
    uint64_t now = lr_clock_ms(NULL);
    if (d->sample_count != 0 && now - d->samples[d->sample_at].at_ms < HUB_RATE_STEP_MS)
        return;
    d->sample_at = (d->sample_at + 1) % HUB_RATE_SAMPLES;
    d->samples[d->sample_at].at_ms = now;
    d->samples[d->sample_at].bytes = d->received;
    if (d->sample_count < HUB_RATE_SAMPLES)
        d->sample_count++;
}

static void on_progress(void *ctx, enum hub_file_state state, uint64_t done)
{
    struct attempt *a = ctx;
    struct hub_download *d = a->job->download;
    (void)pthread_mutex_lock(&hub_lock);
    bool changed = a->job->state != state;
    if (state == HUB_FILE_FETCHING) {
        if (a->has_begun && done > a->last_done)
            d->received += done - a->last_done;
        a->has_begun = true;
        a->last_done = done;
        take_sample(d);
    }
    a->job->state = state;
    a->job->done = done;
    (void)pthread_mutex_unlock(&hub_lock);
    if (changed)
        hub_download_notify(d);
}

static lr_code attempt(struct hub_downloads *all, struct hub_http *http, struct hub_job *job,
                       struct hub_fetch *fetch, struct lr_error *err)
{
    struct attempt a = {.job = job};
    *fetch = (struct hub_fetch){.http = http,
                                .file = job->file,
                                .dir = job->download->dir,
                                .cancel = &job->download->cancel,
                                .on_progress = on_progress,
                                .ctx = &a};
    lr_code code = LR_OK;
    if (http->easy == NULL)
        code = hub_http_open(http, &all->client, err);
    return code == LR_OK ? hub_fetch_file(fetch, err) : code;
}

static void run_job(struct hub_downloads *all, struct hub_http *http, struct hub_job *job)
{
    struct hub_download *d = job->download;
    struct hub_fetch fetch;
    struct lr_error err = {0};
    job->is_busy = true;
    (void)hub_download_ref_locked(d);
    (void)pthread_mutex_unlock(&hub_lock);
    lr_code code = attempt(all, http, job, &fetch, &err);
    (void)pthread_mutex_lock(&hub_lock);
    job->is_busy = false;
    conclude(all, job, &fetch, code, &err);
    (void)hub_download_settle(d);
    (void)pthread_mutex_unlock(&hub_lock);
    hub_download_notify(d);
    (void)pthread_mutex_lock(&hub_lock);
    hub_download_unref_locked(d);
}

void *hub_download_thread(void *downloads)
{
    struct hub_downloads *all = downloads;
    struct hub_http http = {0};
    (void)pthread_mutex_lock(&hub_lock);
    while (!all->is_stopping) {
        uint64_t now = lr_clock_ms(NULL), wake;
        struct hub_job *job = choose(all, now, &wake);
        if (job != NULL)
            run_job(all, &http, job);
        else
            sleep_until(wake, now);
    }
    (void)pthread_mutex_unlock(&hub_lock);
    hub_http_close(&http);
    return NULL;
}
