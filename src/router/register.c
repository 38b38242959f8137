#include "router/register.h"

#include <stdio.h>
#include <stdlib.h>

#include "router/api.h"
#include "router/dispatch.h"

/* ---- adding ---- */

struct adding {
    struct router *router;
    struct router_model *model; /* reference */
    router_registered_fn fn;
    void *arg;
};

static lr_code insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_model_insert(sql, ((struct adding *)arg)->model, err);
}

static void announce(struct router *r, const char *what, const struct router_model *model)
{
    struct lr_json_writer *w = router_event_begin(&r->events, what);
    lr_json_member_z(w, "model", model->id);
    router_event_send(&r->events);
}

static void inserted(void *arg, const struct lr_error *err)
{
    struct adding *a = arg;
    struct router *r = a->router;
    router_lock(r);
    a->model->is_stored = err == NULL;
    if (err == NULL)
        announce(r, "model.registered", a->model);
    else
        router_registry_remove(&r->registry, a->model);
    router_model_unref(a->model);
    router_unlock(r);
    if (a->fn != NULL)
        a->fn(a->arg, err);
    free(a);
}

void router_register(struct router *r, const struct router_new_model *model,
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
    router_store_submit(r->store, insert, loop, inserted, a);
}

static bool pick_unregistered(struct router *r, const char *node_id, char id[ROUTER_ID_MAX],
                              char format[16])
{
    struct lr_str key;
    void *value;
    const struct router_node *node = router_nodes_find(&r->nodes, lr_str_z(node_id));
    for (size_t i = 0; node != NULL && lr_strmap_at(&node->places, i, &key, &value); i++) {
        const struct router_place *place = value;
        if (!place->can_run || router_registry_find(&r->registry, key) != NULL ||
            router_check_model_id(lr_str_z(place->id), NULL) != LR_OK)
            continue;
        (void)snprintf(id, ROUTER_ID_MAX, "%s", place->id);
        (void)snprintf(format, 16, "%s", place->format);
        return true;
    }
    return false;
}

void router_adopt_models(struct router *r, const char *node_id)
{
    for (;;) {
        char id[ROUTER_ID_MAX], format[16];
        router_lock(r);
        bool found = pick_unregistered(r, node_id, id, format);
        router_unlock(r);
        if (!found)
            return;
        struct router_new_model model = {
            .id = lr_str_z(id),
            .source = LR_STR_LIT("local"),
            .format = lr_str_z(format),
            .created_ms = lr_clock_wall_ms(NULL),
        };
        router_register(r, &model, NULL, NULL, NULL);
    }
}

/* ---- POST /v0/models/register ---- */

static bool read_member(struct net_request *req, const struct lr_json *body, const char *key,
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

struct answering {
    struct net_request *req;
    char id[ROUTER_ID_MAX];
};

static void answer_registered(void *arg, const struct lr_error *err)
{
    struct answering *a = arg;
    struct net_request *req = a->req;
    struct router_access *access = router_access(req);
    if (err != NULL) {
        net_respond_error(req, err);
        return;
    }
    router_store_audit(access->router->store, router_caller_name(&access->caller),
                       "model.register", a->id, "");
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, 4096);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "id", a->id);
    lr_json_member_z(&w, "object", "model");
    lr_json_end_object(&w);
    router_respond_json(req, 201, &body);
}

