/* net/guard.c - Host, Origin and content type of a loopback server without keys. */
#include "net/guard.h"

#include <stdio.h>

#include "base/errors.h"
#include "base/os/socket.h"
#include "net/cidr.h"
#include "net/request.h"

static bool is_digits(struct lr_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    }
    return s.len != 0;
}

static bool is_loopback_name(struct lr_str name)
{
    struct lr_str localhost = LR_STR_LIT("localhost");
    if (name.len != 0 && name.ptr[name.len - 1] == '.')
        name.len--;
    if (lr_str_eq_nocase(name, localhost))
        return true;
    struct lr_str suffix = LR_STR_LIT(".localhost");
    if (name.len > suffix.len &&
        lr_str_eq_nocase(lr_str_sub(name, name.len - suffix.len, name.len), suffix))
        return true;
    char text[64];
    struct in_addr v4;
    if (name.len >= sizeof(text))
        return false;
    (void)snprintf(text, sizeof(text), LR_STR_FMT, LR_STR_ARG(name));
    /* inet_pton takes exactly four decimal numbers: no 127.1, no 0x7f000001. */
    return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool net_is_loopback_host(struct lr_str host)
{
    struct lr_str port = lr_str("", 0);
    bool has_port = false;
    if (host.len != 0 && host.ptr[0] == '[') {
        size_t close = lr_str_find_char(host, ']');
        if (close == LR_STR_NONE || !lr_str_eq_z(lr_str_sub(host, 0, close + 1), "[::1]"))
            return false;
        struct lr_str rest = lr_str_sub(host, close + 1, host.len);
        if (rest.len == 0)
            return true;
        return rest.ptr[0] == ':' && is_digits(lr_str_sub(rest, 1, rest.len));
    }
    size_t colon = lr_str_find_char(host, ':');
    if (colon != LR_STR_NONE) {
        has_port = true;
        port = lr_str_sub(host, colon + 1, host.len);
        host = lr_str_sub(host, 0, colon);
    }
    return (!has_port || is_digits(port)) && is_loopback_name(host);
}

bool net_is_loopback_bind(const char *host)
{
    return strcmp(host, "::1") == 0 || net_is_loopback_host(lr_str_z(host));
}

static bool is_type(struct lr_str type, const char *name)
{
    type = lr_str_trim(lr_str_sub(type, 0, lr_str_find_char(type, ';')));
    return lr_str_eq_nocase(type, lr_str_z(name));
}

bool net_is_json_type(struct lr_str type)
{
    return is_type(type, "application/json");
}

/* The host and port of "http://host:port"; false for "null", file pages, extensions. */
static bool take_origin(struct lr_str origin, bool *is_https, struct lr_str *host)
{
    *is_https = lr_str_starts(origin, "https://");
    if (!*is_https && !lr_str_starts(origin, "http://"))
        return false;
    *host = lr_str_sub(origin, *is_https ? 8 : 7, origin.len);
    return true;
}

static bool is_foreign_origin(const struct net_guard_input *in, struct lr_str origin)
{
    bool is_https;
    struct lr_str host;
    if (!take_origin(origin, &is_https, &host))
        return true;
    if (in->rules.is_management)
        return is_https != in->is_tls || !lr_str_eq_nocase(host, in->host);
    return !net_is_loopback_host(host);
}

static bool is_foreign_site(const struct net_guard_input *in, struct lr_str site)
{
    return lr_str_eq_nocase(site, LR_STR_LIT("cross-site")) ||
           (in->rules.is_management && lr_str_eq_nocase(site, LR_STR_LIT("same-site")));
}

static lr_code check_page(const struct net_guard_input *in, struct lr_error *err)
{
    struct lr_str value;
    if (in->rules.is_trusted_page)
        return LR_OK;
    if (net_headers_get(in->headers, "origin", &value) && is_foreign_origin(in, value))
        return lr_fail_as(err, page_refused, value);
    if (net_headers_get(in->headers, "sec-fetch-site", &value) && is_foreign_site(in, value))
        return lr_fail_plain(err, pages_refused);
    return LR_OK;
}

/* `curl -d` calls every body a form.  A browser that posts a form also sends its Origin or
 * Sec-Fetch-Site, and curl sends neither. */
static bool is_form_of_curl(const struct net_guard_input *in, struct lr_str type)
{
    struct lr_str value;
    return in->has_body && !in->rules.is_management &&
           is_type(type, "application/x-www-form-urlencoded") &&
           !net_headers_get(in->headers, "origin", &value) &&
           !net_headers_get(in->headers, "sec-fetch-site", &value);
}

static lr_code check_proxy(const struct net_guard_input *in, struct lr_error *err)
{
    const struct net_header *header = net_forwarded_header(in->headers);
    bool is_old = in->rules.is_management && in->is_http_1_0;
    if (in->rules.asks_for_secret || (header == NULL && !is_old))
        return LR_OK;
    return lr_fail(
        err, LR_PERMISSION_DENIED,
        "a proxy passed this request on (" LR_STR_FMT
        "), so it is not from this machine, and this server asks nobody for a key: "
        "start it with --require-key (and --trusted-proxy with the proxy's address), "
        "or ask it directly",
        LR_STR_ARG(header != NULL ? lr_str_sub(header->name, 0, 40) : LR_STR_LIT("HTTP/1.0")));
}

lr_code net_guard_loopback(const struct net_guard_input *in, struct lr_error *err)
{
    struct lr_str value;
    lr_code code = check_proxy(in, err);
    if (code != LR_OK)
        return code;
    /* Only HTTP/1.0 may leave the Host out.  Browsers do neither; simple probes do both. */
    bool has_host = in->host.len != 0 || !in->is_http_1_0;
    if (has_host && !net_is_loopback_host(in->host))
        return lr_fail_as(err, other_host, in->host);
    code = check_page(in, err);
    if (code != LR_OK)
        return code;
    bool has_type = net_headers_get(in->headers, "content-type", &value);
    /* Browsers send a form's type even with an empty form; curl -X POST sends none.  Without a
     * body the type of any other request means nothing: load generators send one with GET. */
    if ((in->has_body || (has_type && in->is_post)) && !net_is_json_type(value) &&
        !is_form_of_curl(in, value))
        return lr_fail_as(err, content_type, value);
    return LR_OK;
}

lr_code net_guard_request(const struct net_request *req, const struct net_guard_rules *rules,
                          struct lr_error *err)
{
    struct net_guard_input in = {
        .host = net_request_host(req),
        .headers = net_request_headers(req),
        .has_body = net_request_body_length(req) != 0,
        .is_post = lr_str_eq_z(net_request_method(req), "POST"),
        .is_tls = net_request_is_tls(req),
        .is_http_1_0 = net_request_is_http_1_0(req),
        .rules = *rules,
    };
    return net_guard_loopback(&in, err);
}
