/* router/http/api_oidc.c - signing in with an OpenID provider.
 *
 *   GET /v0/oidc/start     sends the browser to the provider, with a cookie for the way back
 *   GET /v0/oidc/callback  the provider sent the browser back: the code becomes a session
 *
 * Thread: the request's loop.
 */
#include <stdio.h>

#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/session_store.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    PAGE_BYTES = 8 << 10,
    CLOCKS_MS = 10 * 60000, /* the clocks of two routers may differ by this much */
};

/* In the request's memory. */
struct work {
    struct net_request *req;
    struct router *router;
    struct router_oidc_task task;
    char cookie[ROUTER_OIDC_COOKIE];
    bool is_first;                         /* the state was not used before */
    char value[ROUTER_SESSION_RANDOM + 1]; /* of the session */
    struct router_caller caller;
};

static bool is_host(struct lr_str host)
{
    return host.len != 0 && host.len <= 260 && lr_str_is_plain(host, ".-:[]_");
}

/* "https://router.example.com": as the browser knows this router. */
const char *router_oidc_base(struct router *r, struct net_request *req,
                             char out[ROUTER_OIDC_URL])
{
    static const char callback[] = "/v0/oidc/callback";
    struct lr_str host = net_request_host(req), given;
    bool is_https = net_request_is_tls(req);
    const char *url = r->oidc.config.redirect_url;
    if (url != NULL) {
        lr_str_copy(out, ROUTER_OIDC_URL, lr_str(url, strlen(url) - (sizeof(callback) - 1)));
        return out;
    }
    if (net_cidrs_have(&r->proxies, net_request_remote(req))) {
        if (net_request_header(req, "X-Forwarded-Proto", &given))
            is_https = lr_str_eq_nocase(lr_str_trim(given), LR_STR_LIT("https"));
        if (net_request_header(req, "X-Forwarded-Host", &given) && is_host(lr_str_trim(given)))
            host = lr_str_trim(given);
    }
    (void)snprintf(out, ROUTER_OIDC_URL, "%s://" LR_STR_FMT, is_https ? "https" : "http",
                   LR_STR_ARG(is_host(host) ? host : LR_STR_LIT("localhost")));
    return out;
}

static void cookie_name(const struct router *r, char out[40])
{
    char name[32];
    (void)snprintf(out, 40, LR_STR_FMT "-in", LR_STR_ARG(router_cookie_name(r, name)));
}

static void set_cookie(struct router *r, struct net_request *req, const char *value)
{
    char name[40];
    cookie_name(r, name);
    /* Lax: the browser comes back from another site. */
    router_cookie_set(req, &(struct router_cookie){.name = name,
                                                   .value = value,
                                                   .path = "/v0/oidc",
                                                   .same_site = "Lax",
                                                   .life_s = ROUTER_OIDC_LIFE_S});
}

static void redirect(struct net_request *req, const char *url)
{
    net_response_header(req, "Location", lr_str_z(url));
    net_response_header(req, "Referrer-Policy", LR_STR_LIT("no-referrer"));
    net_respond(req, 302, NULL, lr_str(NULL, 0));
}

static void escape(struct lr_buf *out, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++)
        switch (text.ptr[i]) {
        case '&':
            lr_buf_add_z(out, "&amp;");
            break;
        case '<':
            lr_buf_add_z(out, "&lt;");
            break;
        case '>':
            lr_buf_add_z(out, "&gt;");
            break;
        case '"':
            lr_buf_add_z(out, "&quot;");
            break;
        default:
            lr_buf_add_char(out, text.ptr[i]);
        }
}

/* A person reads the answer, in a browser. */
static void answer_page(struct router *r, struct net_request *req, const struct lr_error *err)
{
    struct lr_buf page;
    lr_log_warn(LR_LOG_OF(err), "oidc.refused from=%s reason=%s", router_access(req)->from,
                err->text);
    lr_buf_init(&page, PAGE_BYTES);
    lr_buf_add_z(&page, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
                        "<title>Sign-in failed</title><h1>Sign-in failed</h1><p>");
    escape(&page, lr_str_z(err->text));
    lr_buf_add_z(&page, "</p><p><a href=\"/\">Back</a></p></html>\n");
    set_cookie(r, req, "");
    net_response_header(req, "Content-Security-Policy", LR_STR_LIT("default-src 'none'"));
    net_response_header(req, "X-Content-Type-Options", LR_STR_LIT("nosniff"));
    net_respond(req, lr_code_http(err->code), "text/html; charset=utf-8", lr_buf_str(&page));
    lr_buf_free(&page);
}

static struct work *api_oidc_prepare(struct router *r, struct net_request *req,
                                     net_loop_fn done, struct lr_error *err)
{
    struct work *w;
    char base[ROUTER_OIDC_URL];
    if (!router_oidc_is_on(&r->oidc)) {
        (void)lr_fail_plain(err, oidc_none);
        return NULL;
    }
    if ((w = router_memory(req, sizeof(*w), err)) == NULL)
        return NULL;
    w->req = req;
    w->router = r;
    w->task.loop = net_request_loop(req);
    w->task.done = done;
    w->task.arg = w;
    (void)snprintf(w->task.redirect_url, sizeof(w->task.redirect_url),
                   "%.2000s/v0/oidc/callback", router_oidc_base(r, req, base));
    return w;
}

