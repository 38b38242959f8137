/* chat/anthropic/codec.c - the codec of POST /v1/messages. */
#include "chat/anthropic/anthropic.h"

static lr_code anthropic_codec_parse(struct chat_parse *p, const struct lr_json *root)
{
    struct chat_anthropic_parse a = {.p = *p};
    /* A client that does not ask for thinking reads the first block as the answer. */
    p->req->reasoning = CHAT_REASONING_HIDDEN;
    lr_code code = chat_parse_members(&a.p, root);
    if (code == LR_OK && a.messages == NULL)
        code = chat_parse_missing(&a.p, "messages");
    if (code == LR_OK)
        code = chat_anthropic_messages(&a.p);
    return code == LR_OK ? chat_check_format(&a.p, "tool_choice.name") : code;
}

const struct chat_codec chat_anthropic = {
    .name = "messages",
    .operation = "chat",
    .count_path = "count_tokens",
    .beside = "/v1/messages/",
    .id_prefix = "msg_",
    .id_header = "request-id",
    .prompt_field = "messages",
    .fields = &chat_anthropic_fields,
    .parse = anthropic_codec_parse,
    .body = &chat_anthropic_writer,
    .stream = &chat_anthropic_writer,
    .error = chat_anthropic_error,
};
