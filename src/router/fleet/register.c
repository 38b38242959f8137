#include "router/fleet/register.h"

#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja.h"
#include "router/fleet/ask.h"
#include "router/http/api.h"

/* ---- adding ---- */

struct adding {
    struct router *router;
    struct router_model *model; /* reference */
    int64_t generation;         /* once it is stored */
    router_registered_fn fn;
    void *arg;
};

static lr_code insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct adding *a = arg;
    return router_model_insert(sql, a->model, &a->generation, err);
}

static void announce(struct router *r, const struct router_model *model)
{
    struct lr_json_writer *w = net_bus_begin(&r->events, "model.registered");
    lr_json_member_z(w, "model", model->id);
    net_bus_send(&r->events);
}

static void inserted(void *arg, const struct lr_error *err)
{
    struct adding *a = arg;
    struct router *r = a->router;
    router_lock(r);
    a->model->is_stored = err == NULL;
    a->model->generation = err == NULL ? a->generation : 0;
    if (err == NULL)
        announce(r, a->model);
    else
        router_registry_remove(&r->registry, a->model);
    router_model_unref(a->model);
    router_unlock(r);
    if (err == NULL)
        router_tell_nodes(r);
    if (a->fn != NULL)
        a->fn(a->arg, err);
    free(a);
}

void router_register(struct router *r, const struct router_new_model *model, const char *actor,
                     struct net_loop *loop, router_registered_fn fn, void *arg)
{
    struct lr_error err;
    struct adding *a = calloc(1, sizeof(*a));
    lr_code code =
        a != NULL ? LR_OK : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a registration");
    if (code == LR_OK) {
        *a = (struct adding){.router = r, .fn = fn, .arg = arg};
        router_lock(r);
        code = router_registry_add(&r->registry, model, &a->model, &err);
        if (code == LR_OK)
            (void)router_model_ref(a->model);
        router_unlock(r);
    }
    if (code != LR_OK) {
        free(a);
        if (fn != NULL)
            fn(arg, &err);
        return;
    }
    if (actor == NULL) {
        router_store_submit(r->store, insert, loop, inserted, a);
        return;
    }
    struct router_action action = {actor, "model.register", a->model->id, a->model->source};
    router_store_act(r->store, &action, insert, loop, inserted, a);
}

/* From place *at on, which is moved behind the one that was found. */
static bool pick_unregistered(struct router *r, const char *node_id, size_t *at,
                              char id[ROUTER_ID_MAX], char format[16])
{
    struct lr_str key;
    void *value;
    const struct router_node *node = router_nodes_find(&r->nodes, lr_str_z(node_id));
    while (node != NULL && lr_strmap_at(&node->replicas, (*at)++, &key, &value)) {
        const struct router_replica *replica = value;
        if (!replica->can_run || router_registry_find(&r->registry, key) != NULL ||
            router_check_model_id(lr_str_z(replica->id), NULL) != LR_OK)
            continue;
        (void)snprintf(id, ROUTER_ID_MAX, "%s", replica->id);
        (void)snprintf(format, 16, "%s", replica->format);
        return true;
    }
    return false;
}

void router_adopt_models(struct router *r, const char *node_id)
{
    for (size_t at = 0;;) {
        char id[ROUTER_ID_MAX], format[16];
        router_lock(r);
        bool found = pick_unregistered(r, node_id, &at, id, format);
        router_unlock(r);
        if (!found)
            return;
        struct router_new_model model = {
            .id = lr_str_z(id),
            .source = LR_STR_LIT("local"),
            .format = lr_str_z(format),
            .created_ms = lr_clock_wall_ms(NULL),
        };
        router_register(r, &model, NULL, NULL, NULL, NULL);
    }
}

/* ---- POST /v0/models/register ---- */

lr_code router_check_free(struct router *r, struct lr_str id, struct lr_error *err)
{
    router_lock(r);
    bool taken = router_registry_find(&r->registry, id) != NULL;
    router_unlock(r);
    return taken ? router_fail_taken(id, err) : LR_OK;
}

bool router_read_text(struct net_request *req, const struct lr_json *body, const char *key,
                      struct lr_str *out)
{
    const struct lr_json *v = lr_json_get(body, key);
    *out = (struct lr_str){0};
    if (v == NULL || v->type == LR_JSON_NULL || lr_json_str(v, out))
        return true;
    router_refuse(req, LR_INVALID_ARGUMENT, "\"%s\" must be a string, not %s", key,
                  lr_json_type_name(v->type));
    return false;
}

