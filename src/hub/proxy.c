/* hub/proxy.c - https_proxy, http_proxy, all_proxy and no_proxy.
 *
 * libcurl knows these variables too, but the address check must know whether a proxy is used: a
 * proxy's address is the operator's choice and may be private, a hub's address may not.
 */
#include <stdlib.h>
#include <strings.h>

#include "hub/http.h"

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_exempt(const char *host)
{
    const char *list = env("no_proxy") != NULL ? env("no_proxy") : env("NO_PROXY");
    struct lr_str rest = lr_str_z(list), item;
    size_t len = strlen(host);
    while (lr_str_split(&rest, ',', &item)) {
        item = lr_str_trim(item);
        if (lr_str_eq_z(item, "*"))
            return true;
        while (item.len != 0 && item.ptr[0] == '.')
            item = lr_str_sub(item, 1, item.len);
        if (item.len == 0 || item.len > len ||
            strncasecmp(host + len - item.len, item.ptr, item.len) != 0)
            continue;
        if (item.len == len || host[len - item.len - 1] == '.')
            return true;
    }
    return false;
}

const char *hub_proxy_for(const struct hub_url *url)
{
    /* HTTP_PROXY in capitals is ignored: in a CGI process a client could set it by a header. */
    static const char *const https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    static const char *const http[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    const char *const *names = url->is_https ? https : http;
    size_t count = url->is_https ? 4 : 3;
    for (size_t i = 0; i < count; i++) {
        if (env(names[i]) != NULL)
            return is_exempt(url->host.name) ? NULL : env(names[i]);
    }
    return NULL;
}