/* A model that lies on a node already, under its folder's name or `name`. */
static void register_local(struct router *r, struct net_request *req, struct lr_str path,
                           struct lr_str name, struct lr_str format)
{
    struct lr_str id = name;
    char format_text[16] = "", folded[ROUTER_ID_MAX];
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    if (id.len == 0) {
        id = path;
        for (size_t slash; (slash = lr_str_find_char(id, '/')) != LR_STR_NONE;)
            id = lr_str_sub(id, slash + 1, id.len);
    }
    bool found = false;
    router_lock(r);
    for (size_t i = 0; i < r->nodes.count && !found; i++) {
        const struct router_place *place =
            router_node_place(r->nodes.all[i], router_fold(id, folded));
        found = place != NULL && r->nodes.all[i]->is_online;
        if (found)
            (void)snprintf(format_text, sizeof(format_text), "%s", place->format);
    }
    router_unlock(r);
    if (!found) {
        router_refuse(req, LR_NOT_FOUND,
                      "no online node has a model \"" LR_STR_FMT "\" under its models roots "
                      "(node settings models-dir and model)",
                      LR_STR_ARG(lr_str_sub(id, 0, 200)));
        return;
    }
    if (format.len != 0 && format_text[0] != '\0' && !lr_str_eq_z(format, format_text)) {
        router_refuse(req, LR_INVALID_ARGUMENT, "the model is %s, not " LR_STR_FMT, format_text,
                      LR_STR_ARG(lr_str_sub(format, 0, 40)));
        return;
    }
    struct answering *a = lr_arena_zalloc(net_request_arena(req), sizeof(*a));
    if (a == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a registration");
        return;
    }
    a->req = req;
    (void)snprintf(a->id, sizeof(a->id), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(id, 0, sizeof(a->id) - 1)));
    struct router_new_model model = {
        .id = id,
        .source = LR_STR_LIT("local"),
        .format = lr_str_z(format_text),
        .created_ms = lr_clock_wall_ms(NULL),
    };
    router_register(r, &model, net_request_loop(req), answer_registered, a);
}

void router_api_register(struct router *r, struct net_request *req)
{
    struct lr_str repo, format, name, path;
    const struct lr_json *body = router_body(req);
    if (body == NULL || !check_members(req, body))
        return;
    if (!read_member(req, body, "repo", &repo) || !read_member(req, body, "format", &format) ||
        !read_member(req, body, "name", &name) || !read_member(req, body, "path", &path))
        return;
    if ((repo.len != 0) == (path.len != 0))
        router_refuse(req, LR_INVALID_ARGUMENT,
                      "say either \"repo\" (org/name or a Hugging Face URL) or \"path\" (a "
                      "folder on a node)");
    else if (path.len != 0)
        register_local(r, req, path, name, format);
    else
        router_register_repo(r, req, body);
}

/* ---- DELETE /v0/models/{id} ---- */

struct removing {
    struct router *router;
    struct net_request *req;
    char id[ROUTER_ID_MAX], folded[ROUTER_ID_MAX];
};

static lr_code erase(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_model_delete(sql, ((struct removing *)arg)->folded, err);
}

static void erased(void *arg, const struct lr_error *err)
{
    struct removing *a = arg;
    struct router *r = a->router;
    struct router_access *access = router_access(a->req);
    if (err != NULL) {
        net_respond_error(a->req, err);
        return;
    }
    router_lock(r);
    struct router_model *model = router_registry_find(&r->registry, lr_str_z(a->folded));
    if (model != NULL) {
        router_refuse_waiting(r, model);
        announce(r, "model.deleted", model);
        router_registry_remove(&r->registry, model);
    }
    router_unlock(r);
    router_store_audit(r->store, router_caller_name(&access->caller), "model.delete", a->id,
                       "");
    net_respond(a->req, 200, "application/json", LR_STR_LIT("{\"deleted\":true}"));
}

void router_api_delete_model(struct router *r, struct net_request *req)
{
    struct lr_str id = router_access(req)->tail;
    struct removing *a = lr_arena_zalloc(net_request_arena(req), sizeof(*a));
    router_lock(r);
    const struct router_model *model = router_registry_find(&r->registry, id);
    if (model != NULL && a != NULL) {
        memcpy(a->id, model->id, sizeof(a->id));
        memcpy(a->folded, model->folded, sizeof(a->folded));
    }
    router_unlock(r);
    if (model == NULL || a == NULL) {
        router_refuse(req, model == NULL ? LR_NOT_FOUND : LR_OUT_OF_RAM,
                      "there is no model \"" LR_STR_FMT "\"",
                      LR_STR_ARG(lr_str_sub(id, 0, 200)));
        return;
    }
    a->router = r;
    a->req = req;
    router_store_submit(r->store, erase, net_request_loop(req), erased, a);
}
