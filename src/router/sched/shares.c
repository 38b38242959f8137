#include "router/sched/shares.h"

#include <math.h>
#include <stddef.h>

/* A key that asked within this time will ask again, and what it used that long ago counts a
 * third. */
enum { RECENT_MS = 10000 };

static bool is_active(const struct router_share *share, uint64_t now)
{
    return share->seen_ms != 0 && (share->held != 0 || now - share->seen_ms < RECENT_MS);
}

static struct router_share *find(struct router_shares *shares, uint64_t lane)
{
    for (int i = 0; i < ROUTER_SHARES_MAX; i++)
        if (shares->all[i].seen_ms != 0 && shares->all[i].lane == lane)
            return &shares->all[i];
    return NULL;
}

void router_shares_see(struct router_shares *shares, uint64_t lane, uint64_t now)
{
    struct router_share *share = find(shares, lane);
    bool is_new =
        share == NULL || (!is_active(share, now) && now - share->used_ms >= RECENT_MS);
    for (int i = 0; share == NULL && i < ROUTER_SHARES_MAX; i++)
        if (!is_active(&shares->all[i], now))
            share = &shares->all[i];
    if (share == NULL)
        return;
    if (is_new) /* or was away */
        *share = (struct router_share){.lane = lane, .used_ms = now};
    share->seen_ms = now != 0 ? now : 1;
}

/* ---- use over time ---- */

/* The sums forget as one, so that their quotient is an average from the first moment on. */
static void settle(struct router_share *share, uint64_t now)
{
    if (now <= share->used_ms)
        return;
    double old = exp(-(double)(now - share->used_ms) / RECENT_MS);
    share->used = share->used * old + share->held * (1 - old);
    share->time = share->time * old + (1 - old);
    share->used_ms = now;
}

static double average(struct router_share share, uint64_t now)
{
    settle(&share, now);
    return share.time > 0 ? share.used / share.time : share.held;
}

/* ---- what a key has of its share ---- */

struct standing {
    uint64_t kept; /* places it holds and was not asked for */
    double used;   /* places it held over time */
    /* That is more than a share, by a quarter, or less: between the two nobody steps aside for
     * a hair. */
    bool was_over, was_under;
};

/* How many use the model, and whether anybody had more than a share. */
struct round {
    uint64_t active, slots, now;
    bool has_over;
};

static struct standing stand(const struct router_share *share, const struct round *round)
{
    double used = average(*share, round->now);
    double all = used * (double)round->active, slots = (double)round->slots;
    return (struct standing){
        .kept = share->held - share->leaving,
        .used = used,
        .was_over = round->active > 1 && all >= 1.25 * slots,
        .was_under = all < slots,
    };
}

static struct round look(const struct router_shares *shares, uint64_t slots, uint64_t now)
{
    struct round round = {.slots = slots, .now = now};
    for (int i = 0; i < ROUTER_SHARES_MAX; i++)
        round.active += is_active(&shares->all[i], now);
    for (int i = 0; i < ROUTER_SHARES_MAX && round.active > 1; i++)
        if (is_active(&shares->all[i], now))
            round.has_over = round.has_over || stand(&shares->all[i], &round).was_over;
    return round;
}

static struct standing find_standing(const struct router_shares *shares, uint64_t lane,
                                     const struct round *round)
{
    for (int i = 0; i < ROUTER_SHARES_MAX; i++)
        if (shares->all[i].seen_ms != 0 && shares->all[i].lane == lane)
            return stand(&shares->all[i], round);
    return (struct standing){.was_under = true};
}

bool router_shares_is_light(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now)
{
    struct round round = look(shares, slots, now);
    struct standing s = find_standing(shares, lane, &round);
    return round.active <= 1 || (s.was_under && round.has_over) ||
           s.kept * round.active * (s.was_over ? 2 : 1) < slots;
}

bool router_shares_gives(const struct router_shares *shares, uint64_t from, uint64_t to,
                         uint64_t slots, uint64_t now)
{
    struct round round = look(shares, slots, now);
    struct standing giver = find_standing(shares, from, &round);
    struct standing taker = find_standing(shares, to, &round);
    if (round.active <= 1 || giver.kept == 0)
        return false;
    uint64_t left = (giver.kept - 1) * round.active;
    if (giver.was_over && taker.was_under)
        return 2 * left >= slots;
    return left >= slots && (taker.was_under || giver.used >= taker.used);
}

double router_shares_used(const struct router_shares *shares, uint64_t lane, uint64_t now)
{
    struct round round = {.now = now};
    return find_standing(shares, lane, &round).used;
}

void router_shares_ask(struct router_shares *shares, uint64_t lane, bool is_asked)
{
    struct router_share *share = find(shares, lane);
    if (share != NULL && is_asked)
        share->leaving++;
    else if (share != NULL && share->leaving != 0)
        share->leaving--;
}

uint32_t router_shares_held(const void *arg, uint64_t lane)
{
    const struct router_shares *shares = arg;
    for (int i = 0; i < ROUTER_SHARES_MAX; i++)
        if (shares->all[i].seen_ms != 0 && shares->all[i].lane == lane)
            return shares->all[i].held;
    return 0;
}

void router_shares_hold(struct router_shares *shares, uint64_t lane, uint64_t now)
{
    struct router_share *share = find(shares, lane);
    if (share == NULL)
        return;
    settle(share, now);
    share->held++;
}

void router_shares_release(struct router_shares *shares, uint64_t lane, uint64_t now)
{
    struct router_share *share = find(shares, lane);
    if (share == NULL || share->held == 0)
        return;
    settle(share, now);
    share->held--;
}
