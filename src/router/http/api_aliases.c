/* router/http/api_aliases.c - further names of a model: PATCH /v0/models/{id}, and POST
 * /api/copy and /api/create, which give a model a name more. */
#include "base/errors.h"
#include "chat/codec.h"
#include "router/http/api.h"
#include "router/http/state.h"

struct renaming {
    struct router *router;
    char id[ROUTER_ID_MAX], folded[ROUTER_ID_MAX];
    struct lr_str aliases;
    bool is_copy; /* the answer has nothing in it */
};

static lr_code save_aliases(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct renaming *a = arg;
    return router_aliases_save(sql, a->folded, a->aliases, err);
}

static lr_code renamed(struct net_request *req, void *arg, struct lr_error *err)
{
    const struct renaming *a = arg;
    struct router *r = a->router;
    struct lr_str rest = a->aliases, name;
    router_lock(r);
    struct router_model *model = router_registry_find(&r->registry, lr_str_z(a->folded));
    bool ok = model == NULL || router_registry_set_aliases(&r->registry, model, a->aliases);
    router_unlock(r);
    if (!ok)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the aliases");
    struct lr_json_writer *w = router_answer_begin(req);
    if (a->is_copy) {
        lr_json_member_z(w, "status", "success");
        return router_answer(req, 200);
    }
    LR_JSON_MEMBERS(w, LR_TEXT("id", a->id), LR_TEXT("object", "model"));
    lr_json_member_array(w, "aliases");
    while (router_alias_next(&rest, &name))
        lr_json_put_str(w, name);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

lr_code router_api_model_change(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = router_access(req)->match.tail;
    const struct lr_json *body;
    struct router_change values = {0};
    struct renaming *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->router = r;
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK && (body->count != 1 || lr_json_get(body, "aliases") == NULL))
        code = lr_fail_plain(err, model_no_change);
    if (code == LR_OK)
        code = router_read_aliases(net_request_arena(req), lr_json_get(body, "aliases"),
                                   &a->aliases, err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    const struct router_model *model = router_registry_find(&r->registry, id);
    if (model != NULL) {
        memcpy(a->id, model->id, sizeof(a->id));
        memcpy(a->folded, model->folded, sizeof(a->folded));
        code = router_registry_check_aliases(&r->registry, id, a->aliases, err);
        const char *aliases = lr_arena_copy(net_request_arena(req), a->aliases);
        router_change_words(&values, "aliases", model->aliases, aliases);
    } else {
        code = lr_fail_as(err, absent_model, id);
    }
    router_unlock(r);
    struct router_action action = {"model.change", a->id, "aliases", .change = &values};
    return code == LR_OK ? router_act(req, &action, save_aliases, renamed, a, err) : code;
}

/* ---- copies ---- */

/* The aliases of the model with this name more; lock held.  NULL: no memory. */
static const char *aliases_with(struct net_request *req, const struct router_model *model,
                                struct lr_str name)
{
    struct lr_str rest = lr_str_z(model->aliases), other;
    bool has = lr_str_eq_nocase(name, lr_str_z(model->id));
    while (router_alias_next(&rest, &other))
        has = has || lr_str_eq_nocase(name, other);
    return has ? lr_arena_copy(net_request_arena(req), lr_str_z(model->aliases))
               : lr_arena_printf(net_request_arena(req), "%s%s" LR_STR_FMT, model->aliases,
                                 model->aliases[0] != '\0' ? " " : "", LR_STR_ARG(name));
}

static lr_code give_name(struct router *r, struct net_request *req, struct lr_str source,
                         struct lr_str name, struct lr_error *err)
{
    struct router_change values = {0};
    struct renaming *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->router = r;
    a->is_copy = true;
    (void)chat_model_plain(name, &name);
    lr_code code = router_check_model_id(name, err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    const struct router_model *model = router_registry_resolve(&r->registry, source);
    const char *aliases = model != NULL ? aliases_with(req, model, name) : NULL;
    if (model == NULL) {
        code = lr_fail_as(err, absent_model, source);
    } else if (aliases == NULL) {
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for the aliases");
    } else {
        memcpy(a->id, model->id, sizeof(a->id));
        memcpy(a->folded, model->folded, sizeof(a->folded));
        a->aliases = lr_str_z(aliases);
        code =
            router_registry_check_aliases(&r->registry, lr_str_z(model->id), a->aliases, err);
        router_change_words(&values, "aliases", model->aliases, aliases);
    }
    router_unlock(r);
    struct router_action action = {"model.change", a->id, "aliases", .change = &values};
    return code == LR_OK ? router_act(req, &action, save_aliases, renamed, a, err) : code;
}

lr_code router_api_copy(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    struct lr_str source = {0}, name = {0};
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK && (!lr_json_str(lr_json_get(body, "source"), &source) ||
                          !lr_json_str(lr_json_get(body, "destination"), &name)))
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "say \"source\" and \"destination\", both names of models");
    return code == LR_OK ? give_name(r, req, source, name, err) : code;
}

/* Of a Modelfile its line FROM; PARAMETER, SYSTEM and others would be kept with the model. */
static lr_code read_modelfile(struct lr_str text, struct lr_str *from, struct lr_error *err)
{
    struct lr_str line, word;
    while (lr_str_split(&text, '\n', &line)) {
        line = lr_str_trim(line);
        struct lr_str rest = line;
        if (line.len == 0 || line.ptr[0] == '#' || !lr_str_split(&rest, ' ', &word))
            continue;
        if (!lr_str_eq_nocase(word, LR_STR_LIT("from")))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "a model has no \"" LR_STR_FMT
                           "\" of its own here: send it with each "
                           "request; FROM gives a model a further name",
                           LR_STR_ARG(lr_str_sub(word, 0, 40)));
        *from = lr_str_trim(rest);
    }
    return LR_OK;
}

lr_code router_api_create(struct router *r, struct net_request *req, struct lr_error *err)
{
    static const char *const kept[] = {"system",   "parameters", "messages",
                                       "template", "license",    "adapters",
                                       "files",    "quantize",   "quantization"};
    const struct lr_json *body;
    struct lr_str name, from = {0}, text = {0};
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK)
        code = router_named_model(body, &name, err);
    for (size_t i = 0; code == LR_OK && i < sizeof(kept) / sizeof(kept[0]); i++)
        if (lr_json_get(body, kept[i]) != NULL &&
            lr_json_get(body, kept[i])->type != LR_JSON_NULL)
            code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "a model has no \"%s\" of its own here: send it with each request; "
                           "\"from\" gives a model a further name",
                           kept[i]);
    if (code == LR_OK && lr_json_str(lr_json_get(body, "modelfile"), &text))
        code = read_modelfile(text, &from, err);
    if (code == LR_OK && !lr_json_str(lr_json_get(body, "from"), &from) && from.len == 0)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "say \"from\": the model that gets this name");
    return code == LR_OK ? give_name(r, req, from, name, err) : code;
}
