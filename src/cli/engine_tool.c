/* cli/engine_tool.c - see engine_tool.h. */
#include "cli/engine_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/os/file.h"
#include "base/subprocess.h"
#include "cli/command.h"
#include "model/config.h"
#include "model/descriptor.h"
#include "plugin/library.h"
#include "plugin/manifest.h"

enum { IDS_TEXT_MAX = 64 << 20 };

/* The folder with the engines: the named one, or the one beside this program, built or
 * installed. */
static lr_code engines_folder(const struct lr_settings *s, char out[LR_PATH_MAX],
                              struct lr_error *err)
{
    const char *dir = lr_settings_str(s, "engines-dir");
    static const char *const places[] = {"../engines", "../lib/llm-router/engines",
                                         "../lib64/llm-router/engines"};
    char self[LR_PATH_MAX];

    if (dir != NULL) {
        (void)snprintf(out, LR_PATH_MAX, "%s", dir);
        return LR_OK;
    }
    lr_code code = lr_self_path(self, sizeof(self), err);
    if (code != LR_OK)
        return code;
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int n = snprintf(out, LR_PATH_MAX, "%s/%s", self, places[i]);
        if (n > 0 && n < LR_PATH_MAX && lr_dir_exists(out))
            return LR_OK;
    }
    return lr_fail(err, LR_NOT_FOUND,
                   "no engines in %s/%s or %s/%s: name the folder with --engines-dir", self,
                   places[0], self, places[1]);
}

/* The kind of device that manifests name. */
static const char *device_kind(const char *device)
{
    if (strncmp(device, "cuda", 4) == 0 || strncmp(device, "GPU-", 4) == 0)
        return "cuda";
    return strncmp(device, "vulkan", 6) == 0 ? "vulkan" : device;
}

/* The runtime that a node would ask an engine for.  False: the folder is no model. */
static bool runtime_of(const char *model, char out[MODEL_NAME_MAX])
{
    struct model_identity identity = {0};
    struct model_descriptor *gguf;
    char path[LR_PATH_MAX];
    struct lr_buf text;
    bool found = false;

    if (model == NULL)
        return false;
    (void)snprintf(path, sizeof(path), "%s/config.json", model);
    lr_buf_init(&text, MODEL_CONFIG_BYTES_MAX);
    if (lr_file_read_buf(path, &text, NULL) == LR_OK)
        found = model_identity_parse(lr_buf_str(&text), &identity, NULL) == LR_OK;
    lr_buf_free(&text);
    (void)snprintf(out, MODEL_NAME_MAX, "%s", identity.runtime);
    if (!found && model_descriptor_open(model, MODEL_FORMAT_GGUF, NULL, &gguf, NULL) == LR_OK) {
        (void)snprintf(out, MODEL_NAME_MAX, "%s", gguf->runtime);
        model_descriptor_close(gguf);
        found = true;
    }
    return found;
}

/* As a node chooses: the engine of the largest priority that runs this model on the device.
 * False: the folder is no model that an engine here names. */
static bool choose_engine(const char *engines, const char *model, const char *device,
                          char id[LR_PATH_MAX])
{
    char folder[LR_PATH_MAX], runtime[MODEL_NAME_MAX];
    int32_t priority = 0;
    bool found = false;

    if (!runtime_of(model, runtime))
        return false;
    struct lr_dir *list = lr_dir_open(engines);
    for (const char *name; list != NULL && (name = lr_dir_next(list)) != NULL;) {
        struct plugin_manifest m;
        int n = snprintf(folder, sizeof(folder), "%s/%s", engines, name);
        if (name[0] == '.' || n < 0 || (size_t)n >= sizeof(folder) ||
            plugin_manifest_read(&m, folder, NULL) != LR_OK)
            continue;
        if (plugin_list_has(m.runtimes, runtime) &&
            plugin_manifest_computes_on(&m, device_kind(device), true) &&
            (!found || m.priority > priority)) {
            (void)snprintf(id, LR_PATH_MAX, "%s", name);
            priority = m.priority;
            found = true;
        }
        plugin_manifest_free(&m);
    }
    lr_dir_close(list);
    return found;
}

