/* router/http/api_register.c - POST /v0/models/register, with "repo" or with "path".
 *
 * repo: the hub is asked on a thread of its own (its calls block); the answer comes back to the
 * request's loop.  Few registrations run at once, since each may wait for a slow hub.
 *
 * path: a node's listed model is taken by its name.  Any other path is a folder below a node's
 * models roots: the online nodes are asked in turn to inspect it, and the first that finds a
 * model there settles the registration (it reports template and tokens with its next word).
 * Where none does, the answer of the node that came furthest is told: a folder with a fault
 * says more than a folder that is not there.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/errors.h"
#include "chat/dialect/dialect.h"
#include "hub/client.h"
#include "hub/register.h"
#include "jinja/jinja.h"
#include "model/config.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"
#include "wire/reply.h"

enum {
    INSPECT_MS = 20000,
    INSPECT_BYTES = 64 << 10,
    AT_ONCE_MAX = 4,
    MANIFEST_BYTES = 16 << 20,
    TEMPLATE_BYTES = 1 << 20,
    PUBLISHERS_MAX = 16,
};

/* Memory, before anybody has loaded it.  0: not known. */
struct need {
    uint64_t weights;    /* of a repo: all that every node must hold */
    uint64_t kv, tokens; /* of one request of the whole context */
};

/* In the request's arena, which outlives the hub's thread: the request waits for it. */
struct registering {
    struct router *router;
    struct net_request *req;
    router_registered_fn *told; /* NULL: the request is answered with the model */
    void *told_arg;
    /* the body's */
    struct lr_str repo, format, revision, filename, name, chat_template, dialect, path;
    struct lr_str aliases;
    char id[ROUTER_ID_MAX];
    struct need need;
    /* path */
    char found_format[16];
    const struct router_target *nodes;
    size_t count, at;
    struct lr_error fault; /* code OK: no node has said anything */
    int fault_status;
    /* repo */
    pthread_t thread;
    struct hub_client client;
    struct hub_supported *supported;
    const char *publishers[PUBLISHERS_MAX + 1]; /* NULL-terminated; none: the default */
    enum hub_format hub_format;
    struct lr_error err;
    lr_code code;
    uint32_t retry_after_s;
    struct lr_buf manifest;
};

/* ---- the body ---- */

enum { ALIASES_MAX = 32 };

/* An array of names: *out has them with a space between two, in the arena. */
lr_code router_read_aliases(struct lr_arena *arena, const struct lr_json *v, struct lr_str *out,
                            struct lr_error *err)
{
    struct lr_buf all;
    lr_code code = LR_OK;
    if (v->type != LR_JSON_ARRAY || v->count > ALIASES_MAX)
        return lr_fail_as(err, aliases_list, ALIASES_MAX);
    lr_buf_init(&all, (size_t)ALIASES_MAX * ROUTER_ID_MAX);
    for (uint32_t i = 0; code == LR_OK && i < v->count; i++) {
        struct lr_str name = {0}, rest = lr_buf_str(&all), other;
        (void)lr_json_str(&v->items[i], &name);
        code = router_check_model_id(name, err);
        while (code == LR_OK && router_alias_next(&rest, &other))
            if (lr_str_eq_nocase(name, other))
                code = lr_fail_as(err, alias_twice, name);
        lr_buf_addf(&all, "%s" LR_STR_FMT, i != 0 ? " " : "", LR_STR_ARG(name));
    }
    const char *copy = code == LR_OK ? lr_arena_copy(arena, lr_buf_str(&all)) : NULL;
    *out = lr_str(copy, copy != NULL ? all.len : 0);
    lr_buf_free(&all);
    if (code != LR_OK)
        return lr_fail_prefix(err, "\"aliases\"");
    return copy != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for the aliases");
}

static lr_code read_member(struct lr_str name, const struct lr_json *v, struct registering *a,
                           struct lr_error *err)
{
#define X(member)                                                                              \
    {                                                                                          \
#member, offsetof(struct registering, member)                                          \
    }
    static const struct {
        const char *name;
        size_t offset; /* of a struct lr_str */
    } members[] = {X(repo), X(format),        X(revision), X(filename),
                   X(name), X(chat_template), X(dialect),  X(path)};
#undef X
    struct lr_str text = {0};
    if (lr_str_eq_z(name, "aliases"))
        return router_read_aliases(net_request_arena(a->req), v, &a->aliases, err);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!lr_str_eq_z(name, members[i].name))
            continue;
        if (v->type != LR_JSON_NULL && !lr_json_str(v, &text))
            return lr_fail_as(err, register_text, members[i].name, lr_json_type_name(v->type));
        memcpy((char *)a + members[i].offset, &text, sizeof(text));
        return LR_OK;
    }
    return lr_fail_as(err, register_member, name);
}

