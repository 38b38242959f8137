/* hub/supported.c - reading supported_models.json, and the built-in list. */
#include "hub/supported.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "hub/fields.h"
#include "hub/manifest.h"
#include "hub/reference.h"

enum { SUPPORTED_ARENA_MAX = 64 << 20 };

/* These models have their artifacts in the usual places of their own repositories, so none is
 * listed; the entries are for the catalogue. */
static const char builtin[] =
    "[{\"repo\":\"openai/gpt-oss-20b\",\"name\":\"gpt-oss 20b\",\"format\":\"safetensors\","
    "\"runtime\":\"gptoss\",\"size_bytes\":13761316904,"
    "\"description\":\"OpenAI's open-weight mixture of experts, 21 B parameters, MXFP4\"},"
    "{\"repo\":\"openai/gpt-oss-120b\",\"name\":\"gpt-oss 120b\",\"format\":\"safetensors\","
    "\"runtime\":\"gptoss\",\"size_bytes\":65248893184,"
    "\"description\":\"OpenAI's open-weight mixture of experts, 117 B parameters, MXFP4\"}]";

static lr_code read_artifact(struct hub_fields *f, const struct hub_known_model *model,
                             struct hub_known_artifact *out)
{
    memset(out, 0, sizeof(*out));
    out->repo = model->repo;
    out->revision = "";
    out->priority = 5;
    lr_code code = hub_field_text(f, "name", true, 512, &out->name);
    out->path = out->name;
    if (code == LR_OK)
        code = hub_field_text(f, "path", false, 512, &out->path);
    if (code == LR_OK)
        code = hub_field_text(f, "repo", false, HUB_REPO_MAX - 1, &out->repo);
    if (code == LR_OK)
        code = hub_field_text(f, "revision", false, HUB_REVISION_MAX - 1, &out->revision);
    if (code == LR_OK)
        code = hub_field_sha256(f, "sha256", &out->sha256);
    if (code == LR_OK)
        code = hub_field_names(f, "runtimes", &out->runtimes);
    if (code == LR_OK)
        code = hub_field_names(f, "backends", &out->backends);
    if (code == LR_OK)
        code = hub_field_int(f, "priority", -1000, 1000, &out->priority);
    if (code == LR_OK && !hub_repo_valid(lr_str_z(out->repo)))
        code = hub_field_fail(f, "repo", "\"org/name\"");
    if (code == LR_OK && !lr_path_safe(lr_str_z(out->name)))
        code = hub_field_fail(f, "name", "a relative path");
    if (code == LR_OK && !lr_path_safe(lr_str_z(out->path)))
        code = hub_field_fail(f, "path", "a relative path");
    return code;
}

static lr_code read_model(struct hub_fields *f, size_t index, struct hub_known_model *out)
{
    const struct lr_json *list = lr_json_get(f->object, "artifacts");
    char where[64];
    out->entry = f->object;
    lr_code code = hub_field_text(f, "repo", true, HUB_REPO_MAX - 1, &out->repo);
    if (code != LR_OK)
        return code;
    if (!hub_repo_valid(lr_str_z(out->repo)))
        return hub_field_fail(f, "repo", "\"org/name\"");
    if (list == NULL)
        return LR_OK;
    if (list->type != LR_JSON_ARRAY)
        return hub_field_fail(f, "artifacts", "a list");
    out->artifacts = lr_arena_array(f->arena, list->count + 1u, sizeof(*out->artifacts));
    if (out->artifacts == NULL)
        return lr_fail(f->err, LR_OUT_OF_RAM, "no memory for supported_models.json");
    for (size_t i = 0; i < list->count && code == LR_OK; i++) {
        struct hub_fields item = *f;
        (void)snprintf(where, sizeof(where), "[%zu].artifacts[%zu].", index, i);
        item.object = &list->items[i];
        item.where = where;
        code = read_artifact(&item, out, &out->artifacts[out->artifact_count++]);
    }
    return code;
}

static lr_code supported_read_all(struct hub_supported *s, struct lr_str json,
                                  struct lr_error *err)
{
    const struct lr_json_limits limits = {.max_bytes = HUB_SUPPORTED_BYTES_MAX};
    const struct lr_json *list;
    char *copy = lr_arena_copy(&s->arena, json); /* the tree points into this copy */
    if (copy == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for supported_models.json");
    lr_code code = lr_json_parse(&s->arena, lr_str(copy, json.len), &limits, &list, err);
    if (code != LR_OK)
        return code;
    if (list->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_INVALID_ARGUMENT, "a list of models is expected");
    s->models = lr_arena_zalloc(&s->arena, (list->count + 1u) * sizeof(*s->models));
    if (s->models == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for supported_models.json");
    for (size_t i = 0; i < list->count && code == LR_OK; i++) {
        char where[32];
        (void)snprintf(where, sizeof(where), "[%zu].", i);
        struct hub_fields f = {&s->arena, &list->items[i], where, err};
        code = read_model(&f, i, &s->models[s->model_count++]);
    }
    return code;
}

lr_code hub_supported_parse(struct lr_str json, struct hub_supported **out,
                            struct lr_error *err)
{
    *out = NULL;
    struct hub_supported *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for supported_models.json");
    lr_arena_init(&s->arena, SUPPORTED_ARENA_MAX);
    struct lr_error why;
    lr_code code = supported_read_all(s, json.ptr != NULL ? json : lr_str_z(builtin), &why);
    if (code != LR_OK) {
        hub_supported_destroy(s);
        return lr_fail(err, code, "supported_models.json: %s", why.text);
    }
    *out = s;
    return LR_OK;
}

void hub_supported_destroy(struct hub_supported *supported)
{
    if (supported == NULL)
        return;
    lr_arena_free(&supported->arena);
    free(supported);
}

const struct hub_known_model *hub_supported_find(const struct hub_supported *supported,
                                                 struct lr_str repo)
{
    for (size_t i = 0; supported != NULL && i < supported->model_count; i++) {
        if (lr_str_eq_nocase(lr_str_z(supported->models[i].repo), repo))
            return &supported->models[i];
    }
    return NULL;
}
