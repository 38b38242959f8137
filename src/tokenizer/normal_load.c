/* tokenizer/normal_load.c - normalizer: from JSON to steps, and the steps without a file of
 * their own: Lowercase, StripAccents, Strip, Prepend, Replace. */
#include "tokenizer/chars.h"
#include "tokenizer/internal.h"

/* ---- steps ---- */

static lr_code lowercase(const struct normal_step *s, struct normal_io *io)
{
    (void)s;
    struct lr_str text = io->text;
    for (size_t at = 0, len; at < text.len; at += len) {
        uint32_t c = char_at(text.ptr + at, &len);
        if (c == 0x130) /* the only one with two characters in lower case */
            tokenizer_normal_emit(io, "i\xCC\x87", 3, at, at + len);
        else
            tokenizer_normal_emit_char(io, tokenizer_char_lower(c), at, at + len);
    }
    return LR_OK;
}

static lr_code strip_accents(const struct normal_step *s, struct normal_io *io)
{
    (void)s;
    struct lr_str text = io->text;
    size_t kept = 0, len;
    for (size_t at = 0; at < text.len; at += len) {
        if (!tokenizer_char_is_mark(char_at(text.ptr + at, &len)))
            continue;
        normal_keep(io, kept, at);
        kept = at + len;
    }
    normal_keep(io, kept, text.len);
    return LR_OK;
}

static lr_code normal_load_strip(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    size_t from = 0, to = text.len, len;
    while (s->left && from < to && char_is_space(char_at(text.ptr + from, &len)))
        from += len;
    while (s->right && to > from) {
        size_t before = to - 1;
        while (before > from && ((unsigned char)text.ptr[before] & 0xC0) == 0x80)
            before--;
        if (!char_is_space(char_at(text.ptr + before, &len)))
            break;
        to = before;
    }
    normal_keep(io, from, to);
    return LR_OK;
}

static lr_code prepend(const struct normal_step *s, struct normal_io *io)
{
    if (io->text.len == 0)
        return LR_OK;
    tokenizer_normal_emit(io, s->content.ptr, s->content.len, 0, 0);
    normal_keep(io, 0, io->text.len);
    return LR_OK;
}

static lr_code replace_string(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    size_t at = 0, found;
    for (;; at = found + s->pattern.len) {
        found = lr_str_find(lr_str_sub(text, at, text.len), s->pattern);
        if (found == LR_STR_NONE)
            break;
        found += at;
        normal_keep(io, at, found);
        tokenizer_normal_emit(io, s->content.ptr, s->content.len, found,
                              found + s->pattern.len);
    }
    normal_keep(io, at, text.len);
    return LR_OK;
}

static lr_code replace_regex(const struct normal_step *s, struct normal_io *io)
{
    struct found m = {0};
    size_t at = 0;
    for (;; at = m.end) {
        lr_code rc = tokenizer_find_next(io->finder, s->code, io->text, &m, io->err);
        if (rc != LR_OK)
            return rc;
        if (m.at_end)
            break;
        normal_keep(io, at, m.start);
        tokenizer_normal_emit(io, s->content.ptr, s->content.len, m.start, m.end);
    }
    normal_keep(io, at, io->text.len);
    return LR_OK;
}

/* ---- reading ---- */

lr_code tokenizer_read_flag(const struct lr_json *object, const char *owner, const char *key,
                            bool otherwise, bool *out, struct lr_error *err)
{
    const struct lr_json *value = lr_json_get(object, key);
    *out = otherwise;
    if (value == NULL || value->type == LR_JSON_NULL || lr_json_bool(value, out))
        return LR_OK;
    return lr_fail(err, LR_MODEL_CORRUPT, "%s: \"%s\" must be true or false", owner, key);
}

static lr_code read_lowercase(struct normal_step *s, const struct lr_json *json,
                              struct lr_error *err)
{
    (void)json;
    (void)err;
    s->apply = lowercase;
    return LR_OK;
}

static lr_code read_strip_accents(struct normal_step *s, const struct lr_json *json,
                                  struct lr_error *err)
{
    (void)json;
    (void)err;
    s->apply = strip_accents;
    return LR_OK;
}

