#include "router/http/resolve.h"

#include <stdio.h>

#include "base/machine.h"
#include "hub/client.h"
#include "router/http/state.h"

enum {
    FIT_MS = 5000,   /* for a node to answer */
    AT_ONCE_MAX = 4, /* resolutions that ask the hub at one time */
    QUESTION_BYTES = 1 << 20,
    USERS_MAX = 100000,
};

enum resolve_state {
    RESOLVE_LOOKING,
    RESOLVE_ASKING,
    RESOLVE_SEARCHING,
    RESOLVE_WEIGHING,
    RESOLVE_ENDED,
};

#define TO(name) LR_STATE(RESOLVE_##name)
static const struct lr_machine machine = {
    "resolution",
    {
        [RESOLVE_LOOKING] = {"looking", TO(ASKING) | TO(SEARCHING) | TO(ENDED)},
        [RESOLVE_ASKING] = {"asking", TO(SEARCHING) | TO(ENDED)},
        [RESOLVE_SEARCHING] = {"searching", TO(WEIGHING) | TO(ENDED)},
        [RESOLVE_WEIGHING] = {"weighing", TO(ENDED)},
        [RESOLVE_ENDED] = {"ended", 0},
    }};

static _Atomic int asking_count; /* of hubs, at this moment */

/* In the request's arena. */
struct resolving {
    struct router *router;
    struct net_request *req;
    enum resolve_state state;
    router_resolved_fn *told;
    void *told_arg;
    struct router_resolution out;
    struct hub_client client;
    bool has_slot;
    pthread_t thread;
    lr_code code; /* of the thread's work */
    struct lr_error err;
    const struct router_target *nodes;
    size_t waits;        /* answers that are still to come */
    size_t from, models; /* of `looked`: those that the question is about */
};

static void resolve_move(struct resolving *a, enum resolve_state to)
{
    char name[64];
    LR_COPY(name, a->out.wish.name);
    a->state = lr_machine_allows(&machine, name, a->state, to) ? to : RESOLVE_ENDED;
}

/* Ends the resolution: err NULL, or what is wrong. */
static void resolve_end(struct resolving *a, const struct lr_error *err)
{
    resolve_move(a, RESOLVE_ENDED);
    if (a->has_slot)
        atomic_fetch_sub(&asking_count, 1);
    a->has_slot = false;
    net_response_retry_after(a->req, err != NULL ? a->out.retry_after_s : 0);
    a->told(a->told_arg, err == NULL ? &a->out : NULL, err);
    for (size_t i = 0; i < a->out.looked_count; i++)
        hub_looked_free(&a->out.looked[i].at);
}

/* ---- the hub, on a thread ---- */

static void on_looked(void *arg);
static void on_searched(void *arg);

static void *look_main(void *arg)
{
    struct resolving *a = arg;
    struct router_resolution *o = &a->out;
    char revision[HUB_REVISION_MAX];
    LR_COPY(revision,
            o->wish.revision.len != 0 ? o->wish.revision : lr_str_z(o->reference.revision));
    a->code = hub_look(&a->client, o->reference.repo, revision, &o->looked[0].at,
                       &o->retry_after_s, &a->err);
    net_loop_post(net_request_loop(a->req), on_looked, a);
    return NULL;
}

static void *search_main(void *arg)
{
    struct resolving *a = arg;
    struct router_resolution *o = &a->out;
    struct hub_found *found = lr_arena_zalloc(net_request_arena(a->req), sizeof(*found));
    a->code = found != NULL ? hub_look_for(&a->client, &o->reference, found, &a->err)
                            : lr_fail(&a->err, LR_OUT_OF_RAM, "no memory for a search");
    o->first_suggestion = o->looked_count;
    for (size_t i = 0; a->code == LR_OK && i < found->count &&
                       o->looked_count < o->first_suggestion + ROUTER_LOOKED_MAX;
         i++) {
        struct router_looked *l = &o->looked[o->looked_count];
        struct lr_error ignored; /* a repository that cannot be read is no suggestion */
        if (hub_look(&a->client, found->list[i].repo, "", &l->at, NULL, &ignored) == LR_OK) {
            l->at.found = found->list[i];
            o->looked_count++;
        } else {
            hub_looked_free(&l->at);
        }
    }
    net_loop_post(net_request_loop(a->req), on_searched, a);
    return NULL;
}

