/* router/http/api_models.c - /v1/models, /v0/models, what nodes ask, explain. */
#include "base/errors.h"
#include "router/fleet/reasons.h"
#include "router/http/api.h"
#include "router/http/availability.h"
#include "router/http/state.h"
#include "wire/reply.h"

enum { REGISTRY_BYTES = 16 << 20, AT_ONCE = 16 };

static const char *const states[ROUTER_MODEL_STATES] = {
    "absent",  "failed",   "waiting",  "fetching", "verifying",
    "present", "draining", "starting", "loading",  "ready"}; /* the better, the later */

static size_t rank(const char *state)
{
    for (size_t i = 0; i < ROUTER_MODEL_STATES; i++)
        if (strcmp(states[i], state) == 0)
            return i;
    return 0;
}

static uint64_t context_of(const struct router_replica *replica)
{
    return replica->max_context != 0 ? replica->max_context : replica->context_tokens;
}

struct router_availability router_model_availability(const struct router *r,
                                                     const struct router_model *model)
{
    struct router_availability out = {.state = "absent"};
    struct lr_str folded = lr_str_z(model->folded);
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        const struct router_replica *replica = router_node_replica(node, folded);
        if (replica == NULL || !router_node_serves(node, NULL))
            continue;
        bool on_its_way =
            strcmp(replica->state, "fetching") == 0 || strcmp(replica->state, "verifying") == 0;
        out.is_ready = out.is_ready || (replica->can_run && !replica->is_waiting);
        out.can_run = out.can_run || replica->can_run || on_its_way;
        if (out.best == NULL || rank(replica->state) > rank(out.best->state))
            out.best = replica;
        if (context_of(replica) != 0 && (out.context == 0 || context_of(replica) < out.context))
            out.context = context_of(replica);
        out.counts[rank(replica->state)]++;
        out.inflight += replica->inflight;
        out.requests |= replica->requests;
        if (replica->weight_bytes > out.weight_bytes)
            out.weight_bytes = replica->weight_bytes;
        out.is_loaded = out.is_loaded || replica->is_loaded;
        if (replica->is_loaded && strcmp(node->device, "cpu") != 0)
            out.gpu_bytes = replica->weight_bytes;
    }
    if (out.best != NULL) {
        out.state = out.best->state;
        if (!out.is_ready)
            out.reason = out.best->reason;
    } else {
        (void)lr_fail_plain(&out.reason, nowhere);
    }
    return out;
}

/* A node's own words name its folders. */
static const char *reason_for(const struct router_caller *caller,
                              const struct router_availability *o)
{
    if (o->reason.text[0] == '\0')
        return NULL;
    return caller->role == ROUTER_ADMIN || o->best == NULL
               ? o->reason.text
               : "no node can run it at the moment; operators see why in GET /v0/models";
}

static void put_aliases(struct lr_json_writer *w, const struct router_model *m)
{
    struct lr_str rest = lr_str_z(m->aliases), name;
    lr_json_member_array(w, "aliases");
    while (router_alias_next(&rest, &name))
        lr_json_put_str(w, name);
    lr_json_end_array(w);
}

/* name: the model's id, or an alias. */
static void put_v1_model(struct lr_json_writer *w, const struct router_caller *caller,
                         const struct router_model *m, struct lr_str name,
                         const struct router_availability *o)
{
    struct lr_str id = lr_str_z(m->id);
    size_t slash = lr_str_find_char(id, '/');
    LR_JSON_MEMBERS(w, LR_STR("id", name), LR_TEXT("object", "model"),
                    LR_INT("created", m->created_ms / 1000),
                    LR_STR("owned_by", slash != LR_STR_NONE ? lr_str_sub(id, 0, slash)
                                                            : LR_STR_LIT("llm-router")),
                    LR_FLAG("ready", o->is_ready), LR_TEXT("state", o->state),
                    LR_TEXT("reason", reason_for(caller, o)));
    if (!lr_str_eq(name, id))
        lr_json_member_str(w, "alias_of", id);
    else if (m->aliases[0] != '\0')
        put_aliases(w, m);
    if (o->context != 0) /* under the names that other servers have for it */
        LR_JSON_MEMBERS(w, LR_UINT("max_model_len", o->context),
                        LR_UINT("context_length", o->context));
    wire_abilities_write(w, o->requests);
}

lr_code router_find_for_caller(struct router *r, struct net_request *req, struct lr_str id,
                               struct router_model **out, struct lr_error *err)
{
    *out = router_registry_resolve(&r->registry, id);
    return *out != NULL ? router_key_check_model(router_access(req)->caller.key,
                                                 lr_str_z((*out)->id), err)
                        : router_fail_no_model(id, err);
}

