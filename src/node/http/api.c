#include "node/http/api.h"

#include "base/errors.h"
#include "chat/codec.h"
#include "net/guard.h"

static const struct route {
    struct net_route at;
    node_api_fn *fn;
} rows[] = {
    {{"POST", "v0/generate"}, node_api_generate},
    {{"DELETE", "v0/generate/*"}, node_api_generate_stop},
    {{"GET", "v0/link"}, node_api_link},
/* clang-format off */
#define X(path, codec) {{"POST", path}, node_api_complete},
    CHAT_CODECS(X)
#undef X
    /* clang-format on */
    {{"GET", "v1/models"}, node_api_v1_models},
    {{"GET", "v0/models"}, node_api_models},
    {{"GET", "v0/models/*"}, node_api_model_info},
    {{"POST", "v0/models/inspect"}, node_api_inspect},
    {{"POST", "v0/models/fit"}, node_api_fit},
    {{"DELETE", "v0/models/*"}, node_api_model_delete},
    {{"POST", "v0/models/*/count"}, node_api_model_count},
    {{"POST", "v0/models/*/*"}, node_api_model_action},
    {{"POST", "v0/heartbeat"}, node_api_heartbeat},
    {{"GET", "v0/engines"}, node_api_engines},
    {{"POST", "v0/engines/*/reload"}, node_api_engine_reload},
    {{"GET", "v0/memory"}, node_api_memory},
    {{"GET", "v0/events"}, node_api_events},
    {{"GET", "v0/logs"}, node_api_logs},
    {{"GET", "health"}, node_api_health},
    {{"GET", "livez"}, node_api_livez},
    {{"GET", "readyz"}, node_api_readyz},
    {{"GET", "metrics"}, node_api_metrics},
};

static const struct net_routes routes = {
    .rows = rows, .row_size = sizeof(rows[0]), .count = sizeof(rows) / sizeof(rows[0])};

/* Probes name nothing that is secret, and the programs that send them have no secret. */
static bool is_public(const struct node *node, const struct net_request *req)
{
    struct lr_str path = net_request_path(req);
    return lr_str_eq_z(path, "/livez") || lr_str_eq_z(path, "/readyz") ||
           (lr_str_eq_z(path, "/metrics") &&
            lr_settings_bool(node->settings, "public-metrics"));
}

static lr_code check_caller(const struct node *node, struct net_request *req,
                            struct lr_error *err)
{
    struct lr_str secret = lr_str_z(node->secret), given;
    if (is_public(node, req))
        return LR_OK;
    struct net_guard_rules rules = {.asks_for_secret = secret.len != 0};
    if (secret.len != 0) {
        if (net_request_header(req, "Authorization", &given) && lr_str_starts(given, "Bearer "))
            given = lr_str_sub(given, sizeof("Bearer ") - 1, given.len);
        else if (!net_request_header(req, "x-api-key", &given))
            return lr_fail_plain(err, node_secret_wanted);
        if (given.len != secret.len || !lr_str_eq_secret(given, secret))
            return lr_fail_plain(err, node_secret_wrong);
    }
    return node->is_loopback ? net_guard_request(req, &rules, err) : LR_OK;
}

void node_api_head(void *arg, struct net_request *req)
{
    struct lr_error err;
    struct net_match *match = lr_arena_alloc(net_request_arena(req), sizeof(*match));
    lr_code code = check_caller(arg, req, &err);
    if (code == LR_OK && match == NULL)
        code = lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
    if (code == LR_OK)
        code = net_routes_match(&routes, req, match, &err);
    net_request_set_user(req, match);
    if (code != LR_OK)
        net_respond_error(req, &err);
}

void node_api_request(void *arg, struct net_request *req)
{
    const struct net_match *match = net_request_user(req);
    struct lr_error err;
    if (((const struct route *)match->row)->fn(arg, req, &err) != LR_OK)
        net_respond_error(req, &err);
}

struct node_model *node_need_model(struct node *node, struct lr_str id, struct lr_error *err)
{
    struct node_model *m = node_find_model(&node->models, id);
    struct lr_str plain;
    if (m == NULL && chat_model_plain(id, &plain))
        m = node_find_model(&node->models, plain);
    if (m != NULL)
        return m;
    struct lr_buf list;
    lr_buf_init(&list, 300);
    for (const struct node_model *o = node->models.first; o != NULL; o = o->next)
        lr_buf_addf(&list, "%s%s", list.len != 0 ? ", " : "", o->id);
    (void)lr_fail_as(err, no_model_on_node, id, list.len != 0 ? "it has: " : "it has none",
                     lr_buf_z(&list));
    lr_buf_free(&list);
    return NULL;
}
