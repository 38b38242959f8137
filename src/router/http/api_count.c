/* router/http/api_count.c - POST /v1/messages/count_tokens and /v1/responses/input_tokens: how
 * many tokens a prompt has.
 *
 * The router renders the prompt as for an answer.  A node that has the model's files counts
 * with the model's own tokenizer; weights are not loaded.  A request counts against its key as
 * one that is answered, and waits for its turn between the keys (sched/counting.h).
 *
 * Thread: the request's loop.
 */
#include "base/errors.h"
#include "chat/codec.h"
#include "chat/prompt.h"
#include "hub/url.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/observe/limits.h"
#include "router/store/clock.h"
#include "wire/reply.h"

enum { COUNT_MS = 60000, BODY_BYTES = 64 << 20, PATH_BYTES = 1200, RETRY_S = 1 };

/* In the request's memory. */
struct count {
    struct router_count_ask ask; /* first */
    struct router *router;
    struct net_request *req;
    struct net_loop *loop;
    const struct chat_request *request;
    struct lr_str name;         /* of the model, as the client wrote it */
    struct router_model *model; /* reference, until the count is over */
    struct router_key *entered; /* whose running requests it counts to; or NULL */
};

/* The node that the handler found while it held the lock. */
struct found {
    char id[ROUTER_ID_MAX];
    struct router_prompt_info *info; /* reference; NULL: no node can render or count */
    struct router_target to;
};

static void go(void *arg);

/* ---- turns.  Lock held ---- */

static void wake(struct router_count_ask *ask)
{
    struct count *c = (struct count *)ask;
    net_loop_post(c->loop, go, c);
}

static void leave_key(struct count *c)
{
    if (c->entered != NULL)
        router_key_leave(c->entered);
    c->entered = NULL;
}

static void api_count_leave(struct count *c)
{
    struct router_counting *counting = &c->model->counting;
    struct router_count_ask *next;
    router_counting_leave(counting, &c->ask);
    while ((next = router_counting_next(counting, lr_clock_ms(NULL))) != NULL)
        wake(next);
    leave_key(c);
    router_model_unref(c->model);
    c->model = NULL;
}

/* ---- the end.  Lock not held ---- */

static void api_count_finish(struct count *c, const struct lr_error *err)
{
    router_lock(c->router);
    api_count_leave(c);
    router_unlock(c->router);
    if (err != NULL)
        router_answer_error(c->req, err);
}

static void on_counted(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct count *c = arg;
    struct lr_arena *arena = net_request_arena(c->req);
    const struct lr_json *body = NULL;
    struct lr_error failure;
    uint64_t tokens;
    if (err == NULL && reply->status == 200 &&
        lr_json_parse(arena, reply->body, NULL, &body, NULL) == LR_OK &&
        lr_json_u64(lr_json_get(body, "tokens"), &tokens)) {
        api_count_finish(c, NULL);
        struct lr_json_writer *w = router_answer_begin(c->req);
        const char *object = chat_codec_near(net_request_path(c->req))->count_object;
        if (object != NULL)
            lr_json_member_z(w, "object", object);
        lr_json_member_u64(w, "input_tokens", tokens);
        (void)router_answer(c->req, 200);
        return;
    }
    if (err == NULL)
        (void)lr_fail(&failure, reply->status == 400 ? LR_INVALID_ARGUMENT : LR_UNAVAILABLE,
                      "tokens cannot be counted: " LR_STR_FMT,
                      LR_STR_ARG(lr_str_sub(wire_refusal_message(arena, reply->body), 0, 300)));
    api_count_finish(c, err != NULL ? err : &failure);
}

/* A count that runs goes on: its answer ends the request. */
static void api_count_on_gone(void *arg)
{
    struct count *c = arg;
    router_lock(c->router);
    bool is_waiting = c->ask.state == ROUTER_COUNT_WAITING;
    if (is_waiting)
        api_count_leave(c);
    router_unlock(c->router);
    if (is_waiting)
        net_stream_abort(c->req);
}

/* ---- asking a node ---- */

/* Lock held.  The first online node that can run the model. */
static const struct router_node *find_node(const struct router *r, struct lr_str folded)
{
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        const struct router_replica *replica = router_node_replica(node, folded);
        if (replica != NULL && replica->can_run && router_node_serves(node, NULL))
            return node;
    }
    return NULL;
}

/* Lock held. */
static lr_code find_model(struct router *r, const struct router_key *key, struct lr_str name,
                          struct router_model **out, struct lr_error *err)
{
    *out = router_registry_resolve(&r->registry, name);
    return *out == NULL ? router_fail_no_model(name, err)
                        : router_key_check_model(key, lr_str_z((*out)->id), err);
}

/* Lock held. */
static lr_code api_count_find(struct router *r, const struct count *c, struct found *out,
                              struct lr_error *err)
{
    struct router_model *model;
    lr_code code = find_model(r, router_access(c->req)->caller.key, c->name, &model, err);
    if (code != LR_OK)
        return code;
    struct lr_str folded = lr_str_z(model->folded);
    const struct router_node *node = find_node(r, folded);
    struct router_prompt_info *info =
        router_model_info(model, &r->nodes.infos, router_nodes_info(&r->nodes, folded));
    if (node == NULL || info == NULL)
        return router_refuse_nobody(&r->dispatch, model, err);
    router_target_set(&out->to, node);
    out->info = router_prompt_info_ref(info);
    memcpy(out->id, model->id, sizeof(out->id));
    return LR_OK;
}

