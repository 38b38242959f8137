/* chat/response.c - see chat/response.h.  Runs the choices: tokens go through a parser, content
 * goes through the stop strings, and the result is written. */
#include "chat/response.h"

#include "base/errors.h"
#include "base/utf8.h"
#include "chat/response_internal.h"

/* ---- deltas ---- */

static void flush_pending(struct chat_response *r)
{
    struct chat_choice *c = r->pending_choice;
    if (c == NULL)
        return;
    r->pending_choice = NULL;
    r->lost = r->lost || r->pending.failed;
    if (r->on_text != NULL) {
        struct chat_delta delta = {.kind = r->pending_kind,
                                   .tool_index = r->pending_tool,
                                   .text = lr_buf_str(&r->pending)};
        r->on_text(r->owner, c->index, &delta);
    }
    r->writer->text(c, r->pending_kind, r->pending_tool, lr_buf_str(&r->pending));
    lr_buf_clear(&r->pending);
}

/* Joins text of the same kind from one token into one write. */
static void chat_response_give(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                               struct lr_str text)
{
    struct chat_response *r = c->response;
    if (r->pending_choice != NULL && (r->pending_kind != kind || r->pending_tool != tool))
        flush_pending(r);
    r->pending_choice = c;
    r->pending_kind = kind;
    r->pending_tool = tool;
    lr_buf_add_str(&r->pending, text);
}

static void give_content(void *ctx, struct lr_str text)
{
    struct chat_choice *c = ctx;
    c->content_out += text.len;
    chat_response_give(c, CHAT_DELTA_CONTENT, 0, text);
}

/* Ids of one or two letters, which some models count from 0 in each answer, are not unique in a
 * conversation. */
static void keep_id(struct chat_choice *c, const struct chat_delta *delta)
{
    struct lr_str id = delta->id;
    bool is_good = id.len >= CHAT_MODEL_ID_MIN && id.len <= CHAT_MODEL_ID_MAX &&
                   !lr_str_eq(id, lr_buf_str(&c->call_id));
    for (size_t i = 0; i < id.len && is_good; i++)
        is_good = id.ptr[i] > ' ' && id.ptr[i] < 127 && strchr("\"\\<>&'", id.ptr[i]) == NULL;
    c->call_tool = delta->tool_index;
    lr_buf_clear(&c->call_id);
    if (is_good)
        lr_buf_add_str(&c->call_id, id);
}

static void begin_call(struct chat_choice *c, const struct chat_delta *delta)
{
    struct chat_response *r = c->response;
    if (c->calls > 0 && !r->parallel_calls) {
        c->cut = true;
        return;
    }
    c->calls++;
    keep_id(c, delta);
    if (!r->dialect.is_channels)
        chat_logprobs_forget(c);
    flush_pending(r);
    if (r->on_call != NULL)
        r->on_call(r->owner, delta->text);
    if (r->on_text != NULL)
        r->on_text(r->owner, c->index, delta);
    r->writer->call(c, delta->tool_index, delta->text);
}

void chat_choice_delta(void *ctx, const struct chat_delta *delta)
{
    struct chat_choice *c = ctx;
    struct chat_response *r = c->response;
    if (c->cut)
        return;
    switch (delta->kind) {
    case CHAT_DELTA_CONTENT:
        c->cut = chat_stop_feed(&c->stop, delta->text, give_content, c);
        c->content_in += delta->text.len;
        if (r->logprobs)
            c->chars_in += lr_utf8_count(delta->text);
        break;
    case CHAT_DELTA_REASONING:
        if (!r->dialect.is_channels) /* of the mark: no text of the content */
            chat_logprobs_forget(c);
        if (r->reasoning != CHAT_REASONING_HIDDEN)
            chat_response_give(c, delta->kind, 0, delta->text);
        break;
    case CHAT_DELTA_TOOL_BEGIN:
        begin_call(c, delta);
        break;
    case CHAT_DELTA_TOOL_ARGUMENTS:
        chat_response_give(c, delta->kind, delta->tool_index, delta->text);
        break;
    case CHAT_DELTA_TOOL_END:
        flush_pending(r);
        if (r->writer->call_end != NULL)
            r->writer->call_end(c);
        break;
    }
}

