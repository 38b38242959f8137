/* router/http/api_resolve.c - POST /v0/models/resolve: what a name means, which model would be
 * registered for it, and what it would take on each node; and GET /v0/search.
 *
 * A client registers the answer's "registration" as it is: POST /v0/models/register.
 */
#include <stdio.h>

#include "base/errors.h"
#include "hub/client.h"
#include "router/http/resolve.h"
#include "router/http/state.h"

/* ---- from a resolution to a registration ---- */

/* With "org/name:QUANT" as an alias, also where the quantization was chosen and not asked for:
 * a person who names it later gets the same model. */
static void put_registration(struct lr_json_writer *w, const struct router_resolution *o)
{
    const struct hub_candidate *c = o->chosen;
    lr_json_begin_object(w);
    if (o->kind == ROUTER_NAME_FOLDER) {
        lr_json_member_str(w, "path", o->path);
    } else {
        const struct hub_listing *listing = o->looked[0].at.listing;
        LR_JSON_MEMBERS(w, LR_TEXT("repo", listing->repo), LR_TEXT("name", o->id),
                        LR_TEXT("format", hub_format_name(c->format)));
        if (o->wish.revision.len != 0 || o->reference.revision[0] != '\0')
            lr_json_member_str(w, "revision",
                               o->wish.revision.len != 0 ? o->wish.revision
                                                         : lr_str_z(o->reference.revision));
        if (c->filename.len != 0 || o->reference.filename[0] != '\0')
            lr_json_member_str(w, "filename",
                               c->filename.len != 0 ? c->filename
                                                    : lr_str_z(o->reference.filename));
        char alias[HUB_REFERENCE_NAME_MAX];
        bool is_named = strcmp(o->id, listing->repo) != 0;
        (void)snprintf(alias, sizeof(alias), "%s:" LR_STR_FMT, listing->repo,
                       LR_STR_ARG(lr_str_sub(c->label, 0, HUB_QUANT_MAX - 1)));
        lr_json_member_array(w, "aliases");
        if (is_named || c->label.len != 0)
            lr_json_put_z(w, is_named ? o->alias : alias);
        lr_json_end_array(w);
    }
    lr_json_end_object(w);
}

static bool can_register(const struct router_resolution *o)
{
    return o->kind == ROUTER_NAME_FOLDER ||
           (o->kind == ROUTER_NAME_REPOSITORY && o->chosen != NULL);
}

const struct lr_json *router_resolution_body(const struct router_resolution *o,
                                             struct net_request *req)
{
    struct lr_buf text;
    struct lr_json_writer w;
    const struct lr_json *body = NULL;
    if (!can_register(o))
        return NULL;
    lr_buf_init(&text, 16 << 10);
    lr_json_writer_init(&w, &text);
    put_registration(&w, o);
    const char *copy =
        text.failed ? NULL : lr_arena_copy(net_request_arena(req), lr_buf_str(&text));
    if (copy == NULL || lr_json_parse(net_request_arena(req), lr_str(copy, text.len), NULL,
                                      &body, NULL) != LR_OK)
        body = NULL;
    lr_buf_free(&text);
    return body;
}

/* The next of the suggestions, the most downloaded first; *at begins at 0. */
static const struct router_looked *next_suggestion(const struct router_resolution *o,
                                                   size_t *at)
{
    for (size_t i = o->first_suggestion + *at; i < o->looked_count; i++) {
        (*at)++;
        if (o->looked[i].best != NULL)
            return &o->looked[i];
    }
    return NULL;
}

void router_resolution_refuse(const struct router_resolution *o, struct lr_error *err)
{
    struct lr_buf names;
    size_t at = 0, count = 0;
    const struct router_looked *l;
    lr_buf_init(&names, 1024);
    while (count < ROUTER_SUGGESTIONS_MAX && (l = next_suggestion(o, &at)) != NULL)
        lr_buf_addf(&names, "%s%s", count++ != 0 ? ", " : "", l->at.found.repo);
    if (o->kind == ROUTER_NAME_REPOSITORY)
        (void)lr_fail(err, o->reason.code, "%s%s%s", o->reason.text,
                      count != 0 ? "; of this model these run here: " : "", lr_buf_z(&names));
    else if (o->reason.code != LR_OK)
        (void)lr_fail_as(err, no_model_no_hub, o->reference.text, &o->reason);
    else if (count != 0)
        (void)lr_fail_as(err, no_model_but, o->reference.text, lr_buf_z(&names));
    else
        (void)lr_fail_as(err, no_model_on_hub, o->reference.text);
    lr_buf_free(&names);
}

/* ---- the answer ---- */

static const char *const verdicts[] = {"no_engine", "too_large", "fits"};