void router_each_name(struct router *r, struct net_request *req, router_name_fn *fn, void *ctx)
{
    const struct router_caller *caller = &router_access(req)->caller;
    const struct router_model *model;
    bool wants_all = router_wants(req, "all");
    router_lock(r);
    for (size_t i = 0; (model = router_registry_at(&r->registry, i)) != NULL; i++) {
        struct router_availability o = router_model_availability(r, model);
        if ((!wants_all && !o.can_run) ||
            router_key_check_model(caller->key, lr_str_z(model->id), NULL) != LR_OK)
            continue;
        /* An entry for each name: some clients show only names they know. */
        struct lr_str name = lr_str_z(model->id), rest = lr_str_z(model->aliases);
        do
            fn(ctx, model, name, &o);
        while (router_alias_next(&rest, &name));
    }
    router_unlock(r);
}

/* Clients of the Messages API send the version of their API, and expect its shape. */
static bool wants_versioned(const struct net_request *req)
{
    struct lr_str version;
    return net_request_header(req, "anthropic-version", &version);
}

static void put_versioned(struct lr_json_writer *w, const struct router_model *m,
                          struct lr_str name)
{
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(m->created_ms, time);
    LR_JSON_MEMBERS(w, LR_TEXT("type", "model"), LR_STR("id", name),
                    LR_STR("display_name", name), LR_TEXT("created_at", time));
}

struct versioned {
    struct lr_json_writer *w;
    char first[ROUTER_ID_MAX], last[ROUTER_ID_MAX];
};

static void put_versioned_name(void *ctx, const struct router_model *model, struct lr_str name,
                               const struct router_availability *o)
{
    struct versioned *v = ctx;
    (void)o;
    if (v->first[0] == '\0')
        LR_COPY(v->first, name);
    LR_COPY(v->last, name);
    lr_json_begin_object(v->w);
    put_versioned(v->w, model, name);
    lr_json_end_object(v->w);
}

static lr_code list_versioned(struct router *r, struct net_request *req)
{
    struct versioned v = {.w = router_answer_begin(req)};
    lr_json_member_array(v.w, "data");
    router_each_name(r, req, put_versioned_name, &v);
    lr_json_end_array(v.w);
    LR_JSON_MEMBERS(v.w, LR_FLAG("has_more", false),
                    LR_TEXT("first_id", v.first[0] != '\0' ? v.first : NULL),
                    LR_TEXT("last_id", v.last[0] != '\0' ? v.last : NULL));
    return router_answer(req, 200);
}

static void put_name(void *ctx, const struct router_model *model, struct lr_str name,
                     const struct router_availability *o)
{
    struct net_request *req = ctx;
    struct lr_json_writer *w = &router_access(req)->json.writer;
    lr_json_begin_object(w);
    put_v1_model(w, &router_access(req)->caller, model, name, o);
    lr_json_end_object(w);
}

lr_code router_api_v1_models(struct router *r, struct net_request *req, struct lr_error *err)
{
    if (wants_versioned(req))
        return list_versioned(r, req);
    struct lr_json_writer *w = router_answer_begin(req);
    (void)err;
    lr_json_member_z(w, "object", "list");
    lr_json_member_array(w, "data");
    router_each_name(r, req, put_name, req);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

lr_code router_api_v1_model(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_model *model;
    router_lock(r);
    lr_code code = router_find_for_caller(r, req, router_access(req)->match.tail, &model, err);
    if (code == LR_OK && wants_versioned(req)) {
        put_versioned(router_answer_begin(req), model, router_access(req)->match.tail);
    } else if (code == LR_OK) {
        struct router_availability o = router_model_availability(r, model);
        put_v1_model(router_answer_begin(req), &router_access(req)->caller, model,
                     lr_str_z(model->id), &o);
    }
    router_unlock(r);
    return code == LR_OK ? router_answer(req, 200) : code;
}

static void put_replica(struct lr_json_writer *w, const struct router_node *node,
                        const struct router_replica *replica)
{
    struct lr_error why = {0};
    const struct lr_error *reason = &why;
    bool serves = router_node_serves(node, &why);
    if (serves && replica == NULL)
        (void)lr_fail_plain(&why, not_on_node);
    else if (serves && (!replica->can_run || replica->is_waiting))
        reason = &replica->reason;
    else if (serves)
        reason = NULL;
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name),
                    LR_FLAG("online", router_node_is_online(node)),
                    LR_FLAG("can_run", replica != NULL && replica->can_run && serves),
                    LR_TEXT("reason", reason != NULL ? reason->text : NULL));
    router_reason_put(w, "reason", reason);
    if (replica != NULL) {
        LR_JSON_MEMBERS(
            w, LR_TEXT("state", replica->state), LR_FLAG("loaded", replica->is_loaded),
            LR_FLAG("pinned", replica->is_pinned), LR_UINT("failures", replica->failures));
        if (replica->can_run && replica->is_waiting && replica->next_try_ms != 0)
            lr_json_member_u64(w, "next_try_ms", replica->next_try_ms);
        LR_JSON_MEMBERS(
            w, LR_TEXT("engine", replica->engine), LR_TEXT("runtime", replica->runtime),
            LR_TEXT("architecture", replica->architecture), LR_UINT("slots", replica->slots),
            LR_UINT("live", replica->live), LR_UINT("inflight", replica->inflight),
            LR_UINT("context_tokens", replica->context_tokens),
            LR_UINT("weight_bytes", replica->weight_bytes),
            LR_REAL("step_ms", replica->step_ms),
            LR_REAL("prefill_ms_per_token", replica->prefill_ms));
        if (replica->stops[0] != '\0') {
            lr_json_key(w, "stop_tokens");
            lr_json_put_raw(w, lr_str_z(replica->stops));
        }
        lr_json_member_object(w, "sampling");
        if (replica->info != NULL)
            wire_sampling_write(w, &replica->info->chat.sampling);
        lr_json_end_object(w);
    }
    lr_json_end_object(w);
}

