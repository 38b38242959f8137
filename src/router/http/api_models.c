/* router/http/api_models.c - /v1/models, /v0/models, what nodes ask, explain. */
#include <stdio.h>
#include <stdlib.h>

#include "router/http/api.h"
#include "router/sched/dispatch.h"
#include "wire/reply.h"

enum { BODY_BYTES = 16 << 20, AT_ONCE = 16 };

enum { STATES = 10 };
static const char *const states[STATES] = {"failed",    "absent",  "waiting",  "fetching",
                                           "verifying", "present", "draining", "starting",
                                           "loading",   "ready"}; /* the better, the later */

/* What a client may expect of a model, over all nodes. */
struct outlook {
    bool can_run;  /* at least one online node can run it */
    bool is_ready; /* files verified and engine resolved on one */
    const char *state;
    const char *reason;
    const struct router_replica *best;
    uint64_t counts[STATES]; /* nodes that serve, by its state there */
    uint64_t inflight, weight_bytes;
};

static size_t rank(const char *state)
{
    for (size_t i = 0; i < STATES; i++)
        if (strcmp(states[i], state) == 0)
            return i;
    return 0;
}

static struct outlook look(const struct router *r, const struct router_model *model)
{
    struct outlook out = {.state = "absent", .reason = "no online node has it"};
    struct lr_str folded = lr_str_z(model->folded);
    const char *why_not;
    for (size_t i = 0; i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        const struct router_replica *replica = router_node_replica(node, folded);
        if (replica == NULL || !router_node_serves(node, &why_not))
            continue;
        bool on_its_way =
            strcmp(replica->state, "fetching") == 0 || strcmp(replica->state, "verifying") == 0;
        out.is_ready = out.is_ready || (replica->can_run && !replica->is_waiting);
        out.can_run = out.can_run || replica->can_run || on_its_way;
        if (out.best == NULL || rank(replica->state) > rank(out.best->state))
            out.best = replica;
        out.counts[rank(replica->state)]++;
        out.inflight += replica->inflight;
        if (replica->weight_bytes > out.weight_bytes)
            out.weight_bytes = replica->weight_bytes;
    }
    if (out.best != NULL) {
        out.state = out.best->state;
        out.reason = out.is_ready ? "" : out.best->reason;
    }
    return out;
}

/* A node's own words name its folders. */
static const char *reason_for(const struct router_caller *caller, const struct outlook *o)
{
    if (o->reason[0] == '\0')
        return NULL;
    return caller->role == ROUTER_ADMIN || o->best == NULL
               ? o->reason
               : "no node can run it at the moment; operators see why in GET /v0/models";
}

static void put_v1_model(struct lr_json_writer *w, const struct router_caller *caller,
                         const struct router_model *m, const struct outlook *o)
{
    struct lr_str id = lr_str_z(m->id);
    size_t slash = lr_str_find_char(id, '/');
    lr_json_begin_object(w);
    lr_json_member_z(w, "id", m->id);
    lr_json_member_z(w, "object", "model");
    lr_json_member_i64(w, "created", m->created_ms / 1000);
    lr_json_member_str(w, "owned_by",
                       slash != LR_STR_NONE ? lr_str_sub(id, 0, slash)
                                            : LR_STR_LIT("llm-router"));
    lr_json_member_bool(w, "ready", o->is_ready);
    lr_json_member_z(w, "state", o->state);
    lr_json_member_z(w, "reason", reason_for(caller, o));
    lr_json_end_object(w);
}

/* Whether the caller's key is for this model. */
static lr_code check_caller(struct net_request *req, const struct router_model *model,
                            struct lr_error *err)
{
    const struct router_key *key = router_access(req)->caller.key;
    return key != NULL ? router_key_check_model(key, lr_str_z(model->id), err) : LR_OK;
}

