/* chat/parse_prompts.c - raw prompts: texts and token ids, one or many. */
#include <stdio.h>

#include "chat/parse.h"

enum { PROMPT_IDS_MAX = 4 * 1024 * 1024 };

static lr_code parse_ids(struct chat_parse *p, const char *param, const struct lr_json *list,
                         struct chat_raw_prompt *out)
{
    if (list->count > PROMPT_IDS_MAX)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has %u token ids, the limit is %d.", param, list->count,
                               PROMPT_IDS_MAX);
    uint32_t *ids = lr_arena_array(p->arena, list->count, sizeof(*ids));
    if (ids == NULL)
        return chat_parse_fail(p, param, NULL, LR_OUT_OF_RAM, "no memory for '%s'", param);
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        if (!lr_json_u64(&list->items[i], &id) || id > UINT32_MAX)
            return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                                   "'%s[%u]' is not a token id.", param, i);
        ids[i] = (uint32_t)id;
    }
    out->ids = ids;
    out->id_count = list->count;
    return LR_OK;
}

static lr_code parse_one(struct chat_parse *p, const char *param, const struct lr_json *value,
                         struct chat_raw_prompt *out)
{
    if (lr_json_str(value, &out->text)) {
        if (out->text.len > 0)
            return LR_OK;
    } else if (value->type != LR_JSON_ARRAY) {
        return chat_parse_type(p, param, "a string or an array of token ids", value);
    } else if (value->count > 0) {
        return parse_ids(p, param, value, out);
    }
    return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                           "'%s' is empty; it must have at least one token.", param);
}

lr_code chat_parse_prompts(struct chat_parse *p, const char *name, const struct lr_json *value,
                           uint32_t max)
{
    bool is_list = value->type == LR_JSON_ARRAY && value->count > 0 &&
                   value->items[0].type != LR_JSON_NUMBER;
    uint32_t count = is_list ? value->count : 1;
    if (count > max)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has %u items, the limit is %u.", name, count, max);
    struct chat_raw_prompt *list = lr_arena_zalloc(p->arena, count * sizeof(*list));
    if (list == NULL)
        return chat_parse_fail(p, name, NULL, LR_OUT_OF_RAM, "no memory for '%s'", name);
    for (uint32_t i = 0; i < count; i++) {
        char param[32];
        if (is_list)
            snprintf(param, sizeof(param), "%s[%u]", name, i);
        else
            snprintf(param, sizeof(param), "%s", name);
        lr_code code = parse_one(p, param, is_list ? &value->items[i] : value, &list[i]);
        if (code != LR_OK)
            return code;
    }
    p->req->prompts = list;
    p->req->prompt_count = count;
    return LR_OK;
}