static void begin_thread(struct resolving *a, void *(*main)(void *))
{
    struct lr_error err;
    if (pthread_create(&a->thread, NULL, main, a) == 0)
        return;
    (void)lr_fail(&err, LR_OUT_OF_RAM, "cannot start a thread to ask the hub");
    resolve_end(a, &err);
}

/* ---- the nodes ---- */

uint64_t router_resolution_tokens(const struct router_resolution *o,
                                  const struct model_size *size)
{
    uint64_t tokens = o->wish.context != 0 ? o->wish.context : ROUTER_CONTEXT_USUAL;
    bool is_short = size != NULL && size->context_tokens != 0 && size->context_tokens < tokens;
    return is_short ? size->context_tokens : tokens;
}

uint64_t router_resolution_bytes(const struct router_resolution *o,
                                 const struct hub_candidate *c, const struct model_size *size)
{
    uint64_t tokens = router_resolution_tokens(o, size);
    uint64_t users = o->wish.users != 0 ? o->wish.users : 1;
    return size == NULL ? c->bytes
                        : c->bytes + users * model_size_kv(size, tokens) +
                              model_size_work(size, users * tokens);
}

/* Questions about all candidates of the repositories from `from` on, in their order. */
static struct wire_fit_question *make_question(struct resolving *a)
{
    struct wire_fit_question *q = lr_arena_zalloc(net_request_arena(a->req), sizeof(*q));
    for (size_t i = a->from; q != NULL && i < a->out.looked_count; i++) {
        const struct hub_looked *l = &a->out.looked[i].at;
        for (size_t k = 0; k < l->candidates.count && q->count < WIRE_FIT_MAX; k++) {
            const struct hub_candidate *c = &l->candidates.list[k];
            bool is_gguf = c->format == HUB_FORMAT_GGUF;
            q->models[q->count++] = (struct wire_fit_ask){
                .runtime = is_gguf ? LR_STR_LIT("llama_cpp") : lr_str_z(l->sizes[0].runtime),
                .architecture = lr_str_z(l->sizes[is_gguf].architecture),
                .format = lr_str_z(hub_format_name(c->format)),
                .bytes = router_resolution_bytes(&a->out, c, hub_looked_size(l, c)),
            };
        }
    }
    return q;
}

static void on_all_answered(struct resolving *a);

struct order {
    struct resolving *a;
    size_t node;
};

static void resolve_on_answer(void *arg, const struct lr_error *err,
                              const struct net_reply *reply)
{
    struct order *order = arg;
    struct resolving *a = order->a;
    struct router_fit *fit = &a->out.fits[order->node];
    struct lr_arena *arena = net_request_arena(a->req);
    if (err != NULL) {
        fit->problem = *err;
    } else if (reply->status != 200) {
        (void)lr_fail(&fit->problem, LR_UNSUPPORTED,
                      reply->status == 404 ? "the node is of an older release that cannot tell"
                                           : "the node answered %d",
                      reply->status);
    } else {
        const char *text = lr_arena_copy(arena, reply->body); /* the answer points into it */
        fit->answer = lr_arena_zalloc(arena, sizeof(*fit->answer));
        if (text == NULL || fit->answer == NULL)
            (void)lr_fail(&fit->problem, LR_OUT_OF_RAM, "no memory for the node's answer");
        else if (wire_fit_answer_parse(arena, lr_str(text, reply->body.len), fit->answer,
                                       &fit->problem) != LR_OK)
            fit->answer = NULL;
    }
    if (--a->waits == 0)
        on_all_answered(a);
}

/* What models there read in a millisecond of decoding: the best that was seen.  Lock held. */
static double measured_rate(const struct router_nodes *nodes, const char *id)
{
    const struct router_node *node = router_nodes_find(nodes, lr_str_z(id));
    double best = 0;
    for (size_t i = 0; node != NULL; i++) {
        const struct router_replica *replica = router_node_replica_at(node, i);
        if (replica == NULL)
            break;
        double rate =
            replica->step_ms > 0 ? (double)replica->weight_bytes / replica->step_ms : 0;
        best = rate > best ? rate : best;
    }
    return best;
}

