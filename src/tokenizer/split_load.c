/* tokenizer/split_load.c - pre_tokenizer: from JSON to the steps that split text. */
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/internal.h"
#include "tokenizer/scan.h"

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Adds an empty step, or fails. */
static lr_code add_step(struct splitter *s, enum split_kind kind, struct split_step **step,
                        struct lr_error *err)
{
    if (s->count == SPLIT_MAX_STEPS)
        return lr_fail(err, LR_UNSUPPORTED, "pre_tokenizer has more than %d steps",
                       SPLIT_MAX_STEPS);
    *step = &s->steps[s->count++];
    (*step)->kind = kind;
    return LR_OK;
}

static lr_code add_chars(struct splitter *s, bool (*is_match)(uint32_t),
                         enum split_behavior behavior, struct lr_error *err)
{
    struct split_step *step = NULL;
    lr_code rc = add_step(s, SPLIT_CHARS, &step, err);
    if (rc != LR_OK)
        return rc;
    step->is_match = is_match;
    step->behavior = behavior;
    if (is_match == NULL)
        return LR_OK;
    step->matches = calloc(SPLIT_TABLE / 64, sizeof(*step->matches));
    if (step->matches == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a pre_tokenizer");
    for (uint32_t c = 0; c < SPLIT_TABLE; c++)
        step->matches[c >> 6] |= (uint64_t)is_match(c) << (c & 63);
    return LR_OK;
}

static lr_code add_pattern(struct splitter *s, struct lr_str pattern, bool literal,
                           enum split_behavior behavior, bool invert, struct lr_error *err)
{
    struct split_step *step = NULL;
    bool whole = behavior == SPLIT_ISOLATED || (behavior == SPLIT_REMOVED && invert);
    const struct scan_variant *variant =
        !literal && whole ? tokenizer_scan_find(pattern) : NULL;
    if (variant != NULL) {
        lr_code rc = add_step(s, SPLIT_SCAN, &step, err);
        return rc == LR_OK ? tokenizer_scan_classes(variant, &step->classes, err) : rc;
    }
    lr_code rc = add_step(s, SPLIT_REGEX, &step, err);
    if (rc != LR_OK)
        return rc;
    step->behavior = behavior;
    step->invert = invert;
    return tokenizer_split_compile(pattern, literal, "the pattern of pre_tokenizer",
                                   &step->code, err);
}

static lr_code read_behavior(const struct lr_json *json, const char *owner,
                             enum split_behavior *out, struct lr_error *err)
{
    static const char *const names[] = {
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_CONTIGUOUS] = "Contiguous",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
    };
    struct lr_str name;
    if (!lr_json_str(lr_json_get(json, "behavior"), &name))
        return lr_fail(err, LR_MODEL_CORRUPT, "pre_tokenizer: a %s has no \"behavior\"", owner);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (lr_str_eq_z(name, names[i])) {
            *out = (enum split_behavior)i;
            return LR_OK;
        }
    return lr_fail(err, LR_UNSUPPORTED,
                   "pre_tokenizer: %s with behavior \"%.*s\" is not supported; known are "
                   "Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext",
                   owner, (int)(name.len < 80 ? name.len : 80), name.ptr);
}

/* ---- one reader for each type ---- */

static lr_code read_split(struct splitter *s, const struct lr_json *json, struct lr_error *err)
{
    struct lr_str pattern;
    enum split_behavior behavior = SPLIT_ISOLATED;
    bool invert = false;
    const struct lr_json *spec = lr_json_get(json, "pattern");
    lr_code rc = read_behavior(json, "Split", &behavior, err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, "pre_tokenizer: Split", "invert", false, &invert, err);
    if (rc != LR_OK)
        return rc;
    if (lr_json_str(lr_json_get(spec, "Regex"), &pattern))
        return add_pattern(s, pattern, false, behavior, invert, err);
    if (lr_json_str(lr_json_get(spec, "String"), &pattern))
        return add_pattern(s, pattern, true, behavior, invert, err);
    return lr_fail(err, LR_MODEL_CORRUPT,
                   "pre_tokenizer: a Split needs a \"pattern\" with \"Regex\" or \"String\"");
}

