#include "router/fleet/silences.h"

const struct router_silence *router_silence_of(const struct router_silences *silences,
                                               uint64_t alert, int64_t now_ms)
{
    for (size_t i = 0; i < silences->count; i++)
        if (silences->all[i].alert == alert)
            return silences->all[i].until_ms > now_ms ? &silences->all[i] : NULL;
    return NULL;
}

/* The place of the alert, a new one, or that of the silence which ends first. */
static struct router_silence *place_of(struct router_silences *silences, uint64_t alert)
{
    struct router_silence *first = &silences->all[0];
    for (size_t i = 0; i < silences->count; i++) {
        if (silences->all[i].alert == alert)
            return &silences->all[i];
        if (silences->all[i].until_ms < first->until_ms)
            first = &silences->all[i];
    }
    return silences->count < ROUTER_SILENCES_MAX ? &silences->all[silences->count++] : first;
}

void router_silences_set(struct router_silences *silences, const struct router_silence *silence)
{
    *place_of(silences, silence->alert) = *silence;
}

static lr_code silences_take_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_silence silence = {.alert = (uint64_t)router_row_int(row, 0),
                                     .until_ms = router_row_int(row, 1)};
    (void)err;
    LR_COPY(silence.comment, router_row_text(row, 2));
    router_silences_set(ctx, &silence);
    return LR_OK;
}

lr_code router_silences_load(struct router_silences *silences, struct router_sql *sql,
                             int64_t now_ms, struct lr_error *err)
{
    silences->count = 0;
    return ROUTER_SQL(sql,
                      "SELECT alert, until_ms, comment FROM silences WHERE until_ms > $1 "
                      "ORDER BY until_ms DESC LIMIT 256",
                      silences_take_row, silences, err, ROUTER_INT(now_ms));
}

lr_code router_silence_save(struct router_sql *sql, const struct router_silence *silence,
                            int64_t now_ms, struct lr_error *err)
{
    lr_code code = ROUTER_SQL(sql, "DELETE FROM silences WHERE alert = $1 OR until_ms <= $2",
                              NULL, NULL, err, ROUTER_INT(silence->alert), ROUTER_INT(now_ms));
    if (code != LR_OK || silence->until_ms <= now_ms)
        return code;
    return ROUTER_SQL(sql,
                      "INSERT INTO silences (alert, until_ms, comment) VALUES ($1, $2, $3)",
                      NULL, NULL, err, ROUTER_INT(silence->alert),
                      ROUTER_INT(silence->until_ms), ROUTER_Z(silence->comment));
}
