/* tokenizer/source_config.c - what tokenizer_config.json adds to a tokenizer.json: added tokens
 * and whether BOS and EOS are put around a text. */
#include <stdlib.h>

#include "tokenizer/model.h"

/* The text of a token that is a string or an object with "content". */
static bool token_text(const struct lr_json *config, const char *key, struct lr_str *out)
{
    const struct lr_json *value = lr_json_get(config, key);
    return lr_json_str(value, out) || lr_json_str(lr_json_get(value, "content"), out);
}

static bool is_known(const struct lr_json *list, uint64_t id)
{
    uint64_t there;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_u64(lr_json_get(&list->items[i], "id"), &there) && there == id)
            return true;
    return false;
}

/* source.h: an entry without an id, for which the config has one. */
static bool is_replaced(const struct lr_json *item, const struct lr_json *more)
{
    struct lr_str text, other;
    if (!lr_json_is(lr_json_get(item, "id"), LR_JSON_NULL) ||
        !lr_json_str(lr_json_get(item, "content"), &text))
        return false;
    for (uint32_t i = 0; i < more->count; i++)
        if (lr_json_str(lr_json_get(&more->members[i].value, "content"), &other) &&
            lr_str_eq(text, other))
            return true;
    return false;
}

/* One entry of added_tokens_decoder, "id": {"content", flags}, as an entry of added_tokens. */
static bool copy_entry(struct lr_arena *arena, const struct lr_json_member *member,
                       struct lr_json *out)
{
    const struct lr_json *from = &member->value;
    struct lr_json_member *members =
        lr_arena_array(arena, (size_t)from->count + 1, sizeof(*members));
    if (members == NULL)
        return false;
    members[0].key = LR_STR_LIT("id");
    members[0].value = (struct lr_json){.type = LR_JSON_NUMBER, .text = member->key};
    memcpy(members + 1, from->members, from->count * sizeof(*members));
    *out =
        (struct lr_json){.type = LR_JSON_OBJECT, .count = from->count + 1, .members = members};
    return true;
}

lr_code tokenizer_config_added(struct lr_arena *arena, const struct lr_json *config,
                               const struct lr_json **list, struct lr_error *err)
{
    const struct lr_json *more = lr_json_get(config, "added_tokens_decoder");
    const struct lr_json *old = lr_json_is(*list, LR_JSON_ARRAY) ? *list : NULL;
    uint32_t count = old != NULL ? old->count : 0;
    if (!lr_json_is(more, LR_JSON_OBJECT) || more->count == 0)
        return LR_OK;
    struct lr_json *items = lr_arena_array(arena, (size_t)count + more->count, sizeof(*items));
    struct lr_json *both = lr_arena_array(arena, 1, sizeof(*both));
    bool good = items != NULL && both != NULL;
    count = 0;
    for (uint32_t i = 0; good && old != NULL && i < old->count; i++)
        if (!is_replaced(&old->items[i], more))
            items[count++] = old->items[i];
    for (uint32_t i = 0; good && i < more->count; i++) {
        uint64_t id;
        const struct lr_json_member *member = &more->members[i];
        if (!lr_str_u64(member->key, &id) || !lr_json_is(&member->value, LR_JSON_OBJECT))
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "tokenizer_config.json: added_tokens_decoder must have ids as names "
                           "and objects as values");
        if (!is_known(old, id))
            good = copy_entry(arena, member, &items[count++]);
    }
    if (!good)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u added tokens", more->count);
    *both = (struct lr_json){.type = LR_JSON_ARRAY, .count = count, .items = items};
    *list = both;
    return LR_OK;
}

/* ---- BOS and EOS ---- */

static void take_out(uint32_t *ids, uint32_t *count, uint32_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++)
        if (ids[i] != id)
            ids[kept++] = ids[i];
    *count = kept;
}

static bool contains(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

lr_code tokenizer_config_wrapping(struct tokenizer *t, const struct lr_json *config,
                                  struct lr_error *err)
{
    static const char *const switches[] = {"add_bos_token", "add_eos_token"};
    static const char *const tokens[] = {"bos_token", "eos_token"};
    struct wrapping *w = &t->wrapping;
    for (int i = 0; i < 2; i++) {
        uint32_t **ids = i == 0 ? &w->before : &w->after;
        uint32_t *count = i == 0 ? &w->before_count : &w->after_count;
        bool wanted;
        struct lr_str name;
        uint32_t id;
        if (!lr_json_bool(lr_json_get(config, switches[i]), &wanted) ||
            !token_text(config, tokens[i], &name))
            continue;
        if (!tokenizer_find_added(t, name, &id)) {
            if (!wanted)
                continue;
            return lr_fail(
                err, LR_MODEL_CORRUPT,
                "tokenizer_config.json: %s is true, but %s \"%.*s\" is no added token",
                switches[i], tokens[i], (int)(name.len < 80 ? name.len : 80), name.ptr);
        }
        if (!wanted) {
            take_out(*ids, count, id);
            continue;
        }
        if (contains(*ids, *count, id))
            continue;
        uint32_t *more = realloc(*ids, (*count + (size_t)1) * sizeof(*more));
        if (more == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for a post_processor");
        if (i == 0) /* the outermost: the first before, the last after */
            memmove(more + 1, more, *count * sizeof(*more));
        more[i == 0 ? 0 : *count] = id;
        *ids = more;
        (*count)++;
    }
    return LR_OK;
}
