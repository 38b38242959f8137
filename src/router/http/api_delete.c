/* router/http/api_delete.c - DELETE /v0/models/{id} and Ollama's DELETE /api/delete: the
 * registration goes, then the nodes are told.
 *
 * The registration is erased first, so that no node fetches again what another is asked
 * to give up.  Without ?purge=true files stay where they are and a node only lets go of
 * the memory; with it each node deletes what it may (never a Hugging Face cache) and the
 * answer says per node what became of the files.  A node that was busy is asked again by
 * the same words: files without a registration may be purged too.
 */
#include "base/errors.h"
#include "chat/codec.h"
#include "hub/url.h"
#include "router/fleet/reasons.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "wire/reply.h"

enum { PURGE_MS = 60000 };

struct removing {
    struct router *router;
    struct net_request *req;
    char id[ROUTER_ID_MAX], folded[ROUTER_ID_MAX];
    bool is_purge;
    size_t offline; /* nodes that have it and cannot be asked */
    size_t waits;   /* answers that are still to come */
    struct lr_json_writer *w;
};

struct order {
    struct removing *removing;
    const struct router_target *to;
};

static lr_code erase(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_model_delete(sql, ((struct removing *)arg)->folded, err);
}

static void api_delete_finish(struct removing *a)
{
    lr_json_end_array(a->w);
    if (a->is_purge)
        lr_json_member_u64(a->w, "nodes_offline", a->offline);
    (void)router_answer(a->req, 200);
}

/* The node's next report says so, too, but a client may pull the model again before. */
static void api_delete_forget(struct router *r, const char *node_id, const char *folded)
{
    router_lock(r);
    const struct router_node *node = router_nodes_find(&r->nodes, lr_str_z(node_id));
    struct router_replica *replica =
        node != NULL ? router_node_replica(node, lr_str_z(folded)) : NULL;
    if (replica != NULL)
        router_replica_forget(replica);
    router_unlock(r);
}

static void api_delete_on_answer(void *arg, const struct lr_error *err,
                                 const struct net_reply *reply)
{
    const struct order *order = arg;
    struct removing *a = order->removing;
    bool ok = err == NULL && reply->status < 300;
    if (ok)
        api_delete_forget(a->router, order->to->id, a->folded);
    lr_json_begin_object(a->w);
    LR_JSON_MEMBERS(a->w, LR_TEXT("node", order->to->id), LR_TEXT("name", order->to->name),
                    LR_FLAG("ok", ok));
    if (!ok) {
        struct lr_error said;
        if (err == NULL) {
            wire_refusal(net_request_arena(a->req), reply->status, reply->body, &said);
            err = &said;
        }
        lr_json_member_z(a->w, "reason", err->text);
        router_reason_put(a->w, "reason", err);
    }
    lr_json_end_object(a->w);
    if (--a->waits == 0)
        api_delete_finish(a);
}

/* The answer to an unload is not awaited: a node that cannot be told keeps a model nobody asks
 * for, and gives its memory up when another needs it. */
static void tell_one(struct removing *a, const struct router_target *to)
{
    struct lr_error err;
    struct lr_buf path;
    struct order *order = lr_arena_zalloc(net_request_arena(a->req), sizeof(*order));
    struct router_question question = {.method = a->is_purge ? "DELETE" : "POST",
                                       .wait_ms = PURGE_MS};
    lr_buf_init(&path, 1200);
    lr_buf_add_z(&path, "/v0/models/");
    hub_url_escape(&path, lr_str_z(a->id), false);
    lr_buf_add_z(&path, a->is_purge ? "?purge=true" : "/unload");
    question.path = lr_buf_z(&path);
    lr_code code = order != NULL ? LR_OK : lr_fail(&err, LR_OUT_OF_RAM, "no memory to ask it");
    if (code == LR_OK) {
        *order = (struct order){a, to};
        code = router_ask(router_loop_of(a->router, a->req)->client, to, &question,
                          a->is_purge ? api_delete_on_answer : NULL, order, &err);
    }
    a->waits += code == LR_OK && a->is_purge;
    if (code != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "model.not_told node=%s reason=%s", to->name, err.text);
    lr_buf_free(&path);
}

static lr_code erased(struct net_request *req, void *arg, struct lr_error *err)
{
    struct removing *a = arg;
    struct router *r = a->router;
    size_t count;
    (void)err;
    router_lock(r);
    router_unregister(&r->sync, lr_str_z(a->folded));
    const struct router_target *nodes = router_targets(
        &r->nodes, lr_str_z(a->folded), net_request_arena(req), &count, &a->offline);
    router_unlock(r);
    router_reach_tell(&r->reach);
    a->w = router_answer_begin(req);
    lr_json_member_bool(a->w, "deleted", true);
    lr_json_member_array(a->w, "purged");
    for (size_t i = 0; i < count; i++)
        tell_one(a, &nodes[i]);
    if (a->waits == 0)
        api_delete_finish(a);
    return LR_OK;
}

/* A node still lists it, though nobody can ask for it. */
static bool is_left_over(const struct router *r, struct lr_str folded)
{
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        const struct router_replica *replica = router_node_replica(node, folded);
        if (replica != NULL && strcmp(replica->state, "absent") != 0)
            return true;
    }
    return false;
}

static lr_code remove_model(struct router *r, struct net_request *req, struct lr_str id,
                            bool is_purge, struct lr_error *err)
{
    struct removing *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    struct router_change values = {0};
    *a = (struct removing){.router = r, .req = req, .is_purge = is_purge};
    (void)router_fold(id, a->folded);
    router_lock(r);
    const struct router_model *model = router_registry_find(&r->registry, id);
    bool is_left = model == NULL && is_purge && is_left_over(r, lr_str_z(a->folded));
    memcpy(a->id, model != NULL ? model->id : a->folded, sizeof(a->id));
    if (model != NULL)
        router_describe_model(model, false, &values);
    router_unlock(r);
    if (model == NULL && !is_left)
        return lr_fail_as(err, absent_model, id);
    struct router_action action = {"model.delete", a->id, is_purge ? "purge" : "",
                                   .change = &values};
    return router_act(req, &action, is_left ? NULL : erase, erased, a, err);
}

lr_code router_api_delete_model(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str purge;
    bool is_purge = router_wants(req, "purge");
    if (net_request_query_get(req, "purge", &purge) && !is_purge &&
        !lr_str_eq_z(purge, "false"))
        return lr_fail_plain(err, purge_flag);
    return remove_model(r, req, router_access(req)->match.tail, is_purge, err);
}

/* DELETE /api/delete: Ollama deletes the files, too. */
lr_code router_api_delete_named(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    struct lr_str name, plain;
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK)
        code = router_named_model(body, &name, err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    bool is_known = router_registry_find(&r->registry, name) != NULL;
    router_unlock(r);
    if (!is_known && chat_model_plain(name, &plain))
        name = plain;
    return remove_model(r, req, name, true, err);
}
