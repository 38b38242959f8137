/* router/http/dashboard.h - the web page's files, embedded at build time
 * (cmake/dashboard.cmake).
 *
 * The table is generated; without a dashboard it is empty.  Paths are below /assets/, the
 * page itself has the empty path.  Bytes are gzip.
 */
#ifndef ROUTER_HTTP_DASHBOARD_H
#define ROUTER_HTTP_DASHBOARD_H

#include <stddef.h>

struct router_asset {
    const char *path;
    const char *type;
    const char *etag; /* quotes included */
    const unsigned char *bytes;
    size_t size;
};

extern const struct router_asset router_assets[];
extern const size_t router_asset_count;

#endif