static void ask_one(struct resolving *a, size_t index, struct lr_str body)
{
    struct lr_error err;
    struct order *order = lr_arena_zalloc(net_request_arena(a->req), sizeof(*order));
    struct router_question question = {
        .method = "POST", .path = "/v0/models/fit", .body = body, .wait_ms = FIT_MS};
    a->out.fits[index].id = a->nodes[index].id;
    a->out.fits[index].name = a->nodes[index].name;
    if (order != NULL) {
        *order = (struct order){a, index};
        if (router_ask(router_loop_of(a->router, a->req)->client, &a->nodes[index], &question,
                       resolve_on_answer, order, &err) == LR_OK)
            return;
        a->out.fits[index].problem = err;
    } else {
        (void)lr_fail(&a->out.fits[index].problem, LR_OUT_OF_RAM, "no memory to ask the node");
    }
    a->waits--;
}

/* Asks every online node about `looked` from `from` on. */
static void ask_nodes(struct resolving *a, size_t from)
{
    struct router *r = a->router;
    struct lr_arena *arena = net_request_arena(a->req);
    struct lr_buf body;
    size_t count = 0, offline;
    a->from = from;
    struct wire_fit_question *q = make_question(a);
    router_lock(r);
    a->nodes = router_targets(&r->nodes, lr_str(NULL, 0), arena, &count, &offline);
    a->out.fits = lr_arena_zalloc(arena, (count + 1) * sizeof(*a->out.fits));
    for (size_t i = 0; a->out.fits != NULL && i < count; i++)
        a->out.fits[i].bytes_per_ms = measured_rate(&r->nodes, a->nodes[i].id);
    router_unlock(r);
    a->out.fit_count = q != NULL && a->out.fits != NULL ? count : 0;
    a->out.asked = q;
    a->waits = a->out.fit_count + 1; /* one is ours, so that no answer ends it before */
    if (a->out.fit_count != 0) {
        lr_buf_init(&body, QUESTION_BYTES);
        wire_fit_question_write(&body, q);
        for (size_t i = 0; i < count; i++)
            ask_one(a, i, lr_buf_str(&body));
        lr_buf_free(&body);
    }
    if (--a->waits == 0)
        on_all_answered(a);
}

/* ---- the choice ---- */

/* The best of what the nodes said about the question's model `index`. */
static enum hub_verdict verdict_of(const struct router_resolution *o, size_t index)
{
    enum hub_verdict best = HUB_NO_ENGINE;
    for (size_t i = 0; i < o->fit_count; i++) {
        const struct wire_fit_answer *answer = o->fits[i].answer;
        if (answer == NULL || index >= answer->count || answer->models[index].engine.len == 0)
            continue;
        if (!lr_str_eq_z(answer->models[index].plan, "never"))
            return HUB_FITS;
        best = HUB_TOO_LARGE;
    }
    return best;
}

/* Whether a node has said anything. */
static bool has_answer(const struct router_resolution *o)
{
    for (size_t i = 0; i < o->fit_count; i++)
        if (o->fits[i].answer != NULL)
            return true;
    return false;
}

static void set_verdicts(struct resolving *a)
{
    size_t index = 0;
    bool is_told = has_answer(&a->out);
    for (size_t i = a->from; i < a->out.looked_count; i++) {
        struct hub_looked *l = &a->out.looked[i].at;
        for (size_t k = 0; k < l->candidates.count && index < WIRE_FIT_MAX; k++)
            /* Without a node the usual is registered, and waits for one. */
            l->candidates.list[k].verdict =
                is_told ? verdict_of(&a->out, index++)
                : l->candidates.list[k].format == HUB_FORMAT_SAFETENSORS ? HUB_FITS
                                                                         : HUB_TOO_LARGE;
    }
}