/* How many nodes have it in which state, instead of each node: a list of a thousand models on
 * a hundred nodes stays small. */
static void put_counts(struct lr_json_writer *w, const struct router_availability *o)
{
    LR_JSON_MEMBERS(w, LR_UINT("inflight", o->inflight),
                    LR_UINT("weight_bytes", o->weight_bytes));
    lr_json_member_object(w, "states");
    for (size_t i = 0; i < ROUTER_MODEL_STATES; i++)
        if (o->counts[i] != 0)
            lr_json_member_u64(w, states[i], o->counts[i]);
    lr_json_end_object(w);
}

static void put_nodes(struct lr_json_writer *w, const struct router *r,
                      const struct router_model *m)
{
    const struct router_node *node;
    lr_json_member_array(w, "nodes");
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
        put_replica(w, node, router_node_replica(node, lr_str_z(m->folded)));
    lr_json_end_array(w);
}

/* The dialect of the model, and whether an operator has chosen it. */
static void put_dialect(struct lr_json_writer *w, const struct router *r,
                        const struct router_model *m)
{
    const struct router_prompt_info *info = router_nodes_info(&r->nodes, lr_str_z(m->folded));
    struct lr_str own = lr_str_z(m->chat_template);
    bool is_chosen = m->dialect[0] != '\0';
    const char *name = is_chosen      ? m->dialect
                       : own.len != 0 ? chat_dialect_of(own, own).name
                       : info != NULL ? info->chat.dialect.name
                                      : NULL;
    const char *from = own.len != 0 ? "registration" : "model";
    if (own.len == 0 && (info == NULL || info->source.len == 0))
        from = info == NULL ? NULL : "default";
    LR_JSON_MEMBERS(w, LR_TEXT("dialect", name),
                    LR_TEXT("dialect_from", is_chosen      ? "registration"
                                            : name == NULL ? NULL
                                                           : "template"),
                    LR_TEXT("template_from", from));
}

static void put_v0_model(struct lr_json_writer *w, const struct router *r,
                         const struct router_model *m, bool is_brief)
{
    struct router_availability o = router_model_availability(r, m);
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(w, LR_TEXT("id", m->id), LR_TEXT("source", m->source),
                    LR_TEXT("format", m->format[0] != '\0' ? m->format : NULL),
                    LR_INT("created", m->created_ms / 1000), LR_FLAG("ready", o.is_ready),
                    LR_TEXT("state", o.state),
                    LR_TEXT("reason", o.reason.text[0] != '\0' ? o.reason.text : NULL),
                    LR_UINT("queued", router_schedule_waiting(&m->schedule)));
    router_reason_put(w, "reason", &o.reason);
    put_aliases(w, m);
    put_dialect(w, r, m);
    wire_abilities_write(w, o.requests);
    if (is_brief)
        put_counts(w, &o);
    else
        put_nodes(w, r, m);
    lr_json_end_object(w);
}

