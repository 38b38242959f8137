/* LINK: native_core model base */
/* native_config_fuzz.c - config.json, read by the table of every family of the native engine.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "engines/native/spec/open.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct lr_json_limits limits = {.max_depth = 32, .max_bytes = 1 << 20};
    const struct lr_json *config;
    struct lr_arena arena;
    struct lr_error err;

    lr_arena_init(&arena, 64 << 20);
    if (lr_json_parse(&arena, lr_str((const char *)data, size), &limits, &config, &err) ==
        LR_OK)
        for (size_t i = 0; native_archs[i] != NULL; i++) {
            void *values = calloc(1, native_archs[i]->config_bytes);
            if (values != NULL &&
                native_config_read(config, native_archs[i]->fields, &arena, values, &err) !=
                    LR_OK &&
                (err.text[0] == '\0' || err.code == LR_OK))
                abort();
            free(values);
        }
    lr_arena_free(&arena);
    return 0;
}
