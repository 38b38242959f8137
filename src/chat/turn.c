/* chat/turn.c - see chat/turn.h. */
#include "chat/turn.h"

#include <assert.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/random.h"
#include "chat/format.h"
#include "wire/link.h"

enum {
    OUT_BYTES = 96 << 20, /* more than a collected answer may have (chat/response.h) */
    ERROR_BYTES = 16 << 10,
    RECORD_BYTES = 8 << 20, /* of a stored answer with its request: about 2 million tokens */
    VECTORS_AT_ONCE = 32,   /* generations; more than the slots of most replicas */
};

#define TO(state) (1u << CHAT_TURN_##state)
static const unsigned moves[] = {
    [CHAT_TURN_NEW] = TO(READ) | TO(ENDED),
    [CHAT_TURN_READ] = TO(PARSED) | TO(ENDED),
    [CHAT_TURN_PARSED] = TO(READY) | TO(ENDED),
    [CHAT_TURN_READY] = TO(RUNNING) | TO(ENDED),
    [CHAT_TURN_RUNNING] = TO(STREAMING) | TO(KEEPING) | TO(ENDED),
    [CHAT_TURN_STREAMING] = TO(KEEPING) | TO(ENDED),
    [CHAT_TURN_KEEPING] = TO(ENDED),
    [CHAT_TURN_ENDED] = 0,
};

/* The only function that changes the state.  False: an illegal move; a debug build aborts, a
 * release build fails the turn. */
static bool move(struct chat_turn *t, enum chat_turn_state to)
{
    struct lr_error err;
    bool is_legal = (moves[t->state] >> to & 1) != 0;
    assert(is_legal);
    if (is_legal) {
        t->state = to;
        return true;
    }
    (void)lr_fail(&err, LR_INTERNAL, "a turn cannot go from state %d to %d", (int)t->state,
                  (int)to);
    lr_log_error(LR_LOG_OF(&err), "turn.illegal_move reason=%s", err.text);
    chat_turn_fail(t, &err);
    return false;
}

void chat_turn_init(struct chat_turn *t, const struct chat_codec *codec, struct lr_arena *arena,
                    const struct chat_generator *generator, const struct chat_sink *sink,
                    void *owner)
{
    *t = (struct chat_turn){
        .codec = codec, .arena = arena, .generator = generator, .sink = sink, .owner = owner};
    lr_buf_init(&t->out, OUT_BYTES);
}

static bool is_running(const struct chat_turn *t)
{
    return t->state == CHAT_TURN_RUNNING || t->state == CHAT_TURN_STREAMING;
}

/* ---- ends ---- */

/* Stops and frees everything except `out`, which the caller gives to the sink and frees. */
static struct lr_buf end(struct chat_turn *t)
{
    struct lr_buf out = t->out;
    lr_buf_init(&t->out, 0);
    (void)move(t, CHAT_TURN_ENDED);
    for (uint32_t i = 0; t->generations != NULL && i < t->generation_count; i++) {
        enum chat_generation_state was = t->generations[i];
        t->generations[i] = CHAT_GENERATION_OVER;
        if (was == CHAT_GENERATION_RUNNING || was == CHAT_GENERATION_STOPPED)
            (void)t->generator->stop(t->owner, i, NULL);
    }
    for (uint32_t i = 0; i < t->prompt_count; i++)
        chat_prompt_free(&t->prompts[i]);
    t->prompt_count = 0;
    chat_response_repairs(t->response, t->repairs);
    chat_response_destroy(t->response);
    t->response = NULL;
    return out;
}

static void turn_finish(struct chat_turn *t)
{
    lr_code status = chat_response_status(t->response);
    struct lr_buf out = end(t);
    t->sink->finish(t->owner, status, lr_buf_str(&out));
    lr_buf_free(&out);
}

/* The client of a background request reads of its failure later. */
static void keep_failure(struct chat_turn *t, const struct lr_error *err)
{
    struct chat_record record;
    if (is_running(t) && t->request->background &&
        chat_response_record(t->response, t->request, "failed", err, RECORD_BYTES, &record))
        (void)t->sink->keep(t->owner, &record);
}

static void turn_fail(struct chat_turn *t, const struct chat_error *e)
{
    struct chat_error told = *e;
    if (chat_turn_is_over(t) || t->state == CHAT_TURN_KEEPING)
        return;
    if (t->sink->tell != NULL)
        t->sink->tell(t->owner, &told.error);
    keep_failure(t, &told.error);
    if (t->state == CHAT_TURN_STREAMING) {
        chat_response_on_error(t->response, &told.error, &t->out);
    } else {
        lr_buf_free(&t->out);
        lr_buf_init(&t->out, ERROR_BYTES);
        chat_error_write(&t->out, t->codec, &told);
    }
    struct lr_buf out = end(t);
    t->sink->fail(t->owner, &told.error, lr_buf_str(&out));
    lr_buf_free(&out);
}

void chat_turn_fail(struct chat_turn *t, const struct lr_error *err)
{
    turn_fail(t, &(struct chat_error){.error = *err});
}

