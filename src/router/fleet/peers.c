#include "router/fleet/peers.h"

#include "router/store/clock.h"

static lr_code take_peer(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_peers *peers = ctx;
    (void)err;
    if (peers->count == ROUTER_PEERS_MAX)
        return LR_OK;
    struct router_peer *peer = &peers->all[peers->count++];
    *peer = (struct router_peer){
        .silent_ms = router_row_int(row, 1),
        .load = {.requests_per_minute = (uint64_t)router_row_int(row, 3),
                 .running = (uint64_t)router_row_int(row, 4),
                 .queued = (uint64_t)router_row_int(row, 5)},
        .clock_ahead_ms = router_row_int(row, 6),
        .has_clock = router_row_int(row, 7) != 0,
    };
    LR_COPY(peer->url, router_row_text(row, 0));
    LR_COPY(peer->version, router_row_text(row, 2));
    return LR_OK;
}

lr_code router_peers_exchange(struct router_sql *sql, const char *own_url, const char *version,
                              const struct router_load *own, struct router_peers *out,
                              struct lr_error *err)
{
    out->count = 0;
    lr_code code = router_clock_read(sql, &out->clock_ahead_ms, &out->has_clock, err);
    if (code == LR_OK)
        code = ROUTER_SQL(
            sql,
            "INSERT INTO routers (url, seen_ms, version, requests_per_minute, running, queued, "
            "clock_ahead_ms) VALUES ($1, " ROUTER_DATABASE_MS ", $2, $3, $4, $5, $6) "
            "ON CONFLICT (url) DO UPDATE SET "
            "seen_ms = excluded.seen_ms, version = excluded.version, "
            "requests_per_minute = excluded.requests_per_minute, running = excluded.running, "
            "queued = excluded.queued, clock_ahead_ms = excluded.clock_ahead_ms",
            NULL, NULL, err, ROUTER_Z(own_url), ROUTER_Z(version),
            ROUTER_INT(own->requests_per_minute), ROUTER_INT(own->running),
            ROUTER_INT(own->queued), ROUTER_INT(out->clock_ahead_ms));
    if (code == LR_OK) /* routers in containers have another address after each start */
        code =
            ROUTER_SQL(sql, "DELETE FROM routers WHERE " ROUTER_DATABASE_MS " - seen_ms > $1",
                       NULL, NULL, err, ROUTER_INT(ROUTER_PEER_KEPT_MS));
    if (code == LR_OK)
        code = ROUTER_SQL(
            sql,
            "SELECT url, silent_ms, version, requests_per_minute, running, queued, "
            "COALESCE(clock_ahead_ms, 0), CASE WHEN clock_ahead_ms IS NULL THEN 0 ELSE 1 END "
            "FROM "
            "(SELECT *, " ROUTER_DATABASE_MS
            " - seen_ms AS silent_ms FROM routers) AS all_routers "
            "WHERE silent_ms <= $1 ORDER BY silent_ms > $2, url",
            take_peer, out, err, ROUTER_INT(ROUTER_PEER_SHOWN_MS), ROUTER_INT(ROUTER_ALIVE_MS));
    return code;
}
