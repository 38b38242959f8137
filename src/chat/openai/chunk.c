/* chat/openai/chunk.c - one SSE event per delta.
 *
 * Uses plain appends instead of the JSON writer, because this runs once a token.
 */
#include "chat/openai/openai.h"

#include "base/json.h"

#define ADD(buf, literal) lr_buf_add((buf), (literal), sizeof(literal) - 1)

static void add_index(struct lr_buf *out, uint32_t index)
{
    if (index < 10)
        lr_buf_add_char(out, (char)('0' + index));
    else
        lr_buf_addf(out, "%u", index);
}

/* data: {"id":...,"choices":[{"index":N */
static struct lr_buf *chunk_begin(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    ADD(r->out, "data: ");
    lr_buf_add_str(r->out, r->head);
    ADD(r->out, "\"choices\":[{\"index\":");
    add_index(r->out, c->index);
    return r->out;
}

static void chunk_end(struct chat_choice *c, const char *finish, bool with_logprobs)
{
    struct chat_response *r = c->response;
    ADD(r->out, ",\"logprobs\":");
    if (with_logprobs && r->logprobs)
        chat_logprobs_write(c, r->out);
    else
        ADD(r->out, "null");
    ADD(r->out, ",\"finish_reason\":");
    if (finish == NULL)
        ADD(r->out, "null");
    else
        lr_json_quote(r->out, lr_str_z(finish));
    if (r->include_usage)
        ADD(r->out, "}],\"usage\":null}\n\n");
    else
        ADD(r->out, "}]}\n\n");
}

static void write_role(struct chat_choice *c)
{
    if (c->response->is_raw)
        return;
    struct lr_buf *out = chunk_begin(c);
    ADD(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    chunk_end(c, NULL, false);
}

static void add_reasoning(struct chat_choice *c, struct lr_buf *out, struct lr_str text)
{
    uint32_t where = c->response->reasoning;
    if ((where & CHAT_REASONING_CONTENT) != 0) {
        ADD(out, "\"reasoning_content\":");
        lr_json_quote(out, text);
    }
    if ((where & CHAT_REASONING_PLAIN) != 0) {
        if ((where & CHAT_REASONING_CONTENT) != 0)
            lr_buf_add_char(out, ',');
        ADD(out, "\"reasoning\":");
        lr_json_quote(out, text);
    }
}

static void chunk_write_text(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                             struct lr_str text)
{
    struct lr_buf *out = chunk_begin(c);
    if (c->response->is_raw) {
        ADD(out, ",\"text\":");
        lr_json_quote(out, text);
        chunk_end(c, NULL, true);
        return;
    }
    ADD(out, ",\"delta\":{");
    if (kind == CHAT_DELTA_CONTENT) {
        ADD(out, "\"content\":");
        lr_json_quote(out, text);
    } else if (kind == CHAT_DELTA_REASONING) {
        add_reasoning(c, out, text);
    } else {
        ADD(out, "\"tool_calls\":[{\"index\":");
        add_index(out, tool);
        ADD(out, ",\"function\":{\"arguments\":");
        lr_json_quote(out, text);
        ADD(out, "}}]");
    }
    lr_buf_add_char(out, '}');
    chunk_end(c, NULL, kind == CHAT_DELTA_CONTENT);
}

static void chunk_write_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    char id[CHAT_CALL_ID_LEN];
    struct lr_buf *out = chunk_begin(c);
    ADD(out, ",\"delta\":{\"tool_calls\":[{\"index\":");
    add_index(out, tool);
    ADD(out, ",\"id\":");
    lr_json_quote(out, chat_call_id(c, tool, id));
    ADD(out, ",\"type\":\"function\",\"function\":{\"name\":");
    lr_json_quote(out, name);
    ADD(out, ",\"arguments\":\"\"}}]}");
    chunk_end(c, NULL, false);
}

static void write_finish(struct chat_choice *c)
{
    struct lr_buf *out = chunk_begin(c);
    if (!c->response->is_raw)
        ADD(out, ",\"delta\":{}");
    else
        ADD(out, ",\"text\":\"\"");
    chunk_end(c, chat_openai_finish_reason(c), false);
}

static void chunk_write_usage(struct chat_response *r)
{
    ADD(r->out, "data: ");
    lr_buf_add_str(r->out, r->head);
    ADD(r->out, "\"choices\":[],\"usage\":");
    chat_openai_usage(r, r->out);
    ADD(r->out, "}\n\n");
}

static void write_done(struct chat_response *r)
{
    ADD(r->out, "data: [DONE]\n\n");
}

static void chunk_write_error(struct chat_response *r, const struct lr_error *error)
{
    ADD(r->out, "data: ");
    chat_openai_error(r->out, r->codec, &(struct chat_error){.error = *error});
    ADD(r->out, "\n\n");
    write_done(r);
}

static void write_complete(struct chat_response *r)
{
    struct lr_error error;
    if (r->lost) {
        r->status = lr_fail(&error, LR_OUT_OF_RAM, "no memory for a part of the answer");
        chunk_write_error(r, &error);
        return;
    }
    if (r->include_usage)
        chunk_write_usage(r);
    write_done(r);
}

static void chunk_write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    chat_openai_head(
        o, o->request->prompts != NULL ? "text_completion" : "chat.completion.chunk", out);
}

const struct chat_writer chat_chunk_writer = {.head = chunk_write_head,
                                              .begin = write_role,
                                              .text = chunk_write_text,
                                              .call = chunk_write_call,
                                              .finish = write_finish,
                                              .complete = write_complete,
                                              .fail = chunk_write_error};