static lr_code read_byte_level(struct splitter *s, const struct lr_json *json,
                               struct lr_error *err)
{
    static const char owner[] = "pre_tokenizer: ByteLevel";
    bool prefix = false, regex = true; /* absent means true: use_regex was introduced later */
    struct split_step *step = NULL;
    lr_code rc = tokenizer_read_flag(json, owner, "add_prefix_space", true, &prefix, err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, owner, "use_regex", true, &regex, err);
    if (rc == LR_OK && prefix)
        rc = add_step(s, SPLIT_PREFIX, &step, err);
    if (rc == LR_OK && regex)
        rc = add_pattern(s, LR_STR_LIT(gpt2_pattern), false, SPLIT_ISOLATED, false, err);
    return rc == LR_OK ? add_step(s, SPLIT_ALPHABET, &step, err) : rc;
}

static lr_code read_digits(struct splitter *s, const struct lr_json *json, struct lr_error *err)
{
    bool individual = false;
    lr_code rc = tokenizer_read_flag(json, "pre_tokenizer: Digits", "individual_digits", false,
                                     &individual, err);
    return rc == LR_OK ? add_chars(s, tokenizer_char_is_number,
                                   individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err)
                       : rc;
}

static lr_code read_punctuation(struct splitter *s, const struct lr_json *json,
                                struct lr_error *err)
{
    enum split_behavior behavior = SPLIT_ISOLATED;
    lr_code rc = lr_json_get(json, "behavior") != NULL
                     ? read_behavior(json, "Punctuation", &behavior, err)
                     : LR_OK;
    return rc == LR_OK ? add_chars(s, tokenizer_char_is_punctuation, behavior, err) : rc;
}

static bool is_space(uint32_t c)
{
    return char_is_space(c);
}

static lr_code read_whitespace_split(struct splitter *s, const struct lr_json *json,
                                     struct lr_error *err)
{
    (void)json;
    return add_chars(s, is_space, SPLIT_REMOVED, err);
}

/* Words as the reference's regex library sees them: PCRE2's own \w is another set. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

static lr_code read_whitespace(struct splitter *s, const struct lr_json *json,
                               struct lr_error *err)
{
    (void)json;
    return add_pattern(s, LR_STR_LIT("[" WORD "]+|[^\\s" WORD "]+"), false, SPLIT_REMOVED, true,
                       err);
}

static lr_code read_bert(struct splitter *s, const struct lr_json *json, struct lr_error *err)
{
    (void)json;
    lr_code rc = add_chars(s, is_space, SPLIT_REMOVED, err);
    return rc == LR_OK ? add_chars(s, tokenizer_char_is_punctuation, SPLIT_ISOLATED, err) : rc;
}

/* A member that is one character, in UTF-8. */
static lr_code read_letter(const struct lr_json *json, const char *owner, const char *key,
                           struct lr_str *text, uint32_t *c, struct lr_error *err)
{
    if (lr_json_str(lr_json_get(json, key), text) && text->len != 0 &&
        lr_utf8_decode(text->ptr, text->len, c) == (int)text->len)
        return LR_OK;
    return lr_fail(err, LR_MODEL_CORRUPT, "pre_tokenizer: %s needs \"%s\", one character",
                   owner, key);
}

static lr_code read_delimiter(struct splitter *s, const struct lr_json *json,
                              struct lr_error *err)
{
    struct lr_str text;
    uint32_t letter;
    lr_code rc = read_letter(json, "CharDelimiterSplit", "delimiter", &text, &letter, err);
    if (rc == LR_OK)
        rc = add_chars(s, NULL, SPLIT_REMOVED, err);
    if (rc == LR_OK)
        s->steps[s->count - 1].letter = letter;
    return rc;
}

static lr_code read_prepend(const struct lr_json *json, enum split_prepend *out,
                            struct lr_error *err)
{
    struct lr_str scheme = LR_STR_LIT("always");
    const struct lr_json *value = lr_json_get(json, "prepend_scheme");
    bool prefix = true; /* the spelling before prepend_scheme */
    lr_code rc = tokenizer_read_flag(json, "pre_tokenizer: Metaspace", "add_prefix_space", true,
                                     &prefix, err);
    if (rc != LR_OK)
        return rc;
    if (value != NULL && value->type != LR_JSON_NULL)
        (void)(lr_json_str(value, &scheme) || (scheme = LR_STR_LIT("(no string)")).len);
    else if (!prefix)
        scheme = LR_STR_LIT("never");
    if (lr_str_eq_z(scheme, "always"))
        *out = PREPEND_ALWAYS;
    else if (lr_str_eq_z(scheme, "first"))
        *out = PREPEND_FIRST;
    else if (lr_str_eq_z(scheme, "never"))
        *out = PREPEND_NEVER;
    else
        return lr_fail(err, LR_UNSUPPORTED,
                       "pre_tokenizer: Metaspace with prepend_scheme \"%.*s\" is not "
                       "supported; known are always, first and never",
                       (int)(scheme.len < 80 ? scheme.len : 80), scheme.ptr);
    return LR_OK;
}

