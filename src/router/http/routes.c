/* router/http/routes.c - every route of the router and the role it asks for. */
#include "chat/codec.h"
#include "router/http/api.h"

static const struct router_route routes[] = {
    {"GET", "v1/models", ROUTER_API, router_api_v1_models},
    {"GET", "v1/models/**", ROUTER_API, router_api_v1_model},
    {"GET", "v0/explain", ROUTER_API, router_api_explain},

    {"GET", "v0/whoami", ROUTER_PUBLIC, router_api_whoami},
    {"POST", "v0/session", ROUTER_PUBLIC, router_api_sign_in},
    {"DELETE", "v0/session", ROUTER_API, router_api_sign_out},

    {"POST", "v0/models/register", ROUTER_ADMIN, router_api_register},
    {"GET", "v0/models", ROUTER_ADMIN, router_api_models},
    {"GET", "v0/models/registry", ROUTER_NODE, router_api_registry},
    {"GET", "v0/models/registry/**/manifest.json", ROUTER_NODE, router_api_manifest},
    {"POST", "v0/models/**/load", ROUTER_ADMIN, router_api_model_action},
    {"POST", "v0/models/**/unload", ROUTER_ADMIN, router_api_model_action},
    {"POST", "v0/models/**/pin", ROUTER_ADMIN, router_api_model_action},
    {"POST", "v0/models/**/unpin", ROUTER_ADMIN, router_api_model_action},
    {"DELETE", "v0/models/**", ROUTER_ADMIN, router_api_delete_model},

    {"POST", "v0/nodes/join", ROUTER_NODE, router_api_join},
    {"POST", "v0/nodes/*/beat", ROUTER_NODE, router_api_beat},
    {"POST", "v0/nodes/tokens", ROUTER_ADMIN, router_api_node_token},
    {"GET", "v0/nodes", ROUTER_ADMIN, router_api_nodes},
    {"POST", "v0/nodes/*/drain", ROUTER_ADMIN, router_api_node_drain},
    {"POST", "v0/nodes/*/undrain", ROUTER_ADMIN, router_api_node_undrain},
    {"DELETE", "v0/nodes/*", ROUTER_ADMIN, router_api_node_delete},
    {"GET", "v0/nodes/*/models", ROUTER_ADMIN, router_api_node_forward},
    {"GET", "v0/nodes/*/engines", ROUTER_ADMIN, router_api_node_forward},
    {"GET", "v0/nodes/*/memory", ROUTER_ADMIN, router_api_node_forward},
    {"GET", "v0/nodes/*/logs", ROUTER_ADMIN, router_api_node_forward},
    {"POST", "v0/nodes/*/engines/*/reload", ROUTER_ADMIN, router_api_node_forward},

    {"GET", "v0/keys", ROUTER_ADMIN, router_api_keys},
    {"POST", "v0/keys", ROUTER_ADMIN, router_api_key_create},
    {"PATCH", "v0/keys/*", ROUTER_ADMIN, router_api_key_change},
    {"DELETE", "v0/keys/*", ROUTER_ADMIN, router_api_key_revoke},
    {"GET", "v0/usage", ROUTER_ADMIN, router_api_usage},
    {"GET", "v0/audit", ROUTER_ADMIN, router_api_audit},
    {"GET", "v0/events", ROUTER_ADMIN, router_api_events},
    {"GET", "v0/stats", ROUTER_ADMIN, router_api_stats},
    {"GET", "v0/alerts", ROUTER_ADMIN, router_api_alerts},
    {"GET", "metrics", ROUTER_METRICS, router_api_metrics},
    {"GET", "health", ROUTER_PUBLIC, router_api_health},
    {"GET", "", ROUTER_PUBLIC, router_api_dashboard},
    {"GET", "assets/**", ROUTER_PUBLIC, router_api_asset},
#define X(path, codec) {"POST", path, ROUTER_API, router_api_complete},
    CHAT_CODECS(X)
#undef X
};

size_t router_route_count(void)
{
    return sizeof(routes) / sizeof(routes[0]);
}

const struct router_route *router_route_at(size_t index)
{
    return &routes[index];
}

/* Joins segments [from, to) with '/'. */
static struct lr_str join(const struct net_path *path, size_t from, size_t to,
                          struct lr_arena *arena)
{
    size_t len = 0;
    for (size_t i = from; i < to; i++)
        len += path->segments[i].len + 1;
    char *text = lr_arena_alloc(arena, len + 1);
    size_t at = 0;
    if (text == NULL)
        return lr_str(NULL, 0);
    for (size_t i = from; i < to; i++) {
        memcpy(text + at, path->segments[i].ptr, path->segments[i].len);
        at += path->segments[i].len;
        if (i + 1 < to)
            text[at++] = '/';
    }
    text[at] = '\0';
    return lr_str(text, at);
}

static bool matches(const char *pattern, const struct net_path *path, struct lr_str *tail,
                    struct lr_arena *arena)
{
    struct lr_str parts[NET_PATH_MAX_SEGMENTS], rest = lr_str_z(pattern), part;
    size_t count = 0, i = 0, j = 0;
    if (rest.len == 0)
        return path->count == 0;
    while (lr_str_split(&rest, '/', &part))
        parts[count++] = part;
    while (i < count && j < path->count) {
        if (lr_str_eq_z(parts[i], "**")) {
            size_t after = count - i - 1;
            if (path->count < j + 1 + after)
                return false;
            size_t end = path->count - after;
            *tail = join(path, j, end, arena);
            j = end;
        } else if (lr_str_eq_z(parts[i], "*")) {
            *tail = path->segments[j++];
        } else if (!lr_str_eq(parts[i], path->segments[j++])) {
            return false;
        }
        i++;
    }
    return i == count && j == path->count;
}

const struct router_route *router_route_find(struct lr_str method, const struct net_path *path,
                                             struct lr_str *tail, struct lr_arena *arena)
{
    if (lr_str_eq_z(method, "HEAD"))
        method = LR_STR_LIT("GET");
    for (size_t i = 0; i < router_route_count(); i++) {
        *tail = (struct lr_str){0};
        if (lr_str_eq_z(method, routes[i].method) &&
            matches(routes[i].pattern, path, tail, arena))
            return &routes[i];
    }
    return NULL;
}

struct lr_str router_route_methods(const struct net_path *path, struct lr_arena *arena,
                                   const struct router_route **first)
{
    static const char *const known[] = {"GET", "POST", "PATCH", "DELETE"};
    const char *text = "";
    struct lr_str tail;
    *first = NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct router_route *route =
            router_route_find(lr_str_z(known[i]), path, &tail, arena);
        if (route == NULL)
            continue;
        if (*first == NULL)
            *first = route;
        const char *longer =
            lr_arena_printf(arena, "%s%s, ", text, i == 0 ? "GET, HEAD" : known[i]);
        text = longer != NULL ? longer : text;
    }
    const char *all = lr_arena_printf(arena, "%sOPTIONS", text);
    return lr_str_z(all != NULL ? all : "OPTIONS");
}
