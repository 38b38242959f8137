/* serving/pace.c - see pace.h. */
#include "engines/serving/pace.h"

void serving_pace_init(struct serving_pace *p, uint32_t least, uint32_t most,
                       uint32_t target_gap_ms, uint32_t depth_unit)
{
    uint64_t gap = 1000000ull * (target_gap_ms != 0 ? target_gap_ms : SERVING_TARGET_GAP_MS);

    *p = (struct serving_pace){
        .least = least != 0 && least < most ? least : most,
        .most = most,
        .depth_unit = depth_unit != SERVING_DEPTH_IS_FREE ? depth_unit : UINT32_MAX,
        .aim_ns = {gap / 5 * 4, gap * 2, gap * 8},
    };
    for (int kind = 0; kind < SERVING_PACE_KINDS; kind++)
        p->work[kind] = serving_pace_work(p, 0, p->least);
}

void serving_pace_begin(struct serving_pace *p, uint32_t tokens)
{
    tokens = tokens < p->least ? p->least : tokens > p->most ? p->most : tokens;
    p->work[SERVING_PACE_SEVERAL] = p->work[SERVING_PACE_ALONE] =
        serving_pace_work(p, 0, tokens);
}

uint64_t serving_pace_work(const struct serving_pace *p, uint32_t depth, uint32_t tokens)
{
    return tokens * ((uint64_t)p->depth_unit + depth);
}

enum serving_pace_kind serving_pace_kind(const struct serving_pace *p,
                                         const struct serving_crowd *crowd)
{
    if (crowd->decoding != 0)
        return SERVING_PACE_GAP;
    if (crowd->live <= 1)
        return SERVING_PACE_ALONE;
    /* A quarter of the step is for the oldest prompts (share.h). */
    bool can_end = crowd->least_work <= p->work[SERVING_PACE_GAP] / 4 * 3;
    return can_end ? SERVING_PACE_GAP : SERVING_PACE_SEVERAL;
}

void serving_pace_measured(struct serving_pace *p, enum serving_pace_kind kind, uint64_t work,
                           bool is_full, uint64_t step_ns)
{
    uint64_t aim = p->aim_ns[kind], was = p->work[kind];
    uint64_t floor = serving_pace_work(p, 0, p->least);

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
    for (int other = 0; other < SERVING_PACE_KINDS; other++)
        if (!p->is_known[other] && step_ns <= p->aim_ns[other] && work > p->work[other])
            p->work[other] = work;
}
