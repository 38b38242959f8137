/* router/relay/serve.c - /v1/chat/completions, /v1/completions and /v1/responses: from the
 * client's bytes to a call whose generations are under way.
 */
#include "router/relay/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "chat/format.h"
#include "router/http/api.h"

enum { OUT_BYTES = 96 << 20 };

static void answer_bad_request(struct net_request *req, const struct chat_codec *codec,
                               const struct chat_error *e)
{
    struct lr_buf body;
    lr_buf_init(&body, 16 << 10);
    chat_error_write(&body, codec, e);
    net_respond(req, lr_code_http(e->error.code), "application/json", lr_buf_str(&body));
    lr_buf_free(&body);
}

/* Takes the key's toll.  Refused requests pay it too, unless no node could serve them: before
 * it nothing is looked at, so that a key over its rate costs nothing. */
static lr_code take_toll(struct router *r, const struct router_access *access,
                         uint32_t *retry_s, struct lr_error *err)
{
    *retry_s = 0;
    if (access->caller.key == NULL)
        return LR_OK;
    router_lock(r);
    lr_code code = router_key_take(access->caller.key, lr_clock_ms(NULL),
                                   atomic_load(&r->routers), retry_s, err);
    router_unlock(r);
    return code;
}

static void give_toll_back(struct router *r, const struct router_access *access)
{
    if (access->caller.key == NULL)
        return;
    router_lock(r);
    router_key_give_back(access->caller.key);
    router_unlock(r);
}

/* Finds the model, whether the key may use it, and what its prompts need.  With references. */
static lr_code admit_call(struct router *r, const struct router_access *access,
                          struct lr_str name, struct router_model **model,
                          struct router_prompt_info **info, struct lr_error *err)
{
    lr_code code = LR_OK;
    *info = NULL;
    router_lock(r);
    *model = router_registry_find(&r->registry, name);
    if (*model == NULL)
        code = router_fail_no_model(name, err);
    if (code == LR_OK && access->caller.key != NULL)
        code = router_key_check_model(access->caller.key, name, err);
    if (code == LR_OK)
        *info = router_model_info(*model, &r->nodes.infos,
                                  router_nodes_info(&r->nodes, lr_str_z((*model)->folded)));
    if (code == LR_OK && *info == NULL)
        code = router_refuse_nobody(r, *model, err);
    if (code == LR_OK) {
        (void)router_model_ref(*model);
        (void)router_prompt_info_ref(*info);
    }
    router_unlock(r);
    return code;
}

static void release(struct router *r, struct router_model *model,
                    struct router_prompt_info *info)
{
    router_lock(r);
    router_model_unref(model);
    router_prompt_info_unref(&r->nodes.infos, info);
    router_unlock(r);
}

/* W3C trace context, version 00: "00-" 32 digits "-" 16 digits "-" 2 digits, lower case. */
static bool is_trace(struct lr_str text)
{
    static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    bool ok = text.len == sizeof(form) - 1;
    for (size_t i = 0; ok && i < text.len; i++) {
        char c = text.ptr[i];
        ok = form[i] == 'x' ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') : c == form[i];
    }
    return ok;
}

static void take_trace(struct router_call *call)
{
    struct lr_str trace;
    if (net_request_header(call->req, "traceparent", &trace) && is_trace(trace))
        (void)snprintf(call->trace, sizeof(call->trace), LR_STR_FMT, LR_STR_ARG(trace));
}

