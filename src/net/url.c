/* net/url.c - parsing of client URLs. */
#include "net/url.h"

#include <stdio.h>

static bool host_ok(struct lr_str host, bool is_v6)
{
    if (host.len == 0 || host.len > 253)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && c != '.' && !(is_v6 ? c == ':' : c == '-' || c == '_'))
            return false;
    }
    return true;
}

static lr_code split_port(const char *text, struct lr_str *authority, struct net_url *out,
                          struct lr_error *err)
{
    struct lr_str host = *authority;
    bool is_v6 = host.len != 0 && host.ptr[0] == '[';
    size_t end = is_v6 ? lr_str_find_char(host, ']') : lr_str_find_char(host, ':');
    if (is_v6 && end == LR_STR_NONE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "URL \"%s\": \"]\" is missing", text);
    struct lr_str rest = lr_str("", 0);
    if (is_v6) {
        rest = lr_str_sub(host, end + 1, host.len);
        host = lr_str_sub(host, 1, end);
    } else if (end != LR_STR_NONE) {
        rest = lr_str_sub(host, end, host.len);
        host = lr_str_sub(host, 0, end);
    }
    uint64_t port = out->is_https ? 443 : 80;
    if (rest.len != 0 &&
        (rest.ptr[0] != ':' || !lr_str_u64(lr_str_sub(rest, 1, rest.len), &port) || port == 0 ||
         port > 65535))
        return lr_fail(err, LR_INVALID_ARGUMENT, "URL \"%s\": the port must be 1 to 65535",
                       text);
    if (!host_ok(host, is_v6))
        return lr_fail(err, LR_INVALID_ARGUMENT, "URL \"%s\": bad host name", text);
    out->port = (uint16_t)port;
    (void)snprintf(out->host, sizeof(out->host), LR_STR_FMT, LR_STR_ARG(host));
    const char *open = is_v6 ? "[" : "";
    const char *close = is_v6 ? "]" : "";
    bool is_default = port == (out->is_https ? 443 : 80);
    if (is_default)
        (void)snprintf(out->authority, sizeof(out->authority), "%s%s%s", open, out->host,
                       close);
    else
        (void)snprintf(out->authority, sizeof(out->authority), "%s%s%s:%u", open, out->host,
                       close, out->port);
    net_url_format(out->origin, sizeof(out->origin), out->is_https, out->host, out->port);
    return LR_OK;
}

lr_code net_url_parse(const char *text, struct net_url *out, struct lr_error *err)
{
    *out = (struct net_url){0};
    struct lr_str rest = lr_str_z(text);
    if (lr_str_starts(rest, "https://"))
        out->is_https = true;
    else if (!lr_str_starts(rest, "http://"))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "URL \"%s\" must begin with http:// or https://", text);
    rest = lr_str_sub(rest, out->is_https ? 8 : 7, rest.len);
    size_t end = 0;
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
        end++;
    struct lr_str authority = lr_str_sub(rest, 0, end);
    out->target = lr_str_sub(rest, end, rest.len);
    for (size_t i = 0; i < out->target.len; i++) {
        unsigned char c = (unsigned char)out->target.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "URL \"%s\" contains a character that must be escaped", text);
    }
    if (out->target.len == 0)
        out->target = LR_STR_LIT("/");
    else if (out->target.ptr[0] == '?')
        return lr_fail(err, LR_INVALID_ARGUMENT, "URL \"%s\" needs a \"/\" before \"?\"", text);
    return split_port(text, &authority, out, err);
}

void net_url_format(char *out, size_t size, bool is_https, const char *host, unsigned port)
{
    bool is_v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, size, "%s://%s%s%s:%u", is_https ? "https" : "http", is_v6 ? "[" : "",
                   host, is_v6 ? "]" : "", port);
}
