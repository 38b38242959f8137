/* net/settings.h - settings shared by all our servers: listen address, TLS, trusted URLs.
 * Thread: any. */
#ifndef NET_SETTINGS_H
#define NET_SETTINGS_H

#include <stdint.h>

#include "base/settings.h"
#include "net/server.h"
#include "net/tls.h"

/* Where a server listens: the sockets of the service manager, or else the setting listen, of
 * which nothing is bound yet. */
LR_MUST_USE lr_code net_settings_listeners(const struct lr_settings *settings,
                                           struct net_listeners *out, struct lr_error *err);

/* Fills in the server's certificate (tls-cert and tls-key; out->tls is the caller's to destroy
 * in any case) and its limits. */
LR_MUST_USE lr_code net_settings_server(const struct lr_settings *settings,
                                        struct net_server_config *out, struct lr_error *err);

/* tls-ca; *out is NULL (the system's CAs) if it is not set. */
LR_MUST_USE lr_code net_settings_client_tls(const struct lr_settings *settings,
                                            struct net_tls **out, struct lr_error *err);

/* Checks a URL that secrets and prompts are sent to.  PERMISSION_DENIED: plain http to another
 * machine without insecure-http.  `what` names the other side. */
LR_MUST_USE lr_code net_settings_check_url(const struct lr_settings *settings, const char *what,
                                           const char *url, struct lr_error *err);

/* True when the server's certificate expires in fewer days than tls-warn-days; *why names the
 * certificate and the date. */
bool net_settings_certificate_ends(const struct lr_settings *settings,
                                   const struct net_server *server, struct lr_error *why);

/* What every server does on a reload signal: reopens the log file and reloads all
 * certificates. */
void net_settings_reload(void);

#endif
