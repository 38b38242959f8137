/* hub/policy.c - which URLs may be fetched (docs/promises.md: hub-hosts). */
#include <ctype.h>
#include <stdio.h>

#include "base/os/socket.h"
#include "hub/url.h"

static const char default_endpoint[] = "https://huggingface.co";

/* We parse a URL ourselves and then hand it to libcurl.  That is safe only if both parse it
 * alike, so every ambiguous URL is refused. */
static bool plain_text(struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7F || c == '\\' || c == '#')
            return false;
    }
    return true;
}

/* Lower case, and one form for each address. */
static bool normalise_host(struct lr_str host, bool bracketed, char out[HUB_HOST_MAX])
{
    uint32_t ipv4;
    if (lr_str_ends(host, ".") && !bracketed)
        host.len--;
    if (host.len == 0 || host.len >= HUB_HOST_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        unsigned char c = (unsigned char)host.ptr[i];
        bool fine = bracketed ? isxdigit(c) || c == ':' || c == '.'
                              : isalnum(c) || c == '-' || c == '.' || c == '_';
        if (!fine)
            return false;
        out[i] = (char)tolower(c);
    }
    out[host.len] = '\0';
    if (bracketed) {
        unsigned char bytes[16];
        return inet_pton(AF_INET6, out, bytes) == 1 &&
               inet_ntop(AF_INET6, bytes, out, HUB_HOST_MAX) != NULL;
    }
    if (hub_host_ipv4(host, &ipv4))
        (void)snprintf(out, HUB_HOST_MAX, "%u.%u.%u.%u", ipv4 >> 24, ipv4 >> 16 & 255,
                       ipv4 >> 8 & 255, ipv4 & 255);
    return out[0] != '.' && strstr(out, "..") == NULL;
}

/* "name", "name:port", "[v6]:port"; port stays 0 when none is given. */
static bool parse_authority(struct lr_str text, struct hub_host *out)
{
    struct lr_str host = text, port = {0};
    bool bracketed = lr_str_starts(text, "[");
    out->port = 0;
    if (bracketed) {
        size_t end = lr_str_find_char(text, ']');
        if (end == LR_STR_NONE)
            return false;
        host = lr_str_sub(text, 1, end);
        port = lr_str_sub(text, end + 1, text.len);
        if (port.len != 0 && port.ptr[0] != ':')
            return false;
    } else {
        size_t colon = lr_str_find_char(text, ':');
        if (colon != LR_STR_NONE) {
            host = lr_str_sub(text, 0, colon);
            port = lr_str_sub(text, colon, text.len);
        }
    }
    if (port.len != 0) {
        uint64_t number;
        if (!lr_str_u64(lr_str_sub(port, 1, port.len), &number) || number == 0 ||
            number > 65535)
            return false;
        out->port = (uint16_t)number;
    }
    return normalise_host(host, bracketed, out->name);
}

lr_code hub_url_parse(struct lr_str text, struct hub_url *out, struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    size_t start = lr_str_find(text, LR_STR_LIT("://"));
    struct lr_str scheme =
        start == LR_STR_NONE ? (struct lr_str){0} : lr_str_sub(text, 0, start);
    out->is_https = lr_str_eq_nocase(scheme, LR_STR_LIT("https"));
    if (!out->is_https && !lr_str_eq_nocase(scheme, LR_STR_LIT("http")))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"%.*s\" is not an http or https address",
                       (int)(text.len < 200 ? text.len : 200), text.len != 0 ? text.ptr : "");
    struct lr_str rest = lr_str_sub(text, start + 3, text.len);
    size_t end = 0;
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
        end++;
    if (text.len >= HUB_URL_MAX || !plain_text(text) ||
        !parse_authority(lr_str_sub(rest, 0, end), &out->host))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"%.*s\" is not a plain address of host, port and path",
                       (int)(text.len < 200 ? text.len : 200), text.ptr);
    if (out->host.port == 0)
        out->host.port = out->is_https ? 443 : 80;
    return LR_OK;
}

lr_code hub_policy_init(struct hub_policy *policy, const char *endpoint,
                        const char *const *hosts, size_t host_count, struct lr_error *err)
{
    struct hub_url url;
    struct lr_str text = lr_str_z(endpoint != NULL ? endpoint : default_endpoint);
    memset(policy, 0, sizeof(*policy));
    while (lr_str_ends(text, "/"))
        text.len--;
    lr_code code = hub_url_parse(text, &url, err);
    if (code != LR_OK || text.len >= sizeof(policy->endpoint) ||
        lr_str_find_char(text, '?') != LR_STR_NONE)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "HF_ENDPOINT is \"%.200s\"; an address like %s is expected",
                       endpoint != NULL ? endpoint : "", default_endpoint);
    memcpy(policy->endpoint, text.ptr, text.len);
    policy->endpoint_host = url.host;
    policy->endpoint_is_https = url.is_https;
    if (endpoint != NULL && !lr_str_eq_z(text, default_endpoint))
        policy->named[policy->named_count++] = url.host;
    for (size_t i = 0; i < host_count; i++) {
        if (policy->named_count == HUB_HOSTS_MAX)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "hub-host and HF_ENDPOINT name more than %d hosts: a longer list "
                           "cannot be checked for each URL",
                           HUB_HOSTS_MAX);
        if (!parse_authority(lr_str_z(hosts[i]), &policy->named[policy->named_count++]))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "hub-host is \"%.200s\"; a name like cdn.example.com or "
                           "cdn.example.com:8443 is expected",
                           hosts[i]);
    }
    return LR_OK;
}

static bool policy_is_within(const char *host, const char *domain)
{
    size_t host_len = strlen(host), len = strlen(domain);
    return host_len >= len && strcmp(host + host_len - len, domain) == 0 &&
           (host_len == len || host[host_len - len - 1] == '.');
}

lr_code hub_policy_check(const struct hub_policy *policy, struct lr_str url, bool *is_named,
                         struct lr_error *err)
{
    struct hub_url parts;
    struct lr_error why;
    *is_named = false;
    if (hub_url_parse(url, &parts, &why) != LR_OK)
        return lr_fail(err, LR_PERMISSION_DENIED, "refused an address of the hub: %s",
                       why.text);
    for (size_t i = 0; i < policy->named_count; i++) {
        const struct hub_host *named = &policy->named[i];
        uint16_t port = named->port != 0 ? named->port : parts.is_https ? 443 : 80;
        if (port == parts.host.port && strcmp(named->name, parts.host.name) == 0) {
            *is_named = true;
            return LR_OK;
        }
    }
    bool is_known = policy_is_within(parts.host.name, "huggingface.co") ||
                    policy_is_within(parts.host.name, "hf.co");
    if (is_known && parts.is_https && parts.host.port == 443)
        return LR_OK;
    return lr_fail(err, LR_PERMISSION_DENIED,
                   "refused to follow the hub to %s://%s:%u: allowed are https to "
                   "huggingface.co and hf.co, the host of HF_ENDPOINT, and hosts named with "
                   "--hub-host %s:%u",
                   parts.is_https ? "https" : "http", parts.host.name, parts.host.port,
                   parts.host.name, parts.host.port);
}

bool hub_policy_is_endpoint(const struct hub_policy *policy, struct lr_str url)
{
    struct hub_url parts;
    return hub_url_parse(url, &parts, NULL) == LR_OK &&
           parts.is_https == policy->endpoint_is_https &&
           parts.host.port == policy->endpoint_host.port &&
           strcmp(parts.host.name, policy->endpoint_host.name) == 0;
}