void chat_turn_fail_at(struct chat_turn *t, uint32_t index, const struct lr_error *err)
{
    struct lr_error told = *err;
    if (t->codec->kind != LR_REQUEST_GENERATE && err->code == LR_INVALID_ARGUMENT &&
        t->prompt_count > 1)
        (void)lr_fail_prefix(&told, "%s[%u]", t->codec->prompt_field, index);
    chat_turn_fail(t, &told);
}

void chat_turn_gone(struct chat_turn *t)
{
    if (chat_turn_is_over(t))
        return;
    struct lr_buf out = end(t);
    lr_buf_free(&out);
    t->sink->fail(t->owner, NULL, lr_str("", 0));
}

/* ---- starting a turn ---- */

bool chat_turn_read(struct chat_turn *t, struct lr_str body, struct lr_str *model)
{
    struct chat_error bad;
    if (chat_request_read(t->arena, body, &t->root, model, &bad) == LR_OK)
        return move(t, CHAT_TURN_READ);
    turn_fail(t, &bad);
    return false;
}

bool chat_turn_find_stored(struct chat_turn *t, struct chat_wanted *out)
{
    struct chat_error bad = {0};
    *out = (struct chat_wanted){0};
    if (t->codec->find_stored == NULL ||
        t->codec->find_stored(t->arena, t->root, out, &bad) == LR_OK)
        return true;
    turn_fail(t, &bad);
    return false;
}

bool chat_turn_parse(struct chat_turn *t)
{
    struct chat_error bad;
    if (chat_request_check(t->arena, t->codec, t->root, &t->terms, &t->request, &bad) == LR_OK)
        return move(t, CHAT_TURN_PARSED);
    turn_fail(t, &bad);
    return false;
}

static bool opens_thought(const struct chat_turn *t)
{
    return t->prompt_count != 0 && t->prompts[0].opens_thought;
}