/* NULL: unknown, or not for this caller, which err does not tell apart. */
static struct router_model *find_for_caller(struct router *r, struct net_request *req,
                                            struct lr_str id, struct lr_error *err)
{
    struct router_model *model = router_registry_find(&r->registry, id);
    lr_code code =
        model != NULL ? check_caller(req, model, err) : router_fail_no_model(id, err);
    return code == LR_OK ? model : NULL;
}

void router_api_v1_models(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_str key;
    void *value;
    bool wants_all = router_wants(req, "all");
    struct lr_json_writer w = router_json_begin(&body, BODY_BYTES);
    lr_json_member_z(&w, "object", "list");
    lr_json_key(&w, "data");
    lr_json_begin_array(&w);
    router_lock(r);
    for (size_t i = 0; lr_strmap_at(&r->registry.models, i, &key, &value); i++) {
        struct outlook o = look(r, value);
        if ((wants_all || o.can_run) && check_caller(req, value, NULL) == LR_OK)
            put_v1_model(&w, &router_access(req)->caller, value, &o);
    }
    router_unlock(r);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}

void router_api_v1_model(struct router *r, struct net_request *req)
{
    struct lr_str id = router_access(req)->match.tail;
    struct lr_buf body;
    struct lr_json_writer w;
    struct lr_error err;
    lr_buf_init(&body, BODY_BYTES);
    lr_json_writer_init(&w, &body);
    router_lock(r);
    const struct router_model *model = find_for_caller(r, req, id, &err);
    if (model != NULL) {
        struct outlook o = look(r, model);
        put_v1_model(&w, &router_access(req)->caller, model, &o);
    }
    router_unlock(r);
    if (model == NULL) {
        lr_buf_free(&body);
        net_respond_error(req, &err);
        return;
    }
    router_respond_json(req, 200, &body);
}

static void put_place(struct lr_json_writer *w, const struct router_node *node,
                      const struct router_replica *replica)
{
    const char *why_not;
    lr_json_begin_object(w);
    lr_json_member_z(w, "node", node->id);
    lr_json_member_z(w, "name", node->name);
    lr_json_member_bool(w, "online", router_node_is_online(node));
    lr_json_member_bool(w, "can_run",
                        replica != NULL && replica->can_run &&
                            router_node_serves(node, &why_not));
    const char *reason = NULL;
    if (!router_node_serves(node, &why_not))
        reason = why_not;
    else if (replica == NULL)
        reason = "the node does not have it";
    else if (!replica->can_run || replica->is_waiting)
        reason = replica->reason;
    lr_json_member_z(w, "reason", reason);
    if (replica != NULL) {
        lr_json_member_z(w, "state", replica->state);
        lr_json_member_bool(w, "loaded", replica->is_loaded);
        lr_json_member_bool(w, "pinned", replica->is_pinned);
        lr_json_member_u64(w, "failures", replica->failures);
        if (replica->can_run && replica->is_waiting && replica->next_try_ms != 0)
            lr_json_member_u64(w, "next_try_ms", replica->next_try_ms);
        lr_json_member_z(w, "engine", replica->engine);
        lr_json_member_z(w, "runtime", replica->runtime);
        lr_json_member_z(w, "architecture", replica->architecture);
        lr_json_member_u64(w, "slots", replica->slots);
        lr_json_member_u64(w, "live", replica->live);
        lr_json_member_u64(w, "inflight", replica->inflight);
        lr_json_member_u64(w, "context_tokens", replica->context_tokens);
        lr_json_member_u64(w, "weight_bytes", replica->weight_bytes);
        lr_json_member_double(w, "step_ms", replica->step_ms);
        lr_json_member_double(w, "prefill_ms_per_token", replica->prefill_ms);
    }
    lr_json_end_object(w);
}

/* How many nodes have it in which state, instead of each node: a list of a thousand models on
 * a hundred nodes stays small. */
