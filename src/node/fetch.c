/* node/fetch.c - see node/fetch.h.
 *
 * A download is looked at by timer, so no callback crosses threads.
 */
#include "node/fetch.h"

#include <stdio.h>
#include <stdlib.h>

#include "hub/download.h"
#include "node/manifest.h"
#include "node/state.h"
#include "node/storage.h"
#include "wire/fleet.h"

enum { LOOK_MS = 200, RETRY_MS = 30000 /* after a download that failed */ };

/* A manifest that is followed. */
struct job {
    struct job *next;
    struct hub_manifest *manifest; /* owned */
    char router[300];              /* who gave it; "": the disk */
    char dir[LR_PATH_MAX];
    struct hub_download *download; /* reference; NULL: waits for retry_ms, or is over */
    uint64_t retry_ms;             /* 0: none is due */
    bool is_given_up;              /* ends as soon as its download has */
};

struct node_fetch {
    struct node *node;
    struct net_timer *timer;
    struct hub_downloads *downloads; /* NULL before the first one */
    struct job *jobs;
};

static lr_code make_downloads(struct node_fetch *f, struct lr_error *err)
{
    const char *hosts[HUB_HOSTS_MAX];
    struct hub_client client;
    const struct lr_settings *s = f->node->settings;
    size_t count = lr_settings_list_count(s, "hub-host");
    if (f->downloads != NULL)
        return LR_OK;
    if (count > HUB_HOSTS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "hub-host names more than %d hosts",
                       HUB_HOSTS_MAX);
    for (size_t i = 0; i < count; i++)
        hosts[i] = lr_settings_list_item(s, "hub-host", i);
    lr_code code = hub_client_init(&client, hosts, count, err);
    return code == LR_OK ? hub_downloads_create(&client, NULL, &f->downloads, err) : code;
}

static bool is_under_way(const struct node_model *m)
{
    return m->state == NODE_MODEL_FETCHING || m->state == NODE_MODEL_VERIFYING;
}

static struct node_model *store(struct node_fetch *f, const struct job *job)
{
    return node_storage_add(f->node, job->manifest->id, job->dir,
                            hub_format_name(job->manifest->format),
                            node_manifest_gguf(job->manifest));
}

static void wait_and_retry(struct node_fetch *f, struct job *job, const struct lr_error *why)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    job->retry_ms = node_now(f->node) + RETRY_MS;
    /* Said once, not at every retry. */
    bool is_news = m != NULL && strcmp(m->reason, why->text) != 0;
    if (is_news && (m->state == NODE_MODEL_ABSENT || is_under_way(m)))
        node_model_move(m, NODE_MODEL_ABSENT, why);
}

/* Files that were fetched before have their notes there, and are verified first. */
static bool was_fetched(const struct job *job)
{
    char path[LR_PATH_MAX];
    return lr_path_join(path, job->dir, LR_STR_LIT(".download"), NULL) == LR_OK &&
           lr_dir_exists(path);
}

static void start(struct node_fetch *f, struct job *job)
{
    struct node_filter filter;
    struct lr_error err;
    bool is_known = was_fetched(job);
    bool is_operators = !is_known && lr_dir_exists(job->dir);
    node_filter_init(&filter, f->node);
    lr_code code = hub_manifest_wanted(job->manifest, &filter.hub, &err);
    struct node_model *m = code == LR_OK && is_operators
                               ? store(f, job)
                               : node_storage_name(f->node, job->manifest->id);
    if (m == NULL || m->state != NODE_MODEL_ABSENT)
        return; /* its files lie here already */
    if (code == LR_OK)
        code = make_downloads(f, &err);
    if (code == LR_OK)
        code = hub_download_start(f->downloads, job->manifest, job->dir, &filter.hub, NULL,
                                  NULL, &job->download, &err);
    if (code != LR_OK)
        wait_and_retry(f, job, &err);
    else
        node_model_move(m, is_known ? NODE_MODEL_VERIFYING : NODE_MODEL_FETCHING, NULL);
}

