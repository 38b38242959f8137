/* node/fetch/fetch.c - see node/fetch/fetch.h.
 *
 * A download's threads post to the node's loop when something has changed; there a job looks at
 * its download.  So it is with a change of the models, and with the end of a pause after a
 * failure.
 */
#include "node/fetch/fetch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/machine.h"
#include "hub/download.h"
#include "hub/installed.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/fleet.h"

enum { FILES_MAX = 512 };

struct node_fetch {
    struct node_storage *storage; /* borrowed: its owner */
    struct node_watcher watcher;  /* of the models: a revision waits for them */
    struct net_timer *timer;      /* the next look that needs no change; NULL: there is none */
    struct hub_downloads *downloads; /* NULL before the first one */
    struct node_fetch_job *jobs;
    atomic_bool is_posted; /* a look is on its way to the loop */
    bool is_closed;        /* and that look frees this */
};

#define TO(name) LR_STATE(NODE_FETCH_##name)
static const struct lr_machine machine = {
    "download",
    {
        [NODE_FETCH_NEW] = {"new", TO(RUNNING) | TO(WAITING) | TO(OVER)},
        [NODE_FETCH_RUNNING] = {"running", TO(NEW) | TO(WAITING) | TO(INSTALLING) |
                                               TO(STOPPING) | TO(RESTARTING) | TO(OVER)},
        [NODE_FETCH_RESTARTING] = {"restarting", TO(NEW) | TO(STOPPING)},
        [NODE_FETCH_STOPPING] = {"stopping", TO(RUNNING) | TO(RESTARTING) | TO(OVER)},
        [NODE_FETCH_WAITING] = {"waiting", TO(NEW) | TO(OVER)},
        [NODE_FETCH_INSTALLING] = {"installing", TO(NEW) | TO(WAITING) | TO(OVER)},
        [NODE_FETCH_OVER] = {"over", TO(NEW)},
    },
};

void node_fetch_move(struct node_fetch_job *job, enum node_fetch_state state)
{
    if (lr_machine_allows(&machine, job->manifest->id, job->state, state)) {
        job->state = state;
        return;
    }
    if (job->download != NULL)
        hub_download_cancel(job->download);
    job->state = NODE_FETCH_OVER;
}

static lr_code make_downloads(struct node_fetch *f, struct lr_error *err)
{
    struct hub_client client;
    if (f->downloads != NULL)
        return LR_OK;
    lr_code code = hub_client_read(&client, f->storage->settings, err);
    return code == LR_OK ? hub_downloads_create(&client, NULL, &f->downloads, err) : code;
}

static struct node_model *model_of(const struct node_fetch *f, const struct node_fetch_job *job)
{
    return node_find_model(f->storage->models, lr_str_z(job->manifest->id));
}

static bool is_under_way(const struct node_model *m)
{
    return m->state == NODE_MODEL_FETCHING || m->state == NODE_MODEL_VERIFYING;
}

static struct node_model *store(struct node_fetch *f, const struct node_fetch_job *job)
{
    return node_storage_add(f->storage, job->manifest->id, job->dir,
                            hub_format_name(job->manifest->format),
                            hub_manifest_gguf(job->manifest));
}

static void wait_and_retry(struct node_fetch *f, struct node_fetch_job *job,
                           const struct lr_error *why)
{
    struct node_model *m = model_of(f, job);
    node_fetch_move(job, NODE_FETCH_WAITING);
    node_breaker_failed(&job->breaker, node_now(f->storage->models));
    /* Said once, not at every retry. */
    bool is_news = m != NULL && !lr_error_same(&m->reason, why);
    bool is_absent = m != NULL && (m->state == NODE_MODEL_ABSENT || is_under_way(m));
    if (is_news && is_absent)
        node_model_move(m, NODE_MODEL_ABSENT, why);
    if (!is_absent) /* the old revision serves on, so its state cannot tell */
        lr_log_warn(LR_LOG_OF(why), "revision.waits model=%s revision=%s reason=%s",
                    job->manifest->id, job->manifest->revision, why->text);
}

static void fetch_on_timer(void *arg);

/* The jobs are looked at then, or earlier. */
static void look_in(struct node_fetch *f, uint64_t ms)
{
    net_timer_stop(f->timer);
    f->timer = net_timer_start(f->storage->models->loop, ms, 0, fetch_on_timer, f);
}

static void on_posted(void *arg);

/* Thread: any. */
static void on_change(void *arg, struct hub_download *download)
{
    struct node_fetch *f = arg;
    (void)download;
    if (!atomic_exchange(&f->is_posted, true))
        net_loop_post(f->storage->models->loop, on_posted, f);
}

