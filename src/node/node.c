/* node/node.c - struct node: what its settings say, and what its modules get. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "base/subprocess.h"
#include "net/logs.h"
#include "net/server.h"
#include "node/host/reload.h"
#include "node/http/api.h"
#include "node/node.h"
#include "plugin/manifest.h"

enum { CLOSE_MS = 10000 };

/* ---- settings ---- */

static struct node_limits read_limits(const struct lr_settings *s)
{
    uint64_t step_ms = lr_settings_ms(s, "step-timeout");
    return (struct node_limits){
        .step_ms = step_ms,
        .load_ms = lr_settings_ms(s, "load-timeout"),
        .idle_unload_ms = lr_settings_ms(s, "idle-unload"),
        /* no engine hangs longer in one place than another */
        .close_ms = step_ms < CLOSE_MS ? step_ms : CLOSE_MS,
        .min_resident_ms = lr_settings_ms(s, "min-resident"),
        .queue = (uint32_t)lr_settings_int(s, "node-queue"),
        .overuse_percent = (uint32_t)lr_settings_int(s, "overuse-percent"),
        .kills = (uint32_t)lr_settings_int(s, "watchdog-kills"),
    };
}

static struct lr_engine_options read_options(const struct lr_settings *s)
{
    return (struct lr_engine_options){
        .size = sizeof(struct lr_engine_options),
        .max_sequences = (uint32_t)lr_settings_int(s, "max-sequences"),
        .max_context = (uint32_t)lr_settings_int(s, "max-context"),
        .max_tokens = (uint64_t)lr_settings_int(s, "max-tokens"),
        .prefill_chunk = (uint32_t)lr_settings_int(s, "prefill-chunk"),
        .threads = (uint32_t)lr_settings_int(s, "engine-threads"),
        .target_gap_ms = (uint32_t)lr_settings_ms(s, "target-gap"),
        .extra_json = lr_settings_str(s, "engine-options"),
    };
}

static lr_code check_engine_options(const char *text, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *json;
    struct lr_error why;
    lr_arena_init(&arena, 16 << 20);
    lr_code code = lr_json_parse(&arena, lr_str_z(text), NULL, &json, &why);
    if (code == LR_OK && !lr_json_is(json, LR_JSON_OBJECT))
        code = lr_fail(&why, LR_INVALID_ARGUMENT, "it is not an object");
    lr_arena_free(&arena);
    return code == LR_OK ? LR_OK
                         : lr_fail(err, LR_INVALID_ARGUMENT,
                                   "engine-options: \"%.80s\" must be a JSON object: %.200s",
                                   text, why.text);
}

lr_code node_check_settings(const struct lr_settings *s, struct lr_error *err)
{
    const char *options = lr_settings_str(s, "engine-options");
    const char *proc = lr_settings_str(s, "proc-root"), *name = lr_settings_str(s, "node-name");
    if (options != NULL && options[0] != '\0' && check_engine_options(options, err) != LR_OK)
        return err->code;
    /* Not every system has the default. */
    if (lr_settings_source(s, "proc-root") != LR_FROM_DEFAULT && !lr_dir_exists(proc))
        return lr_fail(err, LR_INVALID_ARGUMENT, "proc-root: there is no folder %.300s", proc);
    for (const char *c = name != NULL ? name : ""; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "node-name: it holds a control character, at byte %zu",
                           (size_t)(c - name) + 1);
    return LR_OK;
}

