/* node/fetch/storage.c - models by name: described, given an engine, described anew, forgotten.
 * Where they are looked for is in storage_scan.c. */
#include "node/fetch/storage.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "chat/template/families.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/installed.h"
#include "node/fetch/fetch.h"
#include "node/models/models.h"
#include "node/workers/counter.h"

/* ---- places ---- */

lr_code node_storage_incoming(const struct node_storage *storage, const char *id,
                              char out[LR_PATH_MAX], struct lr_error *err)
{
    char incoming[LR_PATH_MAX];
    lr_code code = lr_path_join(incoming, storage->root, LR_STR_LIT(".incoming"), err);
    return code == LR_OK ? lr_path_join(out, incoming, lr_str_z(id), err) : code;
}

const struct hub_filter *node_storage_filter(struct node_storage *storage)
{
    const struct node_models *models = storage->models;
    size_t count = 0;
    for (const struct node_engine *e = models->engines->first; e != NULL; e = e->next)
        for (size_t i = 0; e->library != NULL && e->manifest.runtimes[i] != NULL; i++)
            if (count < NODE_RUNTIMES_MAX)
                storage->runtimes[count++] = e->manifest.runtimes[i];
    storage->runtimes[count] = NULL;
    storage->backends[0] = models->devices.kind;
    storage->filter = (struct hub_filter){
        .runtimes = storage->runtimes,
        .backends = storage->backends,
        .no_artifacts = !models->uses_artifacts,
    };
    return &storage->filter;
}

/* ---- names ---- */

struct node_model *node_storage_name(struct node_storage *storage, const char *id)
{
    struct node_model *m = node_find_model(storage->models, lr_str_z(id));
    if (m != NULL)
        return m;
    /* Not refused: nobody would look for a model again that has no name here. */
    m = net_alloc(sizeof(*m));
    m->id = net_alloc(strlen(id) + 1);
    memcpy(m->id, id, strlen(id) + 1);
    m->models = storage->models;
    m->created = lr_clock_wall_ms(NULL) / 1000;
    m->state = NODE_MODEL_ABSENT;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        m->replicas[i].model = m;
    node_counts_recall(&storage->models->counts, m);
    struct node_model **link = &storage->models->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = m;
    node_changed(storage->models);
    return m;
}

/* ---- an engine ---- */

static void resolve(struct node_model *m)
{
    const struct node_models *models = m->models;
    const char *forced = lr_settings_str(models->storage->settings, "engine");
    struct lr_error err;
    if (m->engine != NULL || m->descriptor == NULL)
        return;
    struct node_wish wish = {
        .runtime = forced != NULL ? forced : m->descriptor->runtime,
        .format = model_format_name(m->descriptor->format),
        .device = models->devices.kind,
        .is_named = models->devices.is_named,
    };
    /* llama.cpp's architectures grow with its library, not with our manifest; and who
     * names the engine wants it asked. */
    if (forced == NULL && m->descriptor->format != MODEL_FORMAT_GGUF)
        wish.architecture = m->descriptor->architecture;
    lr_code code = node_engines_resolve(models->engines, &wish, &m->engine, &err);
    m->is_by_vulkan =
        code != LR_OK && node_resolve_by_vulkan(models->engines, &wish, &m->engine);
    if (m->is_by_vulkan)
        lr_log_info(NULL, "model.by_vulkan model=%s engine=%s: it has no CUDA", m->id,
                    m->engine->name);
    else if (code != LR_OK) {
        m->reason = err;
        lr_log_warn(LR_LOG_OF(&m->reason), "model.not_ready model=%s reason=%s", m->id,
                    m->reason.text);
        return;
    }
    node_changed(m->models);
    if (m->state == NODE_MODEL_ABSENT || m->state == NODE_MODEL_FAILED)
        node_model_move(m, NODE_MODEL_PRESENT, NULL);
}

/* A model that is nothing but an engine (`--engine echo` without a model). */
static void add_engine(struct node_storage *storage, const char *engine_id)
{
    const struct node_engines *engines = storage->models->engines;
    struct node_model *m = node_storage_name(storage, engine_id);
    struct lr_error err;
    if (m->engine != NULL || m->descriptor != NULL)
        return;
    struct node_engine *e = node_engines_find(engines, lr_str_z(engine_id));
    if (e == NULL || e->library == NULL) {
        if (e != NULL)
            (void)lr_fail_as(&err, engine_unusable_why, engine_id, engines->dir, &e->refusal);
        else
            (void)lr_fail_as(&err, engine_unusable, engine_id, engines->dir);
        m->reason = err;
        return;
    }
    m->engine = e;
    if (m->state == NODE_MODEL_ABSENT)
        node_model_move(m, NODE_MODEL_PRESENT, NULL);
}