static void give_up(struct node_fetch *f, const struct job *job)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    struct lr_error why;
    (void)lr_fail(&why, LR_UNAVAILABLE,
                  "it is no longer registered; what was fetched of it is kept in %.300s",
                  job->dir);
    if (m != NULL && (m->state == NODE_MODEL_ABSENT || is_under_way(m)))
        node_model_move(m, NODE_MODEL_ABSENT, &why);
}

static void complete(struct node_fetch *f, const struct job *job)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    struct lr_error err;
    if (node_manifest_write(job->dir, job->manifest, &err) != LR_OK)
        lr_log_warn(NULL, "manifest.not_kept model=%s reason=%s", job->manifest->id, err.text);
    if (m != NULL && is_under_way(m))
        node_model_move(m, NODE_MODEL_ABSENT, NULL);
    m = store(f, job);
    if (m != NULL)
        node_model_pump(m);
}

static void finish(struct node_fetch *f, struct job *job, const struct hub_progress *p)
{
    hub_download_release(job->download, NULL, NULL);
    job->download = NULL;
    if (p->state == HUB_DOWNLOAD_DONE)
        complete(f, job);
    else if (job->is_given_up)
        give_up(f, job);
    else if (p->state == HUB_DOWNLOAD_CANCELLED)
        start(f, job); /* given up, and then wanted again */
    else
        wait_and_retry(f, job, &p->error);
}

static void tell_progress(struct node_fetch *f, const struct job *job,
                          const struct hub_progress *p)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    char done[32], total[32], rate[32], left[48] = "";
    if (m == NULL || !is_under_way(m))
        return;
    enum node_model_state state = p->is_checking ? NODE_MODEL_VERIFYING : NODE_MODEL_FETCHING;
    if (state != m->state)
        node_model_move(m, state, NULL);
    lr_format_size(p->done_bytes, done);
    lr_format_size(p->total_bytes, total);
    lr_format_size(p->rate, rate);
    if (p->remaining_ms != UINT64_MAX)
        (void)snprintf(left, sizeof(left), ", %llu s left",
                       (unsigned long long)(p->remaining_ms / 1000));
    (void)snprintf(m->reason, sizeof(m->reason), "%s: %u of %u files, %s of %s, %s/s%s",
                   node_model_state_name(state), p->files_done, p->file_count, done, total,
                   rate, left);
}

static void look(struct node_fetch *f, struct job *job)
{
    struct hub_progress p;
    if (job->download == NULL) {
        if (job->retry_ms != 0 && node_now(f->node) >= job->retry_ms) {
            job->retry_ms = 0;
            start(f, job);
        }
        return;
    }
    hub_download_progress(job->download, &p);
    if (p.state == HUB_DOWNLOAD_RUNNING)
        tell_progress(f, job, &p);
    else
        finish(f, job, &p);
}

static void free_job(struct job *job)
{
    hub_download_release(job->download, NULL, NULL);
    hub_manifest_destroy(job->manifest);
    free(job);
}

static void on_timer(void *arg)
{
    struct node_fetch *f = arg;
    for (struct job **link = &f->jobs; *link != NULL;) {
        struct job *job = *link;
        look(f, job);
        bool is_over = job->download == NULL && job->retry_ms == 0;
        if (is_over) {
            *link = job->next;
            free_job(job);
        } else {
            link = &job->next;
        }
    }
}

/* ---- what is followed ---- */

static struct job *find_job(const struct node_fetch *f, struct lr_str id)
{
    struct job *job = f->jobs;
    while (job != NULL && !lr_str_eq_nocase(lr_str_z(job->manifest->id), id))
        job = job->next;
    return job;
}

bool node_fetch_has(const struct node_fetch *fetch, struct lr_str id)
{
    const struct job *job = find_job(fetch, id);
    return job != NULL && !job->is_given_up;
}

