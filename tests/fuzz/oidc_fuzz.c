/* LINK: router base */
/* What an OpenID provider says about itself, and about a person. */
#include <stdint.h>
#include <stdlib.h>

#include "router/oidc/claims.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct router_oidc_config config = {.issuer = "https://id.example.com",
                                              .client_id = "router",
                                              .groups_claim = "a.groups",
                                              .skew_ms = 1000};
    struct lr_str text = {(const char *)data, size};
    struct router_oidc_metadata metadata;
    const struct lr_json *claims;
    struct lr_arena arena;
    /* A document is taken whole, with URLs that may be called. */
    if (router_oidc_metadata_read(&config, text, &metadata, NULL) == LR_OK &&
        !router_oidc_is_safe_url(metadata.token))
        abort();
    lr_arena_init(&arena, 4 << 20);
    if (lr_json_parse(&arena, text, NULL, &claims, NULL) == LR_OK) {
        (void)router_oidc_groups(&config, claims);
        if (router_oidc_claims_check(&config, claims, "nonce", 1000, NULL) == LR_OK &&
            lr_json_get(claims, "sub") == NULL)
            abort();
    }
    lr_arena_free(&arena);
    return 0;
}
