/* chat/openai_response.c - see chat/openai_response.h.  Runs the choices: tokens go
 * through a parser, content through the stop strings, and what is due is written. */
#include "chat/openai_response.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/random.h"
#include "base/utf8.h"
#include "chat/openai_answer.h"

enum {
    DEFAULT_MAX_BYTES = 64 * 1024 * 1024,
    PENDING_MAX = 64 * 1024 * 1024, /* one token's text and what was held before it */
};

/* ---- creation ---- */

void chat_answer_id(enum chat_api api, char out[CHAT_ANSWER_ID_MAX])
{
    static const char *const prefixes[] = {[CHAT_API_CHAT] = "chatcmpl-",
                                           [CHAT_API_COMPLETIONS] = "cmpl-",
                                           [CHAT_API_RESPONSES] = "resp_"};
    size_t len = strlen(prefixes[api]);
    memcpy(out, prefixes[api], len);
    lr_random_base62(out + len, 24);
}

/* {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":..., */
static void write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    const struct chat_request *req = o->request;
    const char *object = req->api == CHAT_API_RESPONSES ? "response"
                         : req->api != CHAT_API_CHAT    ? "text_completion"
                         : req->stream                  ? "chat.completion.chunk"
                                                        : "chat.completion";
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "id", o->id);
    lr_json_member_z(&w, "object", object);
    lr_json_member_i64(&w, req->api == CHAT_API_RESPONSES ? "created_at" : "created",
                       o->created);
    lr_json_member_str(&w, "model", o->model.len > 0 ? o->model : req->model);
    if (req->api != CHAT_API_RESPONSES) {
        lr_json_key(&w, "system_fingerprint");
        if (o->system_fingerprint.len > 0)
            lr_json_put_str(&w, o->system_fingerprint);
        else
            lr_json_put_null(&w);
    }
    lr_buf_add_char(out, ',');
}

/* Names of declared tools that would pass for built-in ones; NULL entries are counted
 * only. */
static uint32_t find_builtin_tools(const struct chat_request *req, struct lr_str *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; req->tools != NULL && i < req->tools->count; i++) {
        struct lr_str name;
        const struct lr_json *function = lr_json_get(&req->tools->items[i], "function");
        if (!lr_json_str(lr_json_get(function, "name"), &name) ||
            !chat_harmony_is_builtin(name))
            continue;
        if (out != NULL)
            out[count] = name;
        count++;
    }
    return count;
}

/* Moves s to *at and advances *at. */
static void keep(struct lr_str *s, char **at)
{
    memcpy(*at, s->ptr, s->len);
    s->ptr = *at;
    *at += s->len;
}