/* Original weights that no node can hold are not downloaded: a quantization may fit. */
static bool is_taken(const struct hub_candidate *c, const struct hub_reference *wanted)
{
    return c->verdict == HUB_FITS || c->format == HUB_FORMAT_GGUF ||
           wanted->filename[0] != '\0';
}

static void explain_none(struct resolving *a)
{
    struct router_resolution *o = &a->out;
    const struct hub_looked *l = &o->looked[0].at;
    const struct hub_candidate *first = l->candidates.count != 0 ? l->candidates.list : NULL;
    char size[32];
    if (first == NULL)
        return;
    lr_format_size(router_resolution_bytes(o, first, hub_looked_size(l, first)), size);
    const struct wire_fit_answer *answer = NULL;
    for (size_t i = 0; answer == NULL && i < o->fit_count; i++)
        answer = o->fits[i].answer;
    if (first->verdict == HUB_TOO_LARGE)
        (void)lr_fail(
            &o->reason, LR_UNSUPPORTED,
            "no node has the memory for %s: it takes about %s with a context of %llu "
            "tokens",
            l->found.repo, size,
            (unsigned long long)router_resolution_tokens(o, hub_looked_size(l, first)));
    else if (answer != NULL && answer->count != 0 && answer->models[0].reason.len != 0)
        (void)lr_fail(&o->reason, LR_UNSUPPORTED, "no node can run %s: " LR_STR_FMT,
                      l->found.repo, LR_STR_ARG(lr_str_sub(answer->models[0].reason, 0, 300)));
}

/* Of the repository as the hub spells it. */
static void name_chosen(struct router_resolution *o)
{
    struct hub_reference ref = o->reference;
    LR_COPY(ref.repo, lr_str_z(o->looked[0].at.listing->repo));
    hub_reference_id(&ref, o->id);
    hub_reference_name(&ref, o->alias);
}

static void resolve_choose(struct resolving *a)
{
    struct router_resolution *o = &a->out;
    struct router_looked *l = &o->looked[0];
    const struct hub_candidate *best = NULL;
    set_verdicts(a);
    lr_code code = hub_candidates_choose(&l->at.candidates, o->wish.format, &o->reference,
                                         &best, l->why, &o->reason);
    if (code == LR_OK && is_taken(best, &o->reference)) {
        o->chosen = l->best = best;
        if (!has_answer(o))
            (void)snprintf(l->why, sizeof(l->why),
                           "no node is online that could tell what fits");
        name_chosen(o);
        resolve_end(a, NULL);
        return;
    }
    if (code == LR_NOT_FOUND) { /* asked for a file that is not there */
        const struct lr_error why = o->reason;
        resolve_end(a, &why);
        return;
    }
    explain_none(a);
    resolve_move(a, RESOLVE_SEARCHING);
    begin_thread(a, search_main);
}

static void resolve_weigh(struct resolving *a)
{
    struct router_resolution *o = &a->out;
    struct hub_reference any = {0};
    struct lr_error ignored;
    set_verdicts(a);
    for (size_t i = o->first_suggestion; i < o->looked_count; i++) {
        struct router_looked *l = &o->looked[i];
        const struct hub_candidate *best = NULL;
        if (hub_candidates_choose(&l->at.candidates, HUB_FORMAT_NONE, &any, &best, l->why,
                                  &ignored) == LR_OK &&
            best->verdict == HUB_FITS)
            l->best = best;
    }
    resolve_end(a, NULL);
}

static void on_all_answered(struct resolving *a)
{
    if (a->state == RESOLVE_ASKING)
        resolve_choose(a);
    else
        resolve_weigh(a);
}

static void on_looked(void *arg)
{
    struct resolving *a = arg;
    (void)pthread_join(a->thread, NULL);
    a->out.looked_count = 1; /* its listing is freed at the end, also after an error */
    if (a->code != LR_OK) {
        resolve_end(a, &a->err);
        return;
    }
    resolve_move(a, RESOLVE_ASKING);
    ask_nodes(a, 0);
}

