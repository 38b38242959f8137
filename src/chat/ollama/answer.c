/* chat/ollama/answer.c - deltas -> one object, or lines of JSON of which the last one says that
 * the answer is done and has its figures.
 *
 * A stream keeps nothing of the answer but the arguments of the open call: a call is written
 * when it is whole.  Lines are written with plain appends, because this runs once a token.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "chat/ollama/ollama.h"

struct answer {
    bool is_chat;    /* else: generate */
    bool loads_only; /* no text is written */
    bool in_call;
    uint64_t begun_ns, first_ns; /* the request; its first token, 0: none yet */
    struct lr_buf call;          /* the open call, up to its arguments */
    struct lr_buf arguments;
};

#define ADD(buf, literal) lr_buf_add((buf), (literal), sizeof(literal) - 1)

static struct answer *answer_of(const struct chat_response *r)
{
    return r->own;
}

/* ---- making and freeing ---- */

static void ollama_answer_write_head(const struct chat_response_options *options,
                                     struct lr_buf *out)
{
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(options->created * 1000, time);
    ADD(out, "{\"model\":");
    lr_json_quote(out, options->model.len > 0 ? options->model : options->request->model);
    lr_buf_addf(out, ",\"created_at\":\"%s\",", time);
}

static lr_code ollama_answer_open_writer(struct chat_response *r,
                                         const struct chat_response_options *options,
                                         struct lr_error *err)
{
    struct answer *a = calloc(1, sizeof(*a));
    r->own = a;
    if (a == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for an answer");
    a->is_chat = r->codec == &chat_ollama_chat;
    a->loads_only = options->request->loads_only;
    a->begun_ns = lr_clock_ns(NULL);
    lr_buf_init(&a->call, r->choices[0].content.limit);
    lr_buf_init(&a->arguments, r->choices[0].content.limit);
    return LR_OK;
}

static void ollama_answer_close_writer(struct chat_response *r)
{
    struct answer *a = r->own;
    if (a == NULL)
        return;
    lr_buf_free(&a->call);
    lr_buf_free(&a->arguments);
    free(a);
    r->own = NULL;
}

/* ---- a line ---- */

/* {"model":...,"message":{"role":"assistant","content":...,"thinking":...,"tool_calls":[...]},
 * or "response" and "thinking" instead of the message.  Empty thinking and calls are left out.
 */
static void begin_line(const struct chat_response *r, struct lr_str content,
                       struct lr_str thinking, struct lr_str calls)
{
    struct lr_buf *out = r->out;
    bool is_chat = answer_of(r)->is_chat;
    lr_buf_add_str(out, r->head);
    if (is_chat)
        ADD(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    else
        ADD(out, "\"response\":");
    lr_json_quote(out, content);
    if (thinking.len > 0) {
        ADD(out, ",\"thinking\":");
        lr_json_quote(out, thinking);
    }
    if (calls.len > 0) {
        ADD(out, ",\"tool_calls\":[");
        lr_buf_add_str(out, calls);
        lr_buf_add_char(out, ']');
    }
    if (is_chat)
        lr_buf_add_char(out, '}');
}

static void write_logprobs(struct chat_choice *c)
{
    struct lr_buf *out = c->response->out;
    size_t before = out->len;
    if (!c->response->logprobs)
        return;
    ADD(out, ",\"logprobs\":[");
    size_t at = out->len;
    chat_logprobs_entries(c, out);
    if (out->failed)
        return;
    if (out->len == at)
        out->len = before; /* none */
    else
        lr_buf_add_char(out, ']');
}

static void end_line(struct chat_response *r)
{
    ADD(r->out, ",\"done\":false}\n");
}

/* ---- text and calls ---- */

static void ollama_answer_begin(struct chat_choice *c)
{
    answer_of(c->response)->first_ns = lr_clock_ns(NULL);
}

static void ollama_answer_write_text(struct chat_choice *c, enum chat_delta_kind kind,
                                     uint32_t tool, struct lr_str text)
{
    struct chat_response *r = c->response;
    struct answer *a = r->own;
    bool is_content = kind == CHAT_DELTA_CONTENT;
    const struct lr_str none = lr_str("", 0);
    (void)tool; /* the open call is always the last */
    if (a->loads_only)
        return;
    if (kind == CHAT_DELTA_TOOL_ARGUMENTS) {
        lr_buf_add_str(&a->arguments, text);
    } else if (!r->stream) {
        lr_buf_add_str(is_content ? &c->content : &c->reasoning, text);
    } else {
        begin_line(r, is_content ? text : none, is_content ? none : text, none);
        if (is_content)
            write_logprobs(c);
        end_line(r);
    }
}

/* A line of JSON has no line break: between the tokens of a JSON text a space means the same,
 * and strings have none. */
static void join_lines(struct lr_buf *text, size_t from)
{
    for (size_t i = from; i < text->len; i++)
        if (text->data[i] == '\n' || text->data[i] == '\r')
            text->data[i] = ' ';
}

static void ollama_answer_end_call(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    struct answer *a = r->own;
    if (!a->in_call)
        return;
    a->in_call = false;
    size_t from = a->call.len;
    chat_arguments_object(lr_buf_str(&a->arguments), &a->call);
    join_lines(&a->call, from);
    ADD(&a->call, "}}");
    r->lost = r->lost || a->call.failed || a->arguments.failed;
    if (r->stream) {
        begin_line(r, lr_str("", 0), lr_str("", 0), lr_buf_str(&a->call));
        end_line(r);
    } else {
        if (c->calls_json.len > 0)
            lr_buf_add_char(&c->calls_json, ',');
        lr_buf_add_str(&c->calls_json, lr_buf_str(&a->call));
    }
    lr_buf_clear(&a->call);
    lr_buf_clear(&a->arguments);
}

static void ollama_answer_write_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    struct answer *a = answer_of(c->response);
    char id[CHAT_CALL_ID_LEN];
    if (a->loads_only)
        return;
    ollama_answer_end_call(c);
    a->in_call = true;
    struct lr_str given = chat_call_id(c, tool, id);
    lr_buf_addf(&a->call, "{\"id\":\"" LR_STR_FMT "\",\"function\":{\"index\":%u,\"name\":",
                LR_STR_ARG(given), tool);
    lr_json_quote(&a->call, name);
    ADD(&a->call, ",\"arguments\":");
}

/* ---- the end ---- */

static void ollama_answer_fail(struct chat_response *r, const struct lr_error *error)
{
    chat_ollama_error(r->out, r->codec, &(struct chat_error){.error = *error});
    if (r->stream)
        lr_buf_add_char(r->out, '\n');
}

/* The codec does not know how the time before the first token was spent (queue, loading,
 * prompt). */
static void write_figures(const struct chat_response *r)
{
    const struct answer *a = r->own;
    const struct chat_choice *c = &r->choices[0];
    uint64_t now = lr_clock_ns(NULL), before = lr_elapsed(a->begun_ns, a->first_ns);
    lr_buf_addf(r->out, ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu",
                a->loads_only  ? "load"
                : c->truncated ? "length"
                               : "stop",
                (unsigned long long)lr_elapsed(a->begun_ns, now));
    if (a->loads_only)
        lr_buf_addf(r->out, ",\"load_duration\":%llu}", (unsigned long long)before);
    else
        lr_buf_addf(r->out,
                    ",\"load_duration\":0,\"prompt_eval_count\":%u,\"prompt_eval_duration\":"
                    "%llu,\"eval_count\":%u,\"eval_duration\":%llu}",
                    c->usage.prompt_tokens, (unsigned long long)before,
                    c->usage.completion_tokens,
                    (unsigned long long)lr_elapsed(a->first_ns, now));
}

static void ollama_answer_complete(struct chat_response *r)
{
    struct chat_choice *c = &r->choices[0];
    const struct lr_str none = lr_str("", 0);
    if (r->lost || c->content.failed || c->reasoning.failed || c->calls_json.failed ||
        c->logprobs.failed) {
        struct lr_error error;
        r->status = lr_fail(&error, LR_OUT_OF_RAM,
                            "the answer is larger than %zu bytes; ask for fewer tokens",
                            c->content.limit);
        ollama_answer_fail(r, &error);
        return;
    }
    if (r->stream) {
        begin_line(r, none, none, none);
    } else {
        begin_line(r, lr_buf_str(&c->content), lr_buf_str(&c->reasoning),
                   lr_buf_str(&c->calls_json));
        write_logprobs(c);
    }
    write_figures(r);
    if (r->stream)
        lr_buf_add_char(r->out, '\n');
}

const struct chat_writer chat_ollama_writer = {.head = ollama_answer_write_head,
                                               .open = ollama_answer_open_writer,
                                               .close = ollama_answer_close_writer,
                                               .begin = ollama_answer_begin,
                                               .text = ollama_answer_write_text,
                                               .call = ollama_answer_write_call,
                                               .call_end = ollama_answer_end_call,
                                               .finish = ollama_answer_end_call,
                                               .complete = ollama_answer_complete,
                                               .fail = ollama_answer_fail};
