/* LINK: net base */
/* A signed token as an OpenID provider sends it. */
#include <stdint.h>
#include <stdlib.h>

#include "net/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str text = {(const char *)data, size};
    struct lr_arena arena;
    struct net_jwt token;
    lr_arena_init(&arena, 4 << 20);
    /* What was signed lies within the token. */
    if (net_jwt_parse(&arena, text, &token, NULL) == LR_OK &&
        (token.signed_text.ptr != text.ptr || token.signed_text.len >= text.len ||
         !lr_json_is(token.claims, LR_JSON_OBJECT)))
        abort();
    lr_arena_free(&arena);
    return 0;
}
