#include "node/models/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/os/library.h"
#include "node/models/models.h"

/* ---- NVML, prototypes and numbers by hand ---- */

enum {
    NVML_GPU_IS_LOST = 15,
    NVML_TEMPERATURE_GPU = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
    NVML_CORRECTED = 0,
    NVML_UNCORRECTED = 1,
    NVML_VOLATILE = 0,
    NVML_EVENT_XID = 8,
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct node_health_reader {
    int (*utilization)(void *, struct nvml_utilization *);
    int (*temperature)(void *, int, unsigned *);
    int (*power)(void *, unsigned *);
    int (*power_limit)(void *, unsigned *);
    int (*clock)(void *, int, unsigned *);
    int (*throttle)(void *, unsigned long long *);
    int (*ecc)(void *, int, int, unsigned long long *);
    int (*set_create)(void **);
    int (*set_free)(void *);
    int (*listen)(void *, unsigned long long, void *);
    int (*wait)(void *, struct nvml_event *, unsigned);
    void *events; /* NULL: Xid errors are not reported */
};

struct node_health_reader *node_health_open(void *nvml)
{
    struct node_health_reader *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    const struct {
        const char *name;
        void *to; /* where the function's address is kept */
    } functions[] = {
        {"nvmlDeviceGetUtilizationRates", &r->utilization},
        {"nvmlDeviceGetTemperature", &r->temperature},
        {"nvmlDeviceGetPowerUsage", &r->power},
        {"nvmlDeviceGetEnforcedPowerLimit", &r->power_limit},
        {"nvmlDeviceGetClockInfo", &r->clock},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &r->throttle},
        {"nvmlDeviceGetTotalEccErrors", &r->ecc},
        {"nvmlEventSetCreate", &r->set_create},
        {"nvmlEventSetFree", &r->set_free},
        {"nvmlDeviceRegisterEvents", &r->listen},
        {"nvmlEventSetWait_v2", &r->wait},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *symbol = lr_library_symbol(nvml, functions[i].name);
        memcpy(functions[i].to, &symbol, sizeof(symbol));
    }
    if (r->set_create == NULL || r->set_free == NULL || r->listen == NULL || r->wait == NULL ||
        r->set_create(&r->events) != 0)
        r->events = NULL;
    return r;
}

void node_health_close(struct node_health_reader *reader)
{
    if (reader != NULL && reader->events != NULL)
        (void)reader->set_free(reader->events);
    free(reader);
}

void node_health_listen(struct node_health_reader *reader, void *device)
{
    if (reader != NULL && reader->events != NULL)
        (void)reader->listen(device, NVML_EVENT_XID, reader->events);
}

/* ---- figures ---- */

#define LOST "the GPU has fallen off the bus, which only a restart of the machine repairs"

bool node_health_took(struct node_health *health, int code)
{
    if (code == NVML_GPU_IS_LOST && !node_health_is_faulty(health))
        node_health_move(health, NODE_HEALTH_FAULTY, LOST);
    return code == 0;
}

static void read_clocks(const struct node_health_reader *r, void *device,
                        struct node_health *health)
{
    struct wire_gpu *gpu = &health->gpu;
    unsigned value;
    unsigned long long mask;
    if (r->clock != NULL && node_health_took(health, r->clock(device, NVML_CLOCK_SM, &value)))
        wire_gpu_set(gpu, WIRE_GPU_CLOCK, value);
    if (r->clock != NULL && node_health_took(health, r->clock(device, NVML_CLOCK_MEM, &value)))
        wire_gpu_set(gpu, WIRE_GPU_MEMORY_CLOCK, value);
    if (r->throttle != NULL && node_health_took(health, r->throttle(device, &mask)))
        wire_gpu_set(gpu, WIRE_GPU_THROTTLE, mask);
}

static void read_heat(const struct node_health_reader *r, void *device,
                      struct node_health *health)
{
    struct wire_gpu *gpu = &health->gpu;
    unsigned value;
    if (r->temperature != NULL &&
        node_health_took(health, r->temperature(device, NVML_TEMPERATURE_GPU, &value)))
        wire_gpu_set(gpu, WIRE_GPU_TEMPERATURE, value);
    if (r->power != NULL && node_health_took(health, r->power(device, &value)))
        wire_gpu_set(gpu, WIRE_GPU_POWER, value);
    if (r->power_limit != NULL && node_health_took(health, r->power_limit(device, &value)))
        wire_gpu_set(gpu, WIRE_GPU_POWER_LIMIT, value);
}

static void read_errors(const struct node_health_reader *r, void *device,
                        struct node_health *health)
{
    struct wire_gpu *gpu = &health->gpu;
    unsigned long long count;
    char reason[sizeof(health->reason)];
    if (r->ecc != NULL &&
        node_health_took(health, r->ecc(device, NVML_CORRECTED, NVML_VOLATILE, &count)))
        wire_gpu_set(gpu, WIRE_GPU_ECC_CORRECTED, count);
    if (r->ecc == NULL ||
        !node_health_took(health, r->ecc(device, NVML_UNCORRECTED, NVML_VOLATILE, &count)))
        return;
    wire_gpu_set(gpu, WIRE_GPU_ECC_UNCORRECTED, count);
    if (count == 0 || node_health_is_faulty(health))
        return;
    (void)snprintf(reason, sizeof(reason),
                   "its memory had %llu uncorrectable errors since the driver was loaded",
                   count);
    node_health_move(health, NODE_HEALTH_FAULTY, reason);
}

