/* chat/openai/foreign.c - fields that are not OpenAI's and have an obvious meaning: clients of
 * Ollama, OpenRouter, vLLM and llama.cpp send them. */
#include <stdio.h>

#include "chat/openai/openai.h"

/* ---- thinking ---- */

static lr_code set_thinking(struct chat_parse *p, bool wanted)
{
    chat_openai_parse_of(p)->thinking = wanted ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    return LR_OK;
}

lr_code chat_openai_enable_thinking(struct chat_parse *p, const char *name,
                                    const struct lr_json *value)
{
    bool wanted;
    lr_code code = chat_parse_bool(p, name, value, &wanted);
    return code == LR_OK ? set_thinking(p, wanted) : code;
}

lr_code chat_openai_think(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return value->type == LR_JSON_STRING ? chat_parse_effort(p, name, value)
                                         : chat_openai_enable_thinking(p, name, value);
}

static lr_code parse_thinking_type(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    static const char *const words[] = {"disabled",      "enabled", "adaptive",
                                        "between_tools", "auto",    NULL};
    uint32_t index;
    lr_code code = chat_parse_word(p, name, value, words, LR_UNSUPPORTED, &index);
    return code == LR_OK && index < 2 ? set_thinking(p, index == 1) : code;
}

lr_code chat_openai_thinking(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    static const struct chat_member members[] = {
        {"type", parse_thinking_type}, {"budget_tokens", chat_parse_budget}, {NULL, NULL}};
    return value->type == LR_JSON_BOOL ? chat_openai_enable_thinking(p, name, value)
                                       : chat_parse_object(p, name, value, members);
}

static lr_code parse_exclude(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &chat_openai_parse_of(p)->hide_reasoning);
}

lr_code chat_openai_reasoning(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    static const struct chat_member members[] = {{"effort", chat_parse_effort},
                                                 {"enabled", chat_openai_enable_thinking},
                                                 {"exclude", parse_exclude},
                                                 {"max_tokens", chat_parse_budget},
                                                 {"summary", NULL},
                                                 {"generate_summary", NULL},
                                                 {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}

/* ---- others ---- */

static lr_code parse_include(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &p->req->include_usage);
}

lr_code chat_openai_usage_option(struct chat_parse *p, const char *name,
                                 const struct lr_json *value)
{
    static const struct chat_member members[] = {{"include", parse_include}, {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}

lr_code chat_openai_min_tokens(struct chat_parse *p, const char *name,
                               const struct lr_json *value)
{
    int64_t n;
    if (!lr_json_i64(value, &n) || n < 0)
        return chat_parse_type(p, name, "an integer of at least 0", value);
    if (n > 0)
        return chat_parse_fail(p, name, "unsupported_value", LR_UNSUPPORTED,
                               "'%s': a minimum length is not supported; leave it out.", name);
    return LR_OK;
}
