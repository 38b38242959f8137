/* router/store/secrets.h - the database keeps the hash of a node's secret, not the secret.
 */
#ifndef ROUTER_STORE_SECRETS_H
#define ROUTER_STORE_SECRETS_H

#include "base/sha256.h"
#include "base/str.h"

/* In the database this stands before the hash. */
#define ROUTER_SECRET_MARK "sha256:"

void router_secret_hash(struct lr_str secret, char out[LR_SHA256_HEX_LEN + 1]);

/* The hash of what the database keeps; an older release kept the secret itself. */
void router_secret_read(struct lr_str kept, char hash[LR_SHA256_HEX_LEN + 1]);

#endif
