/* node/http/api_chat.c - /v1/chat/completions, /v1/completions, /v1/responses on the node:
 * the chat layer's codecs around generations of this node.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "chat/codec.h"
#include "chat/format.h"
#include "chat/response.h"
#include "node/http/api.h"

enum { OUT_BYTES = 96 << 20 };

struct call;

struct choice {
    struct call *call;
    struct node_request *request; /* NULL before it began and once it has ended */
    uint32_t index;
};

/* Lies in the HTTP request's arena, but for `response` and `out`. */
struct call {
    struct net_request *req;
    struct node *node;
    struct chat_response *response; /* owned */
    struct lr_buf out;
    struct choice *choices;
    uint32_t choice_count;
    struct chat_prompt *prompts; /* borrowed by the generations until they end */
    uint32_t prompt_count;       /* rendered so far */
    struct node_flush flush;
    const struct chat_codec *codec;
    bool is_stream;
    bool is_over; /* answered; events of what is left are ignored */
};

static void cancel_rest(struct call *call)
{
    for (uint32_t i = 0; i < call->choice_count; i++)
        if (call->choices[i].request != NULL) {
            struct node_request *r = call->choices[i].request;
            call->choices[i].request = NULL;
            node_request_cancel(r);
        }
}

/* Everything of the call but the HTTP request, which the caller ends. */
static void close_call(struct call *call)
{
    call->is_over = true;
    node_batch_drop(&call->node->batch, &call->flush);
    cancel_rest(call);
    for (uint32_t i = 0; i < call->prompt_count; i++)
        chat_prompt_free(&call->prompts[i]);
    call->prompt_count = 0;
    chat_response_destroy(call->response);
    call->response = NULL;
    lr_buf_free(&call->out);
}

static void respond_error(struct net_request *req, const struct chat_codec *codec,
                          const struct lr_error *err)
{
    struct lr_buf body;
    lr_buf_init(&body, 16 << 10);
    chat_error_write(&body, codec, &(struct chat_error){.error = *err});
    net_respond_error_body(req, err, lr_buf_str(&body));
    lr_buf_free(&body);
}

static void fail_call(struct call *call, const struct lr_error *err)
{
    if (call->is_over)
        return;
    struct net_request *req = call->req;
    if (!net_response_begun(req)) {
        struct lr_error copy = *err;
        close_call(call);
        respond_error(req, call->codec, &copy);
        return;
    }
    chat_response_on_error(call->response, err, &call->out);
    lr_code ignored = net_stream_finish(req, lr_buf_str(&call->out));
    (void)ignored; /* the stream ends here whether the client takes it or not */
    close_call(call);
}

/* Sends what is due. */
static void flush(void *arg)
{
    struct call *call = arg;
    struct net_request *req = call->req;
    bool complete = chat_response_is_complete(call->response);
    if (call->is_stream && (call->out.len != 0 || complete) && !net_response_begun(req))
        net_sse_begin(req);
    if (complete && call->is_stream) {
        lr_code ignored = net_stream_finish(req, lr_buf_str(&call->out));
        (void)ignored; /* it is all there is */
        close_call(call);
    } else if (complete) {
        int status = lr_code_http(chat_response_status(call->response));
        net_respond(req, status, "application/json", lr_buf_str(&call->out));
        close_call(call);
    } else if (call->is_stream && call->out.len != 0) {
        lr_code code = net_stream_write(req, lr_buf_str(&call->out));
        lr_buf_clear(&call->out);
        if (code == LR_TOO_LARGE) {
            close_call(call);
            net_stream_abort(req);
        }
    }
}

static void on_token(struct choice *choice, struct lr_str body)
{
    struct call *call = choice->call;
    struct wire_token t;
    struct chat_logprob top[WIRE_TOP_MAX];
    if (wire_token_decode(body, &t, NULL) != LR_OK)
        return;
    for (uint32_t i = 0; i < t.top_count; i++)
        top[i] = (struct chat_logprob){t.top[i].id, t.top[i].logprob, t.top[i].bytes};
    struct chat_token token = {
        .id = t.id,
        .special = t.special,
        .has_logprob = t.has_logprob,
        .logprob = t.logprob,
        .bytes = t.bytes,
        .top = top,
        .top_count = t.top_count,
    };
    bool more = chat_response_on_token(call->response, choice->index, &token, &call->out);
    if (!more && choice->request != NULL)
        node_request_stop(choice->request);
    node_batch_add(&call->node->batch, &call->flush);
}

static void on_done(struct choice *choice, struct lr_str body)
{
    struct call *call = choice->call;
    struct wire_done m;
    if (wire_done_decode(body, &m, NULL) != LR_OK)
        return;
    struct chat_usage usage = {m.prompt_tokens, m.completion_tokens, m.cached_tokens};
    chat_response_on_done(call->response, choice->index, m.reason, &usage, &call->out);
    node_batch_add(&call->node->batch, &call->flush);
}

