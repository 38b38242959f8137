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
    PENDING_MAX = 64 * 1024 * 1024, /* one token's text and the text held back before it */
};

void chat_answer_id(const struct chat_codec *codec, char out[CHAT_ANSWER_ID_MAX])
{
    size_t len = strlen(codec->id_prefix);
    memcpy(out, codec->id_prefix, len);
    lr_random_base62(out + len, 24);
}

/* Names of declared tools: for Harmony those that look like built-in ones, for other formats
 * all, and in a namespace also without it.  With NULL they are only counted. */
static uint32_t list_tools(const struct chat_request *req, bool is_harmony, struct lr_str *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; req->tools != NULL && i < req->tools->count; i++) {
        const struct lr_json *function = lr_json_get(&req->tools->items[i], "function");
        uint32_t space = req->origins != NULL ? req->origins[i].space_len : 0;
        struct lr_str name;
        if (!lr_json_str(lr_json_get(function, "name"), &name) ||
            (is_harmony && !chat_harmony_is_builtin(name)))
            continue;
        if (out != NULL)
            out[count] = name;
        count++;
        if (is_harmony || space == 0)
            continue;
        if (out != NULL)
            out[count] = lr_str_sub(name, space + 1, name.len);
        count++;
    }
    return count;
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

static void init_parser(struct chat_choice *c, const struct chat_response_options *options)
{
    const struct chat_response *r = c->response;
    if (r->is_harmony) {
        struct chat_harmony_options harmony = {
            .no_tool_calls = options->request->forbids_tool_calls,
            .builtin_tools = r->tool_names,
            .builtin_tool_count = r->tool_name_count,
        };
        chat_harmony_init(&c->harmony, &harmony, chat_choice_delta, c);
    } else {
        struct chat_calls_options calls = {
            .format = options->calls,
            .tools = r->tool_names,
            .tool_count = r->tool_name_count,
        };
        chat_calls_init(&c->plain, &calls, chat_choice_delta, c);
    }
}

static void init_choice(struct chat_response *r, uint32_t index, size_t max_bytes,
                        const struct chat_response_options *options)
{
    struct chat_choice *c = &r->choices[index];
    c->response = r;
    c->index = index;
    init_parser(c, options);
    chat_stop_init(&c->stop, r->stop, r->stop_count);
    lr_buf_init(&c->logprobs, max_bytes);
    lr_buf_init(&c->content, max_bytes);
    lr_buf_init(&c->reasoning, max_bytes);
    lr_buf_init(&c->calls_json, max_bytes);
}

/* Allocates the response, its choices and copies of its strings in one block. */
static struct chat_response *allocate(const struct chat_response_options *options,
                                      struct lr_str head)
{
    const struct chat_request *req = options->request;
    uint32_t tools = list_tools(req, options->is_harmony, NULL);
    uint32_t choices = chat_request_choices(req);
    size_t choices_at = sizeof(struct chat_response);
    size_t names_at = choices_at + choices * sizeof(struct chat_choice);
    size_t text_at = names_at + tools * sizeof(struct lr_str);
    size_t size = text_at + head.len;

    for (uint32_t i = 0; i < req->stop_count; i++)
        size += req->stop[i].len;
    struct lr_str *names = tools > 0 ? malloc(tools * sizeof(*names)) : NULL;
    if (tools > 0 && names == NULL)
        return NULL;
    (void)list_tools(req, options->is_harmony, names);
    for (uint32_t i = 0; i < tools; i++)
        size += names[i].len;

    char *block = calloc(1, size);
    if (block != NULL) {
        struct chat_response *r = (struct chat_response *)(void *)block;
        char *text = block + text_at;
        r->choices = (struct chat_choice *)(void *)(block + choices_at);
        r->choice_count = choices;
        r->tool_names = (struct lr_str *)(void *)(block + names_at);
        r->tool_name_count = tools;
        r->head = head;
        keep(&r->head, &text);
        r->stop_count = req->stop_count;
        for (uint32_t i = 0; i < req->stop_count; i++) {
            r->stop[i] = req->stop[i];
            keep(&r->stop[i], &text);
        }
        for (uint32_t i = 0; i < tools; i++) {
            r->tool_names[i] = names[i];
            keep(&r->tool_names[i], &text);
        }
    }
    free(names);
    return (struct chat_response *)(void *)block;
}

lr_code chat_response_create(const struct chat_response_options *options,
                             struct chat_response **out, struct lr_error *err)
{
    const struct chat_request *req = options->request;
    const struct chat_writer *writer = req->stream ? req->codec->stream : req->codec->body;
    struct lr_buf head;

    *out = NULL;
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
    r->is_harmony = options->is_harmony && !r->is_raw;
    r->on_call = options->on_call;
    r->on_text = options->on_text;
    r->owner = options->owner;
    lr_buf_init(&r->pending, PENDING_MAX);

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
        if (!r->is_harmony)
            chat_calls_free(&r->choices[i].plain);
    }
    lr_buf_free(&r->pending);
    free(r);
}
