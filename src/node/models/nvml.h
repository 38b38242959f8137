/* node/models/nvml.h - NVIDIA's management library: which GPUs it lists.
 *
 * NVML is opened with dlopen, so a machine without an NVIDIA driver simply has none.
 * Thread: any, one at a time.
 */
#ifndef NODE_MODELS_NVML_H
#define NODE_MODELS_NVML_H

#include "node/models/gpus.h"

struct node_nvml_memory {
    unsigned long long total, free, used;
};

struct node_nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

/* Prototypes by hand.  Each function returns 0 or an error code of NVML. */
struct node_nvml {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, void **);
    int (*uuid)(void *, char *, unsigned);
    int (*name)(void *, char *, unsigned);
    int (*memory)(void *, struct node_nvml_memory *);
    /* NULL where this NVML does not have them. */
    const char *(*error_text)(int);
    int (*processes)(void *, unsigned *, struct node_nvml_process *);
    /* Of GPUs that are split into parts; NULL: this NVML knows no such GPUs. */
    int (*mig_mode)(void *, unsigned *, unsigned *);
    int (*mig_count)(void *, unsigned *);
    int (*mig_by_index)(void *, unsigned, void **);
};

/* path NULL: the system's.  NULL: there is none, or it does not start. */
struct node_nvml *node_nvml_open(const char *path);
void node_nvml_close(struct node_nvml *nvml); /* NULL is fine */

/* Is told each GPU that NVML counts but cannot open: its number in nvidia-smi, NVML's reason
 * and what to do. */
typedef void node_nvml_closed(void *ctx, unsigned number, const char *reason);

/* The GPUs that NVML can open; of a GPU that is split into parts, its parts.  Returns how many
 * are in `all`. */
size_t node_nvml_list(const struct node_nvml *nvml, struct node_gpu all[NODE_GPUS_MAX],
                      node_nvml_closed *on_closed, void *ctx);

#endif
