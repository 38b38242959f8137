#include "router/relay/admission.h"

#include <stdio.h>

#include "router/observe/limits.h"
#include "router/relay/call.h"

bool router_call_take_rate(struct router_call *call)
{
    const struct router_relay *relay = call->relay;
    struct router_key *key = call->access->caller.key;
    struct lr_error err;
    uint32_t retry_s = 0;
    if (key == NULL)
        return true;
    uint64_t now_ms = lr_clock_ms(relay->links.clock);
    struct router_rate requests, tokens;
    router_dispatch_lock(relay->dispatch);
    call->keeps_texts = key->keep_texts != 0 && call->record != 0;
    lr_code code = router_key_admit(key, now_ms, lr_clock_wall_ms(relay->links.clock),
                                    relay->keys->routers, &retry_s, &err);
    router_key_rates(key, now_ms, relay->keys->routers, &requests, &tokens);
    router_dispatch_unlock(call->relay->dispatch);
    router_limit_headers(call->req, &requests, &tokens);
    call->entered = code == LR_OK ? key : NULL;
    if (code == LR_OK)
        return true;
    call->is_over_rate = retry_s != 0;
    net_response_retry_after(call->req, retry_s);
    chat_turn_fail(&call->turn, &err);
    return false;
}

/* Finds the model and its template, if the key may use the model.  Takes references to both. */
static lr_code find_model(struct router_call *call, struct lr_str name, struct lr_error *err)
{
    const struct router_relay *relay = call->relay;
    struct router_model *model = router_registry_resolve(relay->dispatch->registry, name);
    if (model == NULL)
        return router_fail_no_model(name, err);
    lr_code code = router_key_check_model(call->access->caller.key, lr_str_z(model->id), err);
    if (code != LR_OK)
        return code;
    struct router_prompt_info *info = router_model_info(
        model, &relay->nodes->infos, router_nodes_info(relay->nodes, lr_str_z(model->folded)));
    if (info == NULL)
        return router_refuse_nobody(relay->dispatch, model, err);
    code = wire_abilities_check(router_nodes_requests(relay->nodes, lr_str_z(model->folded)),
                                call->turn.codec->kind, model->id, err);
    if (code != LR_OK)
        return code;
    call->model = router_model_ref(model);
    call->info = router_prompt_info_ref(info);
    return LR_OK;
}

bool router_call_admit(struct router_call *call, struct lr_str name)
{
    struct router_access *access = call->access;
    struct lr_error err;
    (void)snprintf(access->model, sizeof(access->model), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(name, 0, 95)));
    if (name.len == 0) /* the check of the fields says so */
        return true;
    router_dispatch_lock(call->relay->dispatch);
    lr_code code = find_model(call, name, &err);
    if (code == LR_UNAVAILABLE && access->caller.key != NULL)
        router_key_give_back(access->caller.key);
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_NAMED, .call = call, .name = name});
    router_dispatch_unlock(call->relay->dispatch);
    if (code != LR_OK)
        chat_turn_fail(&call->turn, &err);
    return code == LR_OK;
}
