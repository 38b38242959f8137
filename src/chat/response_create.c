/* chat/response_create.c - creating and freeing a response: see chat/response.h.
 *
 * Values that must live as long as the answer are copied here; the request may be freed.
 */
#include "chat/response.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/random.h"
#include "chat/codec.h"
#include "chat/response_internal.h"

enum {
    DEFAULT_MAX_BYTES = 64 * 1024 * 1024,
    TOOLS_MAX = 64 * 1024 * 1024,   /* names and types of a request's tools */
    PENDING_MAX = 64 * 1024 * 1024, /* one token's text and the text held back before it */
};

void chat_answer_id(const struct chat_codec *codec, char out[CHAT_ANSWER_ID_MAX])
{
    size_t len = strlen(codec->id_prefix);
    memcpy(out, codec->id_prefix, len);
    lr_random_base62(out + len, 24);
}

/* The declared tools with the types of their parameters; a tool in a namespace also without
 * it.  Harmony's reader needs the names that look like its own tools.  False: no memory. */
static bool list_tools(struct chat_response *r, const struct chat_request *req)
{
    uint32_t count = req->tools != NULL ? req->tools->count : 0;
    struct chat_declared *tools = lr_arena_array(&r->arena, 2 * count + 1, sizeof(*tools));
    struct lr_str *builtin = lr_arena_array(&r->arena, count + 1, sizeof(*builtin));
    if (tools == NULL || builtin == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct lr_json *function = lr_json_get(&req->tools->items[i], "function");
        uint32_t space = req->origins != NULL ? req->origins[i].space_len : 0;
        struct chat_declared *tool = &tools[r->tool_count];
        struct lr_str name;
        if (!lr_json_str(lr_json_get(function, "name"), &name))
            continue;
        const char *copy = lr_arena_copy(&r->arena, name);
        if (copy == NULL ||
            !chat_types_of(&r->arena, lr_json_get(function, "parameters"), &tool->types))
            return false;
        tool->name = lr_str(copy, name.len);
        r->tool_count++;
        if (chat_harmony_is_builtin(name))
            builtin[r->builtin_count++] = tool->name;
        if (space == 0)
            continue;
        tools[r->tool_count] = *tool;
        tools[r->tool_count++].name = lr_str_sub(tool->name, space + 1, name.len);
    }
    r->tools = tools;
    r->builtin_tools = builtin;
    return true;
}

/* Copies s to *at and advances *at. */
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

static void init_reader(struct chat_choice *c, const struct chat_response_options *options)
{
    const struct chat_response *r = c->response;
    struct chat_reader_options reader = {
        .forbids_calls = options->request->forbids_tool_calls,
        .tools = r->tools,
        .tool_count = r->tool_count,
        .builtin_tools = r->builtin_tools,
        .builtin_count = r->builtin_count,
        .is_opened = options->is_opened,
    };
    c->reader.dialect = &r->dialect;
    r->dialect.reading->init(&c->reader, &reader, chat_choice_delta, c);
}

static void init_choice(struct chat_response *r, uint32_t index, size_t max_bytes,
                        const struct chat_response_options *options)
{
    struct chat_choice *c = &r->choices[index];
    c->response = r;
    c->index = index;
    init_reader(c, options);
    chat_stop_init(&c->stop, r->stop, r->stop_count);
    lr_buf_init(&c->logprobs, max_bytes);
    lr_buf_init(&c->content, max_bytes);
    lr_buf_init(&c->reasoning, max_bytes);
    lr_buf_init(&c->calls_json, max_bytes);
    lr_buf_init(&c->call_id, CHAT_MODEL_ID_MAX);
}

/* Allocates the response, its choices and copies of its strings in one block. */
static struct chat_response *allocate(const struct chat_response_options *options,
                                      struct lr_str head)
{
    const struct chat_request *req = options->request;
    uint32_t choices = chat_request_choices(req);
    size_t choices_at = sizeof(struct chat_response);
    size_t text_at = choices_at + choices * sizeof(struct chat_choice);
    size_t size = text_at + head.len;

    for (uint32_t i = 0; i < req->stop_count; i++)
        size += req->stop[i].len;
    char *block = calloc(1, size);
    if (block != NULL) {
        struct chat_response *r = (struct chat_response *)(void *)block;
        char *text = block + text_at;
        r->choices = (struct chat_choice *)(void *)(block + choices_at);
        r->choice_count = choices;
        r->head = head;
        keep(&r->head, &text);
        r->stop_count = req->stop_count;
        for (uint32_t i = 0; i < req->stop_count; i++) {
            r->stop[i] = req->stop[i];
            keep(&r->stop[i], &text);
        }
    }
    return (struct chat_response *)(void *)block;
}

lr_code chat_response_create(const struct chat_response_options *options,
                             struct chat_response **out, struct lr_error *err)
{
    const struct chat_request *req = options->request;
    const struct chat_writer *writer = req->stream ? req->codec->stream : req->codec->body;
    struct chat_dialect plain = {0};
    struct lr_buf head;

    *out = NULL;
    (void)chat_dialect_named(LR_STR_LIT("plain"), (struct lr_str){0}, &plain);
    lr_buf_init(&head, 16 * 1024);
    writer->head(options, &head);
    struct chat_response *r = head.failed ? NULL : allocate(options, lr_buf_str(&head));
    lr_buf_free(&head);
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a response of %u choices",
                       chat_request_choices(req));

    r->writer = writer;
    r->codec = req->codec;
    r->stream = req->stream;
    r->include_usage = req->include_usage;
    r->logprobs = req->sampling.logprobs != 0;
    r->parallel_calls = req->parallel_tool_calls;
    r->keeps = req->keeps;
    r->reasoning = req->reasoning;
    r->n = req->n;
    r->id_hash = hash_id(options->id);
    /* A raw prompt has no message format, so its answer has none. */
    r->is_raw = req->prompts != NULL;
    bool is_read = options->dialect != NULL && options->dialect->reading != NULL && !r->is_raw;
    r->dialect = is_read ? *options->dialect : plain;
    if ((r->reasoning & CHAT_REASONING_RAW) != 0) {
        r->dialect.thought = (struct grammar_thought){0};
        r->reasoning = CHAT_REASONING_CONTENT;
    }
    r->on_call = options->on_call;
    r->on_text = options->on_text;
    r->owner = options->owner;
    lr_buf_init(&r->pending, PENDING_MAX);
    lr_arena_init(&r->arena, TOOLS_MAX);
    if (!list_tools(r, req)) {
        lr_arena_free(&r->arena);
        free(r);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the tools of a response");
    }

    size_t max_bytes = options->max_bytes != 0 ? options->max_bytes : DEFAULT_MAX_BYTES;
    for (uint32_t i = 0; i < r->choice_count; i++)
        init_choice(r, i, max_bytes, options);
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
        lr_buf_free(&r->choices[i].call_id);
        r->dialect.reading->free(&r->choices[i].reader);
    }
    lr_buf_free(&r->pending);
    lr_arena_free(&r->arena);
    free(r);
}
