#include "node/workers/blame.h"

/* Above suspicion: it goes on as what it is. */
static void clear(struct node_victim *v)
{
    if (v->has_entered && !v->is_on_probation)
        v->entry = WIRE_ENTRY_RESUMED;
}

static void blame_newcomers(struct node_victim *victims, size_t count, size_t newcomers)
{
    for (size_t i = 0; i < count; i++) {
        if (!victims[i].is_newcomer) {
            clear(&victims[i]);
            continue;
        }
        victims[i].entry = WIRE_ENTRY_SUSPECT;
        victims[i].has_strike = newcomers == 1;
    }
}

static void suspect_together(struct node_victim *victims, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        victims[i].entry = WIRE_ENTRY_COHORT;
        victims[i].cohort = WIRE_COHORT_TOGETHER;
    }
}

/* Two cohorts of those that are suspected, in `victims` those on probation or, where none is,
 * all. */
static void suspect_halves(struct node_blame *blame, struct node_victim *victims, size_t count,
                           size_t on_probation)
{
    size_t suspected = on_probation != 0 ? on_probation : count, seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (on_probation != 0 && !victims[i].is_on_probation) {
            clear(&victims[i]);
            continue;
        }
        victims[i].entry = WIRE_ENTRY_COHORT;
        victims[i].cohort = blame->last_cohort + (seen < (suspected + 1) / 2 ? 1 : 2);
        victims[i].has_strike = on_probation == 1;
        seen++;
    }
    blame->last_cohort += 2;
}

void node_blame_decide(struct node_blame *blame, struct node_victim *victims, size_t count,
                       uint64_t now_ms)
{
    size_t newcomers = 0, on_probation = 0;
    for (size_t i = 0; i < count; i++) {
        victims[i].has_strike = false;
        newcomers += victims[i].is_newcomer;
        on_probation += victims[i].is_on_probation;
    }
    if (newcomers != 0) {
        blame_newcomers(victims, count, newcomers);
        return;
    }
    bool again =
        blame->last_death_ms != 0 && now_ms - blame->last_death_ms < NODE_BLAME_WINDOW_MS;
    blame->last_death_ms = now_ms != 0 ? now_ms : 1;
    if (on_probation != 0 || (again && count > 1))
        suspect_halves(blame, victims, count, on_probation);
    else
        suspect_together(victims, count);
}