static lr_code read_metaspace(struct splitter *s, const struct lr_json *json,
                              struct lr_error *err)
{
    struct lr_str mark;
    uint32_t letter;
    bool split = true;
    enum split_prepend prepend = PREPEND_NEVER;
    struct split_step *step = NULL;
    lr_code rc = read_letter(json, "Metaspace", "replacement", &mark, &letter, err);
    if (rc == LR_OK)
        rc = read_prepend(json, &prepend, err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, "pre_tokenizer: Metaspace", "split", true, &split, err);
    if (rc == LR_OK)
        rc = add_step(s, SPLIT_METASPACE, &step, err);
    if (rc != LR_OK)
        return rc;
    memcpy(step->mark, mark.ptr, mark.len);
    step->mark_len = (uint8_t)mark.len;
    step->prepend = prepend;
    if (!split)
        return LR_OK;
    rc = add_chars(s, NULL, SPLIT_MERGED_WITH_NEXT, err);
    if (rc == LR_OK)
        s->steps[s->count - 1].letter = letter;
    return rc;
}

static lr_code read_scripts(struct splitter *s, const struct lr_json *json,
                            struct lr_error *err)
{
    struct split_step *step = NULL;
    (void)json;
    lr_code rc = s->scripts == NULL ? tokenizer_scripts(true, &s->scripts, err) : LR_OK;
    return rc == LR_OK ? add_step(s, SPLIT_SCRIPTS, &step, err) : rc;
}

static const struct {
    const char *name;
    lr_code (*read)(struct splitter *s, const struct lr_json *json, struct lr_error *err);
} kinds[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Metaspace", read_metaspace},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", read_bert},
    {"CharDelimiterSplit", read_delimiter},
    {"UnicodeScripts", read_scripts},
};

static lr_code read_any(struct splitter *s, const struct lr_json *json, struct lr_error *err)
{
    struct lr_str type;
    if (!lr_json_str(lr_json_get(json, "type"), &type))
        return lr_fail(err, LR_MODEL_CORRUPT, "pre_tokenizer: an entry has no \"type\"");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (lr_str_eq_z(type, kinds[i].name))
            return kinds[i].read(s, json, err);
    if (!lr_str_eq_z(type, "Sequence"))
        return lr_fail(err, LR_UNSUPPORTED, "pre_tokenizer: the type \"%.*s\" is not supported",
                       (int)(type.len < 80 ? type.len : 80), type.ptr);
    const struct lr_json *list = lr_json_get(json, "pretokenizers");
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "pre_tokenizer: a Sequence needs an array of \"pretokenizers\"");
    lr_code rc = LR_OK;
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++)
        rc = read_any(s, &list->items[i], err);
    return rc;
}

bool tokenizer_split_has_bytes(const struct lr_json *pre_tokenizer)
{
    struct lr_str type;
    if (!lr_json_str(lr_json_get(pre_tokenizer, "type"), &type))
        return false;
    if (lr_str_eq_z(type, "ByteLevel"))
        return true;
    const struct lr_json *list = lr_json_get(pre_tokenizer, "pretokenizers");
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (tokenizer_split_has_bytes(&list->items[i]))
            return true;
    return false;
}

lr_code tokenizer_split_read(struct splitter *s, bool letters,
                             const struct lr_json *pre_tokenizer, struct lr_error *err)
{
    if (pre_tokenizer == NULL || pre_tokenizer->type == LR_JSON_NULL)
        return LR_OK;
    lr_code rc = read_any(s, pre_tokenizer, err);
    if (rc != LR_OK)
        return rc;
    /* A model of bytes needs no letters unless a step looks at them. */
    if (!letters && s->count != 0 && s->steps[s->count - 1].kind == SPLIT_ALPHABET)
        s->count--;
    else
        s->has_letters = !letters && tokenizer_split_has_bytes(pre_tokenizer);
    return LR_OK;
}

void tokenizer_split_free(struct splitter *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        tokenizer_split_free_code(s->steps[i].code);
        free(s->steps[i].classes);
        free(s->steps[i].matches);
    }
    free(s->scripts);
}