static void on_event(void *ctx, const struct wire_frame *frame)
{
    struct choice *choice = ctx;
    struct call *call = choice->call;
    struct wire_error e;
    if (frame->type == WIRE_DONE || frame->type == WIRE_ERROR)
        choice->request = NULL;
    if (call->is_over)
        return;
    switch (frame->type) {
    case WIRE_TOKEN:
        on_token(choice, frame->body);
        break;
    case WIRE_DONE:
        on_done(choice, frame->body);
        break;
    case WIRE_ERROR:
        if (wire_error_decode(frame->body, &e, NULL) == LR_OK)
            fail_call(call, &e.error);
        break;
    case WIRE_TICK:
        /* Silence in a queue, a load or a long prompt: a comment keeps it open. */
        if (call->is_stream) {
            if (!net_response_begun(call->req))
                net_sse_begin(call->req);
            if (net_sse_comment(call->req, "working") == LR_TOO_LARGE) {
                struct net_request *req = call->req;
                close_call(call);
                net_stream_abort(req);
            }
        }
        break;
    default:
        break;
    }
}

static void on_gone(void *arg)
{
    struct call *call = arg;
    struct net_request *req = call->req;
    close_call(call);
    net_stream_abort(req);
}

static void fill_ask(struct wire_generate *ask, const struct chat_request *chat,
                     const struct chat_prompt *prompt, uint64_t seed, uint32_t index)
{
    wire_generate_defaults(ask);
    ask->cache_scope = LR_STR_LIT("node"); /* no keys here: its callers are one */
    ask->sampling = chat->sampling;
    ask->sampling.seed = chat_request_seed(seed, index);
    ask->max_tokens = chat->max_tokens;
    ask->ignore_stop = chat->ignore_stop;
    ask->segments = prompt->segments;
    ask->segment_count = prompt->segment_count;
    ask->prompt_ids = prompt->ids;
    ask->prompt_id_count = prompt->id_count;
}

/* False when the call has ended with an error. */
static bool start_choices(struct call *call, struct node_model *model,
                          const struct chat_request *chat)
{
    struct lr_arena *arena = net_request_arena(call->req);
    uint64_t seed = chat->has_seed ? chat->sampling.seed : lr_random_u64();
    int64_t now = lr_clock_wall_ms(NULL) / 1000;
    struct lr_error err;
    char *id = lr_arena_alloc(arena, 25);
    lr_code code = id != NULL ? LR_OK : lr_fail(&err, LR_OUT_OF_RAM, "no memory");
    if (code == LR_OK)
        lr_random_base62(id, 24);
    struct lr_str constraint = {0};
    if (code == LR_OK)
        code = chat_format_constraint(arena, chat, model->chat.is_harmony, &constraint, &err);
    for (uint32_t i = 0; code == LR_OK && i < call->choice_count && !call->is_over; i++) {
        struct wire_generate ask;
        struct choice *choice = &call->choices[i];
        *choice = (struct choice){.call = call, .index = i};
        if (i % chat->n == 0)
            code = chat_prompt_render(chat, &model->chat, i / chat->n, now,
                                      &call->prompts[call->prompt_count++], &err);
        if (code != LR_OK)
            break;
        fill_ask(&ask, chat, &call->prompts[i / chat->n], seed, i);
        ask.request_id = lr_str_z(id);
        ask.constraint = constraint;
        struct node_sink sink = {
            .ctx = choice, .on_event = on_event, .has_connection = chat->stream};
        code = node_request_start(model, &ask, sink, &choice->request, &err);
    }
    if (code != LR_OK)
        fail_call(call, &err);
    return !call->is_over;
}

static void answer_bad_request(struct net_request *req, const struct chat_codec *codec,
                               const struct chat_error *e)
{
    struct lr_buf body;
    lr_buf_init(&body, 16 << 10);
    chat_error_write(&body, codec, e);
    net_respond(req, lr_code_http(e->error.code), "application/json", lr_buf_str(&body));
    lr_buf_free(&body);
}

static void complete(struct node *node, struct net_request *req, const struct chat_codec *codec)
{
    struct lr_arena *arena = net_request_arena(req);
    const struct chat_request *chat;
    struct chat_error bad = {0};
    struct lr_error err;
    char id[CHAT_ANSWER_ID_MAX];

    if (chat_request_parse(arena, codec, net_request_body(req), &chat, &bad) != LR_OK) {
        answer_bad_request(req, codec, &bad);
        return;
    }
    struct node_model *model = node_api_model(node, req, chat->model);
    if (model == NULL)
        return;
    uint32_t count = chat_request_choices(chat);
    struct call *call = lr_arena_zalloc(arena, sizeof(*call));
    struct choice *choices = lr_arena_zalloc(arena, count * sizeof(*choices));
    struct chat_prompt *prompts = lr_arena_zalloc(arena, chat->prompt_count * sizeof(*prompts));
    chat_answer_id(codec, id);
    struct chat_response_options options = {
        .request = chat,
        .id = lr_str_z(id),
        .model = lr_str_z(model->id),
        .created = lr_clock_wall_ms(NULL) / 1000,
        .is_harmony = model->chat.is_harmony,
    };
    lr_code code = call != NULL && choices != NULL && prompts != NULL ? LR_OK : LR_OUT_OF_RAM;
    if (code == LR_OK)
        code = chat_response_create(&options, &call->response, &err);
    else
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    call->req = req;
    call->node = node;
    call->choices = choices;
    call->prompts = prompts;
    call->choice_count = count;
    call->flush = (struct node_flush){.fn = flush, .arg = call};
    call->codec = codec;
    call->is_stream = chat->stream;
    lr_buf_init(&call->out, OUT_BYTES);
    if (start_choices(call, model, chat))
        net_request_on_gone(req, on_gone, call);
}

void node_api_complete(struct node *node, struct net_request *req, const struct net_path *path)
{
    (void)path;
    complete(node, req, chat_codec_of(net_request_path(req)));
}