void node_fetch_take(struct node_fetch *fetch, struct hub_manifest *manifest,
                     const char *router)
{
    struct lr_error err;
    struct job *job = find_job(fetch, lr_str_z(manifest->id));
    if (job != NULL) { /* wanted again before it was gone */
        hub_manifest_destroy(job->manifest);
        job->manifest = manifest;
        job->is_given_up = false;
        return;
    }
    job = calloc(1, sizeof(*job));
    lr_code code = job != NULL ? node_models_dir_of(fetch->node, manifest->id, job->dir, &err)
                               : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a download");
    if (code != LR_OK) {
        lr_log_warn(NULL, "fetch.refused model=%s reason=%s", manifest->id, err.text);
        hub_manifest_destroy(manifest);
        free(job);
        return;
    }
    job->manifest = manifest;
    (void)snprintf(job->router, sizeof(job->router), "%s", router != NULL ? router : "");
    job->next = fetch->jobs;
    fetch->jobs = job;
    start(fetch, job);
}

static void abandon(struct node_fetch *f, struct job *job)
{
    if (job->is_given_up)
        return;
    job->is_given_up = true;
    job->retry_ms = 0;
    lr_log_info(NULL, "fetch.given_up model=%s dir=%s", job->manifest->id, job->dir);
    if (job->download != NULL)
        hub_download_cancel(job->download);
    else
        give_up(f, job);
}

void node_fetch_review(struct node_fetch *fetch, const char *router,
                       bool (*has)(void *arg, struct lr_str id), void *arg)
{
    for (struct job *job = fetch->jobs; job != NULL; job = job->next)
        if (strcmp(job->router, router) == 0 && !has(arg, lr_str_z(job->manifest->id)))
            abandon(fetch, job);
}

bool node_fetch_stop(struct node_fetch *fetch, const char *id)
{
    struct job *job = find_job(fetch, lr_str_z(id));
    if (job != NULL)
        abandon(fetch, job);
    return job == NULL;
}

/* ---- life ---- */

lr_code node_fetch_create(struct node *node, struct node_fetch **out, struct lr_error *err)
{
    *out = NULL;
    struct node_fetch *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for downloads");
    f->node = node;
    f->timer = net_timer_start(node->loop, LOOK_MS, LOOK_MS, on_timer, f);
    *out = f;
    return LR_OK;
}

void node_fetch_destroy(struct node_fetch *fetch)
{
    if (fetch == NULL)
        return;
    net_timer_stop(fetch->timer);
    hub_downloads_destroy(fetch->downloads);
    while (fetch->jobs != NULL) {
        struct job *job = fetch->jobs;
        fetch->jobs = job->next;
        free_job(job);
    }
    free(fetch);
}

void node_fetch_put(struct lr_json_writer *w, const struct node_model *model)
{
    const struct job *job = find_job(model->node->fetch, lr_str_z(model->id));
    struct hub_progress p;
    if (job == NULL || job->download == NULL)
        return;
    hub_download_progress(job->download, &p);
    lr_json_key(w, "download");
    lr_json_begin_object(w);
    lr_json_member_z(w, "state", hub_download_state_name(p.state));
    lr_json_member_u64(w, "done_bytes", p.done_bytes);
    lr_json_member_u64(w, "total_bytes", p.total_bytes);
    lr_json_member_u64(w, "files_done", p.files_done);
    lr_json_member_u64(w, "files", p.file_count);
    lr_json_member_u64(w, "rate", p.rate);
    if (p.remaining_ms != UINT64_MAX)
        lr_json_member_u64(w, "remaining_ms", p.remaining_ms);
    lr_json_end_object(w);
}

/* ---- for the router ---- */

enum { FILES_MAX = 512 };

static bool is_news(enum hub_file_state state)
{
    return state != HUB_FILE_WAITING && state != HUB_FILE_DONE;
}

/* Of a model with very many files those under way, so that a beat stays small. */
static size_t report_files(const struct job *job, struct lr_arena *arena,
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
    for (const struct job *job = fetch->jobs; job != NULL && count < max; job = job->next) {
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
