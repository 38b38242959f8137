#include "node/models/device_refresh.h"

#include <stdlib.h>
#include <uv.h>

#include "base/log.h"
#include "node/models/models.h"

enum { REFRESH_PAUSE_MS = 10000 };

struct node_device_refresh_work {
    uv_work_t work;
    struct node_models *models; /* NULL: the node has gone */
    struct wire_device devices[WIRE_VULKAN_MAX];
    size_t count;
    struct lr_error err;
};

static void device_refresh_list(uv_work_t *work)
{
    struct node_device_refresh_work *w = work->data;
    if (node_vulkan_list(w->devices, &w->count, &w->err) != LR_OK)
        w->count = 0;
}

static void on_list(uv_work_t *work, int status)
{
    struct node_device_refresh_work *w = work->data;
    struct node_models *models = w->models;
    if (models != NULL) {
        models->refresh.work = NULL;
        if (w->err.code != LR_OK)
            lr_log_warn(LR_LOG_OF(&w->err), "memory.devices_not_listed reason=%s", w->err.text);
        node_device_refreshed(models, w->devices, status == 0 ? w->count : 0);
    }
    free(w);
}

static bool device_refresh_begin(struct node_models *models)
{
    struct node_device_refresh_work *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return false;
    w->models = models;
    w->work.data = w;
    if (uv_queue_work(net_loop_uv(models->loop), &w->work, device_refresh_list, on_list) != 0) {
        free(w);
        return false;
    }
    models->refresh.work = w;
    return true;
}

void node_device_refresh_open(struct node_models *models)
{
    models->refresh.begin = device_refresh_begin;
}

void node_device_refresh_close(struct node_models *models)
{
    if (models->refresh.work != NULL)
        models->refresh.work->models = NULL;
    models->refresh = (struct node_device_refresh){0};
}

bool node_device_refresh(struct node_models *models)
{
    struct node_device_refresh *refresh = &models->refresh;
    uint64_t now = node_now(models);
    if (refresh->is_running)
        return true;
    if (refresh->begin == NULL || now < refresh->next_ms ||
        !node_pools_has_listed(&models->pools))
        return false;
    refresh->next_ms = now + REFRESH_PAUSE_MS;
    refresh->is_running = refresh->begin(models);
    return refresh->is_running;
}

void node_device_refreshed(struct node_models *models, const struct wire_device *devices,
                           size_t count)
{
    models->refresh.is_running = false;
    node_measure(models);
    for (uint32_t i = 1; i < models->pools.count; i++)
        node_pool_renew(&models->pools.pool[i], devices, count);
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->awaits_refresh) {
            m->awaits_refresh = false;
            if (m->state == NODE_MODEL_STARTING)
                node_admit(m);
        }
    node_admit_waiting(models);
}