static lr_code render(struct chat_turn *t, const struct chat_model *model, int64_t now,
                      struct lr_error *err)
{
    const struct chat_request *req = t->request;
    t->prompts = lr_arena_zalloc(t->arena, req->prompt_count * sizeof(*t->prompts));
    if (t->prompts == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the prompt");
    lr_code code = LR_OK;
    for (uint32_t i = 0; code == LR_OK && i < req->prompt_count; i++)
        code = chat_prompt_render(req, model, i, now, &t->prompts[t->prompt_count++], err);
    if (code == LR_OK)
        code = chat_format_constraint(t->arena, req, &model->dialect, opens_thought(t),
                                      &t->constraint, err);
    t->format = model->dialect.format;
    bool is_old = grammar_format_is_old(model->dialect.format) && req->thinking_budget == 0;
    t->since = is_old ? 0 : WIRE_SINCE_DIALECTS;
    return code;
}

static lr_code make_response(struct chat_turn *t, const struct chat_model *model,
                             struct lr_str name, int64_t now, struct lr_error *err)
{
    uint32_t count = chat_request_choices(t->request);
    struct chat_response_options options = {
        .request = t->request,
        .sampling = &t->sampling,
        .id = lr_str_z(t->id),
        .model = name,
        .created = now,
        .dialect = &model->dialect,
        .is_opened = opens_thought(t),
        .on_call = t->sink->call,
        .on_text = t->tells_text ? t->sink->text : NULL,
        .owner = t->owner,
    };
    t->generations = lr_arena_zalloc(t->arena, count * sizeof(*t->generations));
    if (t->generations == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u choices", count);
    t->generation_count = count;
    return chat_response_create(&options, &t->response, err);
}

bool chat_turn_prepare(struct chat_turn *t, const struct chat_model *model, struct lr_str name)
{
    int64_t now = lr_clock_wall_ms(NULL) / 1000;
    struct lr_error err;
    chat_answer_id(t->codec, t->id);
    t->query = (struct lr_segment){.text = t->request->query.ptr, .len = t->request->query.len};
    t->seed = t->request->has_seed ? t->request->sampling.seed : lr_random_u64();
    t->sampling = t->request->sampling;
    lr_sampling_fill(&t->sampling, t->request->given, &model->sampling);
    lr_code code = render(t, model, now, &err);
    if (code == LR_OK)
        code = make_response(t, model, name, now, &err);
    if (code == LR_OK)
        return move(t, CHAT_TURN_READY);
    chat_turn_fail(t, &err);
    return false;
}

/* False: the turn has failed, and its owner may have freed it. */
static bool start_some(struct chat_turn *t)
{
    uint32_t at_once =
        t->codec->kind == LR_REQUEST_GENERATE ? t->generation_count : VECTORS_AT_ONCE;
    struct lr_error err;
    while (is_running(t) && t->started < t->generation_count &&
           t->started - t->over < at_once) {
        uint32_t i = t->started++;
        t->generations[i] = CHAT_GENERATION_RUNNING;
        if (t->generator->start(t->owner, i, &err) == LR_OK)
            continue;
        t->generations[i] = CHAT_GENERATION_OVER;
        chat_turn_fail_at(t, i, &err);
        return false;
    }
    return is_running(t);
}

bool chat_turn_start(struct chat_turn *t)
{
    return move(t, CHAT_TURN_RUNNING) && start_some(t);
}

bool chat_turn_queued(const struct chat_turn *t, struct chat_record *out)
{
    return chat_response_record(t->response, t->request, "queued", NULL, RECORD_BYTES, out);
}

void chat_turn_ask(const struct chat_turn *t, uint32_t index, struct wire_generate *out)
{
    const struct chat_request *req = t->request;
    const struct chat_prompt *prompt = chat_turn_prompt(t, index);
    wire_generate_defaults(out);
    out->segments = prompt->segments;
    out->segment_count = prompt->segment_count;
    out->prompt_ids = prompt->ids;
    out->prompt_id_count = prompt->id_count;
    out->sampling = t->sampling;
    out->sampling.seed = chat_request_seed(t->seed, index);
    out->max_tokens = req->max_tokens;
    out->ignore_stop = req->ignore_stop;
    out->constraint = t->constraint;
    out->kind = t->codec->kind;
    out->dimensions = req->dimensions;
    if (out->kind == LR_REQUEST_RERANK) {
        out->document = prompt->segments;
        out->document_count = prompt->segment_count;
        out->segments = &t->query;
        out->segment_count = 1;
    }
}

/* ---- events ---- */

void chat_turn_prompt_tokens(struct chat_turn *t, uint32_t index, uint32_t tokens)
{
    if (is_running(t))
        chat_response_on_prompt(t->response, index, tokens);
}

void chat_turn_token(struct chat_turn *t, uint32_t index, const struct wire_token *token)
{
    struct chat_usage usage = {0};
    if (!is_running(t))
        return;
    bool more = chat_response_on_token(t->response, index, token, &t->out);
    if (more || t->generations[index] != CHAT_GENERATION_RUNNING)
        return;
    t->generations[index] = CHAT_GENERATION_STOPPED;
    if (t->generator->stop(t->owner, index, &usage))
        chat_turn_done(t, index, LR_FINISH_STOP, &usage);
}

void chat_turn_vector(struct chat_turn *t, uint32_t index, const struct wire_vector *v)
{
    if (is_running(t))
        chat_response_on_vector(t->response, index, v, &t->out);
}

void chat_turn_done(struct chat_turn *t, uint32_t index, enum lr_finish reason,
                    const struct chat_usage *usage)
{
    if (!is_running(t))
        return;
    t->over += t->generations[index] != CHAT_GENERATION_OVER;
    t->generations[index] = CHAT_GENERATION_OVER;
    chat_response_on_done(t->response, index, reason, usage, &t->out);
}

/* ---- the client's side ---- */

/* Sends the pending bytes.  A client that does not read fails alone and does not affect others;
 * when it reads, it finds the error behind the bytes that were made for it. */
static void put(struct chat_turn *t)
{
    struct lr_error err;
    if (t->state == CHAT_TURN_RUNNING)
        (void)move(t, CHAT_TURN_STREAMING);
    if (t->sink->write(t->owner, lr_buf_str(&t->out)) != LR_TOO_LARGE) {
        lr_buf_clear(&t->out);
        return;
    }
    (void)lr_fail_plain(&err, client_too_slow);
    chat_turn_fail(t, &err);
}

bool chat_turn_is_complete(const struct chat_turn *t)
{
    return is_running(t) &&
           (chat_response_is_complete(t->response) || chat_response_is_due(t->response));
}

void chat_turn_kept(struct chat_turn *t, bool is_kept)
{
    if (t->state != CHAT_TURN_KEEPING)
        return;
    chat_response_complete(t->response, is_kept, &t->out);
    turn_finish(t);
}

static void keep(struct chat_turn *t)
{
    struct chat_record record;
    if (!move(t, CHAT_TURN_KEEPING))
        return;
    bool is_sent =
        t->sink->keep != NULL &&
        chat_response_record(t->response, t->request, NULL, NULL, RECORD_BYTES, &record) &&
        t->sink->keep(t->owner, &record);
    if (!is_sent)
        chat_turn_kept(t, false);
}

void chat_turn_flush(struct chat_turn *t)
{
    if (is_running(t) && chat_response_is_complete(t->response)) {
        turn_finish(t);
        return;
    }
    if (start_some(t) && t->request->stream && t->out.len != 0)
        put(t);
    if (is_running(t) && chat_response_is_due(t->response))
        keep(t);
}

void chat_turn_comment(struct chat_turn *t, const char *text)
{
    if (!is_running(t) || !t->request->stream || t->codec->keep_alive != NULL)
        return;
    lr_buf_add_z(&t->out, ": ");
    lr_buf_add_z(&t->out, text);
    lr_buf_add_z(&t->out, "\n\n");
    put(t);
}

void chat_turn_keep_alive(struct chat_turn *t)
{
    if (!is_running(t) || !t->request->stream)
        return;
    /* after the pending bytes */
    lr_buf_add_z(&t->out,
                 t->codec->keep_alive != NULL ? t->codec->keep_alive : ": working\n\n");
    put(t);
}