lr_code router_api_models(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_json_writer *w = router_answer_begin(req);
    struct lr_str id;
    const struct router_model *model;
    bool is_brief = router_wants(req, "brief"), has_id = net_request_query_get(req, "id", &id);
    (void)err;
    lr_json_member_array(w, "models");
    router_lock(r);
    if (has_id && (model = router_registry_resolve(&r->registry, id)) != NULL)
        put_v0_model(w, r, model, is_brief);
    for (size_t i = 0; !has_id && (model = router_registry_at(&r->registry, i)) != NULL; i++) {
        put_v0_model(w, r, model, is_brief);
        /* A large fleet takes its time: others get the lock in between.  What is registered
         * or deleted meanwhile may be in the list or not. */
        if (i % AT_ONCE == AT_ONCE - 1) {
            router_unlock(r);
            router_lock(r);
        }
    }
    router_unlock(r);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

/* What nodes ask on their own: which manifests there are. */
lr_code router_api_registry(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_buf *body = &router_access(req)->json.body;
    const struct router_model *m;
    router_lock(r);
    struct wire_registered *models =
        lr_arena_array(net_request_arena(req), r->registry.models.count + 1, sizeof(*models));
    struct wire_registry list = {.version = r->registry.version, .models = models};
    for (size_t i = 0; models != NULL && (m = router_registry_at(&r->registry, i)) != NULL; i++)
        models[list.count++] = (struct wire_registered){
            .id = lr_str_z(m->id),
            .source = lr_str_z(m->source),
            .format = lr_str_z(m->format),
            .manifest_sha256 = lr_str_z(m->manifest_sha256),
            .path = lr_str_z(m->path),
            .generation = m->generation > 0 ? (uint64_t)m->generation : 0,
        };
    lr_buf_init(body, REGISTRY_BYTES);
    wire_registry_write(body, &list);
    router_unlock(r);
    return models != NULL && !body->failed
               ? router_answer_text(req, lr_buf_str(body))
               : lr_fail(err, LR_INTERNAL, "the answer is larger than %d bytes",
                         REGISTRY_BYTES);
}

lr_code router_api_manifest(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = router_access(req)->match.tail;
    const char *manifest = NULL;
    router_lock(r);
    const struct router_model *model = router_registry_find(&r->registry, id);
    if (model != NULL)
        manifest = lr_arena_copy(net_request_arena(req), lr_str_z(model->manifest));
    router_unlock(r);
    if (model == NULL)
        return lr_fail_as(err, absent_model, id);
    return manifest != NULL && manifest[0] != '\0' ? router_answer_text(req, lr_str_z(manifest))
                                                   : lr_fail_as(err, no_manifest, id);
}

static void put_candidate(struct lr_json_writer *w, const struct router_candidate *c,
                          bool is_best, bool is_admin)
{
    lr_json_begin_object(w);
    if (is_admin)
        LR_JSON_MEMBERS(w, LR_TEXT("node", c->node->id), LR_TEXT("name", c->node->name));
    LR_JSON_MEMBERS(w, LR_FLAG("chosen", is_best), LR_REAL("cost_ms", c->cost),
                    LR_FLAG("loaded", c->is_loaded), LR_FLAG("has_room", router_has_room(c)),
                    LR_FLAG("avoided", c->is_avoided), LR_UINT("active", c->active),
                    LR_UINT("slots", c->slots), LR_REAL("step_ms", c->step_ms),
                    LR_REAL("prefill_ms_per_token", c->prefill_ms));
    lr_json_end_object(w);
}

lr_code router_api_explain(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = {0};
    struct router_model *model;
    struct router_candidate candidates[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = 100};
    if (!net_request_query_get(req, "model", &id) || id.len == 0)
        return lr_fail_plain(err, model_not_named);
    struct lr_json_writer *w = router_answer_begin(req);
    bool is_admin = router_access(req)->caller.role == ROUTER_ADMIN; /* may know the nodes */
    router_lock(r);
    lr_code code = router_find_for_caller(r, req, id, &model, err);
    if (code == LR_OK) {
        size_t count =
            router_sched_candidates(&r->dispatch.sched, &model->schedule, NULL,
                                    lr_clock_ms(NULL), candidates, ROUTER_CANDIDATES_MAX);
        size_t best = router_pick(candidates, count, &demand);
        LR_JSON_MEMBERS(w, LR_TEXT("model", model->id),
                        LR_UINT("prompt_tokens", demand.prompt_tokens),
                        LR_UINT("queued", router_schedule_waiting(&model->schedule)),
                        LR_UINT("wait_ms", router_schedule_wait_ms(&model->schedule)),
                        LR_FLAG("overloaded", model->schedule.pressure.state == ROUTER_OVER));
        if (is_admin)
            lr_json_member_z(w, "choice",
                             best != ROUTER_NOBODY ? candidates[best].node->id : NULL);
        lr_json_member_array(w, "candidates");
        for (size_t i = 0; i < count; i++)
            put_candidate(w, &candidates[i], i == best, is_admin);
        lr_json_end_array(w);
        if (is_admin)
            put_nodes(w, r, model);
    }
    router_unlock(r);
    return code == LR_OK ? router_answer(req, 200) : code;
}
