#include "router/fleet/registry.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "chat/codec.h"
#include "router/store/clock.h"

enum { ID_BYTES_MAX = 200 };

void router_registry_init(struct router_registry *registry)
{
    *registry = (struct router_registry){.version = 1};
    lr_strmap_init(&registry->models);
    lr_strmap_init(&registry->aliases);
}

void router_registry_free(struct router_registry *registry)
{
    struct router_model *model;
    for (size_t i = 0; (model = router_registry_at(registry, i)) != NULL; i++)
        router_model_unref(model);
    lr_strmap_free(&registry->models);
    lr_strmap_free(&registry->aliases);
}

lr_code router_check_model_id(struct lr_str id, struct lr_error *err)
{
    size_t slash = lr_str_find_char(id, '/');
    struct lr_str org = lr_str_sub(id, 0, slash),
                  name = slash != LR_STR_NONE ? lr_str_sub(id, slash + 1, id.len) : org;
    if (id.len > ID_BYTES_MAX || org.len == 0 || name.len == 0 || org.ptr[0] == '.' ||
        name.ptr[0] == '.' || lr_str_find(id, LR_STR_LIT("..")) != LR_STR_NONE ||
        !lr_str_is_plain(org, "-_.:") || !lr_str_is_plain(name, "-_.:"))
        return lr_fail_as(err, model_id, ID_BYTES_MAX);
    return LR_OK;
}

static char *copy_of(struct lr_str text)
{
    return strndup(text.ptr != NULL ? text.ptr : "", text.len);
}

static struct router_model *new_model(const struct router_new_model *m)
{
    struct router_model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return NULL;
    model->refs = 1;
    model->created_ms = m->created_ms;
    model->generation = m->generation;
    LR_COPY(model->id, m->id);
    (void)router_fold(m->id, model->folded);
    LR_COPY(model->source, m->source);
    LR_COPY(model->format, m->format);
    model->manifest = copy_of(m->manifest);
    if (m->manifest.len != 0) {
        unsigned char digest[LR_SHA256_LEN];
        lr_sha256_of(m->manifest, digest);
        lr_sha256_hex(digest, model->manifest_sha256);
    }
    model->chat_template = copy_of(m->chat_template);
    LR_COPY(model->dialect, m->dialect);
    model->path = copy_of(m->path);
    model->aliases = copy_of(m->aliases);
    if (model->manifest == NULL || model->chat_template == NULL || model->path == NULL ||
        model->aliases == NULL) {
        router_model_unref(model);
        return NULL;
    }
    return model;
}

lr_code router_fail_taken(struct lr_str id, struct lr_error *err)
{
    return lr_fail_as(err, model_registered, id);
}

lr_code router_registry_add(struct router_registry *registry, const struct router_new_model *m,
                            struct router_model **out, struct lr_error *err)
{
    *out = NULL;
    lr_code code = router_check_model_id(m->id, err);
    if (code != LR_OK)
        return code;
    if (router_registry_resolve(registry, m->id) != NULL)
        return router_fail_taken(m->id, err);
    code = router_registry_check_aliases(registry, m->id, m->aliases, err);
    if (code != LR_OK)
        return code;
    struct router_model *model = new_model(m);
    bool is_added = model != NULL && router_registry_put(registry, model);
    router_model_unref(model); /* the registry has its own */
    *out = is_added ? model : NULL;
    return is_added ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for a model");
}

bool router_registry_put(struct router_registry *registry, struct router_model *model)
{
    if (!lr_strmap_put(&registry->models, lr_str_z(model->folded), model, NULL))
        return false;
    (void)router_model_ref(model);
    registry->version++;
    return model->aliases[0] == '\0' ||
           router_registry_set_aliases(registry, model, lr_str_z(model->aliases));
}

/* ---- aliases ---- */

bool router_alias_next(struct lr_str *aliases, struct lr_str *out)
{
    return aliases->len != 0 && lr_str_split(aliases, ' ', out);
}

lr_code router_registry_check_aliases(const struct router_registry *registry, struct lr_str own,
                                      struct lr_str aliases, struct lr_error *err)
{
    const struct router_model *self = router_registry_find(registry, own);
    struct lr_str name;
    while (router_alias_next(&aliases, &name)) {
        const struct router_model *other = router_registry_resolve(registry, name);
        if (lr_str_eq_nocase(name, own))
            return lr_fail_as(err, alias_is_id, name);
        if (other != NULL && other != self)
            return lr_fail_as(err, alias_taken, name, other->id);
    }
    return LR_OK;
}

