/* net/routes.h - a table of routes: the row that the method and the path of a request name.
 *
 * A process declares rows of its own.  Each row begins with a struct net_route; what follows is
 * the process's: a handler, the role that a caller needs, limits.  In a pattern "*" stands for
 * one segment and "**" for one or more, as in a model's id with a slash.  Of two rows that
 * match the first one wins.  HEAD is answered by rows of GET.
 */
#ifndef NET_ROUTES_H
#define NET_ROUTES_H

#include "net/path.h"
#include "net/request.h"

struct net_route {
    const char *method, *pattern; /* "GET", "v0/nodes" */
};

struct net_routes {
    const void *rows; /* borrowed */
    size_t row_size, count;
    bool has_options; /* the process answers OPTIONS for every path itself */
};

struct net_match {
    const void *row;
    struct net_path path;
    struct lr_str tail; /* what the last "*" or "**" of the pattern stands for */
};

/* NULL: no row. */
const void *net_routes_find(const struct net_routes *routes, struct lr_str method,
                            const struct net_path *path, struct lr_str *tail,
                            struct lr_arena *arena);

/* The row of a request.  NOT_FOUND; METHOD_NOT_ALLOWED, with the header Allow set;
 * INVALID_ARGUMENT for a path that cannot be read. */
LR_MUST_USE lr_code net_routes_match(const struct net_routes *routes, struct net_request *req,
                                     struct net_match *out, struct lr_error *err);

/* The methods of a request's path: "GET, HEAD, POST"; *first is one of its rows, NULL where
 * there is none. */
struct lr_str net_routes_methods(const struct net_routes *routes, struct net_request *req,
                                 const void **first);

#endif