static void on_searched(void *arg)
{
    struct resolving *a = arg;
    (void)pthread_join(a->thread, NULL);
    if (a->code != LR_OK)
        a->out.reason = a->out.kind == ROUTER_NAME_WORDS ? a->err : a->out.reason;
    if (a->out.looked_count == a->out.first_suggestion) {
        resolve_end(a, NULL); /* nothing was found, or the hub does not answer: `reason` */
    } else {
        resolve_move(a, RESOLVE_WEIGHING);
        ask_nodes(a, a->out.first_suggestion);
    }
}

/* ---- the beginning ---- */

/* A name that needs no hub: a registered model, or files on a node.  Lock held. */
static bool resolve_here(struct resolving *a, struct lr_str name)
{
    struct router *r = a->router;
    const struct router_model *model = router_registry_resolve(&r->registry, name);
    char id[HUB_REFERENCE_NAME_MAX] = "";
    if (a->out.reference.kind == HUB_REFERENCE_REPO) {
        hub_reference_name(&a->out.reference, id);
        model = model != NULL ? model : router_registry_resolve(&r->registry, lr_str_z(id));
        hub_reference_id(&a->out.reference, id);
        model = model != NULL ? model : router_registry_find(&r->registry, lr_str_z(id));
    }
    if (model != NULL) {
        a->out.kind = ROUTER_NAME_MODEL;
        LR_COPY(a->out.id, lr_str_z(model->id));
        return true;
    }
    const struct router_replica *replica =
        router_nodes_listing(&r->nodes, a->out.reference.text);
    if (replica == NULL && id[0] != '\0')
        replica = router_nodes_listing(&r->nodes, lr_str_z(id));
    if (replica != NULL) {
        const char *copy = lr_arena_copy(net_request_arena(a->req), lr_str_z(replica->id));
        a->out.kind = ROUTER_NAME_FOLDER;
        a->out.path = lr_str_z(copy);
        return copy != NULL;
    }
    return false;
}

static lr_code begin_hub(struct resolving *a, struct lr_error *err)
{
    if (atomic_fetch_add(&asking_count, 1) >= AT_ONCE_MAX) {
        atomic_fetch_sub(&asking_count, 1);
        return lr_fail(err, LR_RATE_LIMITED,
                       "%d other names are being looked up on the hub: try again shortly",
                       AT_ONCE_MAX);
    }
    a->has_slot = true;
    bool is_repo = a->out.reference.kind == HUB_REFERENCE_REPO;
    a->out.kind = is_repo ? ROUTER_NAME_REPOSITORY : ROUTER_NAME_WORDS;
    a->state = RESOLVE_LOOKING;
    if (!is_repo)
        resolve_move(a, RESOLVE_SEARCHING);
    begin_thread(a, is_repo ? look_main : search_main);
    return LR_OK;
}

lr_code router_resolve(struct router *r, struct net_request *req,
                       const struct router_resolve_wish *wish, router_resolved_fn *told,
                       void *arg, struct lr_error *err)
{
    struct resolving *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->router = r;
    a->req = req;
    a->told = told;
    a->told_arg = arg;
    a->out.wish = *wish;
    if (a->out.wish.users > USERS_MAX || a->out.wish.context > UINT32_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"users\" is at most %d and \"context\" %u",
                       USERS_MAX, UINT32_MAX);
    lr_code code = hub_client_read(&a->client, r->settings, err);
    if (code == LR_OK)
        code = hub_reference_read(&a->client.policy, wish->name, &a->out.reference, err);
    if (code != LR_OK)
        return code;
    if (wish->filename.len >= sizeof(a->out.reference.filename))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"filename\" is too long");
    if (wish->filename.len != 0)
        LR_COPY(a->out.reference.filename, wish->filename);
    router_lock(r);
    bool is_here = resolve_here(a, wish->name);
    router_unlock(r);
    if (!is_here && a->out.reference.kind == HUB_REFERENCE_PATH) {
        a->out.kind = ROUTER_NAME_FOLDER;
        a->out.path = a->out.reference.text;
        is_here = true;
    }
    if (!is_here)
        return begin_hub(a, err);
    a->state = RESOLVE_LOOKING;
    resolve_end(a, NULL);
    return LR_OK;
}