/* ---- events ---- */

static void begin_choice(struct chat_choice *c)
{
    if (c->began)
        return;
    c->began = true;
    if (c->response->writer->begin != NULL)
        c->response->writer->begin(c);
}

/* The client has the whole choice; its usage may still come. */
static void close_choice(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    c->closed = true;
    flush_pending(r);
    if (r->writer->finish != NULL)
        r->writer->finish(c);
}

/* An incomplete answer must not look complete.  If memory was missing for a part, the unsent
 * bytes are replaced by an error and the answer ends. */
static bool is_written(struct chat_response *r)
{
    struct lr_error error;
    if (!r->out->failed)
        return true;
    lr_buf_clear(r->out);
    r->complete = true;
    r->status = lr_fail(&error, LR_OUT_OF_RAM, "no memory for the answer");
    r->writer->fail(r, &error);
    return false;
}

void chat_response_on_prompt(struct chat_response *r, uint32_t choice, uint32_t tokens)
{
    /* A continuation computes more than the prompt; the first count is the prompt's. */
    if (choice < r->choice_count && r->choices[choice].usage.prompt_tokens == 0)
        r->choices[choice].usage.prompt_tokens = tokens;
}

bool chat_response_on_token(struct chat_response *r, uint32_t choice,
                            const struct wire_token *token, struct lr_buf *out)
{
    if (choice >= r->choice_count || r->complete)
        return false;
    struct chat_choice *c = &r->choices[choice];
    if (c->closed)
        return false;

    r->out = out;
    begin_choice(c);
    bool keep_logprob = r->logprobs && token->has_logprob && !token->special;
    const struct chat_reading *reading = r->dialect.reading;
    /* A token belongs to the message that contains its text: only tokens of a content message
     * have an entry. */
    if (keep_logprob && reading->in_content(&c->reader))
        chat_logprobs_add(c, token);
    bool was_reasoning = reading->in_reasoning(&c->reader);
    reading->token(&c->reader, token->bytes, token->special);
    if (reading->in_reasoning(&c->reader) ? !token->special
                                          : was_reasoning && !r->dialect.is_channels)
        c->reasoning_tokens++;
    r->lost = r->lost || reading->failed(&c->reader);
    flush_pending(r);
    if (c->cut)
        close_choice(c);
    return is_written(r) && !c->cut;
}

void chat_response_on_vector(struct chat_response *r, uint32_t choice,
                             const struct wire_vector *v, struct lr_buf *out)
{
    struct lr_error error;
    if (choice >= r->choice_count || r->complete || r->writer->vector == NULL)
        return;
    struct chat_choice *c = &r->choices[choice];
    lr_buf_clear(&c->content); /* of a node that has died since */
    if (r->writer->vector(c, v, &error) != LR_OK)
        chat_response_on_error(r, &error, out);
}

void chat_response_on_done(struct chat_response *r, uint32_t choice, enum lr_finish reason,
                           const struct chat_usage *usage, struct lr_buf *out)
{
    if (choice >= r->choice_count || r->complete || r->choices[choice].done)
        return;
    struct chat_choice *c = &r->choices[choice];

    r->out = out;
    c->done = true;
    r->done_count++;
    if (usage != NULL)
        c->usage = *usage;
    if (reason == LR_FINISH_ERROR) {
        struct lr_error error;
        lr_fail_plain(&error, generation_failed);
        chat_response_on_error(r, &error, out);
        return;
    }
    begin_choice(c);
    if (!c->closed) {
        c->truncated = reason == LR_FINISH_LENGTH;
        r->dialect.reading->end(&c->reader, c->truncated);
        if (!c->cut)
            chat_stop_flush(&c->stop, give_content, c);
        close_choice(c);
    }
    if (is_written(r) && r->done_count == r->choice_count && !r->keeps)
        chat_response_complete(r, false, out);
}

/* ---- an answer that is stored ---- */

bool chat_response_is_due(const struct chat_response *r)
{
    return r->keeps && !r->complete && r->done_count == r->choice_count;
}

