#include "router/http/api.h"

#include <stdio.h>

#include "base/errors.h"
#include "base/random.h"
#include "chat/codec.h"
#include "router/http/session_store.h"
#include "router/http/state.h"

enum {
    ADMIN_BODY_MAX = 8 << 20,   /* of a request with a key */
    PUBLIC_BODY_MAX = 16 << 10, /* of any other request */
    UNREAD_BODY_MAX = 1 << 20,  /* of a request whose session is yet to be read */
    ANSWER_MAX = 16 << 20,
    ERROR_MAX = 16 << 10,
};

/* ---- answers ---- */

struct lr_json_writer *router_answer_begin(struct net_request *req)
{
    return net_json_begin(&router_access(req)->json, ANSWER_MAX);
}

lr_code router_answer(struct net_request *req, int status)
{
    struct lr_error err;
    if (net_json_send(&router_access(req)->json, req, status, &err) != LR_OK)
        net_respond_error(req, &err);
    return LR_OK;
}

lr_code router_answer_text(struct net_request *req, struct lr_str json)
{
    net_respond(req, 200, "application/json", json);
    return LR_OK;
}

void *router_memory(struct net_request *req, size_t size, struct lr_error *err)
{
    void *memory = lr_arena_zalloc(net_request_arena(req), size);
    if (memory == NULL)
        (void)lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    return memory;
}

bool router_wants(struct net_request *req, const char *name)
{
    struct lr_str value;
    return net_request_query_get(req, name, &value) && lr_str_eq_z(value, "true");
}

lr_code router_body(struct net_request *req, const struct lr_json **out, struct lr_error *err)
{
    lr_code code = lr_json_parse(net_request_arena(req), net_request_body(req), NULL, out, err);
    return code != LR_OK || (*out)->type == LR_JSON_OBJECT ? code
                                                           : lr_fail_plain(err, body_no_object);
}

/* ---- what the database does for a request ---- */

struct act {
    struct net_request *req;
    router_store_fn fn;
    router_api_done done;
    void *arg;
};

static lr_code do_act(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct act *act = arg;
    return act->fn(sql, act->arg, err);
}

static void acted(void *arg, const struct lr_error *err)
{
    struct act *act = arg;
    struct lr_error failure;
    if (err == NULL && act->done == NULL)
        (void)router_answer(act->req, 200);
    else if (err == NULL && act->done(act->req, act->arg, &failure) != LR_OK)
        err = &failure;
    if (err != NULL)
        router_answer_error(act->req, err);
}

lr_code router_act(struct net_request *req, const struct router_action *action,
                   router_store_fn fn, router_api_done done, void *arg, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    struct act *act = router_memory(req, sizeof(*act), err);
    if (act == NULL)
        return LR_OUT_OF_RAM;
    *act = (struct act){req, fn, done, arg};
    if (action == NULL) {
        router_store_quietly(access->router->store, do_act, net_request_loop(req), acted, act);
        return LR_OK;
    }
    struct router_action own = *action;
    own.by = router_actor(req);
    router_store_act(access->router->store, &own, fn != NULL ? do_act : NULL,
                     net_request_loop(req), acted, act);
    return LR_OK;
}

/* ---- one request, from head to log line ---- */

/* The client's own id where it is harmless in a header and a log, else one of ours. */
static void choose_id(struct net_request *req, struct router_access *access)
{
    struct lr_str given;
    if (net_request_header(req, "X-Request-Id", &given) && given.len >= 1 && given.len <= 64 &&
        lr_str_is_plain(given, "-_.:")) {
        LR_COPY(access->request_id, given);
    } else {
        (void)snprintf(access->request_id, sizeof(access->request_id), "req-");
        lr_random_base62(access->request_id + 4, 20);
    }
    net_response_header(req, "X-Request-Id", lr_str_z(access->request_id));
    const struct chat_codec *codec = chat_codec_near(net_request_path(req));
    if (codec != NULL && codec->id_header != NULL)
        net_response_header(req, codec->id_header, lr_str_z(access->request_id));
}

/* An error outside of a turn, in the form of the API that the client speaks. */
void router_answer_error(struct net_request *req, const struct lr_error *err)
{
    const struct chat_codec *codec = chat_codec_near(net_request_path(req));
    struct lr_buf body;
    if (codec == NULL) {
        net_respond_error(req, err);
        return;
    }
    lr_buf_init(&body, ERROR_MAX);
    chat_error_write(&body, codec, &(struct chat_error){.error = *err});
    net_respond_error_body(req, err, lr_buf_str(&body));
    lr_buf_free(&body);
}

/* OPTIONS of a path that exists: its methods, and what pages of other origins may do. */
static bool answer_options(struct router *r, struct net_request *req)
{
    const void *route = NULL;
    if (!lr_str_eq_z(net_request_method(req), "OPTIONS"))
        return false;
    struct lr_str methods = net_routes_methods(&router_routes, req, &route);
    if (route == NULL)
        return false;
    router_cors_answer(r->settings, req, route);
    router_cors_preflight(r->settings, req, route, methods);
    return true;
}