/* The CPU is never chosen by itself (docs/promises.md: cpu-by-word). */
static lr_code choose_device(struct node *node, struct lr_error *err)
{
    struct node_models *models = &node->models;
    const char *wanted = lr_settings_str(node->settings, "device");
    const char *gpu = node_devices_gpu(wanted), *closed = models->pools.gpu_closed;
    bool has_gpus = lr_settings_has(node->settings, "gpus");
    if (gpu != NULL && models->pools.gpus_error.code != LR_OK && !has_gpus)
        return lr_fail(err, LR_UNSUPPORTED,
                       "there is no device %s: nvidia-smi -L lists the GPUs, and "
                       "CUDA_VISIBLE_DEVICES may hide some%s%s",
                       wanted, closed[0] != '\0' ? "; " : "", closed);
    if (models->pools.gpus_error.code != LR_OK)
        return lr_fail(err, models->pools.gpus_error.code, "%s%s%s",
                       models->pools.gpus_error.text, closed[0] != '\0' ? "; " : "", closed);
    lr_code code =
        node_devices_choose(wanted, models->pools.count > 1, closed, &models->devices, err);
    bool is_vulkan = strcmp(models->devices.kind, "vulkan") == 0;
    if (code == LR_OK && has_gpus && (gpu != NULL || is_vulkan))
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "setting gpus goes with --device cuda, not with %s: leave one of the "
                       "two out",
                       gpu != NULL ? wanted : "vulkan");
    if (code == LR_OK && is_vulkan) {
        node_pools_replace(&models->pools, models->devices.gpus, models->devices.count);
        node_device_refresh_open(models);
    }
    return code;
}

/* Engines and confined workers need folders with absolute names. */
static lr_code own_data_dir(struct node *node, struct lr_error *err)
{
    const char *wanted = lr_settings_str(node->settings, "data-dir");
    char dir[LR_PATH_MAX], lock[LR_PATH_MAX + 16];
    lr_code code = lr_dir_create(wanted, err);
    if (code != LR_OK)
        return code;
    if (lr_realpath(wanted, dir) == NULL)
        return lr_fail_errno(err, LR_IO, "data-dir: cannot find %.300s", wanted);
    (void)snprintf(lock, sizeof(lock), "%s/node.lock", dir);
    (void)snprintf(node->engines.cache_dir, LR_PATH_MAX, "%.4000s/engine-cache", dir);
    if (lr_settings_bool(node->settings, "confine-workers"))
        (void)snprintf(node->launcher.scratch_dir, LR_PATH_MAX, "%.3900s/engine-scratch", dir);
    return lr_file_lock(lock, &node->lock, err);
}

static void tell_confinement(const struct node *node)
{
    struct lr_sandbox_facts facts = lr_sandbox_look();
    char text[LR_SANDBOX_TEXT];
    if (node->launcher.scratch_dir[0] == '\0')
        lr_log_warn(NULL,
                    "node.confinement workers=free reason=--no-confine-workers was given");
    else if (lr_sandbox_lacks(&facts, text)[0] != '\0' ||
             lr_sandbox_opened(&facts, text)[0] != '\0')
        lr_log_warn(NULL, "node.confinement workers=partly reason=%s", text);
    else if (lr_sandbox_thin(&facts, text)[0] != '\0')
        lr_log_info(NULL, "node.confinement workers=confined landlock=%d reason=%s",
                    facts.landlock, text);
    else
        lr_log_info(NULL, "node.confinement workers=confined landlock=%d", facts.landlock);
}

/* ---- modules ---- */

static void on_event(void *models)
{
    node_changed(models);
}

static void make_modules(struct node *node, struct net_loop *loop)
{
    const struct lr_settings *s = node->settings;
    node->events.on_send = on_event;
    node->events.on_send_arg = &node->models;
    node->models = (struct node_models){
        .loop = loop,
        .events = &node->events,
        .storage = &node->storage,
        .engines = &node->engines,
        .launcher = &node->launcher,
        .limits = read_limits(s),
        .options = read_options(s),
        .artifact = lr_settings_str(s, "artifact"),
        .uses_artifacts = lr_settings_bool(s, "artifacts"),
        .uses_sampling = lr_settings_bool(s, "model-sampling"),
    };
    lr_buf_init(&node->models.scratch, WIRE_BODY_MAX + WIRE_HEADER_LEN);
    node->models.pools.gpus_wanted = lr_settings_has(s, "gpus")
                                         ? lr_settings_str(s, "gpus")
                                         : node_devices_gpu(lr_settings_str(s, "device"));
    node_pools_init(&node->models.pools, lr_settings_str(s, "nvml-library"),
                    lr_settings_has(s, "ram-limit") ? lr_settings_size(s, "ram-limit") : 0,
                    (uint32_t)lr_settings_int(s, "memory-threshold"),
                    lr_settings_str(s, "proc-root"));
    node->launcher =
        (struct node_launcher){.loop = loop, .probe_ms = node->models.limits.load_ms};
    node->storage = (struct node_storage){.models = &node->models, .settings = s};
}

