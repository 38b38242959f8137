/* LINK: model base */
/* metalbin_fuzz.c - the header of a model.bin with a fixed configuration.  The first eight
 * bytes are the claimed size of the file, so that the size check can be passed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/metalbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct model_config config = {
        .layers = 3,
        .hidden = 192,
        .intermediate = 160,
        .heads = 3,
        .kv_heads = 1,
        .head_dim = 64,
        .experts = 5,
        .experts_per_token = 3,
        .vocab = 517,
        .window = 16,
        .context = 131072,
        .rms_eps = 1e-5,
        .swiglu_limit = 7,
        .rope = {MODEL_ROPE_YARN, 150000, 32, 32, 1, 1.3465735902799727, 4096, false},
        .sliding = {true, false, true},
    };
    static struct model_metalbin_layout out;
    struct lr_error err;
    uint64_t file_size;
    if (size < sizeof(file_size))
        return 0;
    memcpy(&file_size, data, sizeof(file_size));
    data += sizeof(file_size);
    size -= sizeof(file_size);
    if (model_metalbin_parse(data, size, file_size, "f", &config, &out, &err) == LR_OK) {
        if (out.file_size != file_size || out.vocab_rows > config.vocab ||
            out.blocks[2].experts + config.experts * out.expert_stride != file_size)
            abort();
    }
    return 0;
}
