/* node/http/api_chat.c - the chat APIs on the node itself: a turn (chat/turn.h) whose generator
 * is this node's models.
 */
#include "base/log.h"
#include "base/random.h"
#include "chat/turn.h"
#include "node/http/api.h"
#include "wire/fleet.h"

struct choice {
    struct call *call;
    struct node_generation *request; /* NULL before it began and once it has ended */
    uint32_t index;
};

/* Lies in the HTTP request's arena. */
struct call {
    struct net_request *req;
    struct node *node;
    struct node_model *model;
    struct choice *choices;
    struct node_flush flush;
    char id[25]; /* what the log calls its generations */
    struct chat_turn turn;
};

static void api_chat_flush(void *arg)
{
    chat_turn_flush(&((struct call *)arg)->turn);
}

/* ---- the client ---- */

static void begin_stream(struct call *call)
{
    if (!net_response_begun(call->req))
        net_live_begin(call->req, chat_codec_stream_type(call->turn.codec));
}

static lr_code api_chat_write_piece(void *owner, struct lr_str bytes)
{
    struct call *call = owner;
    begin_stream(call);
    return net_stream_write_made(call->req, bytes);
}

static void api_chat_finish(void *owner, lr_code status, struct lr_str bytes)
{
    struct call *call = owner;
    node_batch_drop(&call->node->models.batch, &call->flush);
    if (!call->turn.request->stream) {
        net_respond(call->req, lr_code_http(status), "application/json", bytes);
        return;
    }
    begin_stream(call);
    (void)net_stream_finish(call->req, bytes); /* it is all there is */
}

static void end_with_error(struct call *call, const struct lr_error *err, struct lr_str bytes)
{
    if (err->code == LR_REQUEST_TIMEOUT)
        lr_log_warn(LR_LOG_OF(err), "request.unread bytes=%zu reason=%s",
                    net_stream_queued(call->req), err->text);
    (void)net_stream_finish(call->req, bytes); /* whether the client takes it or not */
}

static void api_chat_fail(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    struct call *call = owner;
    node_batch_drop(&call->node->models.batch, &call->flush);
    if (err == NULL)
        net_stream_abort(call->req);
    else if (!net_response_begun(call->req))
        net_respond_error_body(call->req, err, bytes);
    else
        end_with_error(call, err, bytes);
}

static const struct chat_sink sink = {
    .write = api_chat_write_piece, .finish = api_chat_finish, .fail = api_chat_fail};

/* ---- the generations ---- */

static void api_chat_on_token(const struct choice *choice, struct lr_str body)
{
    struct call *call = choice->call;
    struct wire_token t;
    if (wire_token_decode(body, &t, NULL) != LR_OK)
        return;
    chat_turn_token(&call->turn, choice->index, &t);
    node_batch_add(&call->node->models.batch, &call->flush);
}

static void api_chat_on_vector(const struct choice *choice, struct lr_str body)
{
    struct wire_vector v;
    if (wire_vector_decode(body, &v, NULL) == LR_OK)
        chat_turn_vector(&choice->call->turn, choice->index, &v);
}

static void api_chat_on_done(const struct choice *choice, struct lr_str body)
{
    struct call *call = choice->call;
    struct wire_done m;
    if (wire_done_decode(body, &m, NULL) != LR_OK)
        return;
    struct chat_usage usage = {m.prompt_tokens, m.completion_tokens, m.cached_tokens};
    chat_turn_done(&call->turn, choice->index, m.reason, &usage);
    node_batch_add(&call->node->models.batch, &call->flush);
}

static void api_chat_on_event(void *ctx, const struct wire_frame *frame)
{
    struct choice *choice = ctx;
    struct chat_turn *turn = &choice->call->turn;
    struct wire_prefill prefill;
    struct wire_error e;
    if (wire_event_is_last(frame->type))
        choice->request = NULL;
    if (chat_turn_is_over(turn))
        return;
    if (frame->type == WIRE_TOKEN)
        api_chat_on_token(choice, frame->body);
    else if (frame->type == WIRE_VECTOR)
        api_chat_on_vector(choice, frame->body);
    else if (frame->type == WIRE_DONE)
        api_chat_on_done(choice, frame->body);
    else if (frame->type == WIRE_PREFILL &&
             wire_prefill_decode(frame->body, &prefill, NULL) == LR_OK)
        chat_turn_prompt_tokens(turn, choice->index, prefill.total);
    else if (frame->type == WIRE_ERROR && wire_error_decode(frame->body, &e, NULL) == LR_OK)
        chat_turn_fail_at(turn, choice->index, &e.error);
    else if (frame->type == WIRE_TICK) /* a queue, a load or a long prompt */
        chat_turn_keep_alive(turn);
}

static lr_code api_chat_start(void *owner, uint32_t index, struct lr_error *err)
{
    struct call *call = owner;
    struct choice *choice = &call->choices[index];
    struct wire_generate ask;
    struct node_sink events = {.ctx = choice,
                               .on_event = api_chat_on_event,
                               .has_connection = call->turn.request->stream};
    *choice = (struct choice){.call = call, .index = index};
    chat_turn_ask(&call->turn, index, &ask);
    ask.request_id = lr_str_z(call->id);
    ask.cache_scope = LR_STR_LIT("node"); /* no keys here: its callers are one */
    return node_generation_start(call->model, &ask, events, &choice->request, err);
}

static bool stop(void *owner, uint32_t index, struct chat_usage *usage)
{
    struct choice *choice = &((struct call *)owner)->choices[index];
    struct node_generation *request = choice->request;
    if (request != NULL && usage != NULL) {
        node_generation_stop(request);
    } else if (request != NULL) {
        choice->request = NULL;
        node_generation_cancel(request);
    }
    return false;
}

static const struct chat_generator generator = {.start = api_chat_start, .stop = stop};

static void api_chat_on_gone(void *arg)
{
    chat_turn_gone(&((struct call *)arg)->turn);
}

static bool make_choices(struct call *call)
{
    struct lr_error err;
    uint32_t count = call->turn.generation_count;
    call->choices =
        lr_arena_zalloc(net_request_arena(call->req), count * sizeof(struct choice));
    if (call->choices != NULL)
        return true;
    (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for %u choices", count);
    chat_turn_fail(&call->turn, &err);
    return false;
}

lr_code node_api_complete(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(req);
    struct call *call = lr_arena_zalloc(arena, sizeof(*call));
    struct lr_str name;
    if (call == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    call->req = req;
    call->node = node;
    call->flush = (struct node_flush){.fn = api_chat_flush, .arg = call};
    lr_random_base62(call->id, sizeof(call->id) - 1);
    struct chat_turn *turn = &call->turn;
    chat_turn_init(turn, chat_codec_of(net_request_path(req)), arena, &generator, &sink, call);
    turn->terms.is_strict = node->strict_fields || net_request_is_strict(req);
    if (!chat_turn_read(turn, net_request_body(req), &name) || !chat_turn_parse(turn))
        return LR_OK; /* answered */
    net_response_ignored(req, turn->request->ignored);
    call->model = node_need_model(node, turn->request->model, err);
    if (call->model == NULL ||
        wire_abilities_check(node_model_requests(call->model), turn->codec->kind,
                             call->model->id, err) != LR_OK)
        chat_turn_fail(turn, err);
    else if (chat_turn_prepare(turn, &call->model->chat, lr_str_z(call->model->id)) &&
             make_choices(call)) {
        net_response_ignored(req, chat_turn_lost(turn));
        if (chat_turn_start(turn))
            net_request_on_gone(req, api_chat_on_gone, call);
    }
    return LR_OK;
}
