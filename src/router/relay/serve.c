/* router/relay/serve.c - from a client's request to generate to a call whose generations are
 * under way.
 *
 * Cheapest first: what a key may not do is refused before its schemas are compiled.
 */
#include <stdio.h>
#include <stdlib.h>

#include "router/http/api.h"
#include "router/relay/call.h"

/* Takes the key's toll.  Refused requests pay it too, unless no node could serve them: before
 * it nothing is looked at, so that a key over its rate costs nothing.  False: answered, as in
 * all that follow. */
static bool take_toll(struct router *r, struct router_call *call)
{
    struct router_key *key = call->access->caller.key;
    struct lr_error err;
    uint32_t retry_s = 0;
    char text[16];
    if (key == NULL)
        return true;
    router_lock(r);
    lr_code code =
        router_key_take(key, lr_clock_ms(NULL), atomic_load(&r->routers), &retry_s, &err);
    router_unlock(r);
    if (code == LR_OK)
        return true;
    if (retry_s != 0) {
        router_count(&r->metrics.rate_limited, 1);
        (void)snprintf(text, sizeof(text), "%u", retry_s);
        net_response_header(call->req, "Retry-After", lr_str_z(text));
    }
    router_call_fail(call, &err);
    return false;
}

/* Finds the model, whether the key may use it, and what its prompts need.  With references. */
static lr_code find_model(struct router *r, struct router_call *call, struct lr_str name,
                          struct lr_error *err)
{
    struct router_key *key = call->access->caller.key;
    struct router_model *model = router_registry_find(&r->registry, name);
    if (model == NULL)
        return router_fail_no_model(name, err);
    lr_code code = key != NULL ? router_key_check_model(key, name, err) : LR_OK;
    if (code != LR_OK)
        return code;
    struct router_prompt_info *info = router_model_info(
        model, &r->nodes.infos, router_nodes_info(&r->nodes, lr_str_z(model->folded)));
    if (info == NULL)
        return router_refuse_nobody(r, model, err);
    call->model = router_model_ref(model);
    call->info = router_prompt_info_ref(info);
    return LR_OK;
}

static bool admit(struct router *r, struct router_call *call, struct lr_str name)
{
    struct router_access *access = call->access;
    struct lr_error err;
    (void)snprintf(access->model, sizeof(access->model), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(name, 0, 95)));
    if (name.len == 0) /* the check of the fields says so */
        return true;
    router_lock(r);
    lr_code code = find_model(r, call, name, &err);
    if (code == LR_UNAVAILABLE && access->caller.key != NULL)
        router_key_give_back(access->caller.key);
    router_unlock(r);
    if (code != LR_OK)
        router_call_fail(call, &err);
    return code == LR_OK;
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

/* What tells the nodes that know the beginnings of these prompts.  Without memory, or with
 * short prompts, all nodes are alike. */
static void mark_prompts(struct router_call *call)
{
    const struct chat_turn *turn = &call->turn;
    bool is_short = true;
    for (uint32_t i = 0; i < turn->prompt_count; i++)
        is_short = is_short && !router_has_prefixes(&turn->prompts[i]);
    if (!is_short)
        call->marks = calloc(turn->prompt_count, sizeof(*call->marks));
    for (uint32_t i = 0; call->marks != NULL && i < turn->prompt_count; i++)
        router_prefix_hashes_make(&call->marks[i], lr_str_z(call->model->folded),
                                  lr_str_z(router_caller_name(&call->access->caller)),
                                  &turn->prompts[i]);
}

/* A client may use one X-Request-Id twice, and a node is told by name what to stop. */
static void name_call(struct router_call *call)
{
    const char *id = call->turn.id;
    (void)snprintf(call->name, sizeof(call->name), "%s.%.8s", call->access->request_id,
                   id + strcspn(id, "-_") + 1);
}

/* Bytes that a call holds until its answer ends: the body, the parsed request, the prompts. */
static size_t held_bytes(const struct router_call *call)
{
    const struct chat_turn *turn = &call->turn;
    size_t bytes = net_request_body(call->req).len + net_request_arena(call->req)->used;
    for (uint32_t i = 0; i < turn->prompt_count; i++)
        bytes += turn->prompts[i].bytes + turn->prompts[i].id_count * sizeof(uint32_t);
    return bytes;
}

static lr_code make_legs(struct router_call *call, struct lr_error *err)
{
    uint32_t count = call->turn.generation_count, n = call->turn.request->n;
    call->legs = calloc(count, sizeof(*call->legs));
    if (call->legs == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u choices", count);
    call->leg_count = count;
    name_call(call);
    mark_prompts(call);
    size_t bytes = held_bytes(call) / count;
    for (uint32_t i = 0; i < count; i++) {
        struct router_leg *leg = &call->legs[i];
        const struct chat_prompt *prompt = chat_turn_prompt(&call->turn, i);
        leg->call = call;
        leg->index = i;
        leg->job.waiter.bytes = bytes;
        leg->job.router = call->loop->router;
        leg->job.model = call->model;
        leg->job.loop = call->loop->net;
        (void)snprintf(leg->job.name, sizeof(leg->job.name), "%s.%u", call->name, i);
        leg->job.key = call->access->caller.key != NULL ? call->access->caller.key->number : 0;
        leg->job.prefixes = call->marks != NULL ? &call->marks[i / n] : NULL;
        /* About four bytes a token in the languages people write to models. */
        leg->job.prompt_tokens =
            (uint32_t)(prompt->ids != NULL ? prompt->id_count : prompt->bytes / 4);
    }
    return LR_OK;
}

static void on_gone(void *arg)
{
    struct router_call *call = arg;
    chat_turn_gone(&call->turn);
}

/* Renders, makes the choices and lets them begin. */
static void begin(struct router_call *call)
{
    struct lr_error err;
    router_call_link(call);
    take_trace(call);
    if (!chat_turn_prepare(&call->turn, &call->info->chat, lr_str_z(call->model->id)))
        return;
    if (make_legs(call, &err) != LR_OK)
        router_call_fail(call, &err);
    else if (chat_turn_start(&call->turn))
        net_request_on_gone(call->req, on_gone, call);
}

void router_api_complete(struct router *r, struct net_request *req)
{
    struct router_call *call = router_call_new(r, req);
    struct lr_str name;
    if (call == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a request");
        return;
    }
    router_call_hold(call);
    if (take_toll(r, call) && chat_turn_read(&call->turn, net_request_body(req), &name) &&
        admit(r, call, name) && chat_turn_parse(&call->turn))
        begin(call);
    router_call_drop(call);
}
