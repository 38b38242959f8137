/* node/fetch.c - see node/fetch.h.
 *
 * One question at a time goes to the router: the list, then manifest by manifest.  A
 * download is looked at by timer, so no callback crosses threads.
 */
#include "node/fetch.h"

#include <stdio.h>
#include <stdlib.h>

#include "hub/download.h"
#include "net/client.h"
#include "node/inspect.h"
#include "node/state.h"
#include "node/storage.h"
#include "wire/fleet.h"

enum {
    LOOK_MS = 200,
    RETRY_MS = 30000, /* after a download that failed */
    AGAIN_MS = 2000,  /* after a router that did not answer */
    CALL_MS = 10000,
    LIST_BYTES = 16 << 20,
    RUNTIMES_MAX = 64,
    ROUTERS_MAX = 8,
};

/* A router, and how much of its registry is known here. */
struct source {
    char url[300];
    uint64_t heard;  /* version of its registry, as it says */
    uint64_t seen;   /* wholly looked at; 0: none */
    uint64_t ask_ms; /* not before */
};

/* A manifest that was taken. */
struct job {
    struct job *next;
    struct hub_manifest *manifest; /* owned */
    char dir[LR_PATH_MAX];
    struct hub_download *download; /* reference; NULL: waits for retry_ms, or is over */
    uint64_t retry_ms;             /* 0: none is due */
};

struct node_fetch {
    struct node *node;
    struct net_client *client;
    struct source sources[ROUTERS_MAX];
    size_t source_count;
    struct source *asked; /* whom `call` goes to */
    struct net_timer *timer;
    struct net_call *call;
    struct hub_downloads *downloads; /* NULL before the first one */
    struct job *jobs;
    struct lr_arena names; /* of `wanted` */
    struct lr_str *wanted; /* ids whose manifests are still to be asked for */
    size_t wanted_count, wanted_at;
    uint64_t looking; /* version of the list being looked at */
};

/* ---- what this node can use ---- */

static void list_runtimes(const struct node *node, const char *out[RUNTIMES_MAX + 1])
{
    size_t count = 0;
    for (const struct node_engine *e = node->engines.first; e != NULL; e = e->next) {
        for (size_t i = 0; e->library != NULL && e->manifest.runtimes[i] != NULL; i++) {
            if (count < RUNTIMES_MAX)
                out[count++] = e->manifest.runtimes[i];
        }
    }
    out[count] = NULL;
}

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

static lr_code find_dir(const struct node *node, const char *id, char out[LR_PATH_MAX],
                        struct lr_error *err)
{
    char root[LR_PATH_MAX];
    const char *set = lr_settings_str(node->settings, "models-dir");
    (void)snprintf(root, sizeof(root), "%.4000s%s", set != NULL ? set : node->data_dir,
                   set != NULL ? "" : "/models");
    return lr_path_join(out, root, lr_str_z(id), err);
}

/* ---- downloads ---- */

static const char *gguf_of(const struct hub_manifest *m)
{
    for (size_t i = 0; m->format == HUB_FORMAT_GGUF && i < m->file_count; i++) {
        if (lr_str_ends(lr_str_z(m->files[i].name), ".gguf"))
            return m->files[i].name;
    }
    return NULL;
}

static struct node_model *store(struct node_fetch *f, const struct job *job)
{
    return node_storage_add(f->node, job->manifest->id, job->dir,
                            hub_format_name(job->manifest->format), gguf_of(job->manifest));
}

static void wait_and_retry(struct node_fetch *f, struct job *job, const struct lr_error *why)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    job->retry_ms = node_now(f->node) + RETRY_MS;
    /* Said once, not at every retry. */
    bool is_news = m != NULL && strcmp(m->reason, why->text) != 0;
    if (is_news && (m->state == NODE_MODEL_ABSENT || m->state == NODE_MODEL_FETCHING))
        node_model_move(m, NODE_MODEL_ABSENT, why);
}

