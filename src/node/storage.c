#include "node/storage.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "node/state.h"

struct node_model *node_find_model(const struct node *node, struct lr_str id)
{
    for (struct node_model *m = node->models; m != NULL; m = m->next)
        if (lr_str_eq_nocase(lr_str_z(m->id), id))
            return m;
    return NULL;
}

static struct node_model *new_model(struct node *node, const char *id)
{
    struct node_model *m = calloc(1, sizeof(*m));
    if (m == NULL || (m->id = strdup(id)) == NULL) {
        free(m);
        return NULL;
    }
    m->node = node;
    m->created = lr_clock_wall_ms(NULL) / 1000;
    m->state = NODE_MODEL_ABSENT;
    struct node_model **link = &node->models;
    while (*link != NULL)
        link = &(*link)->next;
    *link = m;
    return m;
}

static void set_reason(struct node_model *m, const struct lr_error *err)
{
    m->reason_code = err->code;
    (void)snprintf(m->reason, sizeof(m->reason), "%s", err->text);
}

static void resolve(struct node_model *m)
{
    struct node *node = m->node;
    const char *forced = lr_settings_str(node->settings, "engine");
    struct lr_error err;
    lr_code code;
    if (m->engine != NULL || m->descriptor == NULL)
        return;
    const char *runtime = forced != NULL ? forced : m->descriptor->runtime;
    code =
        node_engines_resolve(&node->engines, runtime, model_format_name(m->descriptor->format),
                             node->device, &m->engine, &err);
    if (code != LR_OK) {
        set_reason(m, &err);
        lr_log_warn(NULL, "model.not_ready model=%s reason=%s", m->id, m->reason);
        return;
    }
    if (m->state == NODE_MODEL_ABSENT)
        node_model_move(m, NODE_MODEL_PRESENT, NULL);
}

void node_storage_resolve(struct node *node)
{
    for (struct node_model *m = node->models; m != NULL; m = m->next)
        resolve(m);
}

static lr_code compile_template(struct node_model *m, struct lr_error *err)
{
    const struct model_descriptor *d = m->descriptor;
    m->chat = (struct chat_model){
        .is_gptoss = strcmp(d->runtime, "gptoss") == 0,
        .bos_token = lr_str_z(d->bos_token),
        .eos_token = lr_str_z(d->eos_token),
        .unk_token = lr_str_z(d->unk_token),
        .pad_token = lr_str_z(d->pad_token),
    };
    if (d->chat_template == NULL)
        return LR_OK;
    lr_code code = jinja_compile(lr_str_z(d->chat_template), &m->chat_template, err);
    m->chat.chat_template = m->chat_template;
    return code;
}

static bool has_suffix_file(const char *dir, const char *suffix)
{
    bool found = false;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && !found && (e = readdir(folder)) != NULL;)
        found = lr_str_ends(lr_str_z(e->d_name), suffix);
    if (folder != NULL)
        (void)closedir(folder);
    return found;
}

static enum model_format guess_format(const char *dir)
{
    char config[LR_PATH_MAX + 16];
    (void)snprintf(config, sizeof(config), "%s/config.json", dir);
    bool safetensors = lr_file_exists(config) || has_suffix_file(dir, ".safetensors");
    return !safetensors && has_suffix_file(dir, ".gguf") ? MODEL_FORMAT_GGUF
                                                         : MODEL_FORMAT_SAFETENSORS;
}

struct node_model *node_storage_add(struct node *node, const char *id, const char *dir,
                                    const char *format, const char *filename)
{
    struct lr_error err;
    char real[PATH_MAX];
    enum model_format wanted = guess_format(dir);
    struct node_model *m = node_find_model(node, lr_str_z(id));
    if (m != NULL && m->state != NODE_MODEL_ABSENT)
        return m;
    if (m == NULL)
        m = new_model(node, id);
    if (m == NULL)
        return NULL;
    if (format != NULL)
        (void)model_format_find(lr_str_z(format), &wanted);
    const char *where = realpath(dir, real) != NULL ? real : dir;
    model_descriptor_close(m->descriptor);
    m->descriptor = NULL;
    lr_code code = model_descriptor_open(where, wanted, filename, &m->descriptor, &err);
    if (code == LR_OK)
        code = compile_template(m, &err);
    if (code != LR_OK) {
        model_descriptor_close(m->descriptor);
        m->descriptor = NULL;
        set_reason(m, &err);
        lr_log_warn(NULL, "model.not_ready model=%s dir=%s reason=%s", id, dir, m->reason);
        return m;
    }
    resolve(m);
    return m;
}