/* <engines>/<id>, of the engine that --engine names, or else of the one that fits the model. */
static lr_code engine_folder(const struct lr_settings *s, const char *model,
                             char out[LR_PATH_MAX], struct lr_error *err)
{
    const char *named = lr_settings_str(s, "engine");
    char engines[LR_PATH_MAX], id[LR_PATH_MAX] = "gptoss";

    lr_code code = engines_folder(s, engines, err);
    if (code != LR_OK)
        return code;
    if (named != NULL)
        (void)snprintf(id, sizeof(id), "%s", named);
    else
        (void)choose_engine(engines, model, lr_settings_str(s, "device"), id);
    if (!lr_path_safe(lr_str_z(id)))
        return lr_fail(err, LR_INVALID_ARGUMENT, "--engine %s is no plain name", id);
    int n = snprintf(out, LR_PATH_MAX, "%s/%s", engines, id);
    if (n < 0 || n >= LR_PATH_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the path is too long: %s", engines);
    return lr_dir_exists(out) ? LR_OK
                              : lr_fail(err, LR_NOT_FOUND,
                                        "no engine \"%s\" in %s: name the folder with "
                                        "--engines-dir",
                                        id, engines);
}

static lr_code load_plugin(const struct lr_settings *s, const char *model,
                           const struct lr_engine_api **api, struct lr_error *err)
{
    struct plugin_manifest manifest;
    char folder[LR_PATH_MAX];

    lr_code code = engine_folder(s, model, folder, err);
    if (code == LR_OK)
        code = plugin_manifest_read(&manifest, folder, err);
    if (code != LR_OK)
        return code;
    const struct plugin_expectation expected = {
        .abi_version = manifest.abi_version,
        .engine_id = manifest.engine_id,
        .engine_version = manifest.engine_version,
    };
    code = plugin_library_open(manifest.library_path, &expected, api, err);
    plugin_manifest_free(&manifest);
    return code;
}

lr_code cli_engine_open(const struct lr_settings *s, const struct lr_engine_host *host,
                        uint32_t max_sequences, uint64_t max_tokens, struct cli_engine *out,
                        struct lr_error *err)
{
    return cli_engine_open_extra(s, host, lr_settings_str(s, "model"), NULL, max_sequences,
                                 max_tokens, out, err);
}

lr_code cli_engine_open_extra(const struct lr_settings *s, const struct lr_engine_host *host,
                              const char *dir, const char *extra_json, uint32_t max_sequences,
                              uint64_t max_tokens, struct cli_engine *out, struct lr_error *err)
{
    const char *device = lr_settings_str(s, "device");

    *out = (struct cli_engine){.need = {.size = sizeof(out->need)}};
    if (dir == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--model DIR is needed: a model's folder");
    lr_code code = load_plugin(s, dir, &out->api, err);
    if (code != LR_OK)
        return code;
    const struct lr_engine_options options = {
        .size = sizeof(options),
        .device_count = 1,
        .devices = &device,
        .max_tokens = max_tokens,
        .max_sequences = max_sequences,
        .max_context = (uint32_t)lr_settings_int(s, "context"),
        .prefill_chunk = (uint32_t)lr_settings_int(s, "chunk"),
        .threads = (uint32_t)lr_settings_int(s, "threads"),
        .artifact_path = lr_settings_str(s, "artifact"),
        .extra_json = extra_json != NULL ? extra_json : lr_settings_str(s, "engine-options"),
    };
    code = out->api->probe(dir, &options, &out->need, err);
    if (code == LR_OK)
        code = out->api->open(host, dir, &options, &out->model, err);
    return code;
}

void cli_engine_close(struct cli_engine *engine)
{
    if (engine->model != NULL)
        engine->api->close(engine->model);
    engine->model = NULL;
}

static lr_code parse_ids(struct lr_str text, struct lr_arena *arena, uint32_t **ids,
                         size_t *count, struct lr_error *err)
{
    const struct lr_json *list;
    lr_code code = lr_json_parse(arena, text, NULL, &list, err);

    if (code != LR_OK)
        return lr_fail_prefix(err, "stdin");
    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "stdin must be a JSON array of token ids");
    *ids = calloc(list->count, sizeof(**ids));
    if (*ids == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u ids", list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        if (!lr_json_u64(&list->items[i], &id) || id > UINT32_MAX) {
            free(*ids);
            *ids = NULL;
            return lr_fail(err, LR_INVALID_ARGUMENT, "item %u of stdin is no token id", i);
        }
        (*ids)[i] = (uint32_t)id;
    }
    *count = list->count;
    return LR_OK;
}

lr_code cli_engine_read_ids(uint32_t **ids, size_t *count, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_buf text;

    *ids = NULL;
    *count = 0;
    lr_buf_init(&text, IDS_TEXT_MAX);
    lr_arena_init(&arena, (size_t)IDS_TEXT_MAX * 16);
    lr_code code = cli_read_stdin(&text, err);
    if (code == LR_OK)
        code = parse_ids(lr_buf_str(&text), &arena, ids, count, err);
    lr_arena_free(&arena);
    lr_buf_free(&text);
    return code;
}

void cli_engine_log(void *ctx, int32_t level, const char *event, const char *text)
{
    (void)ctx;
    if (level >= 2)
        fprintf(stderr, "%s %s\n", event, text);
}
