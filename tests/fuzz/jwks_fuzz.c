/* LINK: net base */
/* The keys of an OpenID provider, and a signature that none of them has made. */
#include <stdint.h>
#include <stdlib.h>

#include "net/jwk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const algorithms[] = {"RS256", "PS256", "ES256",
                                             "ES384", "EdDSA", "none"};
    struct lr_str text = {(const char *)data, size};
    struct net_jwks *set;
    if (net_jwks_parse(text, &set, NULL) != LR_OK)
        return 0;
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
        if (net_jwks_verify(set, lr_str_z(algorithms[i]), lr_str(NULL, 0), LR_STR_LIT("text"),
                            lr_str_sub(text, 0, 96), NULL) == LR_OK)
            abort();
    net_jwks_free(set);
    return 0;
}