static lr_code ask_node(struct router *r, struct count *c, const struct found *found,
                        const struct chat_prompt *prompt, struct lr_error *err)
{
    struct lr_buf body, path;
    struct lr_json_writer w;
    lr_buf_init(&body, BODY_BYTES);
    lr_buf_init(&path, PATH_BYTES);
    lr_buf_add_z(&path, "/v0/models/");
    hub_url_escape(&path, lr_str_z(found->id), false);
    lr_buf_add_z(&path, "/count");
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_array(&w, "segments");
    for (size_t i = 0; i < prompt->segment_count; i++) {
        lr_json_begin_array(&w);
        lr_json_put_str(&w, lr_str(prompt->segments[i].text, prompt->segments[i].len));
        lr_json_put_bool(&w, prompt->segments[i].control != 0);
        lr_json_end_array(&w);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    struct router_question question = {.method = "POST",
                                       .path = lr_buf_z(&path),
                                       .body = lr_buf_str(&body),
                                       .wait_ms = COUNT_MS};
    lr_code code = body.failed ? lr_fail_as(err, prompt_over, BODY_BYTES)
                               : router_ask(router_loop_of(r, c->req)->client, &found->to,
                                            &question, on_counted, c, err);
    lr_buf_free(&body);
    lr_buf_free(&path);
    return code;
}

/* Its turn has come, or it waits no more. */
static void go(void *arg)
{
    struct count *c = arg;
    struct router *r = c->router;
    struct found found = {0};
    struct chat_prompt prompt = {0};
    struct lr_error err;
    lr_code code = LR_OK;
    router_lock(r);
    if (c->ask.state == ROUTER_COUNT_REFUSED)
        code = lr_fail_plain(&err, count_busy);
    else
        code = api_count_find(r, c, &found, &err);
    if (code == LR_UNAVAILABLE && c->entered != NULL)
        router_key_give_back(c->entered);
    router_unlock(r);
    if (code == LR_RATE_LIMITED)
        net_response_retry_after(c->req, RETRY_S);
    if (code == LR_OK)
        code = chat_prompt_render(c->request, &found.info->chat, 0,
                                  lr_clock_wall_ms(&router_clock) / 1000, &prompt, &err);
    if (code == LR_OK)
        code = ask_node(r, c, &found, &prompt, &err);
    chat_prompt_free(&prompt);
    router_lock(r);
    router_prompt_info_unref(&r->nodes.infos, found.info);
    router_unlock(r);
    if (code != LR_OK)
        api_count_finish(c, &err);
}

/* ---- the request ---- */

/* Before anything is parsed.  The key's limits are those of requests that are answered. */
static lr_code take_rate(struct router *r, struct count *c, struct lr_error *err)
{
    struct router_key *key = router_access(c->req)->caller.key;
    struct router_rate requests, tokens;
    uint64_t now = lr_clock_ms(NULL);
    uint32_t retry_s = 0;
    if (key == NULL)
        return LR_OK;
    router_lock(r);
    lr_code code = router_key_admit(key, now, lr_clock_wall_ms(&router_clock), r->keys.routers,
                                    &retry_s, err);
    router_key_rates(key, now, r->keys.routers, &requests, &tokens);
    router_unlock(r);
    c->entered = code == LR_OK ? key : NULL;
    router_limit_headers(c->req, &requests, &tokens);
    router_count(&r->metrics.rate_limited, retry_s != 0);
    if (code != LR_OK)
        net_response_retry_after(c->req, retry_s);
    return code;
}

static lr_code read_request(struct count *c, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(c->req);
    const struct lr_json *root;
    struct chat_error e;
    lr_code code = chat_request_read(arena, net_request_body(c->req), &root, &c->name, &e);
    if (code == LR_OK)
        code = chat_request_check(arena, chat_codec_near(net_request_path(c->req)), root,
                                  &(struct chat_terms){0}, &c->request, &e);
    if (code != LR_OK)
        *err = e.error;
    return code;
}

/* Its turn is now, or comes later. */
static lr_code api_count_enter(struct router *r, struct count *c, struct lr_error *err)
{
    const struct router_key *key = router_access(c->req)->caller.key;
    struct router_count_ask *pushed_out = NULL;
    struct router_model *model;
    c->ask.key = key != NULL ? key->number : 0;
    c->ask.waiter.bytes = net_request_body(c->req).len + net_request_arena(c->req)->used;
    router_lock(r);
    lr_code code = find_model(r, key, c->name, &model, err);
    if (code == LR_OK)
        code = router_counting_enter(&model->counting, &c->ask, r->dispatch.sched.queue_bytes,
                                     lr_clock_ms(NULL), &pushed_out, err);
    if (code == LR_OK)
        c->model = router_model_ref(model);
    if (pushed_out != NULL)
        wake(pushed_out);
    if (c->ask.state == ROUTER_COUNT_RUNNING)
        wake(&c->ask);
    router_unlock(r);
    if (code == LR_RATE_LIMITED)
        net_response_retry_after(c->req, RETRY_S);
    return code;
}

lr_code router_api_count(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct count *c = router_memory(req, sizeof(*c), err);
    if (c == NULL)
        return err->code;
    c->router = r;
    c->req = req;
    c->loop = net_request_loop(req);
    lr_code code = take_rate(r, c, err);
    if (code != LR_OK)
        return code;
    code = read_request(c, err);
    if (code == LR_OK)
        code = api_count_enter(r, c, err);
    if (code == LR_OK) {
        net_request_on_gone(req, api_count_on_gone, c);
        return LR_OK;
    }
    router_lock(r);
    leave_key(c);
    router_unlock(r);
    return code;
}
