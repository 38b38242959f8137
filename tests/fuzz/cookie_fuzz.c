/* LINK: router base */
/* A Cookie header from a browser or from an attacker. */
#include <stdint.h>
#include <stdlib.h>

#include "router/access/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str header = {(const char *)data, size}, value;
    /* The found value lies within the header. */
    if (router_cookie_find(header, LR_STR_LIT("llm-router-1"), &value) &&
        (value.ptr < header.ptr || value.ptr + value.len > header.ptr + header.len))
        abort();
    return 0;
}
