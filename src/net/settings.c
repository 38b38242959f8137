#include "net/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/service.h"
#include "net/guard.h"
#include "net/service.h"
#include "net/url.h"

lr_code net_settings_listeners(const struct lr_settings *settings, struct net_listeners *out,
                               struct lr_error *err)
{
    size_t count = lr_settings_list_count(settings, "listen");
    int given[LR_SERVICE_SOCKETS_MAX];
    size_t given_count = lr_service_sockets(given);
    lr_code code = LR_OK;
    out->count = 0;
    for (size_t i = 0; code == LR_OK && i < given_count; i++)
        code = net_listener_adopt(given[i], &out->all[out->count++], err);
    if (given_count != 0)
        return code;
    if (count == 0 || count > NET_LISTENERS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "listen: give one to %d addresses, not %zu",
                       NET_LISTENERS_MAX, count);
    for (size_t i = 0; code == LR_OK && i < count; i++)
        code = net_listener_parse(lr_settings_list_item(settings, "listen", i),
                                  &out->all[out->count++], err);
    return code;
}

static lr_code server_tls(const struct lr_settings *settings, struct net_tls **out,
                          struct lr_error *err)
{
    const char *cert = lr_settings_str(settings, "tls-cert");
    const char *key = lr_settings_str(settings, "tls-key");
    *out = NULL;
    if ((cert != NULL) != (key != NULL))
        return lr_fail(err, LR_INVALID_ARGUMENT, "tls-cert and tls-key go together");
    return cert != NULL ? net_tls_server_create(cert, key, out, err) : LR_OK;
}

lr_code net_settings_server(const struct lr_settings *settings, struct net_server_config *out,
                            struct lr_error *err)
{
    out->max_connections = (uint32_t)lr_settings_int(settings, "max-connections");
    out->max_per_address = (uint32_t)lr_settings_int(settings, "connections-per-address");
    out->max_body_bytes = lr_settings_size(settings, "max-body-bytes");
    out->header_timeout_ms = (uint32_t)lr_settings_ms(settings, "header-timeout");
    out->body_timeout_ms = (uint32_t)lr_settings_ms(settings, "body-timeout");
    out->idle_timeout_ms = (uint32_t)lr_settings_ms(settings, "idle-timeout");
    return server_tls(settings, &out->tls, err);
}

lr_code net_settings_client_tls(const struct lr_settings *settings, struct net_tls **out,
                                struct lr_error *err)
{
    const char *ca = lr_settings_str(settings, "tls-ca");
    *out = NULL;
    return ca != NULL ? net_tls_client_create(ca, out, err) : LR_OK;
}

lr_code net_settings_check_url(const struct lr_settings *settings, const char *what,
                               const char *url, struct lr_error *err)
{
    struct net_url parsed;
    lr_code code = net_url_parse(url, &parsed, err);
    if (code != LR_OK)
        return code;
    if (parsed.is_https || net_is_loopback_bind(parsed.host) ||
        lr_settings_bool(settings, "insecure-http"))
        return LR_OK;
    return lr_fail(err, LR_PERMISSION_DENIED,
                   "%s at %s is beyond this machine and not encrypted: use https there "
                   "(tls-cert and tls-key on its side, tls-ca on this one), or say "
                   "--insecure-http in a network that you trust",
                   what, parsed.origin);
}

bool net_settings_certificate_ends(const struct lr_settings *settings,
                                   const struct net_server *server, struct lr_error *why)
{
    struct net_tls_validity validity;
    int64_t days = lr_settings_int(settings, "tls-warn-days");
    char until[LR_TIME_TEXT_LEN + 1];
    if (!net_server_get_validity(server, &validity) ||
        validity.until_s - lr_clock_wall_ms(NULL) / 1000 >= days * 86400 || days == 0)
        return false;
    lr_time_format(validity.until_s * 1000, until);
    (void)lr_fail_as(why, certificate_ends, validity.file, until);
    return true;
}

void net_settings_reload(void)
{
    net_service_reloading();
    lr_log_reopen();
    lr_log_info(NULL, "process.reload");
    net_tls_look(true);
    net_service_reloaded();
}