static void start(struct node_fetch *f, struct job *job)
{
    const char *runtimes[RUNTIMES_MAX + 1];
    const char *backends[] = {f->node->device, NULL};
    struct lr_error err;
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    list_runtimes(f->node, runtimes);
    struct hub_filter filter = {.runtimes = runtimes,
                                .backends = backends,
                                .no_artifacts =
                                    !lr_settings_bool(f->node->settings, "artifacts")};
    lr_code code = hub_manifest_wanted(job->manifest, &filter, &err);
    if (code == LR_OK || m == NULL)
        m = store(f, job);
    if (m == NULL || m->state != NODE_MODEL_ABSENT)
        return; /* its files lie here already */
    if (code == LR_OK)
        code = make_downloads(f, &err);
    if (code == LR_OK)
        code = hub_download_start(f->downloads, job->manifest, job->dir, &filter, NULL, NULL,
                                  &job->download, &err);
    if (code != LR_OK)
        wait_and_retry(f, job, &err);
    else
        node_model_move(m, NODE_MODEL_FETCHING, NULL);
}

static void finish(struct node_fetch *f, struct job *job, const struct hub_progress *p)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    hub_download_release(job->download, NULL, NULL);
    job->download = NULL;
    if (p->state != HUB_DOWNLOAD_DONE) {
        wait_and_retry(f, job, &p->error);
        return;
    }
    if (m != NULL && m->state == NODE_MODEL_FETCHING)
        node_model_move(m, NODE_MODEL_ABSENT, NULL);
    m = store(f, job);
    if (m != NULL)
        node_model_pump(m);
}

static void tell_progress(struct node_fetch *f, const struct job *job,
                          const struct hub_progress *p)
{
    struct node_model *m = node_find_model(f->node, lr_str_z(job->manifest->id));
    char done[32], total[32], rate[32], left[48] = "";
    if (m == NULL || m->state != NODE_MODEL_FETCHING)
        return;
    lr_format_size(p->done_bytes, done);
    lr_format_size(p->total_bytes, total);
    lr_format_size(p->rate, rate);
    if (p->remaining_ms != UINT64_MAX)
        (void)snprintf(left, sizeof(left), ", %llu s left",
                       (unsigned long long)(p->remaining_ms / 1000));
    (void)snprintf(m->reason, sizeof(m->reason), "fetching: %u of %u files, %s of %s, %s/s%s",
                   p->files_done, p->file_count, done, total, rate, left);
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

static struct job *find_job(const struct node_fetch *f, const char *id)
{
    struct job *job = f->jobs;
    while (job != NULL && !lr_str_eq_nocase(lr_str_z(job->manifest->id), lr_str_z(id)))
        job = job->next;
    return job;
}

static void free_job(struct job *job)
{
    hub_download_release(job->download, NULL, NULL);
    hub_manifest_destroy(job->manifest);
    free(job);
}

static void take(struct node_fetch *f, struct lr_str text)
{
    struct hub_manifest *manifest;
    struct lr_error err;
    struct job *job = NULL;
    lr_code code = hub_manifest_decode(text, &manifest, &err);
    if (code == LR_OK && find_job(f, manifest->id) == NULL) {
        job = calloc(1, sizeof(*job));
        code = job != NULL ? find_dir(f->node, manifest->id, job->dir, &err)
                           : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a download");
    }
    if (code != LR_OK)
        lr_log_warn(NULL, "fetch.refused router=%s reason=%s", f->asked->url, err.text);
    if (code != LR_OK || job == NULL) {
        free(job);
        hub_manifest_destroy(manifest);
        return;
    }
    job->manifest = manifest;
    job->next = f->jobs;
    f->jobs = job;
    start(f, job);
}

/* ---- asking the router ---- */

static void ask_next(struct node_fetch *f);

static void on_reply(void *arg, const struct lr_error *err, const struct net_reply *reply);

/* The whole list is asked for again, a little later. */
static void give_up(struct node_fetch *f)
{
    f->wanted = NULL;
    f->asked->ask_ms = node_now(f->node) + AGAIN_MS;
}

static void ask(struct node_fetch *f, struct lr_str id)
{
    char url[1024], bearer[160];
    struct lr_error err;
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", f->node->secret);
    if (id.len == 0)
        (void)snprintf(url, sizeof(url), "%.400s/v0/models/registry", f->asked->url);
    else
        (void)snprintf(url, sizeof(url), "%.400s/v0/models/registry/%.*s/manifest.json",
                       f->asked->url, LR_STR_ARG(id));
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(bearer)};
    struct net_call_config config = {
        .url = url,
        .headers = &header,
        .header_count = 1,
        .connect_timeout_ms = CALL_MS,
        .response_timeout_ms = CALL_MS,
        .max_response_bytes = LIST_BYTES,
    };
    if (net_fetch(f->client, &config, on_reply, f, &f->call, &err) != LR_OK) {
        lr_log_warn(NULL, "fetch.ask router=%s reason=%s", f->asked->url, err.text);
        give_up(f);
    }
}

