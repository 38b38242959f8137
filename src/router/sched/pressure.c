#include "router/sched/pressure.h"

enum {
    WINDOW_MS = 1000,
    STALLED_MS = 2000,   /* without a free slot for so long, and for STALLED_GAPS times the */
    STALLED_GAPS = 4,    /* usual time: loading, or a lost node */
    GAPS_AVERAGED = 32,  /* and two turns of the slots */
    OUTLIER_GAPS = 8,    /* with the slots: a longer one is a lost node, not a slow one */
    CALM_REFUSED_IN = 8, /* one of this many is refused: the model can serve what comes */
};

static void restart(struct router_pressure *p, enum router_pressure_state state,
                    uint64_t now_ms)
{
    p->state = state;
    p->since_ms = now_ms;
    p->came = p->begun = p->refused = 0;
}

/* Enough has happened since the counts began to conclude something. */
static bool has_window(const struct router_pressure *p, uint64_t now_ms)
{
    return now_ms - p->since_ms >= WINDOW_MS && p->begun >= ROUTER_OVERLOAD_QUEUE;
}

static void pressure_look(struct router_pressure *p, size_t waiting, uint64_t now_ms)
{
    switch (p->state) {
    case ROUTER_CALM:
        if (waiting >= ROUTER_OVERLOAD_QUEUE)
            restart(p, ROUTER_LONG, now_ms);
        break;
    case ROUTER_LONG:
        if (waiting < ROUTER_OVERLOAD_QUEUE)
            restart(p, ROUTER_CALM, now_ms);
        else if (has_window(p, now_ms))
            restart(p, ROUTER_WATCHED, now_ms);
        break;
    case ROUTER_WATCHED:
        if (waiting < ROUTER_OVERLOAD_QUEUE)
            restart(p, ROUTER_CALM, now_ms);
        break; /* the rest where one begins: while none does nothing is known */
    case ROUTER_OVER:
        if (has_window(p, now_ms))
            restart(p, p->refused * CALM_REFUSED_IN <= p->came ? ROUTER_CALM : ROUTER_OVER,
                    now_ms);
        break;
    }
}

void router_pressure_came(struct router_pressure *p, bool is_refused, size_t waiting,
                          uint64_t now_ms)
{
    p->came++;
    if (is_refused) {
        p->refused++;
        p->refused_ms = now_ms;
    } else if (waiting == 1) {
        p->is_moving = false;
    }
    pressure_look(p, waiting, now_ms);
}

/* False: no slot came free for so long that something was the matter. */
static bool note_gap(struct router_pressure *p, double gap_ms)
{
    /* Answers that began together end together: then nothing begins for a whole turn. */
    double most = (double)(OUTLIER_GAPS + p->slots) * p->gap_ms + WINDOW_MS;
    p->gaps += p->gaps < GAPS_AVERAGED + 2 * p->slots;
    p->gap_ms += ((gap_ms < most ? gap_ms : most) - p->gap_ms) / p->gaps;
    return gap_ms < most;
}

/* More came than began, by more than what begins swings by the slots. */
static void pressure_judge(struct router_pressure *p, uint64_t now_ms)
{
    if (p->state != ROUTER_WATCHED || p->came < p->begun + 2 * ROUTER_OVERLOAD_QUEUE + p->slots)
        return;
    restart(p, ROUTER_OVER, now_ms);
    p->refused_ms = now_ms;
}

void router_pressure_begun(struct router_pressure *p, size_t waiting, uint64_t now_ms)
{
    p->begun++;
    if (p->is_moving && !note_gap(p, (double)(now_ms - p->begun_ms)) &&
        p->state == ROUTER_WATCHED)
        restart(p, ROUTER_WATCHED, now_ms); /* what came meanwhile found no slot */
    p->begun_ms = now_ms;
    p->is_moving = waiting != 0;
    pressure_judge(p, now_ms);
    pressure_look(p, waiting, now_ms);
}

static bool is_stalled(const struct router_pressure *p, uint64_t now_ms)
{
    double usual = STALLED_GAPS * p->gap_ms;
    return p->begun_ms == 0 ||
           (double)(now_ms - p->begun_ms) > (usual > STALLED_MS ? usual : STALLED_MS);
}

size_t router_pressure_limit(struct router_pressure *p, size_t limit, uint64_t wait_limit_ms,
                             uint64_t now_ms)
{
    uint64_t queue_ms = router_pressure_wait_ms(p, ROUTER_OVERLOAD_QUEUE);
    if (p->state == ROUTER_OVER &&
        now_ms - p->refused_ms >= (queue_ms > WINDOW_MS ? queue_ms : WINDOW_MS))
        restart(p, ROUTER_CALM, now_ms); /* all that came since were taken */
    if (limit <= ROUTER_OVERLOAD_QUEUE || is_stalled(p, now_ms))
        return limit;
    if (p->state == ROUTER_OVER)
        return ROUTER_OVERLOAD_QUEUE;
    if (wait_limit_ms == 0 || p->gaps < ROUTER_OVERLOAD_QUEUE ||
        (double)limit * p->gap_ms <= (double)wait_limit_ms)
        return limit;
    size_t fits = (size_t)((double)wait_limit_ms / p->gap_ms);
    return fits > ROUTER_OVERLOAD_QUEUE ? fits : ROUTER_OVERLOAD_QUEUE;
}

uint64_t router_pressure_wait_ms(const struct router_pressure *p, size_t count)
{
    return (uint64_t)((double)count * p->gap_ms);
}
