/* router/http/api_alerts.c - alerts: the list, and silencing one for a time. */
#include "base/arena.h"
#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    SILENCE_DEFAULT_S = 3600,
    SILENCE_MAX_S = 30 * 86400,
};

lr_code router_api_alerts(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)err;
    router_lock(r);
    router_alerts_write(&r->alerts, router_answer_begin(req));
    router_unlock(r);
    return router_answer(req, 200);
}

/* The alert of the path. */
static lr_code find_alert(struct router *r, struct net_request *req, uint64_t *id,
                          struct lr_error *err)
{
    struct lr_str text = router_access(req)->match.path.segments[2];
    if (!lr_str_u64(text, id))
        return lr_fail_plain(err, alert_number);
    router_lock(r);
    bool is_known = router_alerts_find(&r->alerts, *id) != NULL;
    router_unlock(r);
    return is_known ? LR_OK : lr_fail_as(err, absent_alert, text);
}

static lr_code save(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_silence_save(sql, arg, lr_clock_wall_ms(&router_clock), err);
}

static lr_code saved(struct net_request *req, void *arg, struct lr_error *err)
{
    struct router *r = router_access(req)->router;
    const struct router_silence *silence = arg;
    struct lr_json_writer *w = router_answer_begin(req);
    (void)err;
    router_lock(r);
    router_silences_set(&r->alerts.silences, silence);
    const struct router_alert *alert = router_alerts_find(&r->alerts, silence->alert);
    if (alert != NULL)
        router_alert_put(&r->alerts, alert, "", w);
    router_alerts_changed(&r->alerts, silence->alert);
    router_unlock(r);
    return router_answer(req, 200);
}

static lr_code read_silence(const struct lr_json *body, struct router_silence *silence,
                            struct lr_error *err)
{
    const struct lr_json *time = lr_json_get(body, "seconds"),
                         *comment = lr_json_get(body, "comment");
    struct lr_str text = {0};
    uint64_t seconds = SILENCE_DEFAULT_S;
    if (time != NULL &&
        (!lr_json_u64(time, &seconds) || seconds < 1 || seconds > SILENCE_MAX_S))
        return lr_fail_as(err, silence_seconds, SILENCE_MAX_S);
    if (comment != NULL &&
        (!lr_json_str(comment, &text) || text.len >= sizeof(silence->comment)))
        return lr_fail_as(err, silence_comment, sizeof(silence->comment) - 1);
    LR_COPY(silence->comment, text);
    silence->until_ms = lr_clock_wall_ms(&router_clock) + (int64_t)seconds * 1000;
    return LR_OK;
}

/* The silence of an alert as it is and as it will be, for the audit log. */
static void api_alerts_describe(struct router *r, const struct router_silence *to,
                                struct router_change *out)
{
    bool begins = to->until_ms != 0;
    router_lock(r);
    const struct router_silence *was =
        router_silence_of(&r->alerts.silences, to->alert, lr_clock_wall_ms(&router_clock));
    router_change_number(out, "silenced_until", was != NULL ? was->until_ms / 1000 : -1,
                         begins ? to->until_ms / 1000 : -1);
    router_change_text(out, "comment", was != NULL ? was->comment : NULL,
                       begins ? to->comment : NULL);
    router_unlock(r);
}

static lr_code api_alerts_change(struct router *r, struct net_request *req, bool begins,
                                 struct lr_error *err)
{
    const struct lr_json *body;
    struct router_silence *silence = router_memory(req, sizeof(*silence), err);
    if (silence == NULL)
        return LR_OUT_OF_RAM;
    lr_code code = find_alert(r, req, &silence->alert, err);
    if (code == LR_OK && begins)
        code = router_body(req, &body, err);
    if (code == LR_OK && begins)
        code = read_silence(body, silence, err);
    if (code != LR_OK)
        return code;
    const char *target =
        lr_arena_copy(net_request_arena(req), router_access(req)->match.path.segments[2]);
    struct router_change values = {0};
    api_alerts_describe(r, silence, &values);
    struct router_action action = {begins ? "alert.silence" : "alert.unsilence",
                                   target != NULL ? target : "", silence->comment,
                                   .change = &values};
    return router_act(req, &action, save, saved, silence, err);
}

lr_code router_api_alert_silence(struct router *r, struct net_request *req,
                                 struct lr_error *err)
{
    return api_alerts_change(r, req, true, err);
}

lr_code router_api_alert_unsilence(struct router *r, struct net_request *req,
                                   struct lr_error *err)
{
    return api_alerts_change(r, req, false, err);
}