static void put_counts(struct lr_json_writer *w, const struct outlook *o)
{
    lr_json_member_u64(w, "inflight", o->inflight);
    lr_json_member_u64(w, "weight_bytes", o->weight_bytes);
    lr_json_key(w, "states");
    lr_json_begin_object(w);
    for (size_t i = 0; i < STATES; i++)
        if (o->counts[i] != 0)
            lr_json_member_u64(w, states[i], o->counts[i]);
    lr_json_end_object(w);
}

static void put_v0_model(struct lr_json_writer *w, const struct router *r,
                         const struct router_model *m, bool is_brief)
{
    struct outlook o = look(r, m);
    lr_json_begin_object(w);
    lr_json_member_z(w, "id", m->id);
    lr_json_member_z(w, "source", m->source);
    lr_json_member_z(w, "format", m->format[0] != '\0' ? m->format : NULL);
    lr_json_member_i64(w, "created", m->created_ms / 1000);
    lr_json_member_bool(w, "ready", o.is_ready);
    lr_json_member_z(w, "state", o.state);
    lr_json_member_z(w, "reason", o.reason[0] != '\0' ? o.reason : NULL);
    lr_json_member_u64(w, "queued", router_schedule_waiting(&m->schedule));
    if (is_brief) {
        put_counts(w, &o);
        lr_json_end_object(w);
        return;
    }
    lr_json_key(w, "nodes");
    lr_json_begin_array(w);
    for (size_t i = 0; i < r->nodes.count; i++)
        if (!router_node_is_removed(r->nodes.all[i]))
            put_place(w, r->nodes.all[i],
                      router_node_replica(r->nodes.all[i], lr_str_z(m->folded)));
    lr_json_end_array(w);
    lr_json_end_object(w);
}

void router_api_models(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_str key, id;
    void *value;
    struct lr_json_writer w = router_json_begin(&body, BODY_BYTES);
    bool is_brief = router_wants(req, "brief"), has_id = net_request_query_get(req, "id", &id);
    lr_json_key(&w, "models");
    lr_json_begin_array(&w);
    router_lock(r);
    const struct router_model *one = has_id ? router_registry_find(&r->registry, id) : NULL;
    if (one != NULL)
        put_v0_model(&w, r, one, is_brief);
    for (size_t i = 0; !has_id && lr_strmap_at(&r->registry.models, i, &key, &value); i++) {
        put_v0_model(&w, r, value, is_brief);
        /* A large fleet takes its time: others get the lock in between.  What is registered
         * or deleted meanwhile may be in the list or not. */
        if (i % AT_ONCE == AT_ONCE - 1) {
            router_unlock(r);
            router_lock(r);
        }
    }
    router_unlock(r);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}

/* What nodes ask on their own: which manifests there are. */
void router_api_registry(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_str key;
    void *value;
    router_lock(r);
    struct wire_registered *models =
        lr_arena_array(net_request_arena(req), r->registry.models.count + 1, sizeof(*models));
    struct wire_registry list = {.version = r->registry.version, .models = models};
    for (size_t i = 0; models != NULL && lr_strmap_at(&r->registry.models, i, &key, &value);
         i++) {
        const struct router_model *m = value;
        models[list.count++] = (struct wire_registered){
            .id = lr_str_z(m->id),
            .source = lr_str_z(m->source),
            .format = lr_str_z(m->format),
            .manifest_sha256 = lr_str_z(m->manifest_sha256),
            .path = lr_str_z(m->path),
            .generation = m->generation > 0 ? (uint64_t)m->generation : 0,
        };
    }
    lr_buf_init(&body, BODY_BYTES);
    wire_registry_write(&body, &list);
    router_unlock(r);
    body.failed = body.failed || models == NULL;
    router_respond_json(req, 200, &body);
}