static lr_code render(struct router_call *call, struct lr_error *err)
{
    const struct chat_request *chat = call->chat;
    int64_t now = lr_clock_wall_ms(NULL) / 1000;
    call->prompts = lr_arena_zalloc(net_request_arena(call->req),
                                    chat->prompt_count * sizeof(*call->prompts));
    if (call->prompts == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the prompt");
    lr_code code = chat_format_constraint(net_request_arena(call->req), chat,
                                          call->info->chat.is_harmony, &call->constraint, err);
    for (uint32_t i = 0; code == LR_OK && i < chat->prompt_count; i++)
        code = chat_prompt_render(chat, &call->info->chat, i, now,
                                  &call->prompts[call->prompt_count++], err);
    return code;
}

/* What tells the nodes that know the beginnings of these prompts.  Without memory, or with
 * short prompts, all nodes are alike. */
static void mark_prompts(struct router_call *call)
{
    bool is_short = true;
    for (uint32_t i = 0; i < call->prompt_count; i++)
        is_short = is_short && !router_marks_pay(&call->prompts[i]);
    if (!is_short)
        call->marks = calloc(call->prompt_count, sizeof(*call->marks));
    for (uint32_t i = 0; call->marks != NULL && i < call->prompt_count; i++)
        router_marks_make(&call->marks[i], lr_str_z(call->model->folded),
                          lr_str_z(router_caller_name(&call->access->caller)),
                          &call->prompts[i]);
}

/* A client may use one X-Request-Id twice, and a node is told by name what to stop. */
static void name_call(struct router_call *call, const char *answer_id)
{
    (void)snprintf(call->name, sizeof(call->name), "%s.%.8s", call->access->request_id,
                   answer_id + strcspn(answer_id, "-_") + 1);
}

static lr_code make_response(struct router_call *call, struct lr_error *err)
{
    char id[CHAT_ANSWER_ID_MAX];
    chat_answer_id(call->chat->codec, id);
    name_call(call, id);
    struct chat_response_options options = {
        .request = call->chat,
        .id = lr_str_z(id),
        .model = lr_str_z(call->model->id),
        .created = lr_clock_wall_ms(NULL) / 1000,
        .is_harmony = call->info->chat.is_harmony,
    };
    return chat_response_create(&options, &call->response, err);
}

/* What a call keeps in memory until its answer ends: the body, what was made of it, prompts. */
static size_t held_bytes(const struct router_call *call)
{
    size_t bytes = net_request_body(call->req).len + net_request_arena(call->req)->used;
    for (uint32_t i = 0; i < call->prompt_count; i++)
        bytes += call->prompts[i].bytes + call->prompts[i].id_count * sizeof(uint32_t);
    return bytes;
}

static lr_code make_legs(struct router_call *call, struct lr_error *err)
{
    uint32_t count = chat_request_choices(call->chat);
    call->legs = calloc(count, sizeof(*call->legs));
    if (call->legs == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u choices", count);
    call->leg_count = count;
    mark_prompts(call);
    size_t bytes = held_bytes(call) / count;
    for (uint32_t i = 0; i < count; i++) {
        struct router_leg *leg = &call->legs[i];
        const struct chat_prompt *prompt = &call->prompts[i / call->chat->n];
        leg->call = call;
        leg->index = i;
        leg->job.waiter.bytes = bytes;
        leg->job.router = call->home->router;
        leg->job.model = call->model;
        leg->job.loop = call->home->loop;
        (void)snprintf(leg->job.name, sizeof(leg->job.name), "%s.%u", call->name, i);
        leg->job.lane = call->access->caller.key != NULL ? call->access->caller.key->lane : 0;
        leg->job.marks = call->marks != NULL ? &call->marks[i / call->chat->n] : NULL;
        /* About four bytes a token in the languages people write to models. */
        leg->job.prompt_tokens =
            (uint32_t)(prompt->ids != NULL ? prompt->id_count : prompt->bytes / 4);
    }
    return LR_OK;
}

static void start_legs(struct router_call *call)
{
    call->holds++; /* a refusal ends the call, not this loop's footing */
    for (uint32_t i = 0; i < call->leg_count && !call->is_over; i++)
        router_leg_start(&call->legs[i]);
    if (!call->is_over)
        net_request_on_gone(call->req, router_call_gone, call);
    router_call_drop(call);
}

/* Renders, makes the choices and lets them begin; whatever fails ends the call. */
static void begin(struct router_call *call)
{
    struct lr_error err;
    lr_code code = render(call, &err);
    if (code == LR_OK)
        code = make_response(call, &err);
    if (code == LR_OK)
        code = make_legs(call, &err);
    if (code != LR_OK)
        router_call_fail(call, &err);
    else
        start_legs(call);
}

static void refuse(struct router *r, struct net_request *req, const struct chat_codec *codec,
                   const struct lr_error *err, uint32_t retry_s)
{
    char text[16];
    if (retry_s != 0) {
        router_count(&r->metrics.rate_limited, 1);
        (void)snprintf(text, sizeof(text), "%u", retry_s);
        net_response_header(req, "Retry-After", lr_str_z(text));
    }
    router_respond_error(req, codec, err);
}

/* Reads the body and finds its model, cheapest first: what a key may not do is refused before
 * its schemas are compiled.  False: answered. */
static bool read_request(struct router *r, struct net_request *req,
                         const struct chat_codec *codec, const struct lr_json **root,
                         struct router_model **model, struct router_prompt_info **info)
{
    struct router_access *access = net_request_user(req);
    struct chat_error bad = {0};
    struct lr_error err;
    struct lr_str name;
    uint32_t retry_s;
    *model = NULL;
    *info = NULL;
    if (take_toll(r, access, &retry_s, &err) != LR_OK) {
        refuse(r, req, codec, &err, retry_s);
        return false;
    }
    if (chat_request_read(net_request_arena(req), net_request_body(req), root, &name, &bad) !=
        LR_OK) {
        answer_bad_request(req, codec, &bad);
        return false;
    }
    (void)snprintf(access->model, sizeof(access->model), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(name, 0, 95)));
    if (name.len == 0) /* the check of the fields says so */
        return true;
    if (admit_call(r, access, name, model, info, &err) != LR_OK) {
        if (err.code == LR_UNAVAILABLE)
            give_toll_back(r, access);
        refuse(r, req, codec, &err, 0);
        return false;
    }
    return true;
}

static void complete(struct router *r, struct net_request *req, const struct chat_codec *codec)
{
    struct router_home *home = router_home_of(r, req);
    const struct lr_json *root;
    const struct chat_request *chat;
    struct chat_error bad = {0};
    struct router_model *model;
    struct router_prompt_info *info;

    if (!read_request(r, req, codec, &root, &model, &info))
        return;
    if (chat_request_check(net_request_arena(req), codec, root, &chat, &bad) != LR_OK) {
        answer_bad_request(req, codec, &bad);
        if (model != NULL)
            release(r, model, info);
        return;
    }
    struct router_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a request");
        release(r, model, info);
        return;
    }
    *call = (struct router_call){
        .home = home,
        .req = req,
        .access = net_request_user(req),
        .chat = chat,
        .model = model,
        .info = info,
        .seed = chat->has_seed ? chat->sampling.seed : lr_random_u64(),
        .begun_ns = lr_clock_ns(NULL),
        .wrote_ms = net_loop_now_ms(home->loop),
    };
    take_trace(call);
    lr_buf_init(&call->out, OUT_BYTES);
    router_call_link(call);
    begin(call);
}

void router_api_complete(struct router *r, struct net_request *req)
{
    complete(r, req, chat_codec_of(net_request_path(req)));
}
