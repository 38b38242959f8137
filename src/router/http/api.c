#include "router/http/api.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/random.h"

/* Largest bodies: of who has shown a key, and of anybody. */
enum { ADMIN_BODY_MAX = 8 << 20, PUBLIC_BODY_MAX = 16 << 10 };

struct router_loop *router_loop_of(struct router *r, const struct net_request *req)
{
    const struct net_loop *loop = net_request_loop(req);
    unsigned i = 0;
    while (r->loop_states[i].net != loop)
        i++;
    return &r->loop_states[i];
}

struct lr_json_writer router_json_begin(struct lr_buf *body, size_t limit)
{
    struct lr_json_writer w;
    lr_buf_init(body, limit);
    lr_json_writer_init(&w, body);
    lr_json_begin_object(&w);
    return w;
}

void router_respond_json(struct net_request *req, int status, struct lr_buf *body)
{
    if (body->failed)
        router_refuse(req, LR_INTERNAL, "the answer is larger than %zu bytes", body->limit);
    else
        net_respond(req, status, "application/json", lr_buf_str(body));
    lr_buf_free(body);
}

void router_refuse(struct net_request *req, lr_code code, const char *fmt, ...)
{
    struct lr_error err = {.code = code};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err.text, sizeof(err.text), fmt, args);
    va_end(args);
    net_respond_error(req, &err);
}

bool router_wants(struct net_request *req, const char *name)
{
    struct lr_str value;
    return net_request_query_get(req, name, &value) && lr_str_eq_z(value, "true");
}

const struct lr_json *router_body(struct net_request *req)
{
    const struct lr_json *body = NULL;
    struct lr_error err;
    lr_code code =
        lr_json_parse(net_request_arena(req), net_request_body(req), NULL, &body, &err);
    if (code == LR_OK && body->type != LR_JSON_OBJECT)
        code = lr_fail(&err, LR_INVALID_ARGUMENT, "the body must be a JSON object");
    if (code == LR_OK)
        return body;
    net_respond_error(req, &err);
    return NULL;
}

/* The client's own id where it is harmless in a header and a log, else one of ours. */
static void choose_id(struct net_request *req, struct router_access *access)
{
    struct lr_str given;
    bool ok =
        net_request_header(req, "X-Request-Id", &given) && given.len >= 1 && given.len <= 64;
    for (size_t i = 0; ok && i < given.len; i++) {
        char c = given.ptr[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_' || c == '.' || c == ':';
    }
    if (ok) {
        (void)snprintf(access->request_id, sizeof(access->request_id), LR_STR_FMT,
                       LR_STR_ARG(given));
    } else {
        (void)snprintf(access->request_id, sizeof(access->request_id), "req-");
        lr_random_base62(access->request_id + 4, 20);
    }
    net_response_header(req, "X-Request-Id", lr_str_z(access->request_id));
}

/* OPTIONS of a path that exists: what may be asked there, by whom. */
static bool answer_options(struct router *r, struct net_request *req)
{
    const void *route = NULL;
    if (!lr_str_eq_z(net_request_method(req), "OPTIONS"))
        return false;
    struct lr_str methods = net_routes_methods(&router_routes, req, &route);
    if (route == NULL)
        return false;
    router_cors_answer(r, req, route);
    router_cors_preflight(r, req, route, methods);
    return true;
}

/* Routes and callers are checked before a byte of the body is read. */
void router_api_head(void *arg, struct net_request *req)
{
    struct router *r = arg;
    struct lr_error err;
    struct router_access *access = lr_arena_zalloc(net_request_arena(req), sizeof(*access));
    if (access == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a request");
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
    access->route = access->match.row;
    if (code == LR_OK)
        router_cors_answer(r, req, access->route);
    if (code == LR_OK)
        code = router_authenticate(r, req, access->route, &access->caller, &err);
    if (code == LR_OK && atomic_load(&r->is_draining) && access->route->role != ROUTER_PUBLIC &&
        access->route->role != ROUTER_NODE)
        code = lr_fail(&err, LR_UNAVAILABLE, "this router is shutting down");
    if (code != LR_OK) {
        if (code == LR_UNAUTHENTICATED)
            net_response_header(req, "WWW-Authenticate", LR_STR_LIT("Bearer"));
        net_respond_error(req, &err);
        return;
    }
    if (access->route->role != ROUTER_API)
        net_request_limit_body(req, access->route->role == ROUTER_PUBLIC ? PUBLIC_BODY_MAX
                                                                         : ADMIN_BODY_MAX);
}

void router_api_request(void *arg, struct net_request *req)
{
    struct router_access *access = net_request_user(req);
    access->route->fn(arg, req);
}

void router_api_end(void *arg, const struct net_request *req)
{
    struct router *r = arg;
    const struct router_access *a = net_request_user(req);
    int status = net_request_status(req);
    if (status >= 100 && status < 600)
        router_count(&r->metrics.answers[status / 100], 1);
    if (a == NULL || !lr_log_on(LR_LOG_INFO))
        return;
    /* A node's heartbeat each second is no news. */
    if (a->route != NULL && a->route->fn == router_api_heartbeat && status == 200)
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
