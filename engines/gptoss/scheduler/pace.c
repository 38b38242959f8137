/* gptoss/scheduler/pace.c - see pace.h. */
#include "engines/gptoss/scheduler/pace.h"

uint32_t gptoss_depth_unit(const struct model_config *c)
{
    /* Multiplications of one token, in one layer. */
    uint64_t heads = (uint64_t)c->heads * c->head_dim;
    uint64_t projections = (uint64_t)c->hidden * (2 * heads + 2ull * c->kv_heads * c->head_dim);
    uint64_t experts = (uint64_t)c->experts_per_token * 3 * c->hidden * c->intermediate;
    uint64_t key = 2 * heads; /* of one key: its product with the query, and its value */
    uint64_t full = 0;

    for (uint32_t i = 0; i < c->layers; i++)
        full += c->sliding[i] ? 0 : 1;
    if (full == 0)
        return GPTOSS_DEPTH_IS_FREE;
    uint64_t rest = c->layers * (projections + experts) + (c->layers - full) * key * c->window;
    uint64_t unit = rest / (full * key);
    return unit < 1 ? 1 : unit > UINT32_MAX ? UINT32_MAX : (uint32_t)unit;
}

void gptoss_pace_init(struct gptoss_pace *p, uint32_t least, uint32_t most,
                      uint32_t target_gap_ms, uint32_t depth_unit)
{
    uint64_t gap = 1000000ull * (target_gap_ms != 0 ? target_gap_ms : GPTOSS_TARGET_GAP_MS);

    *p = (struct gptoss_pace){
        .least = least != 0 && least < most ? least : most,
        .most = most,
        .depth_unit = depth_unit != GPTOSS_DEPTH_IS_FREE ? depth_unit : UINT32_MAX,
        .aim_ns = {gap / 5 * 4, gap * 2, gap * 8},
    };
    for (int kind = 0; kind < GPTOSS_PACE_KINDS; kind++)
        p->work[kind] = gptoss_pace_work(p, 0, p->least);
}

void gptoss_pace_begin(struct gptoss_pace *p, uint32_t tokens)
{
    tokens = tokens < p->least ? p->least : tokens > p->most ? p->most : tokens;
    p->work[GPTOSS_PACE_SEVERAL] = p->work[GPTOSS_PACE_ALONE] = gptoss_pace_work(p, 0, tokens);
}

uint64_t gptoss_pace_work(const struct gptoss_pace *p, uint32_t depth, uint32_t tokens)
{
    return tokens * ((uint64_t)p->depth_unit + depth);
}

enum gptoss_pace_kind gptoss_pace_kind(const struct gptoss_pace *p,
                                       const struct gptoss_crowd *crowd)
{
    if (crowd->decoding != 0)
        return GPTOSS_PACE_GAP;
    if (crowd->live <= 1)
        return GPTOSS_PACE_ALONE;
    /* A quarter of the step is for the oldest prompts (share.h). */
    bool can_end = crowd->least_work <= p->work[GPTOSS_PACE_GAP] / 4 * 3;
    return can_end ? GPTOSS_PACE_GAP : GPTOSS_PACE_SEVERAL;
}

void gptoss_pace_measured(struct gptoss_pace *p, enum gptoss_pace_kind kind, uint64_t work,
                          bool is_full, uint64_t step_ns)
{
    uint64_t aim = p->aim_ns[kind], was = p->work[kind];
    uint64_t floor = gptoss_pace_work(p, 0, p->least);

    if (p->least == p->most || work == 0)
        return;
    /* In floating point, because the product needs more than 64 bits. */
    double ratio = step_ns != 0 ? (double)aim / (double)step_ns : 2;
    ratio = ratio < 0.5 ? 0.5 : ratio > 2 ? 2 : ratio;
    uint64_t next = (uint64_t)((double)work * ratio);
    if (step_ns > aim && next < was)
        p->work[kind] = is_full || next > was / 2 ? next : was / 2;
    else if (step_ns <= aim && next > was && is_full)
        p->work[kind] = next;
    if (p->work[kind] < floor)
        p->work[kind] = floor;
    p->is_known[kind] = p->is_known[kind] || is_full;
    for (int other = 0; other < GPTOSS_PACE_KINDS; other++)
        if (!p->is_known[other] && step_ns <= p->aim_ns[other] && work > p->work[other])
            p->work[other] = work;
}