struct node_model *node_storage_add_engine(struct node *node, const char *engine_id)
{
    struct node_model *m = node_find_model(node, lr_str_z(engine_id));
    struct lr_error err;
    if (m == NULL)
        m = new_model(node, engine_id);
    if (m == NULL || m->engine != NULL)
        return m;
    struct node_engine *e = node_engines_find(&node->engines, engine_id);
    if (e == NULL || e->library == NULL) {
        (void)lr_fail(&err, LR_UNSUPPORTED, "there is no usable engine \"%s\" in %s%s%s",
                      engine_id, node->engines_dir, e != NULL ? ": " : "",
                      e != NULL ? e->reason : "");
        set_reason(m, &err);
        return m;
    }
    m->engine = e;
    if (m->state == NODE_MODEL_ABSENT)
        node_model_move(m, NODE_MODEL_PRESENT, NULL);
    return m;
}

/* ---- the places ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool looks_like_model(const char *dir)
{
    char config[LR_PATH_MAX + 16];
    (void)snprintf(config, sizeof(config), "%s/config.json", dir);
    return lr_file_exists(config) || has_suffix_file(dir, ".safetensors") ||
           has_suffix_file(dir, ".gguf");
}

/* models/<name> and models/<org>/<name>. */
static void scan_models_dir(struct node *node, const char *dir, const char *org)
{
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[LR_PATH_MAX], id[600];
        int n = snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || !is_folder(path))
            continue;
        (void)snprintf(id, sizeof(id), "%s%s%s", org, org[0] != '\0' ? "/" : "", e->d_name);
        if (looks_like_model(path))
            (void)node_storage_add(node, id, path, NULL, NULL);
        else if (org[0] == '\0')
            scan_models_dir(node, path, e->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

/* hub/models--org--name/{refs/main,snapshots/<commit>/}. */
static void scan_cache_entry(struct node *node, const char *dir, const char *name)
{
    char path[LR_PATH_MAX + 600], id[600], commit[128] = "";
    (void)snprintf(path, sizeof(path), "%s/%s/refs/main", dir, name);
    FILE *ref = fopen(path, "re");
    if (ref == NULL)
        return;
    size_t n = fread(commit, 1, sizeof(commit) - 1, ref);
    (void)fclose(ref);
    struct lr_str trimmed = lr_str_trim(lr_str(commit, n));
    if (trimmed.len == 0 || !lr_path_safe(trimmed))
        return;
    (void)snprintf(id, sizeof(id), "%s", name + strlen("models--"));
    char *dashes = strstr(id, "--");
    if (dashes != NULL) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    (void)snprintf(path, sizeof(path), "%s/%s/snapshots/" LR_STR_FMT, dir, name,
                   LR_STR_ARG(trimmed));
    if (strlen(path) < LR_PATH_MAX && is_folder(path) && looks_like_model(path))
        (void)node_storage_add(node, id, path, NULL, NULL);
}

static void scan_hf_cache(struct node *node)
{
    char dir[LR_PATH_MAX];
    const char *home = getenv("HF_HOME");
    const char *user = lr_home_dir();
    if (home != NULL && home[0] != '\0')
        (void)snprintf(dir, sizeof(dir), "%s/hub", home);
    else if (user != NULL)
        (void)snprintf(dir, sizeof(dir), "%s/.cache/huggingface/hub", user);
    else
        return;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        if (lr_str_starts(lr_str_z(e->d_name), "models--"))
            scan_cache_entry(node, dir, e->d_name);
    if (folder != NULL)
        (void)closedir(folder);
}

/* The last folder's name, or the one before it for "x/snapshot/". */
static void id_of_folder(const char *dir, char *out, size_t size)
{
    char real[PATH_MAX];
    const char *path = realpath(dir, real) != NULL ? real : dir;
    (void)snprintf(out, size, "%s", lr_path_base(path));
}

void node_storage_scan(struct node *node)
{
    char models[LR_PATH_MAX + 16];
    const char *engine = lr_settings_str(node->settings, "engine");
    size_t named = lr_settings_list_count(node->settings, "model");
    for (size_t i = 0; i < named; i++) {
        char id[600];
        const char *dir = lr_settings_list_item(node->settings, "model", i);
        id_of_folder(dir, id, sizeof(id));
        (void)node_storage_add(node, id, dir, NULL, NULL);
    }
    const char *dir = lr_settings_str(node->settings, "models-dir");
    (void)snprintf(models, sizeof(models), "%s", dir != NULL ? dir : "");
    if (dir == NULL)
        (void)snprintf(models, sizeof(models), "%s/models", node->data_dir);
    scan_models_dir(node, models, "");
    if (lr_settings_bool(node->settings, "hf-cache"))
        scan_hf_cache(node);
    if (engine != NULL && named == 0)
        (void)node_storage_add_engine(node, engine);
    node_storage_resolve(node);
}

void node_storage_free(struct node *node)
{
    while (node->models != NULL) {
        struct node_model *m = node->models;
        node->models = m->next;
        net_timer_stop(m->restart);
        node_library_unref(m->need_library);
        jinja_template_destroy(m->chat_template);
        model_descriptor_close(m->descriptor);
        free(m->id);
        free(m);
    }
}
