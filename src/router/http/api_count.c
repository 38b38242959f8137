/* router/http/api_count.c - POST /v1/messages/count_tokens and /v1/responses/input_tokens: how
 * many tokens a prompt has.
 *
 * The router renders the prompt as for an answer.  A node that has the model's files counts
 * with the model's own tokenizer; weights are not loaded, and nothing is queued.
 */
#include "chat/codec.h"
#include "chat/prompt.h"
#include "hub/url.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "wire/reply.h"

enum { COUNT_MS = 60000, BODY_BYTES = 64 << 20, PATH_BYTES = 1200 };

/* The model and the node that the handler found while it held the lock. */
struct found {
    char id[ROUTER_ID_MAX];
    struct router_prompt_info *info; /* reference; NULL: no node can render or count */
    struct router_target to;
};

static void on_counted(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct net_request *req = arg;
    struct lr_arena *arena = net_request_arena(req);
    const struct lr_json *body = NULL;
    struct lr_error failure;
    uint64_t tokens;
    if (err == NULL && reply->status == 200 &&
        lr_json_parse(arena, reply->body, NULL, &body, NULL) == LR_OK &&
        lr_json_u64(lr_json_get(body, "tokens"), &tokens)) {
        struct lr_json_writer *w = router_answer_begin(req);
        if (router_codec_of(req) == &chat_responses)
            lr_json_member_z(w, "object", "response.input_tokens");
        lr_json_member_u64(w, "input_tokens", tokens);
        (void)router_answer(req, 200);
        return;
    }
    if (err == NULL)
        (void)lr_fail(&failure, reply->status == 400 ? LR_INVALID_ARGUMENT : LR_UNAVAILABLE,
                      "tokens cannot be counted: " LR_STR_FMT,
                      LR_STR_ARG(lr_str_sub(wire_refusal_message(arena, reply->body), 0, 300)));
    router_answer_error(req, err != NULL ? err : &failure);
}

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

static lr_code find(struct router *r, struct net_request *req, struct lr_str name,
                    struct found *out, struct lr_error *err)
{
    const struct router_key *key = router_access(req)->caller.key;
    lr_code code = LR_OK;
    router_lock(r);
    struct router_model *model = router_registry_resolve(&r->registry, name);
    if (model == NULL)
        code = router_fail_no_model(name, err);
    else if (key != NULL)
        code = router_key_check_model(key, lr_str_z(model->id), err);
    if (code == LR_OK) {
        struct lr_str folded = lr_str_z(model->folded);
        const struct router_node *node = find_node(r, folded);
        struct router_prompt_info *info =
            router_model_info(model, &r->nodes.infos, router_nodes_info(&r->nodes, folded));
        if (node == NULL || info == NULL)
            code = router_refuse_nobody(&r->dispatch, model, err);
        else
            router_target_set(&out->to, node);
        out->info = code == LR_OK ? router_prompt_info_ref(info) : NULL;
        memcpy(out->id, model->id, sizeof(out->id));
    }
    router_unlock(r);
    return code;
}

static lr_code ask(struct router *r, struct net_request *req, const struct found *found,
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
    lr_code code = body.failed
                       ? lr_fail(err, LR_TOO_LARGE, "the prompt is over %d bytes", BODY_BYTES)
                       : router_ask(router_loop_of(r, req)->client, &found->to, &question,
                                    on_counted, req, err);
    lr_buf_free(&body);
    lr_buf_free(&path);
    return code;
}

lr_code router_api_count(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(req);
    const struct chat_request *request = NULL;
    const struct lr_json *root;
    struct lr_str name;
    struct chat_error e;
    struct chat_prompt prompt;
    struct found found = {0};
    lr_code code = chat_request_read(arena, net_request_body(req), &root, &name, &e);
    if (code == LR_OK)
        code = chat_request_check(arena, router_codec_of(req), root, &(struct chat_terms){0},
                                  &request, &e);
    if (code != LR_OK) {
        *err = e.error;
        return code;
    }
    code = find(r, req, name, &found, err);
    if (code != LR_OK)
        return code;
    code = chat_prompt_render(request, &found.info->chat, 0, lr_clock_wall_ms(NULL) / 1000,
                              &prompt, err);
    if (code == LR_OK)
        code = ask(r, req, &found, &prompt, err);
    chat_prompt_free(&prompt);
    router_lock(r);
    router_prompt_info_unref(&r->nodes.infos, found.info);
    router_unlock(r);
    return code;
}
