/* chat/responses/codec.c - the codec of POST /v1/responses. */
#include "chat/openai/openai.h"
#include "chat/responses/answer.h"
#include "chat/responses/stored.h"

static lr_code responses_codec_parse(struct chat_parse *p, const struct lr_json *root)
{
    struct chat_responses_parse r = {.p = *p};
    p->req->keeps = p->can_keep; /* unless the request says otherwise */
    lr_code code = chat_parse_members(&r.p, root);
    if (code == LR_OK && r.input == NULL)
        code = chat_parse_missing(&r.p, p->req->codec->prompt_field);
    if (code == LR_OK && p->req->background && !p->req->keeps)
        code = chat_parse_fail(&r.p, "background", "invalid_value", LR_INVALID_ARGUMENT,
                               "'background': true needs 'store': true.");
    if (code == LR_OK)
        code = chat_responses_join(&r.p);
    if (code == LR_OK)
        code = chat_responses_tools(&r.p);
    if (code == LR_OK)
        code = chat_responses_messages(&r.p);
    if (code == LR_OK)
        code = chat_check_answer(&r.p, "'include': [\"message.output_text.logprobs\"]");
    p->req->body = root; /* the answer repeats parts of it */
    return code == LR_OK ? chat_check_format(&r.p, "tool_choice.name") : code;
}

const struct chat_codec chat_responses = {
    .name = "responses",
    .operation = "chat",
    .count_path = "input_tokens",
    .count_object = "response.input_tokens",
    .id_prefix = "resp_",
    .prompt_field = "input",
    .fields = &chat_responses_fields,
    .parse = responses_codec_parse,
    .find_stored = chat_responses_find_stored,
    .body = &chat_items_writer,
    .stream = &chat_items_writer,
    .error = chat_openai_error,
};
