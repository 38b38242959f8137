/* chat/openai/values.c - token biases and raw prompts. */
#include <stdio.h>

#include "chat/openai/openai.h"

enum { LOGIT_BIAS_MAX = 1024 };

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

lr_code chat_openai_prompt(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    chat_openai_parse_of(p)->has_prompt = true;
    return chat_parse_prompts(p, name, value, CHAT_CHOICES_MAX);
}
