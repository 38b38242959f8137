#include "node/models/scale.h"

#include "base/machine.h"

#define TO(name) LR_STATE(NODE_SCALE_##name)
static const struct lr_machine machine = {
    "scale",
    {
        [NODE_SCALE_STEADY] = {"steady", TO(PRESSED) | TO(SLACK)},
        [NODE_SCALE_PRESSED] = {"pressed", TO(STEADY)},
        [NODE_SCALE_SLACK] = {"slack", TO(STEADY)},
    },
};

static void scale_move(struct node_scale *scale, enum node_scale_state state, uint64_t now_ms)
{
    if (state == scale->state)
        return;
    /* The way from one pressure to the other leads through steady. */
    if (state != NODE_SCALE_STEADY && scale->state != NODE_SCALE_STEADY)
        scale_move(scale, NODE_SCALE_STEADY, now_ms);
    if (!lr_machine_allows(&machine, "", scale->state, state))
        return;
    scale->state = state;
    scale->since_ms = now_ms;
}

static enum node_scale_state scale_judge(const struct node_scale *scale,
                                         const struct node_scale_view *v)
{
    /* A replica that is loading or was lost is on its way already. */
    bool is_complete = v->ready > scale->extra;
    uint64_t load = v->load, ready = v->ready, slots = v->slots;
    if (is_complete && ready != 0 && load >= slots)
        return NODE_SCALE_PRESSED;
    if (scale->extra != 0 && 2 * load * ready <= slots * (ready > 1 ? ready - 1 : 1))
        return NODE_SCALE_SLACK;
    return NODE_SCALE_STEADY;
}

void node_scale_look(struct node_scale *scale, const struct node_scale_view *view,
                     uint64_t now_ms)
{
    scale_move(scale, scale_judge(scale, view), now_ms);
    uint64_t spent_ms = now_ms > scale->since_ms ? now_ms - scale->since_ms : 0;
    if (scale->state == NODE_SCALE_PRESSED && spent_ms >= NODE_SCALE_PRESSED_MS &&
        view->has_room) {
        scale->extra++;
        scale_move(scale, NODE_SCALE_STEADY, now_ms);
    } else if (scale->state == NODE_SCALE_SLACK && spent_ms >= NODE_SCALE_SLACK_MS) {
        scale->extra--;
        scale_move(scale, NODE_SCALE_STEADY, now_ms);
    }
}

void node_scale_gave(struct node_scale *scale, uint64_t now_ms)
{
    if (scale->extra != 0)
        scale->extra--;
    scale_move(scale, NODE_SCALE_STEADY, now_ms);
}
