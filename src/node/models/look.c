#include "node/models/look.h"

#include <stdlib.h>
#include <uv.h>

#include "base/log.h"
#include "node/models/models.h"

enum { LOOK_PAUSE_MS = 10000 };

struct node_look_work {
    uv_work_t work;
    struct node_models *models; /* NULL: the node has gone */
    struct wire_device devices[WIRE_VULKAN_MAX];
    size_t count;
    struct lr_error err;
};

static void device_refresh_list(uv_work_t *work)
{
    struct node_look_work *w = work->data;
    if (node_vulkan_list(w->devices, &w->count, &w->err) != LR_OK)
        w->count = 0;
}

static void on_list(uv_work_t *work, int status)
{
    struct node_look_work *w = work->data;
    struct node_models *models = w->models;
    if (models != NULL) {
        models->look.work = NULL;
        if (w->err.code != LR_OK)
            lr_log_warn(NULL, "memory.devices_not_listed reason=%s", w->err.text);
        node_looked(models, w->devices, status == 0 ? w->count : 0);
    }
    free(w);
}

static bool device_refresh_begin(struct node_models *models)
{
    struct node_look_work *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return false;
    w->models = models;
    w->work.data = w;
    if (uv_queue_work(net_loop_uv(models->loop), &w->work, device_refresh_list, on_list) != 0) {
        free(w);
        return false;
    }
    models->look.work = w;
    return true;
}

void node_look_open(struct node_models *models)
{
    models->look.begin = device_refresh_begin;
}

void node_look_close(struct node_models *models)
{
    if (models->look.work != NULL)
        models->look.work->models = NULL;
    models->look = (struct node_look){0};
}

bool node_look(struct node_models *models)
{
    struct node_look *look = &models->look;
    uint64_t now = node_now(models);
    if (look->is_running)
        return true;
    if (look->begin == NULL || now < look->next_ms || !node_pools_has_listed(&models->pools))
        return false;
    look->next_ms = now + LOOK_PAUSE_MS;
    look->is_running = look->begin(models);
    return look->is_running;
}

void node_looked(struct node_models *models, const struct wire_device *devices, size_t count)
{
    models->look.is_running = false;
    node_measure(models);
    for (uint32_t i = 1; i < models->pools.count; i++)
        node_pool_renew(&models->pools.pool[i], devices, count);
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->awaits_look) {
            m->awaits_look = false;
            if (m->state == NODE_MODEL_STARTING)
                node_admit(m);
        }
    node_admit_waiting(models);
}