void node_health_read(struct node_health_reader *reader, void *device,
                      struct node_health *health)
{
    struct wire_gpu *gpu = &health->gpu;
    struct nvml_utilization utilization;
    if (reader == NULL)
        return;
    gpu->reported &= 1u << WIRE_GPU_XIDS | 1u << WIRE_GPU_LAST_XID;
    if (reader->events != NULL && (gpu->reported >> WIRE_GPU_XIDS & 1) == 0)
        wire_gpu_set(gpu, WIRE_GPU_XIDS, 0);
    if (reader->utilization != NULL &&
        node_health_took(health, reader->utilization(device, &utilization))) {
        wire_gpu_set(gpu, WIRE_GPU_UTILIZATION, utilization.gpu);
        wire_gpu_set(gpu, WIRE_GPU_MEMORY_BUSY, utilization.memory);
    }
    read_heat(reader, device, health);
    read_clocks(reader, device, health);
    read_errors(reader, device, health);
}

/* ---- Xid errors ---- */

bool node_health_next_xid(struct node_health_reader *reader, void **device, uint64_t *xid)
{
    struct nvml_event event = {0};
    if (reader == NULL || reader->events == NULL ||
        reader->wait(reader->events, &event, 0) != 0)
        return false;
    *device = event.device;
    *xid = event.data;
    return true;
}

/* Most Xid errors are the fault of a program, whose worker dies of it.  These are the
 * hardware's, by NVIDIA's table of Xid errors. */
static const char *hardware_fault(uint64_t xid)
{
    static const struct {
        uint64_t xid;
        const char *text;
    } faults[] = {
        {48, "an uncorrectable memory error"},
        {64, "a memory row could not be replaced"},
        {79, LOST},
        {94, "a contained uncorrectable memory error"},
        {95, "an uncontained uncorrectable memory error"},
        {119, "the GPU's own processor does not answer"},
        {120, "the GPU's own processor failed"},
        {140, "an unrecovered memory error"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (faults[i].xid == xid)
            return faults[i].text;
    return NULL;
}

void node_health_note_xid(struct node_health *health, uint64_t xid)
{
    char reason[sizeof(health->reason)];
    const char *fault = hardware_fault(xid);
    wire_gpu_set(&health->gpu, WIRE_GPU_XIDS, health->gpu.figures[WIRE_GPU_XIDS] + 1);
    wire_gpu_set(&health->gpu, WIRE_GPU_LAST_XID, xid);
    if (fault == NULL || node_health_is_faulty(health))
        return;
    (void)snprintf(reason, sizeof(reason), "Xid %" PRIu64 ": %s", xid, fault);
    node_health_move(health, NODE_HEALTH_FAULTY, reason);
}

/* ---- the state ---- */

#define TO(name) LR_STATE(NODE_HEALTH_##name)
static const struct lr_machine machine = {
    "gpu",
    {
        [NODE_HEALTH_SOUND] = {"sound", TO(FAULTY)},
        [NODE_HEALTH_FAULTY] = {"faulty", 0},
    },
};

void node_health_move(struct node_health *health, enum node_health_state state,
                      const char *reason)
{
    if (!lr_machine_allows(&machine, reason, health->state, state))
        return; /* a GPU that is faulty stays so */
    health->state = state;
    health->gpu.is_faulty = state == NODE_HEALTH_FAULTY;
    (void)snprintf(health->reason, sizeof(health->reason), "%s", reason);
}

/* ---- the watch ---- */

static void drain_gpu(struct node_models *models, uint32_t index)
{
    const struct node_pool *pool = &models->pools.pool[index];
    char reason[256];
    (void)snprintf(reason, sizeof(reason), "%s (%s): %s", pool->title, pool->name,
                   pool->health.reason);
    lr_log_error(NULL, "gpu.faulty pool=%s reason=%s", pool->name, reason);
    LR_JSON_MEMBERS(net_bus_begin(models->events, "gpu_faulty"), LR_TEXT("pool", pool->name),
                    LR_TEXT("reason", reason));
    net_bus_send(models->events);
    struct lr_error err;
    for (struct node_model *m = models->first; m != NULL; m = m->next) {
        for (size_t i = 0; i < NODE_REPLICAS; i++) {
            struct node_replica *r = &m->replicas[i];
            if (r->pool != index)
                continue;
            /* Requests that come wait for another replica, and not for the running ones. */
            if (r->state == NODE_REPLICA_READY && !node_replica_is_extra(r))
                node_replicas_add(m);
            node_replica_drain(r, reason);
        }
        /* Another node can serve those who wait before the running requests here have ended. */
        if (m->queue != NULL && node_gpus_check(m, &err) != LR_OK)
            node_model_fail_waiting(m, &err);
    }
}

void node_health_watch(struct node_models *models)
{
    struct node_pools *pools = &models->pools;
    void *device;
    uint64_t xid;
    while (node_health_next_xid(pools->health, &device, &xid))
        for (uint32_t i = 1; i < pools->count; i++)
            if (pools->pool[i].gpu == device) {
                lr_log_warn(NULL, "gpu.xid pool=%s xid=%" PRIu64, pools->pool[i].name, xid);
                node_health_note_xid(&pools->pool[i].health, xid);
            }
    if (pools->count > 1) {
        struct node_pool *next = &pools->pool[1 + pools->health_turn++ % (pools->count - 1)];
        node_health_read(pools->health, next->gpu, &next->health);
    }
    for (uint32_t i = 1; i < pools->count; i++) {
        struct node_pool *pool = &pools->pool[i];
        if (!node_health_is_faulty(&pool->health) || pool->is_fault_told)
            continue;
        pool->is_fault_told = true;
        drain_gpu(models, i);
    }
}