/* RATE_LIMITED: each step may cost a request to the provider, with this router's secret. */
static lr_code count_step(struct router *r, struct net_request *req, struct lr_error *err)
{
    uint32_t retry_s;
    router_lock(r);
    lr_code code =
        router_try(&r->sign_ins, router_access(req)->from, lr_clock_ms(NULL), &retry_s, err);
    router_unlock(r);
    if (code != LR_OK)
        net_response_retry_after(req, retry_s);
    return code;
}

/* ---- to the provider ---- */

static void begun(void *arg)
{
    struct work *w = arg;
    if (w->task.outcome != LR_OK) {
        answer_page(w->router, w->req, &w->task.err);
        return;
    }
    set_cookie(w->router, w->req, w->cookie);
    redirect(w->req, w->task.url);
}

lr_code router_api_oidc_start(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct work *w = api_oidc_prepare(r, req, begun, err);
    if (w == NULL)
        return err->code;
    router_oidc_cookie_make(lr_str_z(r->oidc.cookie_key),
                            lr_clock_wall_ms(&router_clock) / 1000, w->cookie);
    router_oidc_flow_make(lr_str_z(w->cookie), &w->task.flow);
    w->task.is_begin = true;
    lr_code code = count_step(r, req, err);
    if (code == LR_OK)
        code = router_oidc_submit(&r->oidc, &w->task, err);
    if (code != LR_OK)
        answer_page(r, req, err);
    return LR_OK;
}

/* ---- and back ---- */

static void signed_in(void *arg, const struct lr_error *err)
{
    struct work *w = arg;
    (void)err; /* the session is written later, then */
    set_cookie(w->router, w->req, "");
    router_session_cookie(w->router, w->req, w->value);
    redirect(w->req, "/");
}

static void exchanged(void *arg)
{
    struct work *w = arg;
    struct router *r = w->router;
    const struct router_oidc_person *person = &w->task.person;
    if (w->task.outcome != LR_OK) {
        answer_page(r, w->req, &w->task.err);
        return;
    }
    router_session_end_before(r, w->req);
    router_lock(r);
    struct router_key *key = router_session_person(&r->sessions, lr_str_z(person->subject),
                                                   lr_str_z(person->name), person->role);
    if (key != NULL)
        router_session_begin(r, w->req, key, w->value, &w->caller, signed_in, w);
    router_unlock(r);
    if (key == NULL) {
        (void)lr_fail(&w->task.err, LR_OUT_OF_RAM, "no memory for a session");
        answer_page(r, w->req, &w->task.err);
    }
}

static lr_code check_answer(struct router *r, struct net_request *req, struct work *w,
                            struct lr_error *err)
{
    char name[40];
    struct lr_str header, cookie = {0}, value, text = {0};
    cookie_name(r, name);
    if (net_request_header(req, "Cookie", &header))
        (void)router_cookie_find(header, lr_str_z(name), &cookie);
    lr_code code = router_oidc_cookie_check(lr_str_z(r->oidc.cookie_key), cookie,
                                            lr_clock_wall_ms(&router_clock) / 1000,
                                            r->oidc.config.skew_ms / 1000, err);
    if (code != LR_OK)
        return code;
    router_oidc_flow_make(cookie, &w->task.flow);
    if (!net_request_query_get(req, "state", &value) ||
        !lr_str_eq_secret(value, lr_str_z(w->task.flow.state)))
        return lr_fail_plain(err, oidc_other_sign_in);
    if (net_request_query_get(req, "iss", &value) && !lr_str_eq_z(value, r->oidc.config.issuer))
        return lr_fail_plain(err, oidc_other_provider);
    if (net_request_query_get(req, "error", &value)) {
        (void)net_request_query_get(req, "error_description", &text);
        return lr_fail_as(err, oidc_refused, value, text);
    }
    if (!net_request_query_get(req, "code", &value) || value.len == 0 ||
        value.len >= sizeof(w->task.code))
        return lr_fail_plain(err, oidc_no_code);
    LR_COPY(w->task.code, value);
    return LR_OK;
}

/* Thread: the database's. */
static lr_code use_state(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct work *w = arg;
    int64_t now = lr_clock_wall_ms(&router_clock);
    int64_t life = ROUTER_OIDC_LIFE_S * 1000LL + 2 * w->router->oidc.config.skew_ms + CLOCKS_MS;
    return router_sign_in_use(sql, lr_str_z(w->task.flow.state), now + life, now, &w->is_first,
                              err);
}

/* Not before the database has the state as used: another router could use it again. */
static void state_used(void *arg, const struct lr_error *err)
{
    struct work *w = arg;
    struct lr_error e;
    lr_code code = LR_OK;
    if (err != NULL)
        code = lr_fail_as(&e, oidc_needs_database, err->text);
    else if (!w->is_first)
        code = lr_fail_plain(&e, oidc_used);
    if (code == LR_OK)
        code = router_oidc_submit(&w->router->oidc, &w->task, &e);
    if (code != LR_OK)
        answer_page(w->router, w->req, &e);
}

lr_code router_api_oidc_callback(struct router *r, struct net_request *req,
                                 struct lr_error *err)
{
    struct work *w = api_oidc_prepare(r, req, exchanged, err);
    if (w == NULL)
        return err->code;
    lr_code code = check_answer(r, req, w, err);
    if (code == LR_OK)
        code = count_step(r, req, err);
    if (code == LR_OK)
        router_store_quietly(r->store, use_state, net_request_loop(req), state_used, w);
    else
        answer_page(r, req, err);
    return LR_OK;
}