static lr_code check_template(struct lr_str text, struct lr_error *err)
{
    struct jinja_template *compiled;
    if (text.len == 0)
        return LR_OK;
    if (text.len > TEMPLATE_BYTES)
        return lr_fail_as(err, register_template, text.len, TEMPLATE_BYTES);
    lr_code code = jinja_compile(text, &compiled, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "\"chat_template\"");
    jinja_template_destroy(compiled);
    return LR_OK;
}

/* CONFLICT: a name is taken; the first stays untouched.  Asked before a hub or a node is, so
 * that a second registration costs nothing.  id: empty while it is not known. */
static lr_code check_free(struct router *r, struct lr_str id, struct lr_str aliases,
                          struct lr_error *err)
{
    router_lock(r);
    bool taken = id.len != 0 && router_registry_resolve(&r->registry, id) != NULL;
    lr_code code = taken ? router_fail_taken(id, err)
                         : router_registry_check_aliases(&r->registry, id, aliases, err);
    router_unlock(r);
    return code;
}

static lr_code api_register_check(struct registering *a, struct lr_error *err)
{
    if ((a->repo.len != 0) == (a->path.len != 0))
        return lr_fail_plain(err, register_source);
    if (a->path.len != 0 && (a->revision.ptr != NULL || a->filename.ptr != NULL))
        return lr_fail_as(err, register_repo_only,
                          a->revision.ptr != NULL ? "revision" : "filename");
    if (a->format.len != 0 && !hub_format_find(a->format, &a->hub_format))
        return lr_fail_as(err, register_format, a->format);
    lr_code code = check_template(a->chat_template, err);
    if (code == LR_OK && a->dialect.len != 0)
        code = chat_dialect_check(a->dialect, err);
    if (code == LR_OK && a->name.len != 0)
        code = router_check_model_id(a->name, err);
    if (code == LR_OK && a->repo.len != 0 && lr_str_find_char(a->name, ':') != LR_STR_NONE)
        code =
            lr_fail(err, LR_INVALID_ARGUMENT,
                    "\"name\" becomes a folder on nodes and has no ':'; \"aliases\" may have "
                    "it");
    struct lr_str id = a->name.len != 0 ? a->name : a->repo; /* a path's is not known yet */
    return code == LR_OK ? check_free(a->router, id, a->aliases, err) : code;
}

/* ---- the answer: an operator should know at once that no node can run the model ---- */

/* Memory of the kind that a node's models run in; the largest one, since a model lies in
 * one of them. */
static uint64_t largest_pool(const struct router_node *node)
{
    bool on_cpu = strcmp(node->device, "cpu") == 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < node->pool_count; i++) {
        bool is_ram = strcmp(node->pools[i].name, "ram") == 0;
        if (is_ram == on_cpu && node->pools[i].total > most)
            most = node->pools[i].total;
    }
    return most;
}

static void foresee_memory(const struct need *need, const char *best, uint64_t most,
                           struct lr_buf *out)
{
    char weights[32], kv[32], has[32];
    if (need->weights + need->kv <= most)
        return;
    lr_format_size(need->weights, weights);
    lr_format_size(need->kv, kv);
    lr_format_size(most, has);
    lr_buf_addf(out, "no node has the memory%s: its weights take %s",
                need->weights > most ? "" : " for its whole context", weights);
    if (need->kv != 0)
        lr_buf_addf(out, " and the KV cache of one request of %llu tokens about %s",
                    (unsigned long long)need->tokens, kv);
    lr_buf_addf(out, ", the largest node (%s) has %s", best, has);
    if (need->weights <= most)
        lr_buf_add_z(out,
                     "; longer requests are refused there (setting max-context bounds them)");
}

/* With the lock held: why no node can run a model that needs this, or not with its whole
 * context.  *out stays empty where one can. */
