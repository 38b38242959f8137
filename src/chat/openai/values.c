/* chat/openai/values.c - token biases and raw prompts. */
#include <stdio.h>

#include "chat/openai/openai.h"

enum {
    LOGIT_BIAS_MAX = 1024,
    PROMPT_IDS_MAX = 4 * 1024 * 1024,
};

lr_code chat_openai_logit_bias(struct chat_parse *p, const char *name,
                               const struct lr_json *value)
{
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object from token ids to numbers", value);
    if (value->count > LOGIT_BIAS_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'logit_bias' has %u entries, the limit is %d.", value->count,
                               LOGIT_BIAS_MAX);
    struct lr_logit_bias *list = lr_arena_array(p->arena, value->count, sizeof(*list));
    if (list == NULL && value->count != 0)
        return chat_parse_fail(p, name, NULL, LR_OUT_OF_RAM, "no memory for 'logit_bias'");
    for (uint32_t i = 0; i < value->count; i++) {
        const struct lr_json_member *m = &value->members[i];
        uint64_t id;
        char param[64];
        if (!lr_str_u64(m->key, &id) || id > UINT32_MAX)
            return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                                   "'logit_bias': \"%.*s\" is not a token id.",
                                   m->key.len < 40 ? (int)m->key.len : 40, m->key.ptr);
        snprintf(param, sizeof(param), "%s.%u", name, (uint32_t)id);
        lr_code code = chat_parse_float(p, param, &m->value, -100, 100, &list[i].bias);
        if (code != LR_OK)
            return code;
        list[i].token = (uint32_t)id;
    }
    p->req->sampling.logit_bias = list;
    p->req->sampling.logit_bias_count = value->count;
    return LR_OK;
}

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
                           "'%s' is empty; a prompt has at least one token.", param);
}

lr_code chat_openai_prompt(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    bool is_list = value->type == LR_JSON_ARRAY && value->count > 0 &&
                   value->items[0].type != LR_JSON_NUMBER;
    uint32_t count = is_list ? value->count : 1;
    if (count > CHAT_CHOICES_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'prompt' has %u prompts, the limit is %d.", count,
                               CHAT_CHOICES_MAX);
    struct chat_raw_prompt *list = lr_arena_zalloc(p->arena, count * sizeof(*list));
    if (list == NULL)
        return chat_parse_fail(p, name, NULL, LR_OUT_OF_RAM, "no memory for 'prompt'");
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
    chat_openai_parse_of(p)->has_prompt = true;
    return LR_OK;
}