static lr_code begin_download(struct node_fetch *f, struct node_fetch_job *job,
                              const struct hub_filter *filter, struct lr_error *err)
{
    lr_code code = make_downloads(f, err);
    if (code == LR_OK)
        code = hub_download_start(f->downloads, job->manifest, job->dir, filter, on_change, f,
                                  &job->download, err);
    if (code == LR_OK) {
        node_fetch_move(job, NODE_FETCH_RUNNING);
        on_change(f, job->download); /* it may have ended before it was listened to */
    }
    return code;
}

/* Beside the files that are served now. */
static lr_code start_change(struct node_fetch *f, struct node_fetch_job *job, const char *id,
                            const struct hub_filter *filter, struct lr_error *err)
{
    if (hub_installed_adopt(job->home, job->manifest))
        return LR_OK;
    lr_code code = hub_manifest_wanted(job->manifest, filter, err);
    if (code == LR_OK)
        code = node_storage_incoming(f->storage, id, job->dir, err);
    if (code == LR_OK) {
        hub_installed_prepare(job->home, job->manifest, job->dir);
        code = begin_download(f, job, filter, err);
    }
    if (code == LR_OK)
        lr_log_info(NULL, "revision.fetch model=%s revision=%s", id, job->manifest->revision);
    return code;
}

static lr_code start_fetch(struct node_fetch *f, struct node_fetch_job *job,
                           const struct hub_filter *filter, struct lr_error *err)
{
    /* Files that were fetched before have their notes there, and are verified first. */
    bool is_known = hub_installed_was_fetched(job->dir);
    bool is_operators = !is_known && lr_dir_exists(job->dir);
    lr_code code = hub_manifest_wanted(job->manifest, filter, err);
    struct node_model *m = code == LR_OK && is_operators
                               ? store(f, job)
                               : node_storage_name(f->storage, job->manifest->id);
    if (m->state != NODE_MODEL_ABSENT)
        return LR_OK; /* its files lie here already */
    if (code == LR_OK)
        code = begin_download(f, job, filter, err);
    if (code == LR_OK)
        node_model_move(m, is_known ? NODE_MODEL_VERIFYING : NODE_MODEL_FETCHING, NULL);
    return code;
}

static void fetch_start(struct node_fetch *f, struct node_fetch_job *job)
{
    struct node_model *m = model_of(f, job);
    const struct hub_filter *filter = node_storage_filter(f->storage);
    struct lr_error err;
    if (job->state != NODE_FETCH_NEW)
        node_fetch_move(job, NODE_FETCH_NEW);
    if (m != NULL && is_under_way(m))
        node_model_move(m, NODE_MODEL_ABSENT, NULL); /* this job's download, which has ended */
    memcpy(job->dir, job->home, sizeof(job->dir));
    bool is_change = m != NULL && m->state != NODE_MODEL_ABSENT &&
                     node_storage_is_other(m, lr_str_z(job->digest));
    lr_code code = is_change ? start_change(f, job, m->id, filter, &err)
                             : start_fetch(f, job, filter, &err);
    if (code != LR_OK)
        wait_and_retry(f, job, &err);
    else if (job->state == NODE_FETCH_NEW)
        node_fetch_move(job, NODE_FETCH_OVER); /* there is nothing to fetch */
}

static void fetch_give_up(struct node_fetch *f, struct node_fetch_job *job)
{
    struct node_model *m = model_of(f, job);
    struct lr_error why;
    node_fetch_move(job, NODE_FETCH_OVER);
    (void)lr_fail_as(&why, unregistered, job->dir);
    if (m != NULL && (m->state == NODE_MODEL_ABSENT || is_under_way(m)))
        node_model_move(m, NODE_MODEL_ABSENT, &why);
}