/* The setting vram-limit.  The log says where it has no effect. */
static void limit_gpus(struct node_models *models, uint64_t bytes)
{
    struct node_pools *pools = &models->pools;
    bool has_own_memory = pools->count > 1;

    if (!has_own_memory && strcmp(models->devices.kind, "cpu") == 0)
        lr_log_warn(NULL, "node.vram_limit_unused reason=%s",
                    "this node has no GPU; the setting ram-limit limits its models");
    else if (!has_own_memory) /* a GPU that computes in the machine's memory */
        pools->pool[NODE_POOL_RAM].state.cap = bytes;
    for (uint32_t i = 1; i < pools->count; i++) {
        struct node_pool_state *state = &pools->pool[i].state;
        state->cap = bytes;
        if (state->total != 0 && bytes > node_ledger_limit(state))
            lr_log_warn(NULL,
                        "node.vram_limit_unused pool=%s wanted=%" PRIu64 " limit=%" PRIu64
                        " reason=%s",
                        pools->pool[i].name, bytes, node_ledger_limit(state),
                        "the setting memory-threshold allows less");
    }
}

lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                    struct node **out, struct lr_error *err)
{
    *out = NULL;
    if (node_check_settings(settings, err) != LR_OK)
        return err->code;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node");
    net_logs_keep();
    node->settings = settings;
    node->lock.fd = -1;
    net_bus_init(&node->events);
    make_modules(node, loop);
    node->started_ms = node_now(&node->models);
    lr_code code = lr_self_path(node->launcher.executable, LR_PATH_MAX, err);
    if (code == LR_OK)
        code = lr_settings_secret(settings, "node-secret", node->secret, sizeof(node->secret),
                                  err);
    if (code == LR_OK)
        code = choose_device(node, err);
    if (code == LR_OK && lr_settings_has(settings, "vram-limit"))
        limit_gpus(&node->models, lr_settings_size(settings, "vram-limit"));
    if (code == LR_OK)
        code = node_replicas_parse(lr_str_z(lr_settings_str(settings, "replicas")),
                                   &node->models.replicas, err);
    if (code == LR_OK)
        code = own_data_dir(node, err);
    if (code == LR_OK)
        node_counts_open(&node->models.counts, lr_settings_str(settings, "data-dir"));
    if (code == LR_OK)
        code = node_membership_create(&node->storage, settings, node->secret, &node->membership,
                                      err);
    if (code != LR_OK) {
        node_destroy(node);
        return code;
    }
    tell_confinement(node);
    plugin_engines_dir(lr_settings_str(settings, "engines-dir"), node->engines.dir);
    node_engines_scan(&node->engines);
    node_reload_tell_refused(&node->models);
    node_storage_open(&node->storage);
    *out = node;
    return LR_OK;
}

void node_destroy(struct node *node)
{
    if (node == NULL)
        return;
    node_device_refresh_close(&node->models);
    node_membership_destroy(node->membership);
    net_server_destroy(node->server);
    net_bus_free(&node->events);
    node_storage_close(&node->storage);
    node_changes_close(&node->models);
    node_engines_free(&node->engines);
    node_counts_close(&node->models.counts);
    node_pools_free(&node->models.pools);
    if (node->lock.fd >= 0)
        lr_file_unlock(&node->lock);
    lr_buf_free(&node->models.scratch);
    lr_slots_free(&node->models.generations);
    prefix_index_free(&node->models.prefixes);
    free(node);
}