void chat_record_free(struct chat_record *record)
{
    lr_buf_free(&record->input);
    lr_buf_free(&record->output);
    lr_buf_free(&record->answer);
}

bool chat_response_record(const struct chat_response *r, const struct chat_request *req,
                          const char *status, const struct lr_error *error, size_t limit,
                          struct chat_record *out)
{
    *out = (struct chat_record){0};
    lr_buf_init(&out->input, limit);
    lr_buf_init(&out->output, limit);
    lr_buf_init(&out->answer, limit);
    if (r->lost && status == NULL)
        return false;
    r->writer->record(r, req, status, error, out);
    bool fits = !out->input.failed && !out->output.failed && !out->answer.failed &&
                out->input.len + out->output.len + out->answer.len <= limit;
    if (!fits)
        chat_record_free(out);
    return fits;
}

void chat_response_complete(struct chat_response *r, bool is_kept, struct lr_buf *out)
{
    r->out = out;
    r->keeps = is_kept;
    r->complete = true;
    r->writer->complete(r);
    (void)is_written(r);
}

void chat_response_on_error(struct chat_response *r, const struct lr_error *error,
                            struct lr_buf *out)
{
    if (r->complete)
        return;
    r->complete = true;
    r->status = error->code;
    r->out = out;
    r->writer->fail(r, error);
    (void)is_written(r);
}

/* ---- what is known ---- */

bool chat_response_is_complete(const struct chat_response *r)
{
    return r->complete;
}

lr_code chat_response_status(const struct chat_response *r)
{
    return r->status;
}

struct chat_response_totals chat_response_totals(const struct chat_response *r)
{
    struct chat_response_totals t = {0};
    for (uint32_t i = 0; i < r->choice_count; i++) {
        const struct chat_choice *c = &r->choices[i];
        t.completion_tokens += c->usage.completion_tokens;
        t.reasoning_tokens += c->reasoning_tokens;
        /* n answers to the same prompt: the prompt is counted once. */
        if (i % r->n == 0) {
            t.prompt_tokens += c->usage.prompt_tokens;
            t.cached_tokens += c->usage.cached_tokens;
        }
    }
    return t;
}

void chat_response_repairs(const struct chat_response *r, uint32_t *out)
{
    for (uint32_t i = 0; r != NULL && i < r->choice_count; i++) {
        const uint32_t *repairs = r->dialect.reading->repairs(&r->choices[i].reader);
        for (uint32_t k = 0; repairs != NULL && k < CHAT_REPAIR_COUNT; k++)
            out[k] += repairs[k];
    }
}

void chat_id_letters(const struct chat_response *r, uint32_t n, char out[CHAT_ID_LETTERS])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t x = 0;
    for (uint32_t i = 0; i < CHAT_ID_LETTERS; i++) {
        if (i % 8 == 0)
            x = chat_request_seed(r->id_hash, 1 + i / 8 + 3 * n);
        out[i] = letters[x % 62];
        x /= 62;
    }
}

void chat_arguments_object(struct lr_str text, struct lr_buf *out)
{
    struct lr_arena arena;
    const struct lr_json *value;
    struct lr_str trimmed = lr_str_trim(text);
    lr_arena_init(&arena, (64 << 10) + 16 * text.len);
    if (trimmed.len == 0) {
        lr_buf_add_z(out, "{}");
    } else if (lr_json_parse(&arena, trimmed, NULL, &value, NULL) == LR_OK &&
               value->type == LR_JSON_OBJECT) {
        lr_buf_add_str(out, trimmed);
    } else {
        lr_buf_add_z(out, "{\"INVALID_JSON\":");
        lr_json_quote(out, text);
        lr_buf_add_char(out, '}');
    }
    lr_arena_free(&arena);
}

struct lr_str chat_call_id(const struct chat_choice *c, uint32_t tool,
                           char room[CHAT_CALL_ID_LEN])
{
    if (c->call_id.len != 0 && c->call_tool == tool)
        return lr_buf_str(&c->call_id);
    memcpy(room, "call_", 5);
    chat_id_letters(c->response, tool + c->index * 1024, room + 5);
    return lr_str(room, CHAT_CALL_ID_LEN);
}