static void complete(struct node_fetch *f, struct node_fetch_job *job)
{
    struct node_model *m = model_of(f, job);
    struct lr_error err;
    LR_FAILPOINT("fetch.complete");
    node_fetch_move(job, NODE_FETCH_OVER);
    if (hub_installed_write(job->dir, job->manifest, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "manifest.not_kept model=%s reason=%s", job->manifest->id,
                    err.text);
    if (m != NULL && is_under_way(m))
        node_model_move(m, NODE_MODEL_ABSENT, NULL);
    node_model_pump(store(f, job));
}

/* A worker or a probe is opening its files. */
static bool is_opening(const struct node_model *m)
{
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (m->replicas[i].candidate != NULL || m->replicas[i].state == NODE_REPLICA_LOADING)
            return true;
    return m->probe != NULL || m->state == NODE_MODEL_STARTING ||
           m->state == NODE_MODEL_LOADING;
}

/* Not while the old files are being opened: called again until then. */
static void install(struct node_fetch *f, struct node_fetch_job *job)
{
    struct node_model *m = model_of(f, job);
    struct lr_error err;
    if (m != NULL && is_opening(m))
        return;
    if (hub_installed_replace(job->home, job->manifest, job->dir, f->storage->root, &err) !=
        LR_OK) {
        wait_and_retry(f, job, &err);
        return;
    }
    node_fetch_move(job, NODE_FETCH_OVER);
    if (m != NULL)
        node_storage_replaced(m, hub_format_name(job->manifest->format));
}

static void decide(struct node_fetch *f, struct node_fetch_job *job)
{
    struct lr_error err;
    if (hub_installed_decide(job->manifest, job->dir, &err) != LR_OK) {
        wait_and_retry(f, job, &err);
        return;
    }
    node_fetch_move(job, NODE_FETCH_INSTALLING);
    install(f, job);
}

static void fetch_finish(struct node_fetch *f, struct node_fetch_job *job,
                         const struct hub_progress *p)
{
    bool is_restarting = job->state == NODE_FETCH_RESTARTING;
    bool is_whole = p->state == HUB_DOWNLOAD_DONE && !is_restarting;
    bool starts_anew = p->state == HUB_DOWNLOAD_CANCELLED || is_restarting;
    bool is_revision = strcmp(job->dir, job->home) != 0;
    hub_download_release(job->download, on_change, f);
    job->download = NULL;
    if (is_whole && !is_revision)
        complete(f, job);
    else if (job->state == NODE_FETCH_STOPPING)
        fetch_give_up(f, job);
    else if (is_whole)
        decide(f, job);
    else if (starts_anew) /* given up, and then wanted again, or in another revision */
        fetch_start(f, job);
    else
        wait_and_retry(f, job, &p->error);
}

static void tell_progress(struct node_fetch *f, const struct node_fetch_job *job,
                          const struct hub_progress *p)
{
    struct node_model *m = model_of(f, job);
    const char *phase;
    char done[32], total[32], rate[32];
    if (m == NULL || !is_under_way(m))
        return;
    enum node_model_state state = p->is_checking ? NODE_MODEL_VERIFYING : NODE_MODEL_FETCHING;
    if (state != m->state)
        node_model_move(m, state, NULL);
    lr_format_size(p->done_bytes, done);
    lr_format_size(p->total_bytes, total);
    lr_format_size(p->rate, rate);
    phase = node_model_state_name(state);
    if (p->remaining_ms != UINT64_MAX)
        (void)lr_fail_as(&m->reason, fetching_left, phase, p->files_done, p->file_count, done,
                         total, rate, p->remaining_ms / 1000);
    else
        (void)lr_fail_as(&m->reason, fetching, phase, p->files_done, p->file_count, done, total,
                         rate);
}

static void fetch_look(struct node_fetch *f, struct node_fetch_job *job)
{
    struct hub_progress p;
    if (job->state == NODE_FETCH_INSTALLING)
        install(f, job);
    if (job->state == NODE_FETCH_WAITING &&
        node_breaker_is_due(&job->breaker, node_now(f->storage->models))) {
        node_breaker_try(&job->breaker);
        fetch_start(f, job);
    }
    if (job->download == NULL)
        return;
    hub_download_progress(job->download, &p);
    if (p.state == HUB_DOWNLOAD_RUNNING)
        tell_progress(f, job, &p);
    else
        fetch_finish(f, job, &p);
}

static void free_job(struct node_fetch *f, struct node_fetch_job *job)
{
    hub_download_release(job->download, on_change, f);
    hub_manifest_destroy(job->manifest);
    free(job);
}

static void look_at_all(struct node_fetch *f)
{
    uint64_t next_ms = UINT64_MAX;
    for (struct node_fetch_job **link = &f->jobs; *link != NULL;) {
        struct node_fetch_job *job = *link;
        fetch_look(f, job);
        if (job->state == NODE_FETCH_OVER) {
            *link = job->next;
            free_job(f, job);
            node_changed(f->storage->models);
            continue;
        }
        if (job->state == NODE_FETCH_WAITING && job->breaker.due_ms != 0) {
            uint64_t wait = node_breaker_wait_ms(&job->breaker, node_now(f->storage->models));
            next_ms = wait < next_ms ? wait : next_ms;
        }
        link = &job->next;
    }
    if (next_ms != UINT64_MAX)
        look_in(f, next_ms);
}

static void fetch_on_timer(void *arg)
{
    struct node_fetch *f = arg;
    net_timer_stop(f->timer);
    f->timer = NULL;
    look_at_all(f);
}

static void on_posted(void *arg)
{
    struct node_fetch *f = arg;
    if (f->is_closed) {
        free(f);
        return;
    }
    atomic_store(&f->is_posted, false); /* what changes from now on posts again */
    look_at_all(f);
}

static void on_models(void *arg)
{
    look_at_all(arg);
}

void node_fetch_tell(struct node_fetch *fetch)
{
    struct hub_progress p;
    for (struct node_fetch_job *job = fetch->jobs; job != NULL; job = job->next) {
        if (job->download == NULL)
            continue;
        hub_download_progress(job->download, &p);
        if (p.state == HUB_DOWNLOAD_RUNNING)
            tell_progress(fetch, job, &p);
    }
}

/* ---- what is followed ---- */

static struct node_fetch_job *fetch_find(const struct node_fetch *f, struct lr_str id)
{
    struct node_fetch_job *job = f->jobs;
    while (job != NULL && !lr_str_eq_nocase(lr_str_z(job->manifest->id), id))
        job = job->next;
    return job;
}

bool node_fetch_has(const struct node_fetch *fetch, struct lr_str id, struct lr_str digest)
{
    const struct node_fetch_job *job = fetch_find(fetch, id);
    return job != NULL && job->state != NODE_FETCH_STOPPING && job->state != NODE_FETCH_OVER &&
           (digest.len == 0 || lr_str_eq_z(digest, job->digest));
}

/* The first manifest of a job, another one, or the same one again. */
static void follow(struct node_fetch *f, struct node_fetch_job *job,
                   struct hub_manifest *manifest, const char *router)
{
    char digest[LR_SHA256_HEX_LEN + 1];
    hub_manifest_digest(manifest, digest);
    (void)snprintf(job->router, sizeof(job->router), "%s", router);
    bool is_other = strcmp(digest, job->digest) != 0;
    if (is_other) {
        memcpy(job->digest, digest, sizeof(digest));
        node_breaker_succeeded(&job->breaker); /* nothing of this manifest has failed */
        if (job->download != NULL)
            hub_download_cancel(job->download);
    }
    hub_manifest_destroy(job->manifest);
    job->manifest = manifest;
    if (job->download == NULL && (is_other || job->state == NODE_FETCH_OVER))
        fetch_start(f, job);
    else if (is_other && job->state != NODE_FETCH_RESTARTING)
        node_fetch_move(job, NODE_FETCH_RESTARTING);
    else if (job->state == NODE_FETCH_STOPPING) /* and cancelled: it begins anew */
        node_fetch_move(job, NODE_FETCH_RUNNING);
    look_in(f, 0);
}

void node_fetch_take(struct node_fetch *fetch, struct hub_manifest *manifest,
                     const char *router)
{
    struct lr_error err;
    struct node_fetch_job *job = fetch_find(fetch, lr_str_z(manifest->id));
    if (job != NULL) {
        follow(fetch, job, manifest, router);
        return;
    }
    job = calloc(1, sizeof(*job));
    /* Ids are compared without case, folders are not: it stays where it lies. */
    const struct node_model *m =
        node_find_model(fetch->storage->models, lr_str_z(manifest->id));
    struct lr_str folder = lr_str_z(m != NULL ? m->id : manifest->id);
    lr_code code = job != NULL ? lr_path_join(job->home, fetch->storage->root, folder, &err)
                               : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a download");
    if (code != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "fetch.refused model=%s reason=%s", manifest->id,
                    err.text);
        hub_manifest_destroy(manifest);
        free(job);
        return;
    }
    job->next = fetch->jobs;
    fetch->jobs = job;
    follow(fetch, job, manifest, router);
}

