#include "router/shares.h"

#include <stddef.h>

/* A key that asked within this time will ask again. */
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
    for (int i = 0; share == NULL && i < ROUTER_SHARES_MAX; i++)
        if (!is_active(&shares->all[i], now)) {
            share = &shares->all[i];
            *share = (struct router_share){.lane = lane};
        }
    if (share != NULL)
        share->seen_ms = now != 0 ? now : 1;
}

/* How many keys use the model, and what this one holds and keeps. */
static uint64_t count(const struct router_shares *shares, uint64_t lane, uint64_t now,
                      uint64_t *kept)
{
    uint64_t active = 0;
    *kept = 0;
    for (int i = 0; i < ROUTER_SHARES_MAX; i++) {
        const struct router_share *share = &shares->all[i];
        active += is_active(share, now);
        if (share->seen_ms != 0 && share->lane == lane)
            *kept = share->held - share->leaving;
    }
    return active;
}

bool router_shares_is_light(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now)
{
    uint64_t held, active = count(shares, lane, now, &held);
    return active <= 1 || held * active < slots;
}

bool router_shares_is_heavy(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now)
{
    uint64_t held, active = count(shares, lane, now, &held);
    return active > 1 && held != 0 && (held - 1) * active >= slots;
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

void router_shares_hold(struct router_shares *shares, uint64_t lane)
{
    struct router_share *share = find(shares, lane);
    if (share != NULL)
        share->held++;
}

void router_shares_release(struct router_shares *shares, uint64_t lane)
{
    struct router_share *share = find(shares, lane);
    if (share != NULL && share->held != 0)
        share->held--;
}
