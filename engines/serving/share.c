/* serving/share.c - see share.h. */
#include "engines/serving/share.h"

#include <stdlib.h>

/* The rest of a part of the step. */
struct part {
    uint64_t work;
    uint32_t least; /* tokens that the part has, however much work they are */
};

static uint32_t left_of(const struct serving_claim *claim)
{
    return claim->end - claim->seq->computed - claim->seq->take;
}

struct serving_claim serving_claim_of(const struct serving_pace *p, struct engine_sequence *seq,
                                      uint32_t end)
{
    uint32_t left = seq->count - seq->computed;

    return (struct serving_claim){
        .seq = seq,
        .work = serving_pace_work(p, seq->computed + left / 2, left),
        .end = end < seq->count ? end : seq->count,
    };
}

static int by_work(const void *left, const void *right)
{
    const struct serving_claim *a = left, *b = right;

    if (a->seq->priority != b->seq->priority)
        return a->seq->priority > b->seq->priority ? -1 : 1;
    if (a->work != b->work)
        return a->work < b->work ? -1 : 1;
    return a->seq->arrival < b->seq->arrival ? -1 : a->seq->arrival > b->seq->arrival;
}

static void share_give(const struct serving_pace *p, struct part *part,
                       struct serving_claim *claims, uint32_t count,
                       struct serving_shared *shared)
{
    for (uint32_t i = 0; i < count; i++) {
        struct engine_sequence *seq = claims[i].seq;
        uint32_t depth = seq->computed + seq->take, most = p->most - shared->tokens;
        uint64_t one = serving_pace_work(p, depth, 1);
        uint64_t tokens = (part->work + one - 1) / one;
        tokens = tokens < part->least ? part->least : tokens;
        tokens = tokens < left_of(&claims[i]) ? tokens : left_of(&claims[i]);
        uint32_t n = tokens < most ? (uint32_t)tokens : most;
        uint64_t work = serving_pace_work(p, depth, n);
        seq->take += n;
        part->work -= work < part->work ? work : part->work;
        part->least -= n < part->least ? n : part->least;
        shared->tokens += n;
        shared->work += work;
    }
}

struct serving_shared serving_share(const struct serving_pace *p, enum serving_pace_kind kind,
                                    struct serving_claim *claims, uint32_t count)
{
    struct serving_shared shared = {0};
    struct part oldest = {(p->work[kind] + 3) / 4, (p->least + 3) / 4};

    for (uint32_t i = 0; i < count; i++)
        claims[i].seq->take = 0;
    share_give(p, &oldest, claims, count, &shared);
    struct part rest = {
        .work = p->work[kind] > shared.work ? p->work[kind] - shared.work : 0,
        .least = p->least > shared.tokens ? p->least - shared.tokens : 0,
    };
    qsort(claims, count, sizeof(*claims), by_work);
    share_give(p, &rest, claims, count, &shared);
    for (uint32_t i = 0; i < count; i++)
        shared.is_full = shared.is_full || left_of(&claims[i]) > 0;
    return shared;
}

struct serving_shared serving_share_whole(const struct serving_pace *p,
                                          struct serving_claim *claims, uint32_t count)
{
    struct serving_shared shared = {0};

    for (uint32_t i = 0; i < count; i++) {
        uint32_t left = claims[i].seq->count - claims[i].seq->computed;
        bool fits = left <= p->most - shared.tokens;
        claims[i].seq->take = fits ? left : 0;
        shared.tokens += claims[i].seq->take;
        shared.work += fits ? claims[i].work : 0;
        shared.is_full = shared.is_full || !fits;
    }
    return shared;
}
