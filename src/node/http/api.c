#include "node/http/api.h"

#include "chat/codec.h"
#include "net/guard.h"

/* "*" stands for one segment. */
static const struct route {
    const char *method;
    const char *pattern;
    node_api_fn fn;
} routes[] = {
    {"POST", "v0/generate", node_api_generate},
    {"DELETE", "v0/generate/*", node_api_generate_stop},
    {"GET", "v0/link", node_api_link},
/* clang-format off */
#define X(path, codec) {"POST", path, node_api_complete},
    CHAT_CODECS(X)
#undef X
    /* clang-format on */
    {"GET", "v1/models", node_api_v1_models},
    {"GET", "v0/models", node_api_models},
    {"GET", "v0/models/*", node_api_model_info},
    {"POST", "v0/models/inspect", node_api_inspect},
    {"DELETE", "v0/models/*", node_api_model_delete},
    {"POST", "v0/models/*/*", node_api_model_action},
    {"POST", "v0/beat", node_api_beat},
    {"GET", "v0/engines", node_api_engines},
    {"POST", "v0/engines/*/reload", node_api_engine_reload},
    {"GET", "v0/memory", node_api_memory},
    {"GET", "v0/events", node_api_events},
    {"GET", "v0/logs", node_api_logs},
    {"GET", "health", node_api_health},
    {"GET", "metrics", node_api_metrics},
};

static bool matches(const char *pattern, const struct net_path *path)
{
    struct lr_str rest = lr_str_z(pattern);
    struct lr_str part;
    size_t i = 0;
    while (lr_str_split(&rest, '/', &part)) {
        if (i == path->count)
            return false;
        if (!lr_str_eq_z(part, "*") && !lr_str_eq(part, path->segments[i]))
            return false;
        i++;
    }
    return i == path->count;
}

static lr_code check_secret(const struct node *node, struct net_request *req,
                            struct lr_error *err)
{
    const char *secret = node->secret;
    struct lr_str given;
    if (secret[0] == '\0')
        return LR_OK;
    if (!net_request_header(req, "Authorization", &given) || !lr_str_starts(given, "Bearer "))
        return lr_fail(err, LR_UNAUTHENTICATED,
                       "this node wants its secret (setting node-secret) as a bearer token");
    given = lr_str_sub(given, sizeof("Bearer ") - 1, given.len);
    if (given.len != strlen(secret) || !lr_str_eq_secret(given, lr_str_z(secret)))
        return lr_fail(err, LR_UNAUTHENTICATED, "the bearer token is not this node's secret");
    return LR_OK;
}

static lr_code check_caller(const struct node *node, struct net_request *req,
                            struct lr_error *err)
{
    lr_code code = check_secret(node, req, err);
    struct net_guard_rules rules = {.asks_for_secret = node->secret[0] != '\0'};
    if (code == LR_OK && node->is_loopback)
        code = net_guard_request(req, &rules, err);
    return code;
}

void node_api_head(void *arg, struct net_request *req)
{
    struct lr_error err;
    if (check_caller(arg, req, &err) != LR_OK)
        net_respond_error(req, &err);
}

void node_api_request(void *arg, struct net_request *req)
{
    struct node *node = arg;
    struct net_path path;
    struct lr_error err;
    lr_code code =
        net_path_split(net_request_arena(req), net_request_raw_path(req), &path, &err);
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    bool known = false;
    struct lr_str method = net_request_method(req);
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!matches(routes[i].pattern, &path))
            continue;
        known = true;
        if (lr_str_eq_z(method, routes[i].method) ||
            (lr_str_eq_z(method, "HEAD") && strcmp(routes[i].method, "GET") == 0)) {
            routes[i].fn(node, req, &path);
            return;
        }
    }
    (void)lr_fail(&err, known ? LR_METHOD_NOT_ALLOWED : LR_NOT_FOUND, "%s " LR_STR_FMT,
                  known ? "this method is not offered for" : "there is no",
                  LR_STR_ARG(lr_str_sub(net_request_path(req), 0, 200)));
    net_respond_error(req, &err);
}

struct node_model *node_need_model(struct node *node, struct lr_str id, struct lr_error *err)
{
    struct node_model *m = node_find_model(node, id);
    if (m != NULL)
        return m;
    struct lr_buf list;
    lr_buf_init(&list, 300);
    for (const struct node_model *o = node->models; o != NULL; o = o->next)
        lr_buf_addf(&list, "%s%s", list.len != 0 ? ", " : "", o->id);
    (void)lr_fail(err, LR_NOT_FOUND, "there is no model \"" LR_STR_FMT "\" on this node; %s%s",
                  LR_STR_ARG(lr_str_sub(id, 0, 100)),
                  list.len != 0 ? "it has: " : "it has none", lr_buf_z(&list));
    lr_buf_free(&list);
    return NULL;
}

struct node_model *node_api_model(struct node *node, struct net_request *req, struct lr_str id)
{
    struct lr_error err;
    struct node_model *m = node_need_model(node, id, &err);
    if (m == NULL)
        net_respond_error(req, &err);
    return m;
}

void node_api_json(struct net_request *req, int status, struct lr_buf *body)
{
    struct lr_error err;
    if (body->failed) {
        (void)lr_fail(&err, LR_INTERNAL, "the answer is larger than %zu bytes", body->limit);
        net_respond_error(req, &err);
    } else {
        net_respond(req, status, "application/json", lr_buf_str(body));
    }
    lr_buf_free(body);
}