static lr_code read_strip(struct normal_step *s, const struct lr_json *json,
                          struct lr_error *err)
{
    s->apply = normal_load_strip;
    lr_code rc =
        tokenizer_read_flag(json, "normalizer: Strip", "strip_left", true, &s->left, err);
    return rc == LR_OK ? tokenizer_read_flag(json, "normalizer: Strip", "strip_right", true,
                                             &s->right, err)
                       : rc;
}

static lr_code read_content(struct normal_step *s, const struct lr_json *json,
                            const char *owner, const char *key, struct lr_error *err)
{
    struct lr_str content;
    if (!lr_json_str(lr_json_get(json, key), &content))
        return lr_fail(err, LR_MODEL_CORRUPT, "normalizer: %s needs \"%s\", a string", owner,
                       key);
    s->content = tokenizer_copy(content);
    return s->content.ptr != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "no memory for the normalizer's %s", owner);
}

static lr_code read_prepend(struct normal_step *s, const struct lr_json *json,
                            struct lr_error *err)
{
    s->apply = prepend;
    return read_content(s, json, "Prepend", "prepend", err);
}

static lr_code read_replace(struct normal_step *s, const struct lr_json *json,
                            struct lr_error *err)
{
    const struct lr_json *spec = lr_json_get(json, "pattern");
    struct lr_str pattern;
    lr_code rc = read_content(s, json, "Replace", "content", err);
    if (rc != LR_OK)
        return rc;
    if (lr_json_str(lr_json_get(spec, "Regex"), &pattern)) {
        s->apply = replace_regex;
        return tokenizer_split_compile(pattern, false, "the pattern of a Replace in normalizer",
                                       &s->code, err);
    }
    if (!lr_json_str(lr_json_get(spec, "String"), &pattern) || pattern.len == 0)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "normalizer: a Replace needs a \"pattern\" with \"Regex\" or a "
                       "\"String\" that is not empty");
    s->apply = replace_string;
    s->pattern = tokenizer_copy(pattern);
    return s->pattern.ptr != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "no memory for the normalizer's Replace");
}

static const struct {
    const char *name;
    normal_read_step *read;
} kinds[] = {
    {"NFC", tokenizer_normal_read_nfc},
    {"NFD", tokenizer_normal_read_nfd},
    {"NFKC", tokenizer_normal_read_nfkc},
    {"NFKD", tokenizer_normal_read_nfkd},
    {"Lowercase", read_lowercase},
    {"StripAccents", read_strip_accents},
    {"Strip", read_strip},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Precompiled", tokenizer_normal_read_charsmap},
    {"BertNormalizer", tokenizer_normal_read_bert},
};

static lr_code read_one(struct normalizer *n, const struct lr_json *json, struct lr_str type,
                        struct lr_error *err)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!lr_str_eq_z(type, kinds[i].name))
            continue;
        if (n->count == NORMAL_MAX_STEPS)
            return lr_fail(err, LR_UNSUPPORTED, "normalizer has more than %d steps",
                           NORMAL_MAX_STEPS);
        return kinds[i].read(&n->steps[n->count++], json, err);
    }
    return lr_fail(err, LR_UNSUPPORTED, "normalizer: the type \"%.*s\" is not supported",
                   (int)(type.len < 80 ? type.len : 80), type.ptr);
}

lr_code tokenizer_normal_read(struct normalizer *n, const struct lr_json *json,
                              struct lr_error *err)
{
    struct lr_str type;
    if (json == NULL || json->type == LR_JSON_NULL)
        return LR_OK;
    if (!lr_json_str(lr_json_get(json, "type"), &type))
        return lr_fail(err, LR_MODEL_CORRUPT, "normalizer: an entry has no \"type\"");
    if (!lr_str_eq_z(type, "Sequence"))
        return read_one(n, json, type, err);
    const struct lr_json *list = lr_json_get(json, "normalizers");
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "normalizer: a Sequence needs an array of \"normalizers\"");
    lr_code rc = LR_OK;
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++)
        rc = tokenizer_normal_read(n, &list->items[i], err);
    return rc;
}
