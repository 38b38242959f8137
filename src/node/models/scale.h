/* node/models/scale.h - how many replicas of a model the traffic asks for.
 *
 * Moves of a scale:
 *   steady -> pressed, slack
 *   pressed -> steady
 *   slack -> steady
 *
 * pressed: every slot is taken.  After 3 s, where a GPU has room, one more replica is wanted.
 * slack: half of one replica less would do.  After 2 min one replica less is wanted.  Both end
 * in steady, also when the traffic has changed before.
 * While requests wait, every slot is taken; the queue itself is mostly at the routers.
 * A pure object: the caller brings the time, in milliseconds of one clock.
 */
#ifndef NODE_MODELS_SCALE_H
#define NODE_MODELS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NODE_SCALE_PRESSED_MS = 3000,
    NODE_SCALE_SLACK_MS = 2 * 60 * 1000,
};

enum node_scale_state {
    NODE_SCALE_STEADY,
    NODE_SCALE_PRESSED,
    NODE_SCALE_SLACK,
};

/* All zero: steady, one replica is wanted. */
struct node_scale {
    enum node_scale_state state;
    uint32_t extra;    /* replicas that are wanted beyond the first */
    uint64_t since_ms; /* when the state was entered */
};

/* What is true now. */
struct node_scale_view {
    uint32_t ready; /* replicas that serve */
    uint32_t slots; /* of these replicas together */
    uint32_t load;  /* requests that run or wait */
    bool has_room;  /* another replica could be loaded at once */
};

/* Looks at the traffic: `extra` follows from it. */
void node_scale_look(struct node_scale *scale, const struct node_scale_view *view,
                     uint64_t now_ms);
/* A replica gave its memory away: it is not wanted again before the traffic asks for it. */
void node_scale_gave(struct node_scale *scale, uint64_t now_ms);

#endif
