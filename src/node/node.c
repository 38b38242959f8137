/* node/node.c - struct node: what its settings say, and the modules it owns. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sandbox.h"
#include "base/subprocess.h"
#include "net/server.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/fleet/router_link.h"
#include "node/http/api.h"
#include "node/state.h"
#include "node/workers/reload.h"
#include "plugin/manifest.h"

enum { CLOSE_MS = 10000 };

/* ---- settings ---- */

static void read_limits(struct node *node)
{
    const struct lr_settings *s = node->settings;
    node->limits = (struct node_limits){
        .step_ms = lr_settings_ms(s, "step-timeout"),
        .load_ms = lr_settings_ms(s, "load-timeout"),
        .idle_unload_ms = lr_settings_ms(s, "idle-unload"),
        .drain_ms = lr_settings_ms(s, "drain-timeout"),
        .close_ms = CLOSE_MS,
        .min_resident_ms = lr_settings_ms(s, "min-resident"),
        .queue = (uint32_t)lr_settings_int(s, "node-queue"),
        .alert_percent = (uint32_t)lr_settings_int(s, "memory-threshold"),
        .overuse_percent = (uint32_t)lr_settings_int(s, "overuse-percent"),
        .kills = (uint32_t)lr_settings_int(s, "watchdog-kills"),
    };
    if (node->limits.step_ms < CLOSE_MS) /* no engine hangs longer in one place than another */
        node->limits.close_ms = node->limits.step_ms;
    node->options = (struct lr_engine_options){
        .size = sizeof(node->options),
        .max_sequences = (uint32_t)lr_settings_int(s, "max-sequences"),
        .max_context = (uint32_t)lr_settings_int(s, "max-context"),
        .max_tokens = (uint64_t)lr_settings_int(s, "max-tokens"),
        .prefill_chunk = (uint32_t)lr_settings_int(s, "prefill-chunk"),
        .threads = (uint32_t)lr_settings_int(s, "engine-threads"),
        .extra_json = lr_settings_str(s, "engine-options"),
    };
}

/* The CPU is never chosen by itself (docs/promises.md: cpu-by-word). */
static lr_code choose_device(struct node *node, struct lr_error *err)
{
    const char *wanted = lr_settings_str(node->settings, "device");
    bool has_gpu = node->pools.count > 1;
    if (strcmp(wanted, "auto") != 0 && (has_gpu || strcmp(wanted, "cuda") != 0)) {
        (void)snprintf(node->device, sizeof(node->device), "%s", wanted);
        return LR_OK;
    }
    if (!has_gpu)
        return lr_fail(err, LR_UNSUPPORTED,
                       "no NVIDIA GPU was found (libnvidia-ml.so.1 is missing or lists none): "
                       "start on a machine with one, or pass --device cpu for development");
    (void)snprintf(node->device, sizeof(node->device), "cuda");
    return LR_OK;
}

static lr_code own_data_dir(struct node *node, struct lr_error *err)
{
    char lock[LR_PATH_MAX + 16];
    (void)snprintf(node->data_dir, sizeof(node->data_dir), "%s",
                   lr_settings_str(node->settings, "data-dir"));
    lr_code code = lr_dir_create(node->data_dir, err);
    (void)snprintf(lock, sizeof(lock), "%s/node.lock", node->data_dir);
    if (code == LR_OK)
        code = lr_file_lock(lock, &node->lock, err);
    (void)snprintf(node->engines.cache_dir, sizeof(node->engines.cache_dir),
                   "%.4000s/engine-cache", node->data_dir);
    return code;
}

const char *node_scratch_of(struct node *node, const struct node_library *library,
                            char out[LR_PATH_MAX])
{
    struct lr_error err;
    if (!lr_settings_bool(node->settings, "confine-workers"))
        return NULL;
    (void)snprintf(out, LR_PATH_MAX, "%.3900s/engine-scratch/%.64s", node->data_dir,
                   library->engine_id);
    if (lr_dir_create(out, &err) != LR_OK) /* the engine is confined all the same */
        lr_log_warn(NULL, "engine.no_scratch folder=%s reason=%s", out, err.text);
    return out;
}

static void tell_confinement(const struct node *node)
{
    struct lr_sandbox_facts facts = lr_sandbox_look();
    char lacks[LR_SANDBOX_TEXT];
    if (!lr_settings_bool(node->settings, "confine-workers"))
        lr_log_warn(NULL,
                    "node.confinement workers=free reason=--no-confine-workers was given");
    else if (lr_sandbox_lacks(&facts, lacks)[0] != '\0')
        lr_log_warn(NULL, "node.confinement workers=partly reason=%s", lacks);
    else
        lr_log_info(NULL, "node.confinement workers=confined landlock=%d", facts.landlock);
}

/* ---- modules ---- */

lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                    struct node **out, struct lr_error *err)
{
    *out = NULL;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node");
    node_logs_keep();
    node->loop = loop;
    node->settings = settings;
    node->lock.fd = -1;
    node->started_ms = node_now(node);
    lr_buf_init(&node->scratch, WIRE_BODY_MAX + WIRE_HEADER_LEN);
    net_bus_init(&node->events);
    read_limits(node);
    const char *nvml = lr_settings_str(settings, "nvml-library");
    uint64_t cap =
        lr_settings_has(settings, "ram-limit") ? lr_settings_size(settings, "ram-limit") : 0;
    node_pools_init(&node->pools, nvml, cap, node->limits.alert_percent,
                    lr_settings_str(settings, "proc-root"));
    lr_code code = lr_self_path(node->executable, sizeof(node->executable), err);
    if (code == LR_OK)
        code = lr_settings_secret(settings, "node-secret", node->secret, sizeof(node->secret),
                                  err);
    if (code == LR_OK)
        code = choose_device(node, err);
    if (code == LR_OK)
        code = own_data_dir(node, err);
    if (code == LR_OK)
        code = node_router_link_create(node, &node->link, err);
    if (code != LR_OK) {
        node_destroy(node);
        return code;
    }
    node->fetch = node_fetch_create(node);
    tell_confinement(node);
    plugin_engines_dir(lr_settings_str(settings, "engines-dir"), node->engines_dir);
    node_engines_scan(&node->engines, node->engines_dir);
    node_reload_tell_refused(node);
    node_storage_recover(node);
    node_storage_scan(node);
    *out = node;
    return LR_OK;
}

void node_destroy(struct node *node)
{
    if (node == NULL)
        return;
    node_router_link_destroy(node->link);
    net_server_destroy(node->server);
    net_bus_free(&node->events);
    node_fetch_destroy(node->fetch);
    node_storage_free(node);
    node_engines_free(&node->engines);
    node_pools_free(&node->pools);
    if (node->lock.fd >= 0)
        lr_file_unlock(&node->lock);
    lr_buf_free(&node->scratch);
    lr_slots_free(&node->generations);
    free(node);
}
