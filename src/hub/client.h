/* hub/client.h - who asks the hub: the policy, the token, the limits of waiting.
 *
 * Conventions of the Hugging Face tools hold: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH,
 * HF_HOME.  The token is sent to the endpoint's own origin and nowhere else.  libcurl is
 * loaded at first use; without it every call says which package to install.
 * Thread: read only after init, so any.
 */
#ifndef HUB_CLIENT_H
#define HUB_CLIENT_H

#include "hub/url.h"

struct hub_client {
    struct hub_policy policy;
    char token[256];        /* "" when there is none; never logged */
    uint32_t connect_ms;    /* to open a connection */
    uint32_t stall_ms;      /* without a byte before a transfer is given up */
    uint32_t small_ms;      /* for the whole of a listing or a small file */
    const char *user_agent; /* borrowed */
    const char *ca_file;    /* borrowed: SSL_CERT_FILE; NULL: libcurl's own */
};

/* From the environment and the --hub-host names.  A token file that is not there is no
 * error.  INVALID_ARGUMENT names the variable that is malformed. */
LR_MUST_USE lr_code hub_client_init(struct hub_client *client, const char *const *hosts,
                                    size_t host_count, struct lr_error *err);

#endif