static void drop_aliases(struct router_registry *registry, const struct router_model *model)
{
    struct lr_str rest = lr_str_z(model->aliases), name;
    char folded[ROUTER_ID_MAX];
    while (router_alias_next(&rest, &name))
        if (lr_strmap_get(&registry->aliases, router_fold(name, folded)) == model)
            (void)lr_strmap_remove(&registry->aliases, router_fold(name, folded));
}

bool router_registry_set_aliases(struct router_registry *registry, struct router_model *model,
                                 struct lr_str aliases)
{
    char *copy = copy_of(aliases), folded[ROUTER_ID_MAX];
    struct lr_str rest = copy != NULL ? lr_str_z(copy) : lr_str(NULL, 0), name;
    bool ok = copy != NULL;
    if (!ok)
        return false;
    drop_aliases(registry, model);
    free(model->aliases);
    model->aliases = copy;
    while (ok && router_alias_next(&rest, &name))
        if (router_registry_resolve(registry, name) == NULL)
            ok = lr_strmap_put(&registry->aliases, router_fold(name, folded), model, NULL);
    return ok;
}

struct router_model *router_registry_resolve(const struct router_registry *registry,
                                             struct lr_str name)
{
    char folded[ROUTER_ID_MAX];
    struct lr_str plain;
    struct router_model *model = router_registry_find(registry, name);
    if (model == NULL && name.len < ROUTER_ID_MAX)
        model = lr_strmap_get(&registry->aliases, router_fold(name, folded));
    return model == NULL && chat_model_plain(name, &plain)
               ? router_registry_resolve(registry, plain)
               : model;
}

struct router_model *router_registry_at(const struct router_registry *registry, size_t index)
{
    struct lr_str key;
    void *value;
    return lr_strmap_at(&registry->models, index, &key, &value) ? value : NULL;
}

struct router_model *router_registry_find(const struct router_registry *registry,
                                          struct lr_str id)
{
    char folded[ROUTER_ID_MAX];
    if (id.len >= ROUTER_ID_MAX)
        return NULL;
    return lr_strmap_get(&registry->models, router_fold(id, folded));
}

void router_registry_remove(struct router_registry *registry, struct router_model *model)
{
    if (lr_strmap_remove(&registry->models, lr_str_z(model->folded)) == NULL)
        return;
    drop_aliases(registry, model);
    model->is_deleted = true;
    registry->version++;
    router_model_unref(model);
}

struct router_prompt_info *router_model_info(struct router_model *model,
                                             struct router_prompt_infos *infos,
                                             struct router_prompt_info *reported)
{
    bool is_own = model->chat_template[0] != '\0' || model->dialect[0] != '\0';
    if (!is_own || reported == NULL)
        return reported;
    if (model->own_info != NULL && model->own_basis == reported)
        return model->own_info;
    struct lr_str own_template = lr_str_z(model->chat_template);
    struct wire_fleet_model report = {
        .chat_template = own_template.len != 0 ? own_template : reported->source,
        .bos_token = reported->chat.bos_token,
        .eos_token = reported->chat.eos_token,
        .unk_token = reported->chat.unk_token,
        .pad_token = reported->chat.pad_token,
        .sampling = reported->chat.sampling,
        .dialect =
            reported->chat.lacks_template ? LR_STR_LIT(WIRE_DIALECT_NONE) : (struct lr_str){0},
    };
    struct router_prompt_info *info;
    if (router_prompt_info_get(infos, &report, lr_str_z(model->dialect), &info, NULL) != LR_OK)
        return NULL;
    /* Kept until the router ends or another node's tokens take its place. */
    router_prompt_info_unref(infos, model->own_info);
    model->own_info = info;
    model->own_basis = reported;
    return info;
}

struct router_model *router_model_ref(struct router_model *model)
{
    model->refs++;
    return model;
}

void router_model_unref(struct router_model *model)
{
    if (model == NULL || --model->refs != 0)
        return;
    free(model->manifest);
    free(model->chat_template);
    free(model->path);
    free(model->aliases);
    router_schedule_free(&model->schedule);
    free(model);
}

/* ---- the database ---- */

/* At least the time, so that a database that was restored from a backup does not give out
 * numbers again that it gave out before. */
static lr_code next_generation(struct router_sql *sql, int64_t *out, struct lr_error *err)
{
    *out = 0;
    lr_code code = ROUTER_SQL(sql,
                              "UPDATE counters SET value = CASE WHEN value < $1 THEN $1 ELSE "
                              "value + 1 END WHERE name = 'generation'",
                              NULL, NULL, err, ROUTER_INT(lr_clock_wall_ms(&router_clock)));
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT value FROM counters WHERE name = 'generation'", NULL,
                              0, router_row_number, out, err);
    return code;
}