static uint64_t hash_id(struct lr_str id)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < id.len; i++)
        hash = (hash ^ (unsigned char)id.ptr[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static void on_delta(void *ctx, const struct chat_delta *delta);

static void init_choice(struct chat_response *r, uint32_t index, size_t max_bytes,
                        const struct chat_harmony_options *harmony)
{
    struct chat_choice *c = &r->choices[index];
    c->response = r;
    c->index = index;
    if (r->is_harmony)
        chat_harmony_init(&c->harmony, harmony, on_delta, c);
    else
        chat_plain_init(&c->plain, on_delta, c);
    chat_stop_init(&c->stop, r->stop, r->stop_count);
    lr_buf_init(&c->logprobs, max_bytes);
    lr_buf_init(&c->content, max_bytes);
    lr_buf_init(&c->reasoning, max_bytes);
    lr_buf_init(&c->calls_json, max_bytes);
}

/* One block: the response, its choices, and copies of the strings it keeps. */
static struct chat_response *allocate(const struct chat_request *req, struct lr_str head)
{
    uint32_t builtin = find_builtin_tools(req, NULL);
    uint32_t choices = chat_request_choices(req);
    size_t choices_at = sizeof(struct chat_response);
    size_t builtin_at = choices_at + choices * sizeof(struct chat_choice);
    size_t text_at = builtin_at + builtin * sizeof(struct lr_str);
    size_t size = text_at + head.len;

    for (uint32_t i = 0; i < req->stop_count; i++)
        size += req->stop[i].len;
    struct lr_str *names = builtin > 0 ? malloc(builtin * sizeof(*names)) : NULL;
    if (builtin > 0 && names == NULL)
        return NULL;
    find_builtin_tools(req, names);
    for (uint32_t i = 0; i < builtin; i++)
        size += names[i].len;

    char *block = calloc(1, size);
    if (block != NULL) {
        struct chat_response *r = (struct chat_response *)(void *)block;
        char *text = block + text_at;
        r->choices = (struct chat_choice *)(void *)(block + choices_at);
        r->choice_count = choices;
        r->builtin_tools = (struct lr_str *)(void *)(block + builtin_at);
        r->builtin_tool_count = builtin;
        r->head = head;
        keep(&r->head, &text);
        r->stop_count = req->stop_count;
        for (uint32_t i = 0; i < req->stop_count; i++) {
            r->stop[i] = req->stop[i];
            keep(&r->stop[i], &text);
        }
        for (uint32_t i = 0; i < builtin; i++) {
            r->builtin_tools[i] = names[i];
            keep(&r->builtin_tools[i], &text);
        }
    }
    free(names);
    return (struct chat_response *)(void *)block;
}

lr_code chat_response_create(const struct chat_response_options *options,
                             struct chat_response **out, struct lr_error *err)
{
    const struct chat_request *req = options->request;
    struct lr_buf head;

    *out = NULL;
    lr_buf_init(&head, 16 * 1024);
    write_head(options, &head);
    struct chat_response *r = head.failed ? NULL : allocate(req, lr_buf_str(&head));
    lr_buf_free(&head);
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a response of %u choices",
                       chat_request_choices(req));

    r->writer = req->api == CHAT_API_RESPONSES ? &chat_items_writer
                : req->stream                  ? &chat_chunk_writer
                                               : &chat_body_writer;
    r->api = req->api;
    r->stream = req->stream;
    r->include_usage = req->include_usage;
    r->logprobs = req->sampling.logprobs != 0;
    r->parallel_calls = req->parallel_tool_calls;
    r->reasoning = req->reasoning;
    r->n = req->n;
    r->id_hash = hash_id(options->id);
    /* A raw prompt has no format, so its answer has none. */
    r->is_harmony = options->is_harmony && req->api != CHAT_API_COMPLETIONS;
    lr_buf_init(&r->pending, PENDING_MAX);

    size_t max_bytes = options->max_bytes != 0 ? options->max_bytes : DEFAULT_MAX_BYTES;
    struct chat_harmony_options harmony = {
        .no_tool_calls = req->forbids_tool_calls,
        .builtin_tools = r->builtin_tools,
        .builtin_tool_count = r->builtin_tool_count,
    };
    for (uint32_t i = 0; i < r->choice_count; i++)
        init_choice(r, i, max_bytes, &harmony);
    lr_code code = r->writer->open != NULL ? r->writer->open(r, options, err) : LR_OK;
    if (code == LR_OK)
        *out = r;
    else
        chat_response_destroy(r);
    return code;
}

void chat_response_destroy(struct chat_response *r)
{
    if (r == NULL)
        return;
    if (r->writer->close != NULL)
        r->writer->close(r);
    for (uint32_t i = 0; i < r->choice_count; i++) {
        lr_buf_free(&r->choices[i].logprobs);
        lr_buf_free(&r->choices[i].content);
        lr_buf_free(&r->choices[i].reasoning);
        lr_buf_free(&r->choices[i].calls_json);
    }
    lr_buf_free(&r->pending);
    free(r);
}

/* ---- deltas ---- */

static void flush_pending(struct chat_response *r)
{
    struct chat_choice *c = r->pending_choice;
    if (c == NULL)
        return;
    r->pending_choice = NULL;
    r->lost = r->lost || r->pending.failed;
    r->writer->text(c, r->pending_kind, r->pending_tool, lr_buf_str(&r->pending));
    lr_buf_clear(&r->pending);
}

/* Text of one kind that one token gave is written at once. */
static void give(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
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
    give(c, CHAT_DELTA_CONTENT, 0, text);
}

static void begin_call(struct chat_choice *c, const struct chat_delta *delta)
{
    struct chat_response *r = c->response;
    if (c->calls > 0 && !r->parallel_calls) {
        c->cut = true;
        return;
    }
    c->calls++;
    flush_pending(r);
    r->writer->call(c, delta->tool_index, delta->text);
}

static void on_delta(void *ctx, const struct chat_delta *delta)
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
        if (r->reasoning != CHAT_REASONING_HIDDEN)
            give(c, delta->kind, 0, delta->text);
        break;
    case CHAT_DELTA_TOOL_BEGIN:
        begin_call(c, delta);
        break;
    case CHAT_DELTA_TOOL_ARGUMENTS:
        give(c, delta->kind, delta->tool_index, delta->text);
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

/* The client's side of a choice is over; its usage may still be on the way. */
static void close_choice(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    c->closed = true;
    flush_pending(r);
    if (r->writer->finish != NULL)
        r->writer->finish(c);
}

void chat_response_begin(struct chat_response *r, struct lr_buf *out)
{
    r->out = out;
    for (uint32_t i = 0; i < r->choice_count && !r->complete; i++)
        begin_choice(&r->choices[i]);
}

bool chat_response_on_token(struct chat_response *r, uint32_t choice,
                            const struct chat_token *token, struct lr_buf *out)
{
    if (choice >= r->choice_count || r->complete)
        return false;
    struct chat_choice *c = &r->choices[choice];
    if (c->closed)
        return false;

    r->out = out;
    begin_choice(c);
    bool keep_logprob = r->logprobs && token->has_logprob && !token->special;
    if (r->is_harmony) {
        /* A token belongs to the message it lands in: only text inside a message of
         * content has an entry. */
        if (keep_logprob && chat_harmony_in(&c->harmony, CHAT_CLASS_CONTENT))
            chat_logprobs_add(c, token);
        chat_harmony_token(&c->harmony, token->bytes, token->special);
        if (!token->special && chat_harmony_in(&c->harmony, CHAT_CLASS_REASONING))
            c->reasoning_tokens++;
    } else {
        if (keep_logprob)
            chat_logprobs_add(c, token);
        chat_plain_token(&c->plain, token->bytes, token->special);
    }
    flush_pending(r);
    if (c->cut)
        close_choice(c);
    return !c->cut;
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
        lr_fail(&error, LR_INTERNAL, "the generation failed; the node's log says why");
        chat_response_on_error(r, &error, out);
        return;
    }
    begin_choice(c);
    if (!c->closed) {
        c->truncated = reason == LR_FINISH_LENGTH;
        if (r->is_harmony)
            chat_harmony_end(&c->harmony);
        else
            chat_plain_end(&c->plain);
        if (!c->cut)
            chat_stop_flush(&c->stop, give_content, c);
        close_choice(c);
    }
    if (r->done_count < r->choice_count)
        return;
    r->complete = true;
    r->writer->complete(r);
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
        /* n answers to one prompt: the prompt counts once. */
        if (i % r->n == 0) {
            t.prompt_tokens += c->usage.prompt_tokens;
            t.cached_tokens += c->usage.cached_tokens;
        }
    }
    return t;
}

const char *chat_finish_reason(const struct chat_choice *c)
{
    if (c->truncated)
        return "length";
    return c->calls > 0 ? "tool_calls" : "stop";
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

void chat_call_id(const struct chat_choice *c, uint32_t tool, char out[CHAT_CALL_ID_LEN])
{
    memcpy(out, "call_", 5);
    chat_id_letters(c->response, tool + c->index * 1024, out + 5);
}
