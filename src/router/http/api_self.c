/* router/http/api_self.c - GET /v0/self: what a key is, may use and has used. */
#include <stdio.h>

#include "base/errors.h"
#include "router/access/key_limits.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/observe/prices.h"
#include "router/store/clock.h"

/* In the request's memory. */
struct asking {
    struct lr_json_writer *w;
    char id[24]; /* of the key; "": requests without a key */
    int64_t month;
    struct router_month_row sums;
    const struct lr_settings *settings;
    double cost;
    bool is_priced; /* of some model that was used */
};

static void put_rate(struct lr_json_writer *w, const char *name, const struct router_rate *rate)
{
    if (rate->limit == 0)
        return;
    lr_json_member_object(w, name);
    LR_JSON_MEMBERS(w, LR_UINT("limit", rate->limit), LR_UINT("remaining", rate->remaining),
                    LR_UINT("reset_s", (rate->reset_ms + 999) / 1000));
    lr_json_end_object(w);
}

static void put_month(struct lr_json_writer *w, struct router_key *key, int64_t now_ms)
{
    int64_t used = router_budget_used(&key->month, now_ms);
    int64_t limit = (int64_t)key->tokens_per_month;
    if (limit == 0 && key->tokens_per_month_soft == 0)
        return;
    lr_json_member_object(w, "tokens_per_month");
    if (limit != 0)
        LR_JSON_MEMBERS(w, LR_INT("limit", limit),
                        LR_INT("remaining", used < limit ? limit - used : 0));
    if (key->tokens_per_month_soft != 0)
        lr_json_member_u64(w, "soft", key->tokens_per_month_soft);
    LR_JSON_MEMBERS(
        w, LR_INT("used", used),
        LR_INT("resets",
               router_month_begin_ms(router_month_after(router_month_of(now_ms))) / 1000));
    lr_json_end_object(w);
}

/* Lock held. */
static void put_limits(struct lr_json_writer *w, struct router *r, struct router_key *key,
                       int64_t now_ms)
{
    struct router_rate requests, tokens;
    router_key_rates(key, lr_clock_ms(NULL), r->keys.routers, &requests, &tokens);
    lr_json_member_object(w, "limits");
    put_rate(w, "requests_per_minute", &requests);
    put_rate(w, "tokens_per_minute", &tokens);
    if (key->concurrent_requests != 0) {
        lr_json_member_object(w, "concurrent_requests");
        LR_JSON_MEMBERS(w, LR_UINT("limit", key->concurrent_requests),
                        LR_UINT("used", key->running));
        lr_json_end_object(w);
    }
    if (key->request_bytes != 0) {
        lr_json_member_object(w, "request_bytes");
        lr_json_member_u64(w, "limit", key->request_bytes);
        lr_json_end_object(w);
    }
    put_month(w, key, now_ms);
    lr_json_end_object(w);
}

static void put_key(struct lr_json_writer *w, struct router *r, struct router_key *key,
                    int64_t now_ms)
{
    const struct lr_json_field texts[] = {LR_TEXT("owner", key->owner),
                                          LR_TEXT("label", key->label)};
    LR_JSON_MEMBERS(w, LR_TEXT("id", key->id), LR_TEXT("name", key->name),
                    LR_TEXT("role", router_role_name(key->role)));
    lr_json_put_fields(w, &texts[0], key->owner[0] != '\0');
    lr_json_put_fields(w, &texts[1], key->label[0] != '\0');
    lr_json_member_i64(w, "created", key->created_ms / 1000);
    if (key->expires_ms != 0)
        lr_json_member_i64(w, "expires", key->expires_ms / 1000);
    lr_json_member_bool(w, "keep_texts", key->keep_texts != 0);
    router_put_words(w, "models", key->models);
    router_put_words(w, "addresses", key->addresses);
    put_limits(w, r, key, now_ms);
}

/* ---- usage of this month.  Thread: the database's ---- */

static void put_sums(struct lr_json_writer *w, const struct router_month_row *row)
{
    LR_JSON_MEMBERS(w, LR_INT("requests", row->requests),
                    LR_INT("prompt_tokens", row->prompt_tokens),
                    LR_INT("completion_tokens", row->completion_tokens),
                    LR_INT("cached_tokens", row->cached_tokens));
}

static lr_code api_self_take_model(void *ctx, const struct router_month_row *row,
                                   struct lr_error *err)
{
    struct asking *a = ctx;
    struct router_tokens tokens = {row->requests, 0, row->prompt_tokens, row->completion_tokens,
                                   row->cached_tokens};
    double cost;
    (void)err;
    lr_json_begin_object(a->w);
    lr_json_key(a->w, "model");
    lr_json_put_str(a->w, row->model);
    put_sums(a->w, row);
    if (router_price(a->settings, row->model, &tokens, &cost)) {
        lr_json_member_double(a->w, "cost", cost);
        a->cost += cost;
        a->is_priced = true;
    }
    lr_json_end_object(a->w);
    a->sums.requests += row->requests;
    a->sums.prompt_tokens += row->prompt_tokens;
    a->sums.completion_tokens += row->completion_tokens;
    a->sums.cached_tokens += row->cached_tokens;
    return LR_OK;
}

static lr_code api_self_read_usage(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    char month[16];
    (void)snprintf(month, sizeof(month), "%04d-%02d", (int)(a->month / 100),
                   (int)(a->month % 100));
    lr_json_member_object(a->w, "usage");
    lr_json_member_z(a->w, "month", month);
    lr_json_member_array(a->w, "models");
    lr_code code = router_month_read(sql, a->month, a->id, api_self_take_model, a, err);
    lr_json_end_array(a->w);
    put_sums(a->w, &a->sums);
    if (a->is_priced)
        lr_json_member_double(a->w, "cost", a->cost);
    lr_json_end_object(a->w);
    const char *currency = lr_settings_str(a->settings, "currency");
    if (a->is_priced && currency != NULL)
        lr_json_member_z(a->w, "currency", currency);
    return code;
}

lr_code router_api_self(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_caller *caller = &router_access(req)->caller;
    int64_t now_ms = lr_clock_wall_ms(&router_clock);
    struct asking *a = router_memory(req, sizeof(*a), err);
    lr_code code =
        a != NULL ? router_identify(r, req, ROUTER_PUBLIC, caller, err) : LR_OUT_OF_RAM;
    if (code == LR_OK && caller->role == ROUTER_PUBLIC)
        code = lr_fail_plain(err, key_wanted_self);
    if (code == LR_UNAUTHENTICATED)
        net_response_header(req, "WWW-Authenticate", LR_STR_LIT("Bearer"));
    if (code != LR_OK)
        return code;
    a->w = router_answer_begin(req);
    a->month = router_month_of(now_ms);
    a->settings = r->settings;
    if (caller->key == NULL) {
        LR_JSON_MEMBERS(a->w, LR_TEXT("id", ""), LR_TEXT("name", ""),
                        LR_TEXT("role", router_role_name(caller->role)),
                        LR_FLAG("keep_texts", false));
        lr_json_member_object(a->w, "limits");
        lr_json_end_object(a->w);
    } else {
        router_lock(r);
        memcpy(a->id, caller->key->id, sizeof(a->id));
        put_key(a->w, r, caller->key, now_ms);
        router_unlock(r);
    }
    return router_act(req, NULL, api_self_read_usage, NULL, a, err);
}