void router_api_manifest(struct router *r, struct net_request *req)
{
    struct lr_str id = router_access(req)->match.tail;
    struct lr_buf body;
    lr_buf_init(&body, BODY_BYTES);
    router_lock(r);
    const struct router_model *model = router_registry_find(&r->registry, id);
    if (model != NULL)
        lr_buf_add_z(&body, model->manifest);
    router_unlock(r);
    if (model == NULL || body.len == 0) {
        bool known = model != NULL;
        lr_buf_free(&body);
        if (known)
            router_refuse(req, LR_NOT_FOUND,
                          "model \"" LR_STR_FMT "\" lies on a node: it has no manifest",
                          LR_STR_ARG(lr_str_sub(id, 0, 200)));
        else
            router_refuse(req, LR_NOT_FOUND, "there is no model \"" LR_STR_FMT "\"",
                          LR_STR_ARG(lr_str_sub(id, 0, 200)));
        return;
    }
    router_respond_json(req, 200, &body);
}

void router_api_explain(struct router *r, struct net_request *req)
{
    struct lr_str id = {0};
    struct lr_buf body;
    struct router_candidate candidates[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = 100};
    struct lr_error err;
    if (!net_request_query_get(req, "model", &id) || id.len == 0) {
        router_refuse(req, LR_INVALID_ARGUMENT, "say which model: /v0/explain?model=ID");
        return;
    }
    struct lr_json_writer w = router_json_begin(&body, BODY_BYTES);
    router_lock(r);
    struct router_model *model = find_for_caller(r, req, id, &err);
    bool is_admin = router_access(req)->caller.role == ROUTER_ADMIN; /* may know the nodes */
    if (model != NULL) {
        size_t count =
            router_sched_candidates(&r->sched, &model->schedule, NULL, lr_clock_ms(NULL),
                                    candidates, ROUTER_CANDIDATES_MAX);
        size_t best = router_pick(candidates, count, &demand);
        lr_json_member_z(&w, "model", model->id);
        lr_json_member_u64(&w, "prompt_tokens", demand.prompt_tokens);
        lr_json_member_u64(&w, "queued", router_schedule_waiting(&model->schedule));
        lr_json_member_u64(&w, "wait_ms", router_schedule_wait_ms(&model->schedule));
        lr_json_member_bool(&w, "overloaded", model->schedule.pressure.state == ROUTER_OVER);
        if (is_admin)
            lr_json_member_z(&w, "choice",
                             best != ROUTER_NOBODY ? candidates[best].node->id : NULL);
        lr_json_key(&w, "candidates");
        lr_json_begin_array(&w);
        for (size_t i = 0; i < count; i++) {
            lr_json_begin_object(&w);
            if (is_admin) {
                lr_json_member_z(&w, "node", candidates[i].node->id);
                lr_json_member_z(&w, "name", candidates[i].node->name);
            }
            lr_json_member_bool(&w, "chosen", i == best);
            lr_json_member_double(&w, "cost_ms", candidates[i].cost);
            lr_json_member_bool(&w, "loaded", candidates[i].is_loaded);
            lr_json_member_bool(&w, "has_room", router_has_room(&candidates[i]));
            lr_json_member_bool(&w, "avoided", candidates[i].is_avoided);
            lr_json_member_u64(&w, "active", candidates[i].active);
            lr_json_member_u64(&w, "slots", candidates[i].slots);
            lr_json_member_double(&w, "step_ms", candidates[i].step_ms);
            lr_json_member_double(&w, "prefill_ms_per_token", candidates[i].prefill_ms);
            lr_json_end_object(&w);
        }
        lr_json_end_array(&w);
        if (is_admin) {
            lr_json_key(&w, "nodes");
            lr_json_begin_array(&w);
            for (size_t i = 0; i < r->nodes.count; i++)
                if (!router_node_is_removed(r->nodes.all[i]))
                    put_place(&w, r->nodes.all[i],
                              router_node_replica(r->nodes.all[i], lr_str_z(model->folded)));
            lr_json_end_array(&w);
        }
    }
    router_unlock(r);
    lr_json_end_object(&w);
    if (model == NULL) {
        lr_buf_free(&body);
        net_respond_error(req, &err);
        return;
    }
    router_respond_json(req, 200, &body);
}
