/* node/models/gpus.h - which GPUs of the machine a node uses: those that CUDA_VISIBLE_DEVICES
 * shows, and of them those that setting gpus names.
 *
 * A GPU is named by its number in nvidia-smi or by the beginning of its UUID.  A part of a GPU
 * (MIG) is named by the beginning of its UUID; the name of its GPU means all its parts.
 * Pure functions.  Thread: any.
 */
#ifndef NODE_MODELS_GPUS_H
#define NODE_MODELS_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

enum {
    NODE_GPU_NAME_MAX = 96,
    NODE_GPUS_MAX = 256, /* of the machine, parts counted: 16 GPUs of seven parts are 112 */
};

struct node_gpu {
    void *device; /* NVML handle of the memory: of a GPU or of a part */
    void *whole;  /* NVML handle of the GPU */
    uint32_t number;
    char uuid[NODE_GPU_NAME_MAX];
    char whole_uuid[NODE_GPU_NAME_MAX]; /* "": the GPU is not split into parts */
    uint32_t copies; /* replicas of one model that it may run; 0: the node does not use it */
};

/* Of at most NODE_GPUS_MAX.  Leaves out the GPUs that a value of CUDA_VISIBLE_DEVICES hides;
 * NULL: it hides none.  As for CUDA, the first word that names no GPU ends the list. */
void node_gpus_show(struct node_gpu *gpus, size_t count, const char *visible);

/* Takes the GPUs that a value of setting gpus names; NULL: all that are shown.  A GPU that is
 * named twice may run two replicas of one model.  INVALID_ARGUMENT: a word names no GPU that is
 * shown. */
LR_MUST_USE lr_code node_gpus_take(struct node_gpu *gpus, size_t count, const char *wanted,
                                   struct lr_error *err);

#endif
