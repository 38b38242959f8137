/* chat/ollama/codec.c - the codecs of POST /api/chat and POST /api/generate. */
#include "chat/ollama/ollama.h"

/* The client wants the model in memory.  The shortest request that loads a model is one token;
 * queue, limits, usage and failover are those of every request, and the writer shows no text.
 */
static lr_code ollama_codec_load(struct chat_ollama_parse *o)
{
    struct chat_parse *p = &o->p;
    struct chat_request *req = p->req;
    struct chat_raw_prompt *prompt = lr_arena_zalloc(p->arena, sizeof(*prompt));
    if (o->unloads)
        return chat_parse_fail(p, "keep_alive", "unsupported_value", LR_UNSUPPORTED,
                               "'keep_alive': a client cannot unload a model here; an operator "
                               "does it by POST /v0/models/{id}/unload.");
    if (prompt == NULL)
        return chat_parse_fail(p, NULL, NULL, LR_OUT_OF_RAM, "no memory for the request");
    prompt->text = LR_STR_LIT("Hi");
    req->prompts = prompt;
    req->loads_only = true;
    req->max_tokens = 1;
    req->tools = NULL;
    req->requires_tool_call = false;
    req->required_tool = lr_str(NULL, 0);
    req->format = GRAMMAR_ANSWER_TEXT;
    req->format_value = NULL;
    req->stop_count = 0;
    req->sampling.logprobs = 0;
    return LR_OK;
}

static lr_code ollama_codec_parse(struct chat_parse *p, const struct lr_json *root)
{
    struct chat_ollama_parse o = {.p = *p};
    struct chat_request *req = p->req;
    bool is_chat = req->codec == &chat_ollama_chat;
    req->stream = true;
    lr_code code = chat_parse_members(&o.p, root);
    if (code == LR_OK)
        code = chat_check_answer(&o.p, "'logprobs': true");
    if (code != LR_OK)
        return code;
    req->max_tokens = o.p.max_tokens;
    if (req->thinking == CHAT_THINKING_OFF)
        req->reasoning = CHAT_REASONING_HIDDEN;
    bool is_empty = is_chat ? o.messages == NULL || o.messages->count == 0
                            : o.prompt.len == 0 && !o.has_images;
    if (is_empty)
        return ollama_codec_load(&o);
    code = is_chat ? chat_ollama_messages(&o.p) : chat_ollama_prompt(&o.p);
    if (!is_chat)
        o.p.tool_choice_none = true; /* the API has no place for calls */
    return code == LR_OK ? chat_check_format(&o.p, "tool_choice.function.name") : code;
}

/* A line may begin with white space, so that a space tells a waiting client of activity. */
#define SHARED(api, prompt)                                                                    \
    .name = "ollama " api, .id_prefix = "ol-", .prompt_field = prompt,                         \
    .parse = ollama_codec_parse, .body = &chat_ollama_writer, .stream = &chat_ollama_writer,   \
    .stream_type = "application/x-ndjson", .keep_alive = " ", .error = chat_ollama_error

const struct chat_codec chat_ollama_chat = {SHARED("chat", "messages"), .operation = "chat",
                                            .beside = "/api/",
                                            .fields = &chat_ollama_chat_fields};
const struct chat_codec chat_ollama_generate = {SHARED("generate", "prompt"),
                                                .operation = "text_completion",
                                                .fields = &chat_ollama_generate_fields};
