#include "node/models/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/memory.h"
#include "node/models/devices.h"

/* ---- RAM ---- */

static struct lr_memory_roots roots_of(const struct node_pools *pools)
{
    return (struct lr_memory_roots){.proc = pools->proc_root, .cgroup = pools->cgroup_root};
}

static void read_ram(struct node_pools *pools)
{
    uint64_t total = 0, used = 0;
    struct lr_memory_roots roots = roots_of(pools);
    if (!lr_memory_read(&roots, &total, &used))
        return;
    /* A cap set by the operator is a share for models: what others use does not count
     * against it, so only our own claims fill it. */
    struct node_pool_state *state = &pools->pool[NODE_POOL_RAM].state;
    state->total = pools->ram_cap != 0 && pools->ram_cap < total ? pools->ram_cap : total;
    state->used = state->total == total ? used : 0;
}

/* ---- GPUs ---- */

static void add_gpu(struct node_pools *pools, const struct node_gpu *gpu,
                    uint32_t limit_percent)
{
    struct node_pool *p = &pools->pool[pools->count++];
    (void)snprintf(p->name, sizeof(p->name), "%s", gpu->uuid);
    if (pools->nvml->name(gpu->whole, p->title, sizeof(p->title)) != 0)
        (void)snprintf(p->title, sizeof(p->title), "GPU %u", gpu->number);
    p->device = gpu->device;
    p->gpu = gpu->whole;
    p->copies = gpu->copies;
    p->is_part = gpu->whole_uuid[0] != '\0';
    p->state.limit_percent = limit_percent;
    node_health_listen(pools->health, p->gpu);
    node_health_read(pools->health, p->gpu, &p->health);
}

static void note_closed(void *ctx, unsigned number, const char *reason)
{
    struct node_pools *pools = ctx;
    lr_log_warn(NULL, "gpu.left_out gpu=%u reason=%s", number, reason);
    if (pools->gpu_closed[0] == '\0')
        (void)snprintf(pools->gpu_closed, sizeof(pools->gpu_closed), "%s", reason);
}

static void add_gpus(struct node_pools *pools, uint32_t limit_percent)
{
    static struct node_gpu all[NODE_GPUS_MAX];
    size_t count = node_nvml_list(pools->nvml, all, note_closed, pools);
    node_gpus_show(all, count, getenv("CUDA_VISIBLE_DEVICES"));
    if (node_gpus_take(all, count, pools->gpus_wanted, &pools->gpus_error) != LR_OK)
        return;
    uint32_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        if (all[i].copies == 0)
            continue;
        if (pools->count < NODE_POOLS_MAX)
            add_gpu(pools, &all[i], limit_percent);
        else
            left_out++;
    }
    if (left_out != 0)
        lr_log_warn(NULL, "memory.gpus_left_out count=%u reason=%s", left_out,
                    "a node uses 64 GPUs and parts of GPUs at most: setting gpus chooses them");
}

void node_pools_init(struct node_pools *pools, const char *nvml_path, uint64_t ram_cap,
                     uint32_t limit_percent, const char *proc_root)
{
    *pools =
        (struct node_pools){.count = 1, .ram_cap = ram_cap, .gpus_wanted = pools->gpus_wanted};
    struct node_pool *ram = &pools->pool[NODE_POOL_RAM];
    (void)snprintf(ram->name, sizeof(ram->name), "ram");
    (void)snprintf(ram->title, sizeof(ram->title), "RAM");
    ram->state.limit_percent = limit_percent;
    ram->copies = 1;
    (void)snprintf(pools->proc_root, sizeof(pools->proc_root), "%s", proc_root);
    (void)snprintf(pools->cgroup_root, sizeof(pools->cgroup_root), "/sys/fs/cgroup");
    pools->nvml = node_nvml_open(nvml_path);
    if (pools->nvml != NULL) {
        pools->health = node_health_open(pools->nvml->handle);
        add_gpus(pools, limit_percent);
    } else if (nvml_path != NULL) {
        lr_log_warn(NULL, "memory.no_nvml path=%s", nvml_path);
    }
    node_pools_read(pools);
}