static void foresee(const struct router *r, const struct need *need, struct lr_buf *out)
{
    const struct router_node *node;
    const char *best = NULL;
    uint64_t most = 0;
    bool has_online = false;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        uint64_t bytes = router_node_is_online(node) ? largest_pool(node) : 0;
        has_online = has_online || router_node_is_online(node);
        best = bytes > most ? node->name : best;
        most = bytes > most ? bytes : most;
    }
    if (!has_online)
        lr_buf_add_z(out, "no node is online: nobody fetches or serves it before one joins "
                          "(llm-router nodes token)");
    else if (best != NULL)
        foresee_memory(need, best, most, out);
}

static _Atomic int asking_count; /* of hubs, at this moment */

static void api_register_finish(struct registering *a)
{
    if (a->repo.len == 0)
        return;
    hub_supported_destroy(a->supported);
    lr_buf_free(&a->manifest);
    atomic_fetch_sub(&asking_count, 1);
}

static void api_register_refuse(struct registering *a, const struct lr_error *err)
{
    if (a->told != NULL)
        a->told(a->told_arg, NULL, err);
    else
        net_respond_error(a->req, err);
}

/* 201 with the model, its manifest where it has one, and warnings. */
static void registered(void *arg, const struct lr_error *err)
{
    struct registering *a = arg;
    struct lr_buf warning;
    if (err != NULL || a->told != NULL) {
        api_register_finish(a);
        if (err != NULL)
            api_register_refuse(a, err);
        else
            a->told(a->told_arg, a->id, NULL);
        return;
    }
    lr_buf_init(&warning, 1024);
    router_lock(a->router);
    foresee(a->router, &a->need, &warning);
    router_unlock(a->router);
    struct lr_json_writer *w = router_answer_begin(a->req);
    LR_JSON_MEMBERS(w, LR_TEXT("id", a->id), LR_TEXT("object", "model"));
    lr_json_member_array(w, "warnings");
    if (warning.len != 0) {
        lr_json_put_str(w, lr_buf_str(&warning));
        lr_log_warn(NULL, "model.registered model=%s warning=%s", a->id, lr_buf_z(&warning));
    }
    lr_json_end_array(w);
    if (a->manifest.len != 0) {
        lr_json_key(w, "manifest");
        lr_json_put_raw(w, lr_buf_str(&a->manifest));
    }
    lr_buf_free(&warning);
    api_register_finish(a);
    (void)router_answer(a->req, 201);
}

static void api_register_settle(struct registering *a, const char *source, const char *format)
{
    struct router_new_model model = {
        .id = lr_str_z(a->id),
        .source = lr_str_z(source),
        .format = lr_str_z(format),
        .path = a->path,
        .manifest = lr_buf_str(&a->manifest),
        .chat_template = a->chat_template,
        .dialect = a->dialect,
        .aliases = a->aliases,
        .created_ms = lr_clock_wall_ms(&router_clock),
    };
    struct router_actor by = router_actor(a->req);
    router_register(&a->router->sync, &model, &by, net_request_loop(a->req), registered, a);
}

/* ---- path ---- */

static void ask_next(struct registering *a);

/* A fault in the folder (400) says more than "it is not there". */
static void keep_fault(struct registering *a, const struct lr_error *err,
                       const struct net_reply *reply)
{
    const char *name = a->nodes[a->at].name;
    bool is_fault = err == NULL && reply->status == 400;
    if (a->fault.code != LR_OK && (a->fault_status == 400 || !is_fault))
        return;
    a->fault_status = err == NULL ? reply->status : 0;
    if (err != NULL) {
        (void)lr_fail(&a->fault, err->code, "node %s: %s", name, err->text);
        return;
    }
    struct lr_str message = wire_refusal_message(net_request_arena(a->req), reply->body);
    lr_code code = is_fault               ? LR_INVALID_ARGUMENT
                   : reply->status == 409 ? LR_CONFLICT
                   : reply->status == 403 ? LR_PERMISSION_DENIED
                   : reply->status == 404 ? LR_NOT_FOUND
                                          : LR_UPSTREAM;
    (void)lr_fail(&a->fault, code, "node %s: " LR_STR_FMT, name,
                  LR_STR_ARG(lr_str_sub(message, 0, 400)));
}