lr_code router_check_template(struct lr_str text, struct lr_error *err)
{
    struct jinja_template *compiled;
    if (text.len == 0)
        return LR_OK;
    lr_code code = jinja_compile(text, &compiled, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "\"chat_template\"");
    jinja_template_destroy(compiled);
    return LR_OK;
}

static bool check_members(struct net_request *req, const struct lr_json *body)
{
    static const char *const known[] = {"repo", "format",        "revision", "filename",
                                        "name", "chat_template", "path"};
    for (uint32_t i = 0; i < body->count; i++) {
        bool ok = false;
        for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++)
            ok = ok || lr_str_eq_z(body->members[i].key, known[j]);
        if (!ok) {
            router_refuse(req, LR_INVALID_ARGUMENT, "\"" LR_STR_FMT "\" is not known here",
                          LR_STR_ARG(lr_str_sub(body->members[i].key, 0, 80)));
            return false;
        }
    }
    return true;
}

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

static void foresee_memory(const struct router_need *need, const struct router_node *best,
                           uint64_t most, struct lr_buf *out)
{
    char weights[32], kv[32], has[32];
    if (need->weights + need->kv <= most)
        return;
    lr_format_size(need->weights, weights);
    lr_format_size(need->kv, kv);
    lr_format_size(most, has);
    if (need->weights > most)
        lr_buf_addf(out, "no node has the memory: its weights take %s", weights);
    else
        lr_buf_addf(out, "no node has the memory for its whole context: its weights take %s",
                    weights);
    if (need->kv != 0)
        lr_buf_addf(out, " and the KV cache of one request of %llu tokens about %s",
                    (unsigned long long)need->tokens, kv);
    lr_buf_addf(out, ", the largest node (%s) has %s", best->name, has);
    if (need->weights <= most)
        lr_buf_add_z(out,
                     "; longer requests are refused there (setting max-context bounds them)");
}

void router_foresee(const struct router *r, const struct router_need *need, struct lr_buf *out)
{
    const struct router_node *best = NULL;
    uint64_t most = 0;
    bool has_online = false;
    for (size_t i = 0; i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        if (router_node_is_removed(node) || !router_node_is_online(node))
            continue;
        has_online = true;
        uint64_t bytes = largest_pool(node);
        if (bytes > most) {
            most = bytes;
            best = node;
        }
    }
    if (!has_online) {
        lr_buf_add_z(out, "no node is online: nobody fetches or serves it before one joins "
                          "(llm-router nodes token)");
    } else if (best != NULL) {
        foresee_memory(need, best, most, out);
    }
}

void router_answer_registered(struct router *r, struct net_request *req, const char *id,
                              struct lr_str manifest, const struct router_need *need)
{
    struct lr_buf body, warning;
    struct lr_json_writer w;
    lr_buf_init(&warning, 1024);
    router_lock(r);
    router_foresee(r, need, &warning);
    router_unlock(r);
    w = router_json_begin(&body, manifest.len + 8192);
    lr_json_member_z(&w, "id", id);
    lr_json_member_z(&w, "object", "model");
    lr_json_key(&w, "warnings");
    lr_json_begin_array(&w);
    if (warning.len != 0) {
        lr_json_put_str(&w, lr_buf_str(&warning));
        lr_log_warn(NULL, "model.registered model=%s warning=%s", id, lr_buf_z(&warning));
    }
    lr_json_end_array(&w);
    if (manifest.len != 0) {
        lr_json_key(&w, "manifest");
        lr_json_put_raw(&w, manifest);
    }
    lr_json_end_object(&w);
    lr_buf_free(&warning);
    router_respond_json(req, 201, &body);
}

void router_api_register(struct router *r, struct net_request *req)
{
    struct lr_str repo, path;
    const struct lr_json *body = router_body(req);
    if (body == NULL || !check_members(req, body) ||
        !router_read_text(req, body, "repo", &repo) ||
        !router_read_text(req, body, "path", &path))
        return;
    if ((repo.len != 0) == (path.len != 0))
        router_refuse(req, LR_INVALID_ARGUMENT,
                      "say either \"repo\" (org/name or a Hugging Face URL) or \"path\" (a "
                      "folder on a node)");
    else if (path.len != 0)
        router_register_path(r, req, body);
    else
        router_register_repo(r, req, body);
}
