/* tokenizer/wrapping.c - post_processor: the ids around a text that is no chat, and those
 * between the two texts of a pair.
 *
 * What stands around a pair is what stands around a single text.  Processors that change
 * offsets only (ByteLevel) add nothing.
 */
#include <stdlib.h>

#include "tokenizer/internal.h"

enum { WRAPPING_MAX = 64 }; /* ids on one side */

void tokenizer_wrapping_free(struct wrapping *w)
{
    free(w->before);
    free(w->after);
    free(w->between);
}

/* Outermost last: a later processor of a Sequence wraps what the earlier ones made. */
static lr_code add(struct wrapping *w, bool before, uint64_t id, struct lr_error *err)
{
    uint32_t **list = before ? &w->before : &w->after;
    uint32_t *count = before ? &w->before_count : &w->after_count;
    if (id >= TOKENIZER_MAX_VOCAB || *count == WRAPPING_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "post_processor: id %llu, the %u. on its side; ids below %d and %d on "
                       "each side are possible",
                       (unsigned long long)id, *count + 1, TOKENIZER_MAX_VOCAB, WRAPPING_MAX);
    if (*list == NULL)
        *list = calloc(WRAPPING_MAX, sizeof(**list));
    if (*list == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a post_processor");
    (*list)[(*count)++] = (uint32_t)id;
    return LR_OK;
}

/* Moves the last ids of `before` to its front: they were added by an outer processor. */
static void rotate(struct wrapping *w, uint32_t inner)
{
    uint32_t outer = w->before_count - inner, kept[WRAPPING_MAX];
    if (inner == 0 || outer == 0)
        return;
    memcpy(kept, w->before, inner * sizeof(*kept));
    memmove(w->before, w->before + inner, outer * sizeof(*kept));
    memcpy(w->before + outer, kept, inner * sizeof(*kept));
}

static lr_code bad_template(struct lr_error *err)
{
    return lr_fail(err, LR_MODEL_CORRUPT,
                   "post_processor: TemplateProcessing needs \"single\", a list of "
                   "SpecialTokens and one Sequence, and the ids of each in "
                   "\"special_tokens\"");
}

static lr_code add_between(struct wrapping *w, uint64_t id, struct lr_error *err)
{
    if (id >= TOKENIZER_MAX_VOCAB || w->between_count == WRAPPING_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "post_processor: at most %d ids below %d between two texts",
                       WRAPPING_MAX, TOKENIZER_MAX_VOCAB);
    if (w->between == NULL)
        w->between = calloc(WRAPPING_MAX, sizeof(*w->between));
    if (w->between == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a post_processor");
    w->between[w->between_count++] = (uint32_t)id;
    return LR_OK;
}

/* The special tokens between the sequences of "pair", which may be missing. */
static lr_code read_template_pair(struct wrapping *w, const struct lr_json *json,
                                  struct lr_error *err)
{
    const struct lr_json *pair = lr_json_get(json, "pair");
    const struct lr_json *tokens = lr_json_get(json, "special_tokens");
    uint32_t sequences = 0;
    lr_code rc = LR_OK;
    for (uint32_t i = 0; lr_json_is(pair, LR_JSON_ARRAY) && i < pair->count; i++) {
        const struct lr_json *token = lr_json_get(&pair->items[i], "SpecialToken");
        struct lr_str name = LR_STR_LIT("");
        sequences += lr_json_get(&pair->items[i], "Sequence") != NULL;
        if (token == NULL || sequences != 1)
            continue;
        (void)lr_json_str(lr_json_get(token, "id"), &name);
        const struct lr_json *ids = lr_json_get(lr_json_get_str(tokens, name), "ids");
        for (uint32_t k = 0; rc == LR_OK && lr_json_is(ids, LR_JSON_ARRAY) && k < ids->count;
             k++) {
            uint64_t id = UINT64_MAX;
            (void)lr_json_u64(&ids->items[k], &id);
            rc = add_between(w, id, err);
        }
    }
    return rc;
}

static lr_code read_template(struct wrapping *w, const struct lr_json *json,
                             struct lr_error *err)
{
    const struct lr_json *single = lr_json_get(json, "single");
    const struct lr_json *tokens = lr_json_get(json, "special_tokens");
    bool before = true;
    if (!lr_json_is(single, LR_JSON_ARRAY))
        return bad_template(err);
    for (uint32_t i = 0; i < single->count; i++) {
        struct lr_str name;
        if (lr_json_get(&single->items[i], "Sequence") != NULL) {
            if (!before)
                return bad_template(err);
            before = false;
            continue;
        }
        if (!lr_json_str(lr_json_get(lr_json_get(&single->items[i], "SpecialToken"), "id"),
                         &name))
            return bad_template(err);
        const struct lr_json *ids = lr_json_get(lr_json_get_str(tokens, name), "ids");
        if (!lr_json_is(ids, LR_JSON_ARRAY))
            return bad_template(err);
        for (uint32_t k = 0; k < ids->count; k++) {
            uint64_t id;
            if (!lr_json_u64(&ids->items[k], &id))
                return bad_template(err);
            lr_code rc = add(w, before, id, err);
            if (rc != LR_OK)
                return rc;
        }
    }
    return before ? bad_template(err) : read_template_pair(w, json, err);
}

/* BertProcessing and RobertaProcessing: "cls" before and "sep" after, each [token, id]. */
static lr_code read_pair(struct wrapping *w, const struct lr_json *json, int between,
                         struct lr_error *err)
{
    static const char *const names[] = {"cls", "sep"};
    lr_code rc = LR_OK;
    for (int i = 0; rc == LR_OK && i < 2; i++) {
        const struct lr_json *pair = lr_json_get(json, names[i]);
        uint64_t id;
        if (!lr_json_is(pair, LR_JSON_ARRAY) || pair->count != 2 ||
            !lr_json_u64(&pair->items[1], &id))
            return lr_fail(err, LR_MODEL_CORRUPT, "post_processor: \"%s\" must be [token, id]",
                           names[i]);
        rc = add(w, i == 0, id, err);
        /* RoBERTa has two of them between the texts. */
        for (int k = 0; rc == LR_OK && i == 1 && k < between; k++)
            rc = add_between(w, id, err);
    }
    return rc;
}

lr_code tokenizer_wrapping_read(struct wrapping *w, const struct lr_json *json,
                                struct lr_error *err)
{
    struct lr_str type;
    if (json == NULL || json->type == LR_JSON_NULL)
        return LR_OK;
    if (!lr_json_str(lr_json_get(json, "type"), &type))
        return lr_fail(err, LR_MODEL_CORRUPT, "post_processor: an entry has no \"type\"");
    uint32_t inner = w->before_count;
    lr_code rc = LR_OK;
    if (lr_str_eq_z(type, "ByteLevel"))
        return LR_OK;
    if (lr_str_eq_z(type, "TemplateProcessing")) {
        rc = read_template(w, json, err);
    } else if (lr_str_eq_z(type, "BertProcessing") || lr_str_eq_z(type, "RobertaProcessing")) {
        rc = read_pair(w, json, lr_str_eq_z(type, "BertProcessing") ? 1 : 2, err);
    } else if (lr_str_eq_z(type, "Sequence")) {
        const struct lr_json *list = lr_json_get(json, "processors");
        if (!lr_json_is(list, LR_JSON_ARRAY))
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "post_processor: a Sequence needs an array of \"processors\"");
        for (uint32_t i = 0; rc == LR_OK && i < list->count; i++)
            rc = tokenizer_wrapping_read(w, &list->items[i], err);
        return rc;
    } else {
        return lr_fail(err, LR_UNSUPPORTED,
                       "post_processor: the type \"%.*s\" is not supported",
                       (int)(type.len < 80 ? type.len : 80), type.ptr);
    }
    if (rc == LR_OK)
        rotate(w, inner);
    return rc;
}

void tokenizer_add_wrapping(const struct tokenizer *t, bool before, struct tokenizer_ids *ids)
{
    const struct wrapping *w = &t->wrapping;
    uint32_t count = before ? w->before_count : w->after_count;
    for (uint32_t i = 0; i < count; i++)
        tokenizer_ids_add(ids, before ? w->before[i] : w->after[i]);
}

void tokenizer_add_between(const struct tokenizer *t, struct tokenizer_ids *ids)
{
    const struct wrapping *w = &t->wrapping;
    if (w->between_count == 0)
        tokenizer_add_wrapping(t, false, ids);
    for (uint32_t i = 0; i < w->between_count; i++)
        tokenizer_ids_add(ids, w->between[i]);
}
