/* model/generation.c - generation_config.json: stop tokens, sampling defaults. */
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "model/fields.h"
#include "model/map.h"

/* Without config.json any 32-bit id is accepted; the engine checks its own vocabulary. */
static const uint32_t any_vocab = UINT32_MAX;

static const struct {
    const char *name;
    double min, max;
    uint32_t given;
    size_t offset; /* of a float in struct lr_sampling_defaults */
} numbers[] = {
    {"temperature", 0, 100, LR_GIVEN_TEMPERATURE,
     offsetof(struct lr_sampling_defaults, temperature)},
    {"top_p", 0, 1, LR_GIVEN_TOP_P, offsetof(struct lr_sampling_defaults, top_p)},
    {"min_p", 0, 1, LR_GIVEN_MIN_P, offsetof(struct lr_sampling_defaults, min_p)},
    {"repetition_penalty", 1e-3, 1e3, LR_GIVEN_REPETITION_PENALTY,
     offsetof(struct lr_sampling_defaults, repetition_penalty)},
};

static void read_sampling(struct model_fields *f, struct lr_sampling_defaults *out)
{
    bool samples = true;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double value = 0;
        if (model_field(f, numbers[i].name) == NULL)
            continue;
        model_field_number(f, numbers[i].name, numbers[i].min, numbers[i].max, true, &value);
        float number = (float)value;
        memcpy((char *)out + numbers[i].offset, &number, sizeof(number));
        out->given |= numbers[i].given;
    }
    if (model_field(f, "top_k") != NULL) {
        model_field_u32(f, "top_k", 0, INT32_MAX, &out->top_k);
        out->given |= LR_GIVEN_TOP_K;
    }
    model_field_bool(f, "do_sample", &samples);
    if (!samples) {
        out->temperature = 0;
        out->given |= LR_GIVEN_TEMPERATURE;
    }
}

lr_code model_generation_parse(struct lr_str text, struct model_generation *out,
                               struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    out->tokens = (struct model_token_ids){.bos = -1, .pad = -1};
    struct lr_arena arena;
    struct model_fields f;
    lr_arena_init(&arena, MODEL_CONFIG_ARENA_MAX);
    lr_code code = model_fields_parse(&arena, text, "generation_config.json", &f, err);
    if (code == LR_OK) {
        model_field_tokens(&f, any_vocab, &out->tokens);
        read_sampling(&f, &out->sampling);
        code = f.code;
    }
    lr_arena_free(&arena);
    return code;
}

lr_code model_generation_read(const char *dir, struct model_generation *out,
                              struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct lr_arena arena;
    struct lr_str text;
    memset(out, 0, sizeof(*out));
    out->tokens = (struct model_token_ids){.bos = -1, .pad = -1};
    lr_code code = model_path(path, dir, LR_STR_LIT("generation_config.json"), err);
    if (code != LR_OK || !lr_file_exists(path))
        return code;
    lr_arena_init(&arena, MODEL_CONFIG_BYTES_MAX + 4096);
    code = model_read_text(&arena, path, MODEL_CONFIG_BYTES_MAX, &text, err);
    if (code == LR_OK) {
        code = model_generation_parse(text, out, err);
        if (code != LR_OK)
            (void)lr_fail_prefix(err, "%s", dir);
    }
    lr_arena_free(&arena);
    return code;
}
