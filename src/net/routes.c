#include "net/routes.h"

/* Joins segments [from, to) with '/'. */
static struct lr_str routes_join(const struct net_path *path, size_t from, size_t to,
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

static bool routes_matches(const char *pattern, const struct net_path *path,
                           struct lr_str *tail, struct lr_arena *arena)
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
            *tail = routes_join(path, j, end, arena);
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

const void *net_routes_find(const struct net_routes *routes, struct lr_str method,
                            const struct net_path *path, struct lr_str *tail,
                            struct lr_arena *arena)
{
    const char *at = routes->rows;
    if (lr_str_eq_z(method, "HEAD"))
        method = LR_STR_LIT("GET");
    for (size_t i = 0; i < routes->count; i++, at += routes->row_size) {
        const struct net_route *route = (const void *)at;
        *tail = (struct lr_str){0};
        if (lr_str_eq_z(method, route->method) &&
            routes_matches(route->pattern, path, tail, arena))
            return route;
    }
    return NULL;
}

struct lr_str net_routes_methods(const struct net_routes *routes, struct net_request *req,
                                 const void **first)
{
    static const char *const known[] = {"GET", "POST", "PATCH", "DELETE"};
    struct lr_arena *arena = net_request_arena(req);
    const char *text = "";
    struct net_path path;
    struct lr_str tail;
    *first = NULL;
    if (net_path_split(arena, net_request_raw_path(req), &path, NULL) != LR_OK)
        return lr_str_z(text);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const void *row = net_routes_find(routes, lr_str_z(known[i]), &path, &tail, arena);
        if (row == NULL)
            continue;
        const char *longer = lr_arena_printf(arena, "%s%s%s", text, *first != NULL ? ", " : "",
                                             i == 0 ? "GET, HEAD" : known[i]);
        text = longer != NULL ? longer : text;
        if (*first == NULL)
            *first = row;
    }
    const char *all = routes->has_options ? lr_arena_printf(arena, "%s, OPTIONS", text) : NULL;
    return lr_str_z(all != NULL ? all : text);
}

lr_code net_routes_match(const struct net_routes *routes, struct net_request *req,
                         struct net_match *out, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(req);
    const void *other;
    lr_code code = net_path_split(arena, net_request_raw_path(req), &out->path, err);
    if (code != LR_OK)
        return code;
    out->row = net_routes_find(routes, net_request_method(req), &out->path, &out->tail, arena);
    if (out->row != NULL)
        return LR_OK;
    struct lr_str methods = net_routes_methods(routes, req, &other);
    if (other != NULL)
        net_response_header(req, "Allow", methods);
    return lr_fail(err, other != NULL ? LR_METHOD_NOT_ALLOWED : LR_NOT_FOUND, "%s " LR_STR_FMT,
                   other != NULL ? "this method is not offered for" : "there is no",
                   LR_STR_ARG(lr_str_sub(net_request_path(req), 0, 200)));
}
