#include "router/store/secrets.h"

#include <string.h>

void router_secret_hash(struct lr_str secret, char out[LR_SHA256_HEX_LEN + 1])
{
    unsigned char digest[LR_SHA256_LEN];
    lr_sha256_of(secret, digest);
    lr_sha256_hex(digest, out);
}

void router_secret_read(struct lr_str kept, char hash[LR_SHA256_HEX_LEN + 1])
{
    if (lr_str_starts(kept, ROUTER_SECRET_MARK))
        lr_str_copy(hash, LR_SHA256_HEX_LEN + 1,
                    lr_str_sub(kept, strlen(ROUTER_SECRET_MARK), kept.len));
    else
        router_secret_hash(kept, hash);
}