static void on_inspected(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct registering *a = arg;
    const struct lr_json *body = NULL;
    struct lr_str id, format = {0};
    if (err == NULL && reply->status == 200 &&
        lr_json_parse(net_request_arena(a->req), reply->body, NULL, &body, NULL) == LR_OK &&
        lr_json_str(lr_json_get(body, "id"), &id)) {
        (void)lr_json_str(lr_json_get(body, "format"), &format);
        (void)lr_json_u64(lr_json_get(body, "weight_bytes"), &a->need.weights);
        (void)lr_json_u64(lr_json_get(body, "kv_bytes"), &a->need.kv);
        (void)lr_json_u64(lr_json_get(body, "context"), &a->need.tokens);
        LR_COPY(a->id, id);
        LR_COPY(a->found_format, format);
        api_register_settle(a, "local", a->found_format);
        return;
    }
    keep_fault(a, err, reply);
    a->at++;
    ask_next(a);
}

static void ask_next(struct registering *a)
{
    struct lr_error err;
    struct lr_buf body;
    struct lr_json_writer w;
    if (a->at == a->count) {
        if (a->fault.code == LR_OK)
            (void)lr_fail_as(&a->fault, register_no_node, a->path);
        api_register_refuse(a, &a->fault);
        return;
    }
    lr_buf_init(&body, INSPECT_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "path", a->path);
    if (a->name.len != 0)
        lr_json_member_str(&w, "name", a->name);
    if (a->format.len != 0)
        lr_json_member_str(&w, "format", a->format);
    lr_json_end_object(&w);
    struct router_question question = {.method = "POST",
                                       .path = "/v0/models/inspect",
                                       .body = lr_buf_str(&body),
                                       .wait_ms = INSPECT_MS};
    lr_code code = body.failed ? lr_fail_plain(&err, register_path_long)
                               : router_ask(router_loop_of(a->router, a->req)->client,
                                            &a->nodes[a->at], &question, on_inspected, a, &err);
    lr_buf_free(&body);
    if (code != LR_OK)
        api_register_refuse(a, &err);
}

/* A model whose files an online node lists under this very name. */
static bool find_listed(struct registering *a)
{
    struct router *r = a->router;
    if (a->name.len != 0 || a->path.len >= ROUTER_ID_MAX)
        return false;
    router_lock(r);
    const struct router_replica *replica = router_nodes_listing(&r->nodes, a->path);
    if (replica != NULL) {
        memcpy(a->id, replica->id, sizeof(a->id));
        memcpy(a->found_format, replica->format, sizeof(a->found_format));
        a->need =
            (struct need){replica->weight_bytes, replica->kv_bytes, replica->context_tokens};
    }
    router_unlock(r);
    return replica != NULL;
}

static lr_code register_path(struct registering *a, struct lr_error *err)
{
    size_t offline;
    while (a->path.len > 1 && a->path.ptr[a->path.len - 1] == '/')
        a->path.len--;
    if (find_listed(a)) {
        if (a->format.len != 0 && a->found_format[0] != '\0' &&
            !lr_str_eq_z(a->format, a->found_format))
            return lr_fail_as(err, register_other_format, a->found_format, a->format);
        a->path = lr_str(NULL, 0); /* the node finds it by itself */
        api_register_settle(a, "local", a->found_format);
        return LR_OK;
    }
    router_lock(a->router);
    a->nodes = router_targets(&a->router->nodes, lr_str(NULL, 0), net_request_arena(a->req),
                              &a->count, &offline);
    router_unlock(a->router);
    ask_next(a);
    return LR_OK;
}

/* ---- repo ---- */

/* On the request's loop. */
static void on_asked(void *arg)
{
    struct registering *a = arg;
    (void)pthread_join(a->thread, NULL);
    if (a->code == LR_OK) {
        api_register_settle(a, "hub", hub_format_name(a->hub_format));
        return;
    }
    net_response_retry_after(a->req, a->retry_after_s);
    api_register_finish(a);
    api_register_refuse(a, &a->err);
}

static void foresee_context(struct registering *a, struct lr_str config)
{
    struct model_identity id;
    if (config.len == 0 || model_identity_parse(config, &id, NULL) != LR_OK)
        return;
    a->need.kv = id.kv_bytes;
    a->need.tokens = id.context_tokens;
}