static void abandon(struct node_fetch *f, struct node_fetch_job *job)
{
    if (job->state == NODE_FETCH_STOPPING || job->state == NODE_FETCH_OVER)
        return;
    look_in(f, 0);
    node_breaker_succeeded(&job->breaker);
    lr_log_info(NULL, "fetch.given_up model=%s dir=%s", job->manifest->id, job->dir);
    if (job->download == NULL) {
        fetch_give_up(f, job);
        return;
    }
    node_fetch_move(job, NODE_FETCH_STOPPING);
    hub_download_cancel(job->download);
}

void node_fetch_review(struct node_fetch *fetch, const char *router,
                       bool (*has)(void *arg, struct lr_str id), void *arg)
{
    for (struct node_fetch_job *job = fetch->jobs; job != NULL; job = job->next)
        if (strcmp(job->router, router) == 0 && !has(arg, lr_str_z(job->manifest->id)))
            abandon(fetch, job);
}

bool node_fetch_stop(struct node_fetch *fetch, const char *id)
{
    struct node_fetch_job *job = fetch_find(fetch, lr_str_z(id));
    if (job != NULL)
        abandon(fetch, job);
    return job == NULL;
}

/* ---- what is told of downloads: to clients of this node, and to routers ---- */

void node_fetch_put(struct lr_json_writer *w, const struct node_model *model)
{
    const struct node_fetch_job *job =
        fetch_find(model->models->storage->fetch, lr_str_z(model->id));
    struct hub_progress p;
    if (job == NULL || job->download == NULL)
        return;
    hub_download_progress(job->download, &p);
    lr_json_member_object(w, "download");
    LR_JSON_MEMBERS(w, LR_TEXT("state", hub_download_state_name(p.state)),
                    LR_UINT("done_bytes", p.done_bytes), LR_UINT("total_bytes", p.total_bytes),
                    LR_UINT("files_done", p.files_done), LR_UINT("files", p.file_count),
                    LR_UINT("rate", p.rate));
    if (p.remaining_ms != UINT64_MAX)
        lr_json_member_u64(w, "remaining_ms", p.remaining_ms);
    lr_json_end_object(w);
}

