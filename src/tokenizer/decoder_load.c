/* tokenizer/decoder_load.c - decoder: from JSON to steps. */
#include <stdlib.h>

#include "tokenizer/internal.h"

static lr_code read_text(const struct lr_json *json, const char *owner, const char *key,
                         struct lr_str *out, struct lr_error *err)
{
    struct lr_str text;
    if (!lr_json_str(lr_json_get(json, key), &text))
        return lr_fail(err, LR_MODEL_CORRUPT, "decoder: %s needs \"%s\", a string", owner, key);
    *out = tokenizer_copy(text);
    return out->ptr != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for a decoder");
}

static lr_code not_empty(struct lr_str text, const char *owner, const char *key,
                         struct lr_error *err)
{
    return text.len != 0
               ? LR_OK
               : lr_fail(err, LR_MODEL_CORRUPT, "decoder: \"%s\" of %s is empty", key, owner);
}

static lr_code read_nothing(struct decode_step *s, const struct lr_json *json,
                            struct lr_error *err)
{
    (void)s;
    (void)json;
    (void)err;
    return LR_OK;
}

static lr_code read_replace(struct decode_step *s, const struct lr_json *json,
                            struct lr_error *err)
{
    const struct lr_json *spec = lr_json_get(json, "pattern");
    struct lr_str pattern;
    lr_code rc = read_text(json, "Replace", "content", &s->content, err);
    if (rc != LR_OK)
        return rc;
    if (lr_json_str(lr_json_get(spec, "Regex"), &pattern))
        return tokenizer_split_compile(pattern, false, "the pattern of a Replace in decoder",
                                       &s->code, err);
    rc = read_text(spec, "Replace's \"pattern\"", "String", &s->pattern, err);
    return rc == LR_OK ? not_empty(s->pattern, "Replace", "String", err) : rc;
}

static lr_code read_strip(struct decode_step *s, const struct lr_json *json,
                          struct lr_error *err)
{
    lr_code rc = read_text(json, "Strip", "content", &s->pattern, err);
    if (rc == LR_OK)
        rc = not_empty(s->pattern, "Strip", "content", err);
    if (rc == LR_OK && (!lr_json_u64(lr_json_get(json, "start"), &s->start) ||
                        !lr_json_u64(lr_json_get(json, "stop"), &s->stop)))
        rc = lr_fail(err, LR_MODEL_CORRUPT,
                     "decoder: Strip needs \"start\" and \"stop\", whole numbers");
    return rc;
}

static lr_code read_metaspace(struct decode_step *s, const struct lr_json *json,
                              struct lr_error *err)
{
    struct lr_str scheme;
    bool prefix = true;
    lr_code rc = read_text(json, "Metaspace", "replacement", &s->pattern, err);
    if (rc == LR_OK)
        rc = not_empty(s->pattern, "Metaspace", "replacement", err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, "decoder: Metaspace", "add_prefix_space", true, &prefix,
                                 err);
    s->flag = lr_json_str(lr_json_get(json, "prepend_scheme"), &scheme)
                  ? !lr_str_eq_z(scheme, "never")
                  : prefix;
    return rc;
}

static lr_code read_wordpiece(struct decode_step *s, const struct lr_json *json,
                              struct lr_error *err)
{
    lr_code rc = read_text(json, "WordPiece", "prefix", &s->pattern, err);
    return rc == LR_OK
               ? tokenizer_read_flag(json, "decoder: WordPiece", "cleanup", true, &s->flag, err)
               : rc;
}

static lr_code read_suffix(struct decode_step *s, const struct lr_json *json,
                           struct lr_error *err)
{
    lr_code rc = read_text(json, "BPEDecoder", "suffix", &s->pattern, err);
    return rc == LR_OK ? not_empty(s->pattern, "BPEDecoder", "suffix", err) : rc;
}

static const struct {
    const char *name;
    enum decode_kind kind;
    lr_code (*read)(struct decode_step *s, const struct lr_json *json, struct lr_error *err);
} kinds[] = {
    {"ByteLevel", DECODE_BYTE_LEVEL, read_nothing},
    {"Replace", DECODE_REPLACE, read_replace},
    {"ByteFallback", DECODE_BYTE_FALLBACK, read_nothing},
    {"Fuse", DECODE_FUSE, read_nothing},
    {"Strip", DECODE_STRIP, read_strip},
    {"Metaspace", DECODE_METASPACE, read_metaspace},
    {"WordPiece", DECODE_WORDPIECE, read_wordpiece},
    {"BPEDecoder", DECODE_SUFFIX, read_suffix},
};

static lr_code read_any(struct decoder *d, const struct lr_json *json, struct lr_error *err)
{
    struct lr_str type;
    if (!lr_json_str(lr_json_get(json, "type"), &type))
        return lr_fail(err, LR_MODEL_CORRUPT, "decoder: an entry has no \"type\"");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!lr_str_eq_z(type, kinds[i].name))
            continue;
        if (d->count == DECODE_MAX_STEPS)
            return lr_fail(err, LR_UNSUPPORTED, "decoder has more than %d steps",
                           DECODE_MAX_STEPS);
        struct decode_step *s = &d->steps[d->count++];
        s->kind = kinds[i].kind;
        return kinds[i].read(s, json, err);
    }
    if (!lr_str_eq_z(type, "Sequence"))
        return lr_fail(err, LR_UNSUPPORTED, "decoder: the type \"%.*s\" is not supported",
                       (int)(type.len < 80 ? type.len : 80), type.ptr);
    const struct lr_json *list = lr_json_get(json, "decoders");
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "decoder: a Sequence needs an array of \"decoders\"");
    lr_code rc = LR_OK;
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++)
        rc = read_any(d, &list->items[i], err);
    return rc;
}

lr_code tokenizer_decoder_read(struct decoder *d, const struct lr_json *json,
                               struct lr_error *err)
{
    d->joins_with_blanks = json == NULL || json->type == LR_JSON_NULL;
    return d->joins_with_blanks ? LR_OK : read_any(d, json, err);
}

void tokenizer_decoder_free(struct decoder *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        tokenizer_copy_free(d->steps[i].pattern);
        tokenizer_copy_free(d->steps[i].content);
        tokenizer_split_free_code(d->steps[i].code);
    }
}
