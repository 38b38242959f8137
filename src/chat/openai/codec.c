/* chat/openai/codec.c - the codecs of POST /v1/chat/completions and POST /v1/completions, and
 * checks that involve several fields of a request. */
#include "chat/openai/openai.h"

/* OpenAI's default for a raw prompt. */
enum { COMPLETIONS_MAX_TOKENS = 16 };

static lr_code check_lengths(struct chat_openai_parse *o)
{
    struct chat_request *req = o->p.req;
    uint32_t old = o->p.max_tokens, new = o->max_completion_tokens;
    if (o->p.is_strict && old != 0 && new != 0 && old != new)
        return chat_parse_fail(&o->p, "max_tokens", "invalid_value", LR_INVALID_ARGUMENT,
                               "'max_tokens' (%u) and 'max_completion_tokens' (%u) say "
                               "different things; send only 'max_completion_tokens'.",
                               old, new);
    req->max_tokens = old == 0 || (new != 0 && new < old) ? new : old; /* both are limits */
    if (req->prompts != NULL && req->max_tokens == 0)
        req->max_tokens = COMPLETIONS_MAX_TOKENS;
    return LR_OK;
}

static lr_code check_choices(struct chat_openai_parse *o)
{
    const struct chat_request *req = o->p.req;
    if (req->n > CHAT_CHOICES_MAX / req->prompt_count)
        return chat_parse_fail(&o->p, "n", "invalid_value", LR_INVALID_ARGUMENT,
                               "%u prompts with n = %u make more than %d answers; send "
                               "fewer in one request.",
                               req->prompt_count, req->n, CHAT_CHOICES_MAX);
    if (o->best_of != 0 && o->best_of != req->n)
        return chat_parse_fail(&o->p, "best_of", "unsupported_value", LR_UNSUPPORTED,
                               "'best_of' other than 'n' is not supported; send n = %u and "
                               "choose.",
                               o->best_of);
    return LR_OK;
}

/* Models that always think do so as little as they can. */
static void settle_thinking(struct chat_openai_parse *o)
{
    struct chat_request *req = o->p.req;
    if (req->reasoning_effort.len != 0 || o->thinking == CHAT_THINKING_DEFAULT)
        return;
    req->thinking = o->thinking;
    if (o->thinking == CHAT_THINKING_OFF)
        req->reasoning_effort = LR_STR_LIT("low");
}

static lr_code openai_codec_parse(struct chat_parse *p, const struct lr_json *root)
{
    struct chat_openai_parse o = {.p = *p};
    struct chat_request *req = p->req;
    bool is_chat = req->codec == &chat_openai_chat;
    lr_code code = chat_parse_members(&o.p, root);
    if (code != LR_OK)
        return code;
    if (is_chat ? !o.has_messages : !o.has_prompt)
        return chat_parse_missing(&o.p, req->codec->prompt_field);
    if ((code = check_lengths(&o)) != LR_OK || (code = check_choices(&o)) != LR_OK ||
        (code = chat_check_answer(&o.p, "'logprobs': true")) != LR_OK)
        return code;
    if (o.hide_reasoning)
        req->reasoning = CHAT_REASONING_HIDDEN;
    settle_thinking(&o);
    return chat_check_format(&o.p, "tool_choice.function.name");
}

const struct chat_codec chat_openai_chat = {
    .name = "chat",
    .operation = "chat",
    .id_prefix = "chatcmpl-",
    .prompt_field = "messages",
    .fields = &chat_openai_chat_fields,
    .parse = openai_codec_parse,
    .body = &chat_body_writer,
    .stream = &chat_chunk_writer,
    .error = chat_openai_error,
};

const struct chat_codec chat_openai_completions = {
    .name = "completions",
    .operation = "text_completion",
    .id_prefix = "cmpl-",
    .prompt_field = "prompt",
    .fields = &chat_openai_completions_fields,
    .parse = openai_codec_parse,
    .body = &chat_body_writer,
    .stream = &chat_chunk_writer,
    .error = chat_openai_error,
};
