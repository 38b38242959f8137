#include "worker/constraints.h"

#include <stdlib.h>

struct worker_constraint {
    struct worker_constraint *next;
    uint64_t request;
    struct grammar_program *program; /* owned, like the matcher */
    struct grammar_matcher *matcher;
    bool broken;      /* the engine sampled a token that was not legal */
    uint64_t asked;   /* the last step in which the engine asked for a mask; 0: none */
    uint32_t sat_out; /* steps in a row */
};

void worker_constraints_init(struct worker_constraints *all)
{
    *all = (struct worker_constraints){.masks = {.work = WORKER_MASKS_WORK, .step = 1}};
}

static void destroy(struct worker_constraint *c)
{
    grammar_matcher_free(c->matcher);
    grammar_program_free(c->program);
    free(c);
}

lr_code worker_constraints_add(struct worker_constraints *all, uint64_t request,
                               struct grammar_program *program, struct grammar_matcher *matcher,
                               struct lr_error *err)
{
    struct worker_constraint *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    *c = (struct worker_constraint){
        .next = all->first, .request = request, .program = program, .matcher = matcher};
    all->first = c;
    all->masks.added++;
    return LR_OK;
}

static struct worker_constraint **find(struct worker_constraints *all, uint64_t request)
{
    struct worker_constraint **at = &all->first;
    while (*at != NULL && (*at)->request != request)
        at = &(*at)->next;
    return at;
}

void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id)
{
    struct worker_constraint *c = *find(all, request);
    if (c != NULL && !grammar_matcher_token(c->matcher, id))
        c->broken = true;
}

void worker_constraints_drop(struct worker_constraints *all, uint64_t request)
{
    struct worker_constraint **at = find(all, request), *c = *at;
    if (c == NULL)
        return;
    *at = c->next;
    if (all->masks.patient == c)
        all->masks.patient = NULL;
    destroy(c);
}

/* ---- masks ---- */

void worker_constraints_step(struct worker_constraints *all)
{
    struct worker_masks *b = &all->masks;
    b->patient = NULL;
    for (const struct worker_constraint *c = all->first; c != NULL; c = c->next)
        if (c->asked == b->step && c->sat_out > (b->patient != NULL ? b->patient->sat_out : 0))
            b->patient = c;
    b->to_come = b->asked + b->added;
    b->asked = b->added = 0;
    b->used = 0;
    b->took = 0;
    b->step++;
}

/* What a mask may use now. */
static uint32_t share_of(const struct worker_masks *b, const struct worker_constraint *c)
{
    uint32_t left = b->work > b->used ? b->work - b->used : 0;
    uint32_t share = left / (b->to_come + 1);
    uint64_t kept = (uint64_t)b->to_come * WORKER_MASK_TYPICAL;
    bool is_turn = b->patient == NULL || b->patient == c || b->patient->asked == b->step;
    if (is_turn && left > kept && left - kept > share)
        share = (uint32_t)(left - kept);
    return share > WORKER_MASK_LEAST ? share : WORKER_MASK_LEAST;
}

/* Works on a mask in pieces, with a look at the clock after each. */
static lr_code work_on(struct worker_masks *b, struct worker_constraint *c, bool *ready,
                       struct lr_error *err)
{
    enum { PIECE = 1 << 13 };
    uint32_t share = share_of(b, c),
             most = b->took < WORKER_MASKS_NS ? PIECE : WORKER_MASK_LEAST;
    lr_code code;
    do {
        uint32_t used;
        uint64_t began = lr_clock_ns(b->clock);
        code =
            grammar_matcher_prepare(c->matcher, share < most ? share : most, &used, ready, err);
        share -= used < share ? used : share;
        b->used += used;
        b->took += lr_elapsed(began, lr_clock_ns(b->clock));
    } while (code == LR_OK && !*ready && share != 0 && b->took < WORKER_MASKS_NS);
    return code;
}

static lr_code within_budget(struct worker_masks *b, struct worker_constraint *c, bool *ready,
                             struct lr_error *err)
{
    if (b->to_come != 0 && (c->asked == 0 || c->asked + 1 == b->step))
        b->to_come--;
    if (c->asked != b->step)
        b->asked++;
    lr_code code = work_on(b, c, ready, err);
    c->asked = b->step;
    c->sat_out = *ready ? 0 : c->sat_out + 1;
    return code;
}

lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                uint32_t *mask, size_t words, bool *ready, struct lr_error *err)
{
    struct worker_constraint *c = *find(all, request);
    if (c == NULL)
        return lr_fail(err, LR_INTERNAL,
                       "the engine asks for a mask of a request without a constraint");
    if (c->broken)
        return lr_fail(err, LR_INTERNAL, "the engine sampled a token that its mask forbids");
    if (ready != NULL) {
        lr_code code = within_budget(&all->masks, c, ready, err);
        if (code != LR_OK || !*ready)
            return code;
    }
    return grammar_matcher_mask(c->matcher, mask, words, err);
}

void worker_constraints_free(struct worker_constraints *all)
{
    while (all->first != NULL) {
        struct worker_constraint *c = all->first;
        all->first = c->next;
        destroy(c);
    }
}