static void *ask_hub(void *arg)
{
    struct registering *a = arg;
    struct hub_registration got = {0};
    struct hub_register_input in = {
        .client = &a->client,
        .supported = a->supported,
        .publishers = a->publishers[0] != NULL ? a->publishers : NULL,
        .repo = a->repo,
        .revision = a->revision,
        .request = {.format = a->hub_format, .filename = a->filename, .name = a->name},
    };
    a->code = hub_register(&in, &got, &a->retry_after_s, &a->err);
    if (a->code == LR_OK) {
        hub_manifest_encode(got.manifest, &a->manifest);
        LR_COPY(a->id, lr_str_z(got.manifest->id));
        a->hub_format = got.manifest->format;
        for (size_t i = 0; i < got.manifest->file_count; i++)
            if (!got.manifest->files[i].optional)
                a->need.weights += got.manifest->files[i].size;
        foresee_context(a, got.config);
        if (a->manifest.failed)
            a->code = lr_fail_as(&a->err, register_manifest_over, MANIFEST_BYTES);
    }
    hub_registration_free(&got);
    net_loop_post(net_request_loop(a->req), on_asked, a);
    return NULL;
}

/* Read anew each time: an operator's file may grow while the router runs. */
lr_code router_read_supported(const struct lr_settings *s, struct lr_arena *arena,
                              struct hub_supported **out, struct lr_error *err)
{
    const char *path = lr_settings_str(s, "supported-models");
    struct lr_str text = {0};
    struct lr_error why;
    lr_code code = LR_OK;
    if (path != NULL)
        code = lr_file_read(arena, path, HUB_SUPPORTED_BYTES_MAX, &text, &why);
    if (code == LR_OK)
        code = hub_supported_parse(text, out, &why);
    /* Not the client's mistake, whatever the code. */
    return code == LR_OK
               ? LR_OK
               : lr_fail_as(err, supported_models, path != NULL ? path : "built in", why.text);
}

static lr_code api_register_prepare(struct registering *a, struct lr_error *err)
{
    const struct lr_settings *s = a->router->settings;
    lr_code code = hub_client_read(&a->client, s, err);
    size_t publishers = lr_settings_list_count(s, "artifact-publisher");
    if (code == LR_OK && publishers > PUBLISHERS_MAX)
        code = lr_fail(err, LR_UNAVAILABLE,
                       "the router's setting artifact-publisher names %zu publishers, and at "
                       "most %d are asked",
                       publishers, PUBLISHERS_MAX);
    for (size_t i = 0; code == LR_OK && i < publishers; i++)
        a->publishers[i] = lr_settings_list_item(s, "artifact-publisher", i);
    return code == LR_OK
               ? router_read_supported(s, net_request_arena(a->req), &a->supported, err)
               : code;
}

static lr_code register_repo(struct registering *a, struct lr_error *err)
{
    if (atomic_fetch_add(&asking_count, 1) >= AT_ONCE_MAX) {
        atomic_fetch_sub(&asking_count, 1);
        return lr_fail_as(err, register_busy, AT_ONCE_MAX);
    }
    lr_buf_init(&a->manifest, MANIFEST_BYTES);
    lr_code code = api_register_prepare(a, err);
    if (code == LR_OK && pthread_create(&a->thread, NULL, ask_hub, a) != 0)
        code = lr_fail(err, LR_OUT_OF_RAM, "cannot start a thread for the registration");
    if (code != LR_OK)
        api_register_finish(a);
    return code;
}

lr_code router_begin_registration(struct router *r, struct net_request *req,
                                  const struct lr_json *body, router_registered_fn *told,
                                  void *told_arg, struct lr_error *err)
{
    lr_code code = LR_OK;
    struct registering *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->router = r;
    a->req = req;
    a->told = told;
    a->told_arg = told_arg;
    for (uint32_t i = 0; code == LR_OK && i < body->count; i++)
        code = read_member(body->members[i].key, &body->members[i].value, a, err);
    if (code == LR_OK)
        code = api_register_check(a, err);
    if (code != LR_OK)
        return code;
    return a->path.len != 0 ? register_path(a, err) : register_repo(a, err);
}

lr_code router_api_register(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    lr_code code = router_body(req, &body, err);
    return code == LR_OK ? router_begin_registration(r, req, body, NULL, NULL, err) : code;
}
