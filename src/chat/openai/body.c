/* chat/openai/body.c - an answer in one piece: collected, then written once. */
#include "chat/openai/openai.h"

#include "base/json.h"

/* {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":..., */
void chat_openai_head(const struct chat_response_options *o, const char *object,
                      struct lr_buf *out)
{
    const struct chat_request *req = o->request;
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "id", o->id);
    lr_json_member_z(&w, "object", object);
    lr_json_member_i64(&w, "created", o->created);
    lr_json_member_str(&w, "model", o->model.len > 0 ? o->model : req->model);
    lr_json_key(&w, "system_fingerprint");
    if (o->system_fingerprint.len > 0)
        lr_json_put_str(&w, o->system_fingerprint);
    else
        lr_json_put_null(&w);
    lr_buf_add_char(out, ',');
}

static void openai_body_write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    chat_openai_head(o, o->request->prompts != NULL ? "text_completion" : "chat.completion",
                     out);
}

const char *chat_openai_finish_reason(const struct chat_choice *c)
{
    if (c->truncated)
        return "length";
    return c->calls > 0 ? "tool_calls" : "stop";
}

/* Appends text to the JSON string at the end of the buffer, before its closing quote. */
static void extend_string(struct lr_buf *buf, struct lr_str text)
{
    if (buf->failed || buf->len < 2)
        return;
    /* The new string's opening quote overwrites the last byte before the old closing quote;
     * that byte is then restored. */
    char last = buf->data[buf->len - 2];
    size_t at = buf->len - 2;
    buf->len = at;
    lr_json_quote(buf, text);
    if (!buf->failed)
        buf->data[at] = last;
}

static void openai_body_add_text(struct chat_choice *c, enum chat_delta_kind kind,
                                 uint32_t tool, struct lr_str text)
{
    (void)tool; /* the open call is always the last */
    switch (kind) {
    case CHAT_DELTA_CONTENT:
        lr_buf_add_str(&c->content, text);
        break;
    case CHAT_DELTA_REASONING:
        lr_buf_add_str(&c->reasoning, text);
        break;
    default:
        /* The open call ends with ...arguments":"..."}}; reopens the string. */
        if (!c->calls_json.failed && c->calls_json.len > 2) {
            c->calls_json.len -= 2;
            extend_string(&c->calls_json, text);
            lr_buf_add_z(&c->calls_json, "}}");
        }
        break;
    }
}

static void add_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    char id[CHAT_CALL_ID_LEN];
    struct lr_buf *out = &c->calls_json;
    lr_buf_add_z(out, tool > 0 ? ",{\"id\":" : "{\"id\":");
    lr_json_quote(out, chat_call_id(c, tool, id));
    lr_buf_add_z(out, ",\"type\":\"function\",\"function\":{\"name\":");
    lr_json_quote(out, name);
    lr_buf_add_z(out, ",\"arguments\":\"\"}}");
}

void chat_openai_usage(const struct chat_response *r, struct lr_buf *out)
{
    struct chat_response_totals t = chat_response_totals(r);
    struct lr_json_writer w;

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "prompt_tokens", t.prompt_tokens);
    lr_json_member_u64(&w, "completion_tokens", t.completion_tokens);
    lr_json_member_u64(&w, "total_tokens", t.prompt_tokens + t.completion_tokens);
    lr_json_member_object(&w, "prompt_tokens_details");
    lr_json_member_u64(&w, "cached_tokens", t.cached_tokens);
    lr_json_end_object(&w);
    lr_json_member_object(&w, "completion_tokens_details");
    lr_json_member_u64(&w, "reasoning_tokens", t.reasoning_tokens);
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}

static void write_message(struct chat_choice *c, struct lr_buf *out)
{
    struct chat_response *r = c->response;
    struct lr_json_writer w;

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "role", "assistant");
    lr_json_key(&w, "content");
    if (c->content.len == 0 && c->calls > 0)
        lr_json_put_null(&w);
    else
        lr_json_put_str(&w, lr_buf_str(&c->content));
    lr_json_member_null(&w, "refusal");
    if (c->reasoning.len > 0 && (r->reasoning & CHAT_REASONING_CONTENT) != 0)
        lr_json_member_str(&w, "reasoning_content", lr_buf_str(&c->reasoning));
    if (c->reasoning.len > 0 && (r->reasoning & CHAT_REASONING_PLAIN) != 0)
        lr_json_member_str(&w, "reasoning", lr_buf_str(&c->reasoning));
    if (c->calls > 0) {
        lr_json_member_array(&w, "tool_calls");
        lr_json_put_raw(&w, lr_buf_str(&c->calls_json));
        lr_json_end_array(&w);
    }
    lr_json_end_object(&w);
}

static void write_choice(struct chat_choice *c, struct lr_buf *out)
{
    lr_buf_addf(out, "%s{\"index\":%u,", c->index > 0 ? "," : "", c->index);
    if (!c->response->is_raw) {
        lr_buf_add_z(out, "\"message\":");
        write_message(c, out);
    } else {
        lr_buf_add_z(out, "\"text\":");
        lr_json_quote(out, lr_buf_str(&c->content));
    }
    lr_buf_add_z(out, ",\"logprobs\":");
    chat_logprobs_write(c, out);
    lr_buf_addf(out, ",\"finish_reason\":\"%s\"}", chat_openai_finish_reason(c));
    /* The choice's text is in the body now: free it, so that it is not in memory twice. */
    lr_buf_free(&c->content);
    lr_buf_free(&c->reasoning);
    lr_buf_free(&c->calls_json);
}

static bool is_whole(const struct chat_response *r)
{
    for (uint32_t i = 0; i < r->choice_count; i++) {
        const struct chat_choice *c = &r->choices[i];
        if (c->content.failed || c->reasoning.failed || c->calls_json.failed ||
            c->logprobs.failed)
            return false;
    }
    return !r->lost;
}

static void openai_body_write_error(struct chat_response *r, const struct lr_error *error)
{
    chat_openai_error(r->out, r->codec, &(struct chat_error){.error = *error});
}

static void openai_body_write_body(struct chat_response *r)
{
    struct lr_buf *out = r->out;
    if (!is_whole(r)) {
        struct lr_error error;
        r->status = lr_fail(&error, LR_OUT_OF_RAM,
                            "the answer is larger than %zu bytes; ask for fewer tokens or use "
                            "'stream': true",
                            r->choices[0].content.limit);
        openai_body_write_error(r, &error);
        return;
    }
    lr_buf_add_str(out, r->head);
    lr_buf_add_z(out, "\"choices\":[");
    for (uint32_t i = 0; i < r->choice_count; i++)
        write_choice(&r->choices[i], out);
    lr_buf_add_z(out, "],\"usage\":");
    chat_openai_usage(r, out);
    lr_buf_add_z(out, "}");
}

const struct chat_writer chat_body_writer = {.head = openai_body_write_head,
                                             .text = openai_body_add_text,
                                             .call = add_call,
                                             .complete = openai_body_write_body,
                                             .fail = openai_body_write_error};
