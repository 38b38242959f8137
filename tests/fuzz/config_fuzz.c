/* LINK: model base */
/* config_fuzz.c - config.json and generation_config.json.  With an accepted configuration the
 * engine can compute its buffer sizes. */
#include <stdint.h>
#include <stdlib.h>

#include "model/config.h"
#include "model/gptoss.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str text = lr_str((const char *)data, size);
    struct lr_error err;
    static struct model_config config;
    struct model_generation generation;
    if (model_config_parse(text, &config, &err) == LR_OK) {
        if (config.hidden % 32 != 0 || config.intermediate % 32 != 0 || config.layers == 0 ||
            config.layers > MODEL_LAYERS_MAX || config.heads % config.kv_heads != 0 ||
            config.experts_per_token > config.experts || !(config.rope.theta > 1) ||
            !(config.rms_eps > 0) || model_gptoss_weight_bytes(&config) > UINT64_C(1) << 60)
            abort();
    }
    (void)!model_generation_parse(text, &generation, &err);
    return 0;
}
