/* native/spec/open.c - see open.h. */
#include "engines/native/spec/open.h"

#include <stdlib.h>
#include <string.h>

#include "engines/native/spec/build.h"
#include "model/fields.h"
#include "model/map.h"

enum {
    SPEC_ARENA_MAX = 1 << 30, /* small tensors as float32, names and operations */
};

static bool is_listed(const char *const *list, struct lr_str text)
{
    for (; *list != NULL; list++)
        if (lr_str_eq_z(text, *list))
            return true;
    return false;
}

lr_code native_arch_find(const struct lr_json *config, const struct native_arch **out,
                         struct lr_error *err)
{
    const struct lr_json *list = lr_json_get(config, "architectures");
    struct lr_str type = LR_STR_LIT(""), name = LR_STR_LIT("");

    *out = NULL;
    (void)lr_json_str(lr_json_get(config, "model_type"), &type);
    if (lr_json_is(list, LR_JSON_ARRAY) && list->count > 0)
        (void)lr_json_str(&list->items[0], &name);
    for (size_t i = 0; native_archs[i] != NULL; i++)
        if (name.len > 0 ? is_listed(native_archs[i]->architectures, name)
                         : is_listed(native_archs[i]->model_types, type)) {
            *out = native_archs[i];
            return LR_OK;
        }
    return lr_fail(err, LR_UNSUPPORTED,
                   "config.json: the architecture \"%.*s\" (model_type \"%.*s\") is not among "
                   "those of this engine (docs/models.md)",
                   MODEL_QUOTE(name), MODEL_QUOTE(type));
}

void native_spec_free(struct native_spec *spec)
{
    for (uint32_t i = 0; i < NATIVE_DENSE_MAX; i++)
        model_weights_close(spec->dense[i]);
    lr_arena_free(&spec->arena);
    *spec = (struct native_spec){0};
}

static bool has_classifier(const struct lr_json *config)
{
    const struct lr_json *list = lr_json_get(config, "architectures");
    struct lr_str name = LR_STR_LIT("");

    if (lr_json_is(list, LR_JSON_ARRAY) && list->count > 0)
        (void)lr_json_str(&list->items[0], &name);
    return lr_str_ends(name, "ForSequenceClassification");
}

static void build(struct native_builder *b, const struct lr_json *config, const char *dir,
                  const struct native_arch *arch)
{
    void *values = native_build_alloc(b, 1, arch->config_bytes);

    if (values == NULL)
        return;
    b->code = native_quant_open(config, dir, &b->spec->arena, &b->quant, b->err);
    if (b->code == LR_OK)
        b->code = native_vectors_read(dir, b->spec, &b->vectors, b->err);
    if (b->code != LR_OK)
        return;
    b->classifies = has_classifier(config);
    if (!b->classifies && !native_gives_vectors(b))
        b->code = native_asks_read(dir, config, &b->vectors, b->err);
    if (b->code != LR_OK)
        return;
    b->spec->format = b->quant.format != NULL ? b->quant.format->method : NULL;
    memset(values, 0, arch->config_bytes);
    b->code = native_config_read(config, arch->fields, &b->spec->arena, values, b->err);
    if (b->code == LR_OK)
        arch->build(b, values);
    if (b->classifies && !b->spec->ranks)
        native_refuse(b, "config.json: the family %s ranks no texts in this engine",
                      arch->family);
    if (native_gives_vectors(b) && b->spec->pool == NATIVE_NO_POOL)
        native_refuse(b, "modules.json: the family %s gives no vectors in this engine",
                      arch->family);
    native_build_finish(b);
    if (b->code == LR_OK)
        native_build_check_tensors(b, arch);
}

lr_code native_spec_build(const struct lr_json *config, const char *dir,
                          const struct model_weights *weights, const struct native_arch *arch,
                          struct native_spec *out, struct lr_error *err)
{
    struct native_builder *b = calloc(1, sizeof(*b));
    lr_code code = LR_OUT_OF_RAM;

    *out = (struct native_spec){.family = arch->family};
    lr_arena_init(&out->arena, SPEC_ARENA_MAX);
    if (b != NULL) {
        b->spec = out;
        b->weights = weights;
        b->err = err;
        b->used = calloc(model_weights_count(weights) + 1, sizeof(*b->used));
        if (b->used != NULL)
            build(b, config, dir, arch);
        code = b->used != NULL ? b->code : LR_OUT_OF_RAM;
        free(b->used);
    }
    free(b);
    if (code == LR_OUT_OF_RAM && err != NULL && err->code == LR_OK)
        (void)lr_fail(err, LR_OUT_OF_RAM, "no memory for the description of the model");
    if (code != LR_OK) {
        native_spec_free(out);
        (void)lr_fail_prefix(err, "%s", dir);
    }
    return code;
}

static void add_stops(struct native_model *m, const struct lr_json *eos)
{
    uint32_t count = lr_json_is(eos, LR_JSON_ARRAY) ? eos->count : eos != NULL;
    uint64_t id;

    for (uint32_t i = 0; i < count && m->stop_count < sizeof(m->stops) / sizeof(m->stops[0]);
         i++)
        if (lr_json_u64(lr_json_is(eos, LR_JSON_ARRAY) ? &eos->items[i] : eos, &id) &&
            id <= UINT32_MAX)
            m->stops[m->stop_count++] = (uint32_t)id;
}

/* Of generation_config.json, else of config.json, else of its text_config. */
static lr_code read_stops(struct native_model *m, const char *dir, const struct lr_json *config,
                          struct lr_error *err)
{
    const char *const key = "eos_token_id";
    struct model_generation generation;

    lr_code code = model_generation_read(dir, &generation, err);
    for (uint32_t i = 0; code == LR_OK && i < generation.tokens.eos_count; i++)
        m->stops[m->stop_count++] = generation.tokens.eos[i];
    if (m->stop_count == 0)
        add_stops(m, lr_json_get(config, key));
    if (m->stop_count == 0)
        add_stops(m, lr_json_get(lr_json_get(config, "text_config"), key));
    return code;
}

static lr_code open_parts(struct native_model *m, const char *dir, struct lr_arena *arena,
                          struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct model_fields config;
    struct lr_str text;

    lr_code code = model_path(path, dir, LR_STR_LIT("config.json"), err);
    if (code == LR_OK)
        code = model_read_text(arena, path, MODEL_CONFIG_BYTES_MAX, &text, err);
    if (code == LR_OK)
        code = model_fields_parse(arena, text, "config.json", &config, err);
    if (code == LR_OK)
        code = native_arch_find(config.object, &m->arch, err);
    if (code == LR_OK)
        code = model_weights_open(dir, &m->weights, err);
    if (code == LR_OK)
        code = native_spec_build(config.object, dir, m->weights, m->arch, &m->spec, err);
    if (code == LR_OK)
        code = read_stops(m, dir, config.object, err);
    return code;
}

lr_code native_model_open(const char *dir, struct native_model **out, struct lr_error *err)
{
    struct native_model *m = calloc(1, sizeof(*m));
    struct lr_arena arena;

    *out = NULL;
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the model");
    lr_arena_init(&arena, 2 * (size_t)MODEL_CONFIG_ARENA_MAX);
    lr_code code = open_parts(m, dir, &arena, err);
    lr_arena_free(&arena);
    if (code != LR_OK) {
        native_model_close(m);
        return code;
    }
    *out = m;
    return LR_OK;
}

void native_model_close(struct native_model *m)
{
    if (m == NULL)
        return;
    native_spec_free(&m->spec);
    model_weights_close(m->weights);
    free(m);
}