/* What NVML knows of this device; NULL: nothing. */
static const struct node_pool *find_pool(const struct node_pool *pools, uint32_t count,
                                         const char *uuid)
{
    for (uint32_t i = 1; i < count; i++)
        if (strncmp(pools[i].name, "GPU-", 4) == 0 && strcmp(pools[i].name + 4, uuid) == 0)
            return &pools[i];
    return NULL;
}

static uint64_t held_of(const struct wire_device *d)
{
    return d->memory > d->budget ? d->memory - d->budget : 0;
}

static void name_pool(const struct wire_device *d, char name[static 96])
{
    (void)snprintf(name, 96, "vulkan:%u", d->number);
}

void node_pools_replace(struct node_pools *pools, const struct wire_device *devices,
                        size_t count)
{
    static struct node_pool old[NODE_POOLS_MAX];
    uint32_t old_count = pools->count;
    memcpy(old, pools->pool, sizeof(old));
    memset(&pools->pool[1], 0, sizeof(pools->pool[1]) * (NODE_POOLS_MAX - 1));
    pools->count = 1;
    for (size_t i = 0; i < count && pools->count < NODE_POOLS_MAX; i++) {
        struct node_pool *p = &pools->pool[pools->count++];
        const struct node_pool *known = find_pool(old, old_count, devices[i].uuid);
        if (known != NULL)
            *p = *known;
        name_pool(&devices[i], p->name);
        (void)snprintf(p->title, sizeof(p->title), "%s", devices[i].title);
        p->copies = 1;
        p->rank = node_device_rank(&devices[i]);
        p->state.limit_percent = pools->pool[NODE_POOL_RAM].state.limit_percent;
        p->state.total = devices[i].memory;
        p->state.used = p->foreign = held_of(&devices[i]);
        p->is_listed = p->device == NULL;
    }
    node_pools_read(pools);
}

bool node_pools_has_listed(const struct node_pools *pools)
{
    for (uint32_t i = 1; i < pools->count; i++)
        if (pools->pool[i].is_listed)
            return true;
    return false;
}

void node_pool_renew(struct node_pool *pool, const struct wire_device *devices, size_t count)
{
    char name[sizeof(pool->name)];
    uint64_t ours = lr_elapsed(pool->foreign, pool->state.used);
    for (size_t i = 0; pool->is_listed && i < count; i++) {
        name_pool(&devices[i], name);
        if (strcmp(name, pool->name) != 0 || strcmp(devices[i].title, pool->title) != 0)
            continue;
        pool->state.total = devices[i].memory;
        pool->foreign = lr_elapsed(ours, held_of(&devices[i]));
        node_pool_hold(pool, ours);
    }
}

void node_pool_hold(struct node_pool *pool, uint64_t ours)
{
    if (pool->is_listed)
        pool->state.used = pool->foreign + ours;
}

void node_pools_free(struct node_pools *pools)
{
    if (pools->nvml == NULL)
        return;
    node_health_close(pools->health);
    pools->health = NULL;
    node_nvml_close(pools->nvml);
    pools->nvml = NULL;
}

void node_pools_read(struct node_pools *pools)
{
    read_ram(pools);
    for (uint32_t i = 1; pools->nvml != NULL && i < pools->count; i++) {
        struct node_pool *pool = &pools->pool[i];
        struct node_nvml_memory m;
        if (pool->device == NULL ||
            !node_health_took(&pool->health, pools->nvml->memory(pool->device, &m)))
            continue;
        pool->state.total = m.total;
        pool->state.used = m.used;
    }
}

uint64_t node_pools_of_process(const struct node_pools *pools, uint32_t pool, pid_t pid)
{
    enum { PROCESSES = 256 };
    if (pool == NODE_POOL_RAM) {
        struct lr_memory_roots roots = roots_of(pools);
        return lr_memory_of_process(&roots, (int)pid);
    }
    struct node_nvml_process list[PROCESSES];
    unsigned count = PROCESSES;
    if (pools->nvml == NULL || pools->nvml->processes == NULL ||
        pools->pool[pool].device == NULL ||
        pools->nvml->processes(pools->pool[pool].device, &count, list) != 0)
        return 0;
    for (unsigned i = 0; i < count && i < PROCESSES; i++)
        /* Containers may hide figures as all ones. */
        if (list[i].pid == (unsigned)pid && list[i].used != ~0ULL)
            return list[i].used;
    return 0;
}