static void put_candidate(struct lr_json_writer *w, const struct router_resolution *o,
                          const struct hub_looked *l, const struct hub_candidate *c)
{
    const struct model_size *size = hub_looked_size(l, c);
    uint64_t users = o->wish.users != 0 ? o->wish.users : 1;
    LR_JSON_MEMBERS(
        w, LR_TEXT("format", hub_format_name(c->format)), LR_STR("filename", c->filename),
        LR_STR("quantization", c->label), LR_UINT("weight_bytes", c->bytes),
        LR_UINT("kv_bytes", size != NULL
                                ? users * model_size_kv(size, router_resolution_tokens(o, size))
                                : 0),
        LR_UINT("total_bytes", router_resolution_bytes(o, c, size)),
        LR_TEXT("verdict", verdicts[c->verdict]));
}

static void put_suggestions(struct lr_json_writer *w, const struct router_resolution *o)
{
    size_t at = 0;
    const struct router_looked *l;
    lr_json_member_array(w, "suggestions");
    for (size_t n = 0; n < ROUTER_SUGGESTIONS_MAX && (l = next_suggestion(o, &at)) != NULL;
         n++) {
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(w, LR_TEXT("repo", l->at.found.repo),
                        LR_UINT("downloads", l->at.found.downloads),
                        LR_FLAG("gated", l->at.found.is_gated), LR_TEXT("why", l->why));
        put_candidate(w, o, &l->at, l->best);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

/* Tokens a second of one answer: what the node's models have read in a step, else what its
 * processor reads from memory.  0: not known (a GPU without a measured model). */
static double tokens_per_second(const struct router_fit *fit, const struct wire_fit_verdict *v,
                                double bytes, bool *is_measured)
{
    *is_measured = fit->bytes_per_ms > 0;
    double rate = *is_measured   ? fit->bytes_per_ms * 1000
                  : v->on_device ? 0
                                 : (double)fit->answer->bandwidth;
    return bytes > 0 ? rate / bytes : 0;
}

static void put_fit(struct lr_json_writer *w, const struct router_resolution *o,
                    const struct router_fit *fit, size_t index)
{
    const struct hub_candidate *c = o->chosen;
    const struct model_size *size = hub_looked_size(&o->looked[0].at, c);
    const struct wire_fit_verdict *v = NULL;
    if (fit->answer != NULL && index < fit->answer->count)
        v = &fit->answer->models[index];
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(w, LR_TEXT("node", fit->id), LR_TEXT("name", fit->name));
    if (v == NULL || v->engine.len == 0) {
        lr_json_member_str(w, "reason", v != NULL ? v->reason : lr_str_z(fit->problem.text));
        lr_json_end_object(w);
        return;
    }
    uint64_t users = o->wish.users != 0 ? o->wish.users : 1;
    uint64_t tokens = router_resolution_tokens(o, size);
    uint64_t rest = c->bytes + (size != NULL ? model_size_work(size, users * tokens) : 0);
    uint64_t room = v->available > rest ? v->available - rest : 0;
    uint64_t most = size != NULL ? model_size_tokens(size, room / users) : 0;
    if (size != NULL && size->context_tokens != 0 && most > size->context_tokens)
        most = size->context_tokens;
    double kv = size != NULL ? (double)model_size_kv(size, tokens) / 2 : 0;
    double read = (double)c->bytes * (size != NULL ? size->active_share : 1) + kv;
    bool is_measured;
    double speed = tokens_per_second(fit, v, read, &is_measured);
    LR_JSON_MEMBERS(w, LR_STR("engine", v->engine), LR_STR("plan", v->plan),
                    LR_STR("pool", v->pool), LR_UINT("total", v->total),
                    LR_UINT("available", v->available),
                    LR_UINT("disk_free", fit->answer->disk_free),
                    LR_FLAG("on_device", v->on_device), LR_UINT("largest_context", most),
                    LR_REAL("tokens_per_second", speed), LR_FLAG("measured", is_measured));
    lr_json_member_array(w, "evicts");
    for (size_t i = 0; i < v->evict_count; i++)
        lr_json_put_str(w, v->evicts[i]);
    lr_json_end_array(w);
    lr_json_end_object(w);
}

static void put_repository(struct lr_json_writer *w, const struct router_resolution *o)
{
    const struct hub_looked *l = &o->looked[0].at;
    const struct model_size *size = o->chosen != NULL ? hub_looked_size(l, o->chosen) : NULL;
    LR_JSON_MEMBERS(w, LR_TEXT("repo", l->listing->repo),
                    LR_TEXT("revision", l->listing->commit),
                    LR_UINT("context", router_resolution_tokens(o, size)),
                    LR_UINT("users", o->wish.users != 0 ? o->wish.users : 1),
                    LR_UINT("model_context", size != NULL ? size->context_tokens : 0));
    if (o->chosen != NULL) {
        lr_json_member_object(w, "chosen");
        put_candidate(w, o, l, o->chosen);
        LR_JSON_MEMBERS(w, LR_TEXT("why", o->looked[0].why),
                        LR_FLAG("has_experts", size != NULL && size->active_share < 1));
        lr_json_end_object(w);
        lr_json_member_array(w, "nodes");
        for (size_t i = 0; i < o->fit_count; i++)
            put_fit(w, o, &o->fits[i], (size_t)(o->chosen - l->candidates.list));
        lr_json_end_array(w);
    } else {
        lr_json_member_z(w, "reason", o->reason.text);
    }
    lr_json_member_array(w, "candidates");
    for (size_t i = 0; i < l->candidates.count; i++) {
        lr_json_begin_object(w);
        put_candidate(w, o, l, &l->candidates.list[i]);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

static void on_resolved(void *arg, const struct router_resolution *o,
                        const struct lr_error *err)
{
    static const char *const kinds[] = {"model", "folder", "repository", "words"};
    struct net_request *req = arg;
    if (err != NULL) {
        net_respond_error(req, err);
        return;
    }
    struct lr_json_writer *w = router_answer_begin(req);
    LR_JSON_MEMBERS(w, LR_STR("name", o->wish.name), LR_TEXT("kind", kinds[o->kind]));
    if (o->id[0] != '\0')
        lr_json_member_z(w, "id", o->id);
    if (o->kind == ROUTER_NAME_REPOSITORY)
        put_repository(w, o);
    if (can_register(o)) {
        lr_json_key(w, "registration");
        put_registration(w, o);
    } else if (o->kind != ROUTER_NAME_MODEL) {
        struct lr_error why;
        put_suggestions(w, o);
        router_resolution_refuse(o, &why);
        lr_json_member_z(w, "message", why.text);
    }
    (void)router_answer(req, 200);
}

static lr_code read_wish(const struct lr_json *body, struct router_resolve_wish *out,
                         struct lr_error *err)
{
    struct lr_str format = {0};
    *out = (struct router_resolve_wish){0};
    for (uint32_t i = 0; i < body->count; i++) {
        const struct lr_json *v = &body->members[i].value;
        struct lr_str key = body->members[i].key;
        bool ok = v->type == LR_JSON_NULL ||
                  (lr_str_eq_z(key, "name")       ? lr_json_str(v, &out->name)
                   : lr_str_eq_z(key, "format")   ? lr_json_str(v, &format)
                   : lr_str_eq_z(key, "filename") ? lr_json_str(v, &out->filename)
                   : lr_str_eq_z(key, "revision") ? lr_json_str(v, &out->revision)
                   : lr_str_eq_z(key, "context")  ? lr_json_u64(v, &out->context)
                   : lr_str_eq_z(key, "users")    ? lr_json_u64(v, &out->users)
                                                  : false);
        if (!ok)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "\"" LR_STR_FMT "\" is not known here or of the wrong type; known "
                           "are name, format, filename, revision, context and users",
                           LR_STR_ARG(lr_str_sub(key, 0, 80)));
    }
    if (format.len != 0 && !hub_format_find(format, &out->format))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"format\" must be safetensors or gguf");
    return out->name.len != 0
               ? LR_OK
               : lr_fail(err, LR_INVALID_ARGUMENT, "say which model: \"name\" is missing");
}

lr_code router_api_resolve(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    struct router_resolve_wish wish;
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK)
        code = read_wish(body, &wish, err);
    return code == LR_OK ? router_resolve(r, req, &wish, on_resolved, req, err) : code;
}

/* ---- GET /v0/search?q=WORDS ---- */

struct searching {
    struct net_request *req;
    struct hub_client client;
    struct lr_str words;
    pthread_t thread;
    struct hub_found found;
    lr_code code;
    struct lr_error err;
};

static void on_found(void *arg)
{
    struct searching *a = arg;
    (void)pthread_join(a->thread, NULL);
    if (a->code != LR_OK) {
        net_respond_error(a->req, &a->err);
        return;
    }
    struct lr_json_writer *w = router_answer_begin(a->req);
    lr_json_member_array(w, "repositories");
    for (size_t i = 0; i < a->found.count; i++) {
        const struct hub_found_repo *f = &a->found.list[i];
        LR_JSON_ITEM(w, LR_TEXT("repo", f->repo), LR_UINT("downloads", f->downloads),
                     LR_UINT("likes", f->likes), LR_FLAG("gated", f->is_gated),
                     LR_FLAG("gguf", f->has_gguf), LR_FLAG("safetensors", f->has_safetensors));
    }
    lr_json_end_array(w);
    (void)router_answer(a->req, 200);
}

static void *api_search_main(void *arg)
{
    struct searching *a = arg;
    struct hub_reference named = {.kind = HUB_REFERENCE_WORDS, .text = a->words};
    a->code = hub_look_for(&a->client, &named, &a->found, &a->err);
    net_loop_post(net_request_loop(a->req), on_found, a);
    return NULL;
}

lr_code router_api_search(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct searching *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->req = req;
    if (!net_request_query_get(req, "q", &a->words) || lr_str_trim(a->words).len == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "say what to search for: /v0/search?q=WORDS");
    a->words = lr_str_trim(a->words);
    if (a->words.len >= HUB_WORDS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"q\" has more than %d bytes",
                       HUB_WORDS_MAX - 1);
    lr_code code = hub_client_read(&a->client, r->settings, err);
    if (code == LR_OK && pthread_create(&a->thread, NULL, api_search_main, a) != 0)
        code = lr_fail(err, LR_OUT_OF_RAM, "cannot start a thread for the search");
    return code;
}
