/* hub/client.h - settings for requests to the hub: allowed hosts, token, timeouts.
 *
 * Uses the variables of the Hugging Face tools: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME,
 * HF_HUB_OFFLINE.
 * The token is sent only to the endpoint's own origin. libcurl is loaded at first use; without
 * it every call fails with the name of the package to install.  Thread: read only after init,
 * so any.
 */
#ifndef HUB_CLIENT_H
#define HUB_CLIENT_H

#include "base/settings.h"
#include "hub/url.h"

struct hub_client {
    struct hub_policy policy;
    bool is_offline;        /* HF_HUB_OFFLINE: every request is refused */
    char token[256];        /* "" when there is none; never logged */
    uint32_t connect_ms;    /* to open a connection */
    uint32_t stall_ms;      /* a transfer without a byte for so long is aborted */
    uint32_t small_ms;      /* for a whole listing or small file */
    const char *user_agent; /* borrowed */
    const char *ca_file;    /* borrowed: SSL_CERT_FILE; NULL: libcurl's own */
};

/* From the environment and the --hub-host names.  A missing token file is no error.
 * INVALID_ARGUMENT names the malformed variable. */
LR_MUST_USE lr_code hub_client_init(struct hub_client *client, const char *const *hosts,
                                    size_t host_count, struct lr_error *err);
/* The same with the names of the setting hub-host. */
LR_MUST_USE lr_code hub_client_read(struct hub_client *client,
                                    const struct lr_settings *settings, struct lr_error *err);

#endif