void node_storage_resolve(struct node_storage *storage)
{
    const char *engine = lr_settings_str(storage->settings, "engine");
    for (struct node_model *m = storage->models->first; m != NULL; m = m->next)
        resolve(m);
    if (engine != NULL && lr_settings_list_count(storage->settings, "model") == 0)
        add_engine(storage, engine);
}

/* ---- a description ---- */

static bool has_control(const void *ctx, struct lr_str token)
{
    return model_control_find(ctx, token) != NULL;
}

/* The template of the model's files, else that of its family. */
static struct lr_str template_of(struct node_model *m)
{
    const struct model_descriptor *d = m->descriptor;
    const struct chat_vocabulary vocabulary = {has_control, d};
    struct lr_str text = lr_str_z(d->chat_template);
    bool is_open = text.len == 0 && d->has_vocabulary && !m->chat.dialect.is_channels;
    if (is_open && chat_family_of(&vocabulary, &text) == CHAT_FAMILY_NONE)
        m->chat.lacks_template = true;
    return text;
}

/* The control token that the template writes behind an answer.  Marks of the dialect are none:
 * an answer goes on behind them. */
static const struct model_control *storage_stop_of(const struct node_model *m)
{
    char ending[CHAT_ENDING_MAX];
    struct lr_str text = chat_model_ending(&m->chat, ending);
    const struct model_control *stop = model_control_at(m->descriptor, text);
    return stop != NULL && !chat_dialect_writes(&m->chat.dialect, lr_str_z(stop->text)) ? stop
                                                                                        : NULL;
}

static lr_code compile_template(struct node_model *m, struct lr_error *err)
{
    const struct model_descriptor *d = m->descriptor;
    m->stop = NULL;
    m->chat = (struct chat_model){
        .dialect = chat_dialect_of(lr_str_z(d->chat_template), lr_str_z(d->architecture)),
        .bos_token = lr_str_z(d->bos_token),
        .eos_token = lr_str_z(d->eos_token),
        .unk_token = lr_str_z(d->unk_token),
        .pad_token = lr_str_z(d->pad_token),
    };
    if (m->models->uses_sampling)
        m->chat.sampling = d->sampling;
    m->chat.source = template_of(m);
    if (m->chat.source.len == 0)
        return LR_OK;
    if (d->chat_template == NULL)
        m->chat.dialect = chat_dialect_of(m->chat.source, lr_str_z(d->architecture));
    lr_code code = jinja_compile(m->chat.source, &m->chat_template, err);
    m->chat.chat_template = m->chat_template;
    chat_model_learn(&m->chat);
    m->stop = storage_stop_of(m);
    return code;
}

/* Back to a name without files.  Nothing runs. */
static void undescribe(struct node_model *m)
{
    m->chat = (struct chat_model){0};
    m->stop = NULL;
    jinja_template_destroy(m->chat_template);
    m->chat_template = NULL;
    model_descriptor_close(m->descriptor);
    m->descriptor = NULL;
    m->weights[0] = '\0';
    m->engine = NULL;
    node_forget_need(m);
    m->skip_artifact = false;
}

/* Says why a folder is no model: at once for good where it is DirectML's. */
static void not_ready(struct node_model *m, const char *dir, struct lr_error *err)
{
    if (node_is_directml(dir, err))
        node_model_move(m, NODE_MODEL_FAILED, err);
    else
        m->reason = *err;
    lr_log_warn(LR_LOG_OF(&m->reason), "model.not_ready model=%s dir=%s reason=%s", m->id, dir,
                m->reason.text);
}

/* Its files were found, or are on their way. */
static bool is_settled(const struct node_model *m)
{
    bool is_unusable = m->state == NODE_MODEL_FAILED && m->descriptor == NULL;
    return m->state != NODE_MODEL_ABSENT && !is_unusable;
}

void node_storage_note(struct node_model *m)
{
    m->signature = m->seen_signature = m->folder != NULL ? node_folder_signature(m->folder) : 0;
}

static void keep_folder(struct node_model *m, const char *dir)
{
    char *copy = strdup(dir); /* without memory nobody notices when its files change */
    free(m->folder);
    m->folder = copy;
    node_storage_note(m);
    m->described_signature = m->signature;
}

