/* node/models/health.h - how a GPU fares, as NVML reports it.
 *
 * Moves of a gpu:
 *   sound -> faulty: an uncorrectable error, or the GPU is lost
 *   faulty -> nothing
 *
 * The node loads nothing on a faulty GPU and starts no request there; running requests finish,
 * or continue elsewhere if their worker dies.  Only a reset of the GPU or a restart of the
 * machine removes the fault, and a reset needs a GPU without processes: a GPU stays faulty
 * until this process ends.
 * A function that this NVML does not have, or that this GPU does not support, leaves its figure
 * unreported; no error follows.  Thread: the node's loop.
 */
#ifndef NODE_MODELS_HEALTH_H
#define NODE_MODELS_HEALTH_H

#include "wire/fleet.h"

struct node_models;

enum node_health_state {
    NODE_HEALTH_SOUND,
    NODE_HEALTH_FAULTY,
};

struct node_health {
    enum node_health_state state;
    struct wire_gpu gpu; /* the figures, as routers are told */
    char reason[160];    /* FAULTY: why; "" */
};

/* The functions of NVML that a node can do without.  All zero: there are none. */
struct node_health_reader;

/* `nvml` is the library's handle.  NULL without memory: nothing is reported. */
struct node_health_reader *node_health_open(void *nvml);
void node_health_close(struct node_health_reader *reader); /* NULL is fine */
/* Xid errors of this GPU are told from now on. */
void node_health_listen(struct node_health_reader *reader, void *device);
/* Whether a function of NVML that was asked about this GPU succeeded, by the code that it
 * returned.  A GPU that is lost becomes faulty. */
bool node_health_took(struct node_health *health, int code);
/* Reads the figures of one GPU. */
void node_health_read(struct node_health_reader *reader, void *device,
                      struct node_health *health);
/* The next Xid error of any GPU.  False: there is none. */
bool node_health_next_xid(struct node_health_reader *reader, void **device, uint64_t *xid);
/* Notes the Xid error; some mean that the hardware is faulty. */
void node_health_note_xid(struct node_health *health, uint64_t xid);

/* The only function that changes the state. */
void node_health_move(struct node_health *health, enum node_health_state state,
                      const char *reason);

static inline bool node_health_is_faulty(const struct node_health *health)
{
    return health->state == NODE_HEALTH_FAULTY;
}

/* Reads Xid errors of all GPUs, and the figures of one GPU after the other: reading all of a
 * large machine's at once would keep tokens waiting.  Drains GPUs that have become faulty. */
void node_health_watch(struct node_models *models);

#endif
