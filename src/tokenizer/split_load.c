/* tokenizer/split_load.c - pre_tokenizer: from JSON to the steps that split text.
 *
 * Supported: ByteLevel, Split with behavior "Isolated", and a Sequence of Splits that ends in a
 * ByteLevel.  Every step splits the pieces of the previous step.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "tokenizer/internal.h"
#include "tokenizer/scan.h"

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static lr_code add_step(struct splitter *s, enum split_kind kind, void *code,
                        struct lr_error *err)
{
    if (s->count == SPLIT_MAX_STEPS) {
        tokenizer_split_free_code(code);
        return lr_fail(err, LR_UNSUPPORTED, "pre_tokenizer has more than %d steps",
                       SPLIT_MAX_STEPS);
    }
    s->steps[s->count++] = (struct split_step){kind, code};
    return LR_OK;
}

static lr_code add_pattern(struct splitter *s, struct lr_str pattern, bool literal,
                           struct lr_error *err)
{
    void *code;
    if (!literal && lr_str_eq_z(pattern, tokenizer_scan_o200k_pattern)) {
        lr_code rc = s->classes == NULL ? tokenizer_scan_classes(&s->classes, err) : LR_OK;
        return rc == LR_OK ? add_step(s, SPLIT_O200K, NULL, err) : rc;
    }
    lr_code rc =
        tokenizer_split_compile(pattern, literal, "the pattern of pre_tokenizer", &code, err);
    return rc == LR_OK ? add_step(s, SPLIT_REGEX, code, err) : rc;
}

static lr_code read_split(struct splitter *s, const struct lr_json *split, struct lr_error *err)
{
    struct lr_str behavior, pattern;
    const struct lr_json *spec = lr_json_get(split, "pattern");
    if (!lr_json_str(lr_json_get(split, "behavior"), &behavior))
        return lr_fail(err, LR_MODEL_CORRUPT, "pre_tokenizer: a Split has no \"behavior\"");
    if (!lr_str_eq_z(behavior, "Isolated"))
        return lr_fail(err, LR_UNSUPPORTED,
                       "pre_tokenizer: Split with behavior \"%.40s\" is not supported, only "
                       "\"Isolated\"",
                       behavior.len < 40 ? behavior.ptr : "...");
    /* "invert" swaps matches and gaps, which Isolated treats the same. */
    if (lr_json_str(lr_json_get(spec, "Regex"), &pattern))
        return add_pattern(s, pattern, false, err);
    if (lr_json_str(lr_json_get(spec, "String"), &pattern))
        return add_pattern(s, pattern, true, err);
    return lr_fail(err, LR_MODEL_CORRUPT,
                   "pre_tokenizer: a Split needs a \"pattern\" with \"Regex\" or \"String\"");
}

static lr_code read_byte_level(struct splitter *s, const struct lr_json *level,
                               struct lr_error *err)
{
    bool prefix = false, regex = true; /* absent means true: use_regex was introduced later */
    const struct lr_json *use_regex = lr_json_get(level, "use_regex");
    if (!lr_json_bool(lr_json_get(level, "add_prefix_space"), &prefix) ||
        (use_regex != NULL && !lr_json_bool(use_regex, &regex)))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "pre_tokenizer: ByteLevel needs add_prefix_space and use_regex as true "
                       "or false");
    lr_code rc = prefix ? add_step(s, SPLIT_PREFIX, NULL, err) : LR_OK;
    if (rc == LR_OK && regex)
        rc = add_pattern(s, LR_STR_LIT(gpt2_pattern), false, err);
    return rc;
}

static lr_code read_one(struct splitter *s, const struct lr_json *one, bool last,
                        struct lr_error *err)
{
    struct lr_str type;
    if (!lr_json_str(lr_json_get(one, "type"), &type))
        return lr_fail(err, LR_MODEL_CORRUPT, "pre_tokenizer: an entry has no \"type\"");
    if (lr_str_eq_z(type, "ByteLevel") && last)
        return read_byte_level(s, one, err);
    if (lr_str_eq_z(type, "Split") && !last)
        return read_split(s, one, err);
    return lr_fail(err, LR_UNSUPPORTED,
                   "pre_tokenizer: \"%.*s\" is not supported here; use Split, and "
                   "ByteLevel at the end",
                   (int)(type.len < 80 ? type.len : 80), type.ptr);
}

lr_code tokenizer_split_read(struct splitter *s, const struct lr_json *pre_tokenizer,
                             struct lr_error *err)
{
    struct lr_str type;
    if (!lr_json_is(pre_tokenizer, LR_JSON_OBJECT))
        return lr_fail(err, LR_UNSUPPORTED,
                       "pre_tokenizer is missing; only byte-level tokenizers are supported");
    if (!lr_json_str(lr_json_get(pre_tokenizer, "type"), &type) ||
        !lr_str_eq_z(type, "Sequence"))
        return read_one(s, pre_tokenizer, true, err);
    const struct lr_json *list = lr_json_get(pre_tokenizer, "pretokenizers");
    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count == 0)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "pre_tokenizer: a Sequence needs an array of "
                       "\"pretokenizers\"");
    for (uint32_t i = 0; i < list->count; i++) {
        lr_code rc = read_one(s, &list->items[i], i + 1 == list->count, err);
        if (rc != LR_OK)
            return rc;
    }
    return LR_OK;
}

void tokenizer_split_free(struct splitter *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        tokenizer_split_free_code(s->steps[i].code);
    free(s->classes);
}