static void api_refuse(struct net_request *req, const struct lr_error *err)
{
    if (err->code == LR_UNAUTHENTICATED)
        net_response_header(req, "WWW-Authenticate", LR_STR_LIT("Bearer"));
    router_answer_error(req, err);
}

static bool needs_caller(const struct router_route *route)
{
    return route->role != ROUTER_PUBLIC || route->fn == router_api_whoami ||
           route->fn == router_api_self;
}

/* False: the body is larger than the key may send, and the request is answered. */
static bool limit_bytes(struct net_request *req, const struct router_caller *caller)
{
    struct lr_error err;
    uint64_t limit = caller->request_bytes;
    if (limit == 0)
        return true;
    net_request_limit_body(req, limit);
    uint64_t length = net_request_body_length(req);
    if (length == UINT64_MAX || length <= limit)
        return true;
    (void)lr_fail_as(&err, body_over_key, length, caller->key->id, limit);
    router_answer_error(req, &err);
    return false;
}

/* Routes and callers are checked before a byte of the body is read. */
void router_api_head(void *arg, struct net_request *req)
{
    struct router *r = arg;
    struct lr_error err;
    struct router_access *access = router_memory(req, sizeof(*access), &err);
    if (access == NULL) {
        net_respond_error(req, &err);
        return;
    }
    access->router = r;
    net_request_set_user(req, access);
    net_forwarded_client(net_request_headers(req), net_request_remote(req), &r->proxies,
                         access->from);
    choose_id(req, access);
    if (answer_options(r, req))
        return;
    lr_code code = net_routes_match(&router_routes, req, &access->match, &err);
    if (code == LR_NOT_FOUND)
        code = router_explain_absent(net_request_path(req), &err);
    access->route = access->match.row;
    if (code == LR_OK)
        router_cors_answer(r->settings, req, access->route);
    if (code == LR_OK && needs_caller(access->route) && router_session_is_unread(r, req)) {
        access->reads_session = true;
        net_request_limit_body(req, UNREAD_BODY_MAX);
        return;
    }
    if (code == LR_OK)
        code = router_authenticate(r, req, access->route, &access->caller, &err);
    if (code == LR_OK && atomic_load(&r->is_draining) && access->route->role != ROUTER_PUBLIC &&
        access->route->role != ROUTER_NODE)
        code = lr_fail_plain(&err, router_stops);
    if (code != LR_OK) {
        api_refuse(req, &err);
        return;
    }
    if (!limit_bytes(req, &access->caller))
        return;
    if (access->route->role != ROUTER_API)
        net_request_limit_body(req, access->route->role == ROUTER_PUBLIC ? PUBLIC_BODY_MAX
                                                                         : ADMIN_BODY_MAX);
}

static void api_handle(struct router *r, struct net_request *req)
{
    struct lr_error err;
    if (router_access(req)->route->fn(r, req, &err) != LR_OK)
        router_answer_error(req, &err);
}

/* The session was begun on another router a moment ago, or there is none. */
static void on_session_read(void *arg, const struct lr_error *ignored)
{
    struct net_request *req = arg;
    struct router_access *access = router_access(req);
    struct lr_error err;
    (void)ignored; /* without the database nobody is signed in */
    lr_code code =
        router_authenticate(access->router, req, access->route, &access->caller, &err);
    if (code == LR_OK)
        api_handle(access->router, req);
    else
        api_refuse(req, &err);
}

void router_api_request(void *arg, struct net_request *req)
{
    if (router_access(req)->reads_session)
        router_session_fetch(arg, req, on_session_read, req);
    else
        api_handle(arg, req);
}

void router_api_end(void *arg, const struct net_request *req)
{
    struct router *r = arg;
    struct router_access *a = net_request_user(req);
    int status = net_request_status(req);
    if (status >= 100 && status < 600)
        router_count(&r->metrics.answers[status / 100], 1);
    if (a != NULL)
        lr_buf_free(&a->json.body);
    if (a == NULL || !lr_log_on(LR_LOG_INFO))
        return;
    /* A node's heartbeat each second is no news, nor is a probe. */
    if (a->route != NULL && status == 200 &&
        (a->route->fn == router_api_heartbeat || a->route->fn == router_api_livez ||
         a->route->fn == router_api_readyz))
        return;
    struct lr_log_ctx log = {.request_id = a->request_id};
    lr_log_info(&log,
                "http.request method=" LR_STR_FMT " path=" LR_STR_FMT
                " status=%d ms=%llu bytes=%llu from=%s key=%s model=%s node=%s prompt=%llu "
                "completion=%llu",
                LR_STR_ARG(net_request_method(req)),
                LR_STR_ARG(lr_str_sub(net_request_path(req), 0, 200)), status,
                (unsigned long long)net_request_elapsed_ms(req),
                (unsigned long long)net_request_bytes_sent(req), a->from,
                a->caller.key != NULL ? a->caller.key->id : "", a->model, a->node,
                (unsigned long long)a->prompt_tokens, (unsigned long long)a->completion_tokens);
}