/* Ids become part of a URL and of a path. */
static bool plain_id(struct lr_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr("-_.:/", c) != NULL)))
            return false;
    }
    return id.len != 0 && id.len <= 200 && lr_path_safe(id);
}

/* A model that lies here, wherever from, needs no manifest. */
static bool is_wanted(const struct node_fetch *f, const struct lr_json *entry)
{
    struct lr_str id, source;
    if (!lr_json_str(lr_json_get(entry, "id"), &id) || !plain_id(id) ||
        !lr_json_str(lr_json_get(entry, "source"), &source) || !lr_str_eq_z(source, "hub"))
        return false;
    const struct node_model *m = node_find_model(f->node, id);
    if (m != NULL && m->state != NODE_MODEL_ABSENT)
        return false;
    for (const struct job *job = f->jobs; job != NULL; job = job->next) {
        if (lr_str_eq_nocase(lr_str_z(job->manifest->id), id))
            return false;
    }
    return true;
}

/* A registration by path: its folder may lie here under another name. */
static void adopt_local(const struct node_fetch *f, const struct lr_json *entry)
{
    struct lr_str id, path, format = {0};
    struct node_model *model;
    struct lr_error err;
    if (!lr_json_str(lr_json_get(entry, "id"), &id) || !plain_id(id) ||
        !lr_json_str(lr_json_get(entry, "path"), &path) || node_find_model(f->node, id) != NULL)
        return;
    (void)lr_json_str(lr_json_get(entry, "format"), &format);
    if (node_inspect(f->node, path, id, format, &model, &err) != LR_OK)
        lr_log_debug(NULL, "fetch.not_here model=" LR_STR_FMT " reason=%s", LR_STR_ARG(id),
                     err.text);
}

static void read_list(struct node_fetch *f, struct lr_str text)
{
    const struct lr_json *tree = NULL;
    lr_arena_free(&f->names);
    f->wanted = NULL;
    f->wanted_count = f->wanted_at = 0;
    char *copy = lr_arena_copy(&f->names, text); /* strings of the tree point into it */
    if (copy == NULL ||
        lr_json_parse(&f->names, lr_str(copy, text.len), NULL, &tree, NULL) != LR_OK)
        return;
    const struct lr_json *models = lr_json_get(tree, "models");
    if (!lr_json_is(models, LR_JSON_ARRAY) ||
        !lr_json_u64(lr_json_get(tree, "version"), &f->looking))
        return;
    f->wanted = lr_arena_array(&f->names, models->count + 1u, sizeof(*f->wanted));
    for (size_t i = 0; f->wanted != NULL && i < models->count; i++) {
        adopt_local(f, &models->items[i]);
        if (is_wanted(f, &models->items[i]))
            (void)lr_json_str(lr_json_get(&models->items[i], "id"),
                              &f->wanted[f->wanted_count++]);
    }
}

