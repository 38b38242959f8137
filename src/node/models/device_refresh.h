/* node/models/device_refresh.h - the memory of Vulkan's devices is read again.
 *
 * Vulkan tells a process what it may use at that moment, and only the process that lists the
 * devices asks it (devices.h).  That takes some tenths of a second, so a thread waits for the
 * list, and at most one list is read in REFRESH_PAUSE_MS:
 *
 *   before a model is loaded on a node where other programs hold memory of such a device, and
 *   before it is tried again because a device had too little memory;
 *   when a request comes for a model that waits for memory;
 *   while such a device is over its threshold.
 *
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_DEVICE_REFRESH_H
#define NODE_MODELS_DEVICE_REFRESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_models;
struct wire_device;
struct node_device_refresh_work;

struct node_device_refresh {
    bool (*begin)(struct node_models *models); /* NULL: lists cannot be read */
    struct node_device_refresh_work
        *work; /* borrowed from itself until its end; NULL: none runs */
    bool is_running;
    uint64_t next_ms; /* no list is read before */
};

/* Lists are read by a thread of the loop from now on. */
void node_device_refresh_open(struct node_models *models);
/* The result of a list that is under way is not used. */
void node_device_refresh_close(struct node_models *models);

/* Asks for a fresh list.  True: one is under way, and node_device_refreshed follows. */
bool node_device_refresh(struct node_models *models);
/* The list; none: it could not be read.  Models that waited for it go on. */
void node_device_refreshed(struct node_models *models, const struct wire_device *devices,
                           size_t count);

#endif