static bool is_news(enum hub_file_state state)
{
    return state != HUB_FILE_WAITING && state != HUB_FILE_DONE;
}

/* A heartbeat stays small: of a model with more than WIRE_FLEET_FILES_MAX files, only those are
 * reported that are neither waiting nor done. */
static size_t report_files(const struct node_fetch_job *job, struct lr_arena *arena,
                           struct wire_fleet_file *out)
{
    static struct hub_file_progress files[FILES_MAX]; /* large; the loop is its only user */
    size_t count = hub_download_files(job->download, files, FILES_MAX), written = 0;
    bool all = count <= WIRE_FLEET_FILES_MAX;
    for (size_t i = 0; i < count && written < WIRE_FLEET_FILES_MAX; i++) {
        struct lr_str name = lr_str_z(files[i].name), reason = lr_str_z(files[i].reason);
        if (!all && !is_news(files[i].state))
            continue;
        out[written++] = (struct wire_fleet_file){
            .name = lr_str(lr_arena_copy(arena, name), name.len),
            .state = lr_str_z(hub_file_state_name(files[i].state)),
            .reason = lr_str(lr_arena_copy(arena, reason), reason.len),
            .size = files[i].size,
            .done = files[i].done,
        };
        if (out[written - 1].name.ptr == NULL || out[written - 1].reason.ptr == NULL)
            return written - 1;
    }
    return written;
}

size_t node_fetch_report(const struct node_fetch *fetch, struct lr_arena *arena,
                         struct wire_fleet_download *out, size_t max)
{
    size_t count = 0;
    for (const struct node_fetch_job *job = fetch->jobs; job != NULL && count < max;
         job = job->next) {
        struct hub_progress p;
        struct wire_fleet_file *files;
        if (job->download == NULL)
            continue;
        files = lr_arena_zalloc(arena, WIRE_FLEET_FILES_MAX * sizeof(*files));
        if (files == NULL)
            break;
        hub_download_progress(job->download, &p);
        out[count++] = (struct wire_fleet_download){
            .id = lr_str_z(job->manifest->id),
            .done_bytes = p.done_bytes,
            .total_bytes = p.total_bytes,
            .rate = p.rate,
            .remaining_ms = p.remaining_ms,
            .files_done = p.files_done,
            .files = p.file_count,
            .file = files,
            .file_count = report_files(job, arena, files),
        };
    }
    return count;
}

/* ---- life ---- */

struct node_fetch *node_fetch_create(struct node_storage *storage)
{
    struct node_fetch *f = net_alloc(sizeof(*f));
    f->storage = storage;
    f->watcher = (struct node_watcher){.fn = on_models, .arg = f};
    node_changes_watch(storage->models, &f->watcher);
    return f;
}

void node_fetch_destroy(struct node_fetch *fetch)
{
    if (fetch == NULL)
        return;
    node_changes_unwatch(&fetch->watcher);
    net_timer_stop(fetch->timer);
    hub_downloads_destroy(fetch->downloads);
    while (fetch->jobs != NULL) {
        struct node_fetch_job *job = fetch->jobs;
        fetch->jobs = job->next;
        free_job(fetch, job);
    }
    fetch->is_closed = true; /* no thread uses it any more; a look that was posted frees it */
    if (!atomic_load(&fetch->is_posted))
        free(fetch);
}
