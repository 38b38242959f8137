/* node/models/pools.h - how much memory there is: RAM from the kernel, VRAM from NVML or
 * Vulkan.
 *
 * Pool 0 is always RAM; the others are GPUs.  Thread: the node's loop.
 */
#ifndef NODE_MODELS_POOLS_H
#define NODE_MODELS_POOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "node/models/gpus.h"
#include "node/models/health.h"
#include "node/models/ledger.h"
#include "node/models/nvml.h"
#include "wire/device.h"

/* RAM and 64 GPUs: eight GPUs of seven parts each (MIG) are 56. */
enum { NODE_POOLS_MAX = 65, NODE_POOL_RAM = 0 };

struct node_pool {
    char name[96];  /* "ram", the GPU's UUID, or "vulkan:N" */
    char title[96]; /* for people: "RAM", "NVIDIA H200" */
    struct node_pool_state state;
    bool is_listed;     /* Vulkan's list alone tells its memory */
    uint64_t foreign;   /* what others held when the list was read, if is_listed */
    bool is_over;       /* the alert was given */
    bool is_fault_told; /* the alert of its health was given */
    void *device;       /* NVML handle of the memory: of a GPU or of a part of one (MIG) */
    void *gpu;          /* NVML handle of the whole GPU */
    struct node_health health;
    uint32_t copies; /* replicas of one model that it may hold */
    uint32_t rank;   /* of the device's kind (node_device_rank): the lowest is used first */
    bool is_part;    /* of a GPU (MIG) */
};

/* In a set of GPUs; the machine's RAM is in none. */
static inline uint64_t node_pool_bit(uint32_t pool)
{
    return pool != NODE_POOL_RAM ? 1ull << (pool - 1) : 0;
}

struct node_pools {
    struct node_pool pool[NODE_POOLS_MAX];
    uint32_t count;
    struct node_nvml *nvml;            /* owned; NULL: none */
    struct node_health_reader *health; /* owned; NULL: none */
    const char *gpus_wanted;           /* setting gpus, borrowed; NULL: all; set before init */
    struct lr_error gpus_error;        /* what is wrong with that setting */
    char gpu_closed[256];  /* of a GPU that NVML counts but cannot open: why; "": none */
    uint32_t health_turn;  /* whose figures are read next */
    uint64_t ram_cap;      /* setting; 0: what the machine has */
    char proc_root[256];   /* "/proc"; a test's folder otherwise */
    char cgroup_root[256]; /* "/sys/fs/cgroup" */
};

/* nvml_path NULL: the system's.  Without one there is only RAM. */
void node_pools_init(struct node_pools *pools, const char *nvml_path, uint64_t ram_cap,
                     uint32_t limit_percent, const char *proc_root);
void node_pools_free(struct node_pools *pools);

/* These Vulkan devices instead of NVML's GPUs; none: RAM alone.  NVML still tells the memory in
 * use of a GPU that it lists, too; of other GPUs what other programs held when the list was
 * read, and what our models hold. */
void node_pools_replace(struct node_pools *pools, const struct wire_device *devices,
                        size_t count);

bool node_pools_has_listed(const struct node_pools *pools);
/* The same pool in a list that was read again, while our models held what state.used has of
 * them. */
void node_pool_renew(struct node_pool *pool, const struct wire_device *devices, size_t count);
/* Our models hold `ours` bytes of the pool now. */
void node_pool_hold(struct node_pool *pool, uint64_t ours);

/* Reads every pool again. */
void node_pools_read(struct node_pools *pools);

/* What a process holds in a pool: anonymous memory, or device memory. */
uint64_t node_pools_of_process(const struct node_pools *pools, uint32_t pool, pid_t pid);

#endif