/* Links in a folder that was downloaded open less (base/sandbox.h). */
static void note_origin(struct node_model *m, const char *where)
{
    char blobs[LR_PATH_MAX];
    bool is_cached = hub_cache_has(where, blobs);
    m->is_downloaded = is_cached || hub_installed_was_fetched(where);
    free(m->blobs);
    m->blobs = is_cached ? strdup(blobs) : NULL; /* without memory they open nothing */
}

struct node_model *node_storage_add(struct node_storage *storage, const char *id,
                                    const char *dir, const char *format, const char *filename)
{
    struct lr_error err;
    char real[LR_PATH_MAX];
    enum model_format wanted;
    struct node_model *m = node_storage_name(storage, id);
    if (is_settled(m))
        return m;
    if (format == NULL || !model_format_find(lr_str_z(format), &wanted))
        wanted = node_storage_guess_format(dir);
    const char *where = lr_realpath(dir, real) != NULL ? real : dir;
    undescribe(m);
    keep_folder(m, dir);
    note_origin(m, where);
    lr_code code = model_descriptor_open(where, wanted, filename, &m->descriptor, &err);
    if (code == LR_OK)
        code = compile_template(m, &err);
    if (code == LR_OK)
        code = model_fingerprint(m->descriptor, m->weights, &err);
    m->described++;
    node_changed(storage->models);
    if (code == LR_OK) {
        resolve(m);
    } else {
        undescribe(m);
        not_ready(m, dir, &err);
    }
    return m;
}

void node_storage_refuse(struct node_storage *storage, const char *id, const char *dir,
                         struct lr_error *why)
{
    struct node_model *m = node_storage_name(storage, id);
    if (!is_settled(m))
        not_ready(m, dir, why);
}

/* ---- described anew: the registered format, another revision ---- */

bool node_storage_reopen(struct node_model *m)
{
    char dir[LR_PATH_MAX], format[sizeof(m->registered_as)];
    memcpy(format, m->registered_as, sizeof(format));
    m->registered_as[0] = '\0';
    (void)snprintf(dir, sizeof(dir), "%s", m->descriptor->model_dir);
    node_model_move(m, NODE_MODEL_ABSENT, NULL);
    struct hub_manifest *manifest = hub_installed_read(dir, m->id);
    (void)node_storage_add(m->models->storage, m->id, dir, format,
                           manifest != NULL ? hub_manifest_gguf(manifest) : NULL);
    hub_manifest_destroy(manifest);
    return m->state == NODE_MODEL_PRESENT;
}

static void reopen_soon(struct node_model *m, const char *format, const char *why)
{
    bool is_at_rest = m->state == NODE_MODEL_PRESENT || m->state == NODE_MODEL_FAILED ||
                      m->state == NODE_MODEL_ABSENT || m->state == NODE_MODEL_WAITING;
    (void)snprintf(m->registered_as, sizeof(m->registered_as), "%s", format);
    if (is_at_rest)
        (void)node_storage_reopen(m);
    else
        node_model_unload(m, why);
}

void node_storage_notice(struct node_model *m)
{
    if (m->descriptor == NULL || m->folder == NULL || m->registered_as[0] != '\0')
        return;
    uint64_t now = node_folder_signature(m->folder);
    if (now == 0 || now == m->described_signature)
        return;
    lr_log_warn(NULL, "model.files_changed model=%s dir=%s", m->id, m->folder);
    LR_COPY(m->registered_as, lr_str_z(model_format_name(m->descriptor->format)));
}

bool node_storage_is_replaced(struct node_model *m, const struct lr_error *why)
{
    const struct model_descriptor *d = m->descriptor;
    char now[MODEL_FINGERPRINT_LEN + 1];
    if (why->code != LR_CONFLICT || d == NULL)
        return false;
    const char *file = d->format == MODEL_FORMAT_GGUF ? lr_path_base(d->primary) : NULL;
    if (model_fingerprint_of(d->model_dir, d->format, file, now, NULL) != LR_OK ||
        strcmp(now, m->weights) == 0)
        return false;
    LR_COPY(m->registered_as, lr_str_z(model_format_name(d->format)));
    return true;
}