lr_code router_model_insert(struct router_sql *sql, const struct router_model *model,
                            int64_t *generation, struct lr_error *err)
{
    lr_code code = next_generation(sql, generation, err);
    if (code != LR_OK)
        return code;
    code = ROUTER_SQL(
        sql,
        "INSERT INTO models (folded_id, id, source, format, manifest, chat_template, "
        "created_ms, path, generation, dialect) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, "
        "$10)",
        NULL, NULL, err, ROUTER_Z(model->folded), ROUTER_Z(model->id), ROUTER_Z(model->source),
        ROUTER_Z(model->format), ROUTER_Z(model->manifest), ROUTER_Z(model->chat_template),
        ROUTER_INT(model->created_ms), ROUTER_Z(model->path), ROUTER_INT(*generation),
        ROUTER_Z(model->dialect));
    return code == LR_OK && model->aliases[0] != '\0'
               ? router_aliases_save(sql, model->folded, lr_str_z(model->aliases), err)
               : code;
}

/* The primary key of the table refuses an alias that another router has just stored. */
lr_code router_aliases_save(struct router_sql *sql, const char *folded, struct lr_str aliases,
                            struct lr_error *err)
{
    struct lr_str name;
    char key[ROUTER_ID_MAX];
    lr_code code = ROUTER_SQL(sql, "DELETE FROM aliases WHERE model = $1", NULL, NULL, err,
                              ROUTER_Z(folded));
    while (code == LR_OK && router_alias_next(&aliases, &name)) {
        code = ROUTER_SQL(sql,
                          "INSERT INTO aliases (folded_name, name, model) VALUES ($1, $2, $3)",
                          NULL, NULL, err, ROUTER_TEXT(router_fold(name, key)),
                          ROUTER_TEXT(name), ROUTER_Z(folded));
        if (code == LR_CONFLICT)
            (void)lr_fail(err, code, "\"" LR_STR_FMT "\" is an alias of another model",
                          LR_STR_ARG(lr_str_sub(name, 0, 200)));
    }
    return code;
}

lr_code router_model_delete(struct router_sql *sql, const char *folded, struct lr_error *err)
{
    lr_code code = router_aliases_save(sql, folded, lr_str(NULL, 0), err);
    return code == LR_OK ? ROUTER_SQL(sql, "DELETE FROM models WHERE folded_id = $1", NULL,
                                      NULL, err, ROUTER_Z(folded))
                         : code;
}

static lr_code registry_load_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_registry *registry = ctx;
    struct router_model *model;
    struct router_new_model m = {
        .id = router_row_text(row, 0),
        .source = router_row_text(row, 1),
        .format = router_row_text(row, 2),
        .manifest = router_row_text(row, 3),
        .chat_template = router_row_text(row, 4),
        .created_ms = router_row_int(row, 5),
        .path = router_row_text(row, 6),
        .generation = router_row_int(row, 7),
        .dialect = router_row_text(row, 8),
    };
    lr_code code = LR_OK;
    model = router_registry_find(registry, m.id);
    if (model == NULL)
        code = router_registry_add(registry, &m, &model, err);
    if (code == LR_OK)
        model->is_stored = true;
    return code;
}

static lr_code load_alias(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_registry *registry = ctx;
    struct router_model *model = router_registry_find(registry, router_row_text(row, 1));
    struct lr_buf all;
    if (model == NULL)
        return LR_OK; /* deleted by a release that knew no aliases */
    lr_buf_init(&all, 1 << 20);
    lr_buf_addf(&all, "%s%s" LR_STR_FMT, model->aliases, model->aliases[0] != '\0' ? " " : "",
                LR_STR_ARG(router_row_text(row, 0)));
    bool ok = !all.failed && router_registry_set_aliases(registry, model, lr_buf_str(&all));
    lr_buf_free(&all);
    return ok ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for an alias");
}

lr_code router_registry_load(struct router_registry *registry, struct router_sql *sql,
                             struct lr_error *err)
{
    lr_code code = router_sql_run(
        sql,
        "SELECT id, source, format, manifest, chat_template, created_ms, path, generation, "
        "dialect FROM models ORDER BY created_ms",
        NULL, 0, registry_load_row, registry, err);
    return code == LR_OK
               ? router_sql_run(sql, "SELECT name, model FROM aliases ORDER BY folded_name",
                                NULL, 0, load_alias, registry, err)
               : code;
}
