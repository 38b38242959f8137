#include "router/sched/shares.h"

#include <math.h>
#include <stdlib.h>

/* A key that asked within this time will ask again, and what it used that long ago counts a
 * third. */
enum { RECENT_MS = 10000, FIRST_CAPACITY = 16 };

/* How far an account may be from the average, in answers; and what makes the time of one. */
enum { APART_ANSWERS = 4, APART_LEAST_MS = 10000, ANSWERS_AVERAGED = 64 };

static bool is_active(const struct router_share *share, uint64_t now)
{
    return share->seen_ms != 0 && (share->held != 0 || now - share->seen_ms < RECENT_MS);
}

/* ---- the table ---- */

/* The key's entry, or the free one where it belongs. */
static struct router_share *probe(struct router_share *all, size_t capacity, uint64_t key)
{
    size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (capacity - 1);
    while (all[i].seen_ms != 0 && all[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &all[i];
}

static struct router_share *shares_find(const struct router_shares *shares, uint64_t key)
{
    if (shares->capacity == 0)
        return NULL;
    struct router_share *share = probe(shares->all, shares->capacity, key);
    return share->seen_ms != 0 ? share : NULL;
}

/* Room for one more: keys that are away are forgotten, and half of the table stays free. */
static bool shares_make_room(struct router_shares *shares, uint64_t now)
{
    size_t active = 1, capacity = FIRST_CAPACITY;
    if (2 * (shares->count + 1) <= shares->capacity)
        return true;
    for (size_t i = 0; i < shares->capacity; i++)
        active += is_active(&shares->all[i], now);
    while (capacity < 4 * active)
        capacity *= 2;
    struct router_share *all = calloc(capacity, sizeof(*all));
    if (all == NULL)
        return false;
    for (size_t i = 0; i < shares->capacity; i++)
        if (is_active(&shares->all[i], now))
            *probe(all, capacity, shares->all[i].key) = shares->all[i];
    free(shares->all);
    shares->all = all;
    shares->capacity = capacity;
    shares->count = active - 1;
    return true;
}

void router_shares_free(struct router_shares *shares)
{
    free(shares->all);
    *shares = (struct router_shares){0};
}

/* ---- use over time ---- */

static double spent_by(const struct router_share *share, uint64_t now)
{
    return share->spent + (double)share->held * (double)(now - share->used_ms);
}

/* The sums forget as one, so that their quotient is an average from the first moment on. */
static void shares_settle(struct router_shares *shares, struct router_share *share,
                          uint64_t now)
{
    if (now <= share->used_ms)
        return;
    double old = exp(-(double)(now - share->used_ms) / RECENT_MS);
    shares->spent += spent_by(share, now) - share->spent;
    share->spent = spent_by(share, now);
    share->used = share->used * old + share->held * (1 - old);
    share->time = share->time * old + (1 - old);
    share->used_ms = now;
}

static double shares_average(const struct router_share *share, uint64_t now)
{
    double old = now > share->used_ms ? exp(-(double)(now - share->used_ms) / RECENT_MS) : 1;
    double time = share->time * old + (1 - old);
    return time > 0 ? (share->used * old + share->held * (1 - old)) / time : share->held;
}

static double answer_ms(const struct router_shares *shares)
{
    return shares->ended != 0 ? shares->spent / shares->ended + 1 : APART_LEAST_MS;
}

/* Brings a key's account within reach of those that hold slots. */
static void level(struct router_shares *shares, struct router_share *share, bool is_new,
                  uint64_t now)
{
    double sum = 0, held = 0, apart = fmax(APART_ANSWERS * answer_ms(shares), APART_LEAST_MS);
    shares_settle(shares, share, now);
    for (size_t i = 0; i < shares->capacity; i++) {
        sum += shares->all[i].held * spent_by(&shares->all[i], now);
        held += shares->all[i].held;
    }
    if (held == 0)
        return;
    share->spent =
        is_new ? sum / held : fmin(fmax(share->spent, sum / held - apart), sum / held + apart);
}

void router_shares_see(struct router_shares *shares, uint64_t key, uint64_t now)
{
    struct router_share *share = shares_find(shares, key);
    bool is_new = share == NULL;
    if (is_new && !shares_make_room(shares, now))
        return;
    if (is_new) {
        share = probe(shares->all, shares->capacity, key);
        *share = (struct router_share){.key = key, .used_ms = now};
        shares->count++;
    } else if (!is_active(share, now) && now - share->used_ms >= RECENT_MS) { /* was away */
        share->used = share->time = 0;
        share->used_ms = now;
    }
    share->seen_ms = now != 0 ? now : 1;
    shares->has_round = false;
    level(shares, share, is_new, now);
}

/* ---- what a key has of its share ---- */

struct share_state {
    uint64_t kept; /* slots it holds that are not preempted */
    double used;   /* slots it held over time */
    /* More than a share, by a quarter, or less: between the two no slot changes hands. */
    bool was_over, was_under;
};

static struct share_state state_of(const struct router_share *share,
                                   const struct router_share_round *round)
{
    double used = shares_average(share, round->now);
    double all = used * (double)round->active, slots = (double)round->slots;
    return (struct share_state){
        .kept = share->held - share->leaving,
        .used = used,
        .was_over = round->active > 1 && all >= 1.25 * slots,
        .was_under = all < slots,
    };
}

static struct share_state find_state(const struct router_shares *shares, uint64_t key,
                                     const struct router_share_round *round)
{
    const struct router_share *share = shares_find(shares, key);
    return share != NULL ? state_of(share, round) : (struct share_state){.was_under = true};
}

static const struct router_share_round *shares_look(struct router_shares *shares,
                                                    uint64_t slots, uint64_t now)
{
    struct router_share_round *round = &shares->round;
    if (shares->has_round && round->now == now && round->slots == slots)
        return round;
    *round = (struct router_share_round){.slots = slots, .now = now};
    shares->has_round = true;
    for (size_t i = 0; i < shares->capacity; i++)
        round->active += is_active(&shares->all[i], now);
    for (size_t i = 0; i < shares->capacity && round->active > 1 && !round->has_over; i++)
        if (is_active(&shares->all[i], now))
            round->has_over = state_of(&shares->all[i], round).was_over;
    return round;
}

bool router_shares_is_light(struct router_shares *shares, uint64_t key, uint64_t slots,
                            uint64_t now)
{
    const struct router_share_round *round = shares_look(shares, slots, now);
    struct share_state s = find_state(shares, key, round);
    return round->active <= 1 || (s.was_under && round->has_over) ||
           s.kept * round->active * (s.was_over ? 2 : 1) < slots;
}

bool router_shares_gives(struct router_shares *shares, uint64_t from, uint64_t to,
                         uint64_t slots, uint64_t now)
{
    const struct router_share_round *round = shares_look(shares, slots, now);
    struct share_state giver = find_state(shares, from, round);
    struct share_state taker = find_state(shares, to, round);
    if (round->active <= 1 || giver.kept == 0)
        return false;
    uint64_t left = (giver.kept - 1) * round->active;
    if (giver.was_over && taker.was_under)
        return 2 * left >= slots;
    return left >= slots && (taker.was_under || giver.used >= taker.used);
}

double router_shares_used(const struct router_shares *shares, uint64_t key, uint64_t now)
{
    const struct router_share *share = shares_find(shares, key);
    return share != NULL ? shares_average(share, now) : 0;
}

double router_shares_account(const struct router_shares *shares, uint64_t key, uint64_t now)
{
    const struct router_share *share = shares_find(shares, key);
    return share != NULL ? spent_by(share, now) / answer_ms(shares) : 0;
}

uint32_t router_shares_held(const struct router_shares *shares, uint64_t key)
{
    const struct router_share *share = shares_find(shares, key);
    return share != NULL ? share->held : 0;
}

/* ---- changes ---- */

void router_shares_hold(struct router_shares *shares, uint64_t key, uint64_t now)
{
    if (shares_find(shares, key) == NULL) /* forgotten while its ticket waited */
        router_shares_see(shares, key, now);
    struct router_share *share = shares_find(shares, key);
    if (share == NULL)
        return;
    shares_settle(shares, share, now);
    share->held++;
    shares->has_round = false;
}

void router_shares_release(struct router_shares *shares, uint64_t key, uint64_t now)
{
    struct router_share *share = shares_find(shares, key);
    if (share == NULL || share->held == 0)
        return;
    shares_settle(shares, share, now);
    share->held--;
    shares->has_round = false;
    if (++shares->ended >= ANSWERS_AVERAGED) {
        shares->ended /= 2;
        shares->spent /= 2;
    }
}

void router_shares_preempt(struct router_shares *shares, uint64_t key, bool is_leaving)
{
    struct router_share *share = shares_find(shares, key);
    if (share != NULL && is_leaving)
        share->leaving++;
    else if (share != NULL && share->leaving != 0)
        share->leaving--;
}