void node_storage_registered(struct node_model *m, struct lr_str format)
{
    enum model_format registered;
    if (m->descriptor == NULL || !model_format_find(format, &registered))
        return;
    if (m->descriptor->format == registered) {
        /* A mark in another format is outdated.  A mark in this one is of another revision,
         * which is to be opened once the worker has left. */
        if (strcmp(m->registered_as, model_format_name(registered)) != 0)
            m->registered_as[0] = '\0';
        return;
    }
    lr_log_info(NULL, "model.other_format model=%s has=%s registered=%s", m->id,
                model_format_name(m->descriptor->format), model_format_name(registered));
    reopen_soon(m, model_format_name(registered), "it is registered in another format");
}

void node_storage_replaced(struct node_model *m, const char *format)
{
    if (m->descriptor != NULL)
        reopen_soon(m, format, "another revision of it was fetched");
    else
        node_storage_scan(m->models->storage);
    node_model_pump(m);
}

/* ---- looked at again ---- */

bool node_storage_is_other(const struct node_model *m, struct lr_str digest)
{
    char home[LR_PATH_MAX];
    return digest.len != 0 &&
           lr_path_join(home, m->models->storage->root, lr_str_z(m->id), NULL) == LR_OK &&
           hub_installed_is_other(home, m->id, digest);
}

bool node_storage_is_verified(const struct node_model *m)
{
    struct hub_manifest *manifest =
        m->descriptor != NULL ? hub_installed_read(m->descriptor->model_dir, m->id) : NULL;
    if (manifest == NULL)
        return false;
    bool is_whole = hub_download_is_whole(manifest, m->descriptor->model_dir,
                                          node_storage_filter(m->models->storage));
    hub_manifest_destroy(manifest);
    return is_whole;
}

void node_storage_look(struct node_model *m)
{
    node_storage_note(m);
    if (m->state == NODE_MODEL_ABSENT || m->descriptor == NULL)
        node_storage_scan(m->models->storage);
    else if (m->signature != m->described_signature && m->signature != 0)
        reopen_soon(m, model_format_name(m->descriptor->format), "its files have changed");
}

/* No worker, no download: nothing else would notice other files. */
static bool is_watched(const struct node_storage *storage, const struct node_model *m)
{
    return (m->state == NODE_MODEL_ABSENT || m->state == NODE_MODEL_WAITING ||
            m->state == NODE_MODEL_FAILED) &&
           !m->is_purging && m->folder != NULL &&
           !node_fetch_has(storage->fetch, lr_str_z(m->id), lr_str(NULL, 0));
}

/* Its files came back, or are others now. */
static bool has_changed(struct node_model *m)
{
    uint64_t now = node_folder_signature(m->folder);
    if (now == m->signature)
        return false;
    /* Files still being copied differ from one look to the next. */
    bool is_quiet = now == m->seen_signature;
    m->seen_signature = now;
    return is_quiet;
}

void node_storage_watch(struct node_storage *storage)
{
    node_fetch_tell(storage->fetch);
    for (struct node_model *m = storage->models->first; m != NULL; m = m->next) {
        if (!is_watched(storage, m) || !has_changed(m))
            continue;
        bool was_waiting = m->state == NODE_MODEL_WAITING;
        node_storage_look(m);
        if (was_waiting && m->state == NODE_MODEL_PRESENT && !storage->models->is_draining)
            node_admit(m);
        else if (was_waiting)
            node_model_retry(m);
        node_model_pump(m);
    }
}

/* ---- life ---- */

void node_storage_open(struct node_storage *storage)
{
    const char *root = lr_settings_str(storage->settings, "models-dir");
    if (root != NULL)
        (void)snprintf(storage->root, sizeof(storage->root), "%s", root);
    else
        (void)snprintf(storage->root, sizeof(storage->root), "%.4000s/models",
                       lr_settings_str(storage->settings, "data-dir"));
    storage->fetch = node_fetch_create(storage);
    node_storage_recover(storage);
    node_storage_scan(storage);
}

static void free_model(struct node_model *m)
{
    node_counter_leave(m);
    node_library_unref(m->need_library);
    node_pools_unrefuse(m);
    undescribe(m);
    free(m->folder);
    free(m->blobs);
    free(m->id);
    free(m);
}

void node_storage_forget(struct node_model *model)
{
    struct node_model **link = &model->models->first;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    node_changed(model->models);
    free_model(model);
}

void node_storage_close(struct node_storage *storage)
{
    node_fetch_destroy(storage->fetch);
    while (storage->models->first != NULL)
        node_storage_forget(storage->models->first);
}