static void on_reply(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct node_fetch *f = arg;
    f->call = NULL;
    bool is_list = f->wanted == NULL;
    if (err != NULL || reply->status != 200) {
        /* A model that was deleted meanwhile is no trouble; everything else is tried again. */
        bool is_gone = err == NULL && reply->status == 404 && !is_list;
        if (!is_gone) {
            lr_log_warn(NULL, "fetch.ask router=%s status=%d reason=%s", f->asked->url,
                        reply != NULL ? reply->status : 0, err != NULL ? err->text : "");
            give_up(f);
            return;
        }
    } else if (is_list) {
        read_list(f, reply->body);
        if (f->wanted == NULL) {
            give_up(f);
            return;
        }
    } else {
        take(f, reply->body);
    }
    ask_next(f);
}

static void ask_next(struct node_fetch *f)
{
    if (f->wanted_at < f->wanted_count) {
        ask(f, f->wanted[f->wanted_at++]);
        return;
    }
    f->wanted = NULL;
    f->asked->seen = f->looking;
}

static struct source *find_source(struct node_fetch *f, const char *router)
{
    for (size_t i = 0; i < f->source_count; i++) {
        if (strcmp(f->sources[i].url, router) == 0)
            return &f->sources[i];
    }
    if (f->source_count == ROUTERS_MAX || strlen(router) >= sizeof(f->sources[0].url))
        return NULL;
    struct source *source = &f->sources[f->source_count++];
    (void)snprintf(source->url, sizeof(source->url), "%s", router);
    return source;
}

void node_fetch_heard(struct node_fetch *fetch, const char *router, struct lr_str reply)
{
    struct lr_arena arena;
    const struct lr_json *tree;
    struct source *source = fetch != NULL ? find_source(fetch, router) : NULL;
    if (source == NULL)
        return;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, reply, NULL, &tree, NULL) == LR_OK) {
        (void)lr_json_u64(lr_json_get(tree, "registry_version"), &source->heard);
        if (lr_json_get(tree, "node_id") != NULL)
            source->seen = 0; /* a join: a router that was restarted counts anew */
    }
    lr_arena_free(&arena);
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
    for (size_t i = 0; i < f->source_count && f->call == NULL && !f->node->is_draining; i++) {
        struct source *source = &f->sources[i];
        if (source->heard == source->seen || node_now(f->node) < source->ask_ms)
            continue;
        f->asked = source;
        ask(f, (struct lr_str){0});
    }
}

/* ---- life ---- */

lr_code node_fetch_create(struct node *node, struct net_client *client, struct node_fetch **out,
                          struct lr_error *err)
{
    *out = NULL;
    struct node_fetch *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for downloads");
    f->node = node;
    f->client = client;
    lr_arena_init(&f->names, 256 << 20);
    f->timer = net_timer_start(node->loop, LOOK_MS, LOOK_MS, on_timer, f);
    *out = f;
    return LR_OK;
}

void node_fetch_destroy(struct node_fetch *fetch)
{
    if (fetch == NULL)
        return;
    net_timer_stop(fetch->timer);
    if (fetch->call != NULL)
        net_call_cancel(fetch->call);
    hub_downloads_destroy(fetch->downloads);
    while (fetch->jobs != NULL) {
        struct job *job = fetch->jobs;
        fetch->jobs = job->next;
        free_job(job);
    }
    lr_arena_free(&fetch->names);
    free(fetch);
}

void node_fetch_put(struct lr_json_writer *w, const struct node_model *model)
{
    const struct node_fetch *f = model->node->fetch;
    const struct job *job = f != NULL ? find_job(f, model->id) : NULL;
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

static bool is_under_way(enum hub_file_state state)
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
        if (!all && !is_under_way(files[i].state))
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
    for (const struct job *job = fetch != NULL ? fetch->jobs : NULL; job != NULL && count < max;
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
