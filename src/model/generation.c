/* model/generation.c - generation_config.json: stop tokens, sampling defaults. */
#include <string.h>

#include "base/file.h"
#include "model/fields.h"
#include "model/map.h"

enum { GENERATION_ARENA_MAX = 16 << 20 };

/* Without config.json any 32-bit id is accepted; the engine checks its own vocabulary. */
static const uint32_t any_vocab = UINT32_MAX;

static void read_optional(struct model_fields *f, const char *key, double min, double max,
                          bool *has, double *out)
{
    model_field_number(f, key, min, max, false, out);
    *has = f->code == LR_OK && model_field(f, key) != NULL;
}

lr_code model_generation_parse(struct lr_str text, struct model_generation *out,
                               struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    out->tokens = (struct model_token_ids){.bos = -1, .pad = -1};
    struct lr_arena arena;
    struct model_fields f;
    lr_arena_init(&arena, GENERATION_ARENA_MAX);
    lr_code code = model_fields_parse(&arena, text, "generation_config.json", &f, err);
    if (code == LR_OK) {
        model_field_tokens(&f, any_vocab, &out->tokens);
        model_field_bool(&f, "do_sample", &out->do_sample);
        read_optional(&f, "temperature", 0, 100, &out->has_temperature, &out->temperature);
        read_optional(&f, "top_p", 0, 1, &out->has_top_p, &out->top_p);
        read_optional(&f, "min_p", 0, 1, &out->has_min_p, &out->min_p);
        read_optional(&f, "repetition_penalty", 1e-3, 1e3, &out->has_repetition_penalty,
                      &out->repetition_penalty);
        if (f.code == LR_OK && model_field(&f, "top_k") != NULL) {
            model_field_u32(&f, "top_k", 0, INT32_MAX, &out->top_k);
            out->has_top_k = f.code == LR_OK;
        }
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
