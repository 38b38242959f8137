/* native/spec/config.c - see config.h. */
#include "engines/native/spec/config.h"

#include <string.h>

#include "base/fail.h"
#include "model/fields.h"
#include "model/map.h"

/* The fields' object, then that around it. */
struct reading {
    struct model_fields inner, outer;
    struct lr_arena *arena;
};

static lr_code failed(struct reading *r)
{
    if (r->inner.code == LR_OK)
        r->inner.code = r->outer.code;
    return r->inner.code;
}

/* The next of the names that '|' separates; false: there is none. */
static bool next_name(const char **names, char out[MODEL_NAME_MAX])
{
    size_t n = strcspn(*names, "|");

    if (n == 0 || n >= MODEL_NAME_MAX)
        return false;
    memcpy(out, *names, n);
    out[n] = '\0';
    *names += n + ((*names)[n] == '|');
    return true;
}

/* The object that has one of the names, and that name; else the inner object and the first. */
static struct model_fields *find(struct reading *r, const char *names,
                                 char name[MODEL_NAME_MAX])
{
    struct model_fields *places[] = {&r->inner, &r->outer};

    for (size_t i = 0; i < 2; i++) {
        const char *rest = names;
        while (places[i]->object != NULL && next_name(&rest, name))
            if (model_field(places[i], name) != NULL)
                return places[i];
    }
    (void)next_name(&names, name);
    return &r->inner;
}

static bool is_required(const struct native_field *field)
{
    return field->otherwise <= NATIVE_REQUIRED;
}

static void read_count(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    uint32_t value = is_required(field) ? 0 : (uint32_t)field->otherwise;

    if (is_required(field) || model_field(f, name) != NULL)
        model_field_u32(f, name, (uint32_t)field->least, (uint32_t)field->most, &value);
    memcpy(out, &value, sizeof(value));
}

/* The member is there and null. */
static bool is_null(struct reading *r, const struct native_field *field)
{
    char name[MODEL_NAME_MAX];
    const struct model_fields *f = find(r, field->name, name);

    return model_field(f, name) == NULL && lr_json_get(f->object, name) != NULL;
}

/* A list that repeats one count is that count. */
static bool repeats(const struct lr_json *list)
{
    double first, other;

    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count == 0 ||
        !lr_json_double(&list->items[0], &first))
        return false;
    for (uint32_t i = 1; i < list->count; i++)
        if (!lr_json_double(&list->items[i], &other) || other != first)
            return false;
    return true;
}

static void read_pattern(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    const struct lr_json *value = model_field(f, name);

    if (repeats(value)) {
        const struct lr_json_member member = {lr_str_z(name), value->items[0]};
        const struct lr_json object = {.type = LR_JSON_OBJECT, .count = 1, .members = &member};
        struct reading one = {.inner = {.object = &object, .file = f->file, .err = f->err}};
        read_count(&one, field, out);
        f->code = one.inner.code;
        return;
    }
    if (!lr_json_is(value, LR_JSON_STRING) || value->text.len > field->most) {
        read_count(r, field, out);
        return;
    }
    uint32_t letters = (uint32_t)value->text.len;
    memcpy(out, &letters, sizeof(letters));
}

static void read_number(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    double value = is_required(field) ? 0 : field->otherwise;

    model_field_number(f, name, field->least, field->most, is_required(field), &value);
    memcpy(out, &value, sizeof(value));
}

static void read_flag(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    bool value = field->otherwise != 0;

    model_field_bool(f, name, &value);
    memcpy(out, &value, sizeof(value));
}

/* Index of the text in words; refuses by name what is not there. */
static uint32_t word_of(struct model_fields *f, const char *name, const struct lr_json *value,
                        const char *words)
{
    const char *rest = words;
    char word[MODEL_NAME_MAX];
    struct lr_str text = LR_STR_LIT("");
    bool is_text = lr_json_str(value, &text);

    for (uint32_t i = 0; is_text && next_name(&rest, word); i++)
        if (lr_str_eq_z(text, word))
            return i;
    if (f->code == LR_OK)
        f->code = is_text
                      ? lr_fail(f->err, LR_UNSUPPORTED,
                                "%s: \"%s\" is \"%.*s\"; this engine supports %s", f->file,
                                name, MODEL_QUOTE(text), words)
                      : lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %s, expected a string",
                                f->file, name, lr_json_type_name(value->type));
    return 0;
}

static void read_word(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    const struct lr_json *value = model_field(f, name);
    uint32_t word = value != NULL ? word_of(f, name, value, field->words) : 0;

    memcpy(out, &word, sizeof(word));
}

static void read_kind(struct reading *r, const struct native_field *field, char *out)
{
    char name[MODEL_NAME_MAX], word[MODEL_NAME_MAX];
    const struct model_fields *f = find(r, field->name, name);
    const char *rest = field->words;
    struct lr_str text = LR_STR_LIT("");
    uint32_t kind = 0;

    (void)lr_json_str(model_field(f, name), &text);
    for (uint32_t i = 0; next_name(&rest, word); i++)
        if (lr_str_eq_z(text, word))
            kind = i;
    memcpy(out, &kind, sizeof(kind));
}

static void read_letters(struct model_fields *f, const char *name, struct lr_str text,
                         const char *words, struct native_list *list)
{
    for (size_t i = 0; i < text.len && f->code == LR_OK; i++) {
        const struct lr_json letter = {.type = LR_JSON_STRING, .text = lr_str(text.ptr + i, 1)};
        if (list->count == MODEL_LAYERS_MAX)
            f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" has more than %d letters",
                              f->file, name, MODEL_LAYERS_MAX);
        else
            list->at[list->count++] = word_of(f, name, &letter, words);
    }
}

static void read_list(struct reading *r, const struct native_field *field, char *out)
{
    struct native_list *list = (struct native_list *)(void *)out;
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    const struct lr_json *value = model_field(f, name);

    list->count = 0;
    if (value == NULL || f->code != LR_OK)
        return;
    if (field->kind == NATIVE_FIELD_LETTERS && value->type == LR_JSON_STRING) {
        read_letters(f, name, value->text, field->words, list);
        return;
    }
    if (value->type != LR_JSON_ARRAY || value->count > MODEL_LAYERS_MAX) {
        f->code =
            lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is no list of at most %d values",
                    f->file, name, MODEL_LAYERS_MAX);
        return;
    }
    for (uint32_t i = 0; i < value->count && f->code == LR_OK; i++) {
        const struct lr_json *item = &value->items[i];
        bool flag;
        if (field->kind != NATIVE_FIELD_LIST)
            list->at[i] = word_of(f, name, item, field->words);
        else if (lr_json_bool(item, &flag))
            list->at[i] = flag;
        else if (!lr_json_double(item, &list->at[i]) || list->at[i] < field->least ||
                 list->at[i] > field->most)
            f->code =
                lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\"[%u] is no number from %g to %g",
                        f->file, name, i, field->least, field->most);
    }
    list->count = value->count;
}

static void check_only(struct reading *r, const struct native_field *field)
{
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(r, field->name, name);
    const struct lr_json *value = model_field(f, name);
    bool flag = field->otherwise != 0;
    double number = field->otherwise;

    if (value == NULL)
        return;
    if (field->kind == NATIVE_FIELD_ONLY) {
        (void)word_of(f, name, value, field->words);
        return;
    }
    if (field->kind == NATIVE_FIELD_ONLY_FLAG) {
        model_field_bool(f, name, &flag);
        if (f->code == LR_OK && flag != (field->otherwise != 0))
            f->code =
                lr_fail(f->err, LR_UNSUPPORTED, "%s: \"%s\" is %s; this engine supports %s",
                        f->file, name, flag ? "true" : "false", flag ? "false" : "true");
        return;
    }
    model_field_number(f, name, -1e30, 1e30, false, &number);
    if (f->code == LR_OK && number != field->otherwise)
        f->code = lr_fail(f->err, LR_UNSUPPORTED, "%s: \"%s\" is %g; this engine supports %g",
                          f->file, name, number, field->otherwise);
}

/* ---- rope ---- */

static struct native_list *read_factors(struct reading *r, const char *name)
{
    const struct native_field field = {NATIVE_FIELD_LIST, name, 0, 1e-6, 1e6, 0, NULL};
    struct native_list *list = lr_arena_zalloc(r->arena, sizeof(*list));

    if (list == NULL && r->inner.code == LR_OK)
        r->inner.code = lr_fail(r->inner.err, LR_OUT_OF_RAM, "no memory for a list of factors");
    if (list != NULL)
        read_list(r, &field, (char *)list);
    return list;
}

#define ROPE_NUMBER(member, name, least, most, otherwise)                                      \
    read_number(                                                                               \
        r, &(struct native_field){NATIVE_FIELD_NUMBER, name, 0, least, most, otherwise, NULL}, \
        (char *)&rope->member)

/* The members of rope_parameters or rope_scaling; r->outer is the config. */
static void read_scaling(struct reading *r, struct native_rope *rope)
{
    const struct native_field kind = {.name = "rope_type|type",
                                      .words = "default|linear|dynamic|yarn|longrope|llama3|"
                                               "proportional|su|mrope"};
    const struct native_field original = {
        NATIVE_FIELD_COUNT,
        "original_max_position_embeddings|initial_context_length",
        0,
        1,
        1 << 26,
        0,
        NULL};
    struct reading own = {.inner = r->inner, .arena = r->arena};
    uint32_t word = 0;

    read_word(&own, &kind, (char *)&word);
    r->inner.code = failed(&own);
    /* "su" is the older name of longrope, "mrope" means nothing for text alone. */
    rope->kind = word == 7 ? NATIVE_ROPE_LONG : word == 8 ? NATIVE_ROPE_PLAIN : word;
    ROPE_NUMBER(factor, "factor", 1e-3, 65536, 0);
    ROPE_NUMBER(attention, "attention_factor", 1e-3, 1e3, 0);
    ROPE_NUMBER(beta_fast, "beta_fast", 1e-3, 1e6, 32);
    ROPE_NUMBER(beta_slow, "beta_slow", 1e-3, 1e6, 1);
    ROPE_NUMBER(mscale, "mscale", 0, 1e3, 0);
    ROPE_NUMBER(mscale_all, "mscale_all_dim", 0, 1e3, 0);
    ROPE_NUMBER(low, "low_freq_factor", 1e-3, 1e6, 1);
    ROPE_NUMBER(high, "high_freq_factor", 1e-3, 1e6, 4);
    ROPE_NUMBER(alpha, "alpha", 0, 1e6, 0);
    ROPE_NUMBER(query_beta, "llama_4_scaling_beta", 0, 1e3, 0);
    read_count(r, &original, (char *)&rope->original);
    read_flag(r, &(struct native_field){NATIVE_FIELD_FLAG, "truncate", 0, 0, 1, 1, NULL},
              (char *)&rope->truncate);
    if (rope->kind == NATIVE_ROPE_LONG) {
        rope->shorter = read_factors(r, "short_factor");
        rope->longer = read_factors(r, "long_factor");
        ROPE_NUMBER(attention, "short_mscale|attention_factor", 1e-3, 1e3, 0);
        ROPE_NUMBER(attention_longer, "long_mscale|attention_factor", 1e-3, 1e3, 0);
    }
}

static void check_rope(struct model_fields *f, const struct native_rope *rope)
{
    bool scales = rope->kind == NATIVE_ROPE_LINEAR || rope->kind == NATIVE_ROPE_DYNAMIC ||
                  rope->kind == NATIVE_ROPE_LLAMA3 || rope->kind == NATIVE_ROPE_YARN;

    if (f->code != LR_OK)
        return;
    if (scales && !(rope->factor > 0) && rope->kind != NATIVE_ROPE_YARN)
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"factor\" is missing", f->file);
    else if (rope->kind == NATIVE_ROPE_YARN && rope->beta_fast <= rope->beta_slow)
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"beta_fast\" is %g, which is not above \"beta_slow\", %g",
                          f->file, rope->beta_fast, rope->beta_slow);
    else if (rope->kind == NATIVE_ROPE_LLAMA3 && rope->high <= rope->low)
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"high_freq_factor\" is %g, which is not above "
                          "\"low_freq_factor\", %g",
                          f->file, rope->high, rope->low);
}

static void read_rope(struct reading *whole, const struct native_field *field, char *out)
{
    struct native_rope *rope = (struct native_rope *)(void *)out;
    char name[MODEL_NAME_MAX];
    struct model_fields *f = find(whole, "rope_parameters|rope_scaling", name);
    const struct lr_json *scaling = model_field(f, name);

    if (failed(whole) != LR_OK)
        return;
    *rope = (struct native_rope){.theta = 10000, .partial = 1, .truncate = true};
    if (field->words[0] != '\0' && lr_json_get(scaling, field->words) != NULL) {
        scaling = lr_json_get(scaling, field->words);
        rope->own = true;
    } else if (strcmp(field->words, "sliding_attention") == 0) {
        scaling = NULL; /* what is given for all layers is for those that see everything */
    }
    if (scaling != NULL && scaling->type != LR_JSON_OBJECT) {
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %s, expected an object",
                          f->file, name, lr_json_type_name(scaling->type));
        return;
    }
    struct reading inner = {
        .inner = {.object = scaling, .file = "config.json: rope", .err = f->err},
        .outer = whole->inner,
        .arena = whole->arena};
    struct reading *r = &inner;
    if (scaling == NULL)
        r->inner.object = whole->inner.object;
    ROPE_NUMBER(theta, "rope_theta|global_rope_theta|rotary_emb_base", 1.001, 1e12,
                field->otherwise);
    ROPE_NUMBER(partial, "partial_rotary_factor|rotary_pct", 1e-3, 1, field->least);
    const struct native_field context = {
        NATIVE_FIELD_COUNT, "max_position_embeddings", 0, 1, 1 << 26, 2048, NULL};
    read_count(whole, &context, (char *)&rope->context);
    if (scaling != NULL)
        read_scaling(r, rope);
    if (failed(whole) == LR_OK)
        whole->inner.code = failed(r);
    r->inner.code = whole->inner.code;
    check_rope(&r->inner, rope);
    whole->inner.code = r->inner.code;
}

/* ---- the table ---- */

/* `out` is zeros before. */
static void read_field(struct reading *r, const struct native_field *field, char *out)
{
    switch (field->kind) {
    case NATIVE_FIELD_COUNT:
        read_count(r, field, out);
        break;
    case NATIVE_FIELD_OR_NULL:
        if (!is_null(r, field))
            read_count(r, field, out);
        break;
    case NATIVE_FIELD_PATTERN:
        read_pattern(r, field, out);
        break;
    case NATIVE_FIELD_NUMBER:
        read_number(r, field, out);
        break;
    case NATIVE_FIELD_NUMBER_OR_NULL:
        if (!is_null(r, field))
            read_number(r, field, out);
        break;
    case NATIVE_FIELD_FLAG:
        read_flag(r, field, out);
        break;
    case NATIVE_FIELD_WORD:
        read_word(r, field, out);
        break;
    case NATIVE_FIELD_KIND:
        read_kind(r, field, out);
        break;
    case NATIVE_FIELD_LIST:
    case NATIVE_FIELD_WORDS:
    case NATIVE_FIELD_LETTERS:
        read_list(r, field, out);
        break;
    case NATIVE_FIELD_ROPE:
        read_rope(r, field, out);
        break;
    case NATIVE_FIELD_ONLY:
    case NATIVE_FIELD_ONLY_FLAG:
    case NATIVE_FIELD_ONLY_COUNT:
        check_only(r, field);
        break;
    }
}

lr_code native_config_read(const struct lr_json *config, const struct native_field *fields,
                           struct lr_arena *arena, void *out, struct lr_error *err)
{
    const struct lr_json *text = lr_json_get(config, "text_config");
    bool wrapped = lr_json_is(text, LR_JSON_OBJECT);
    struct reading r = {
        .inner = {.object = wrapped ? text : config,
                  .file = wrapped ? "config.json: text_config" : "config.json",
                  .err = err},
        .outer = {.object = wrapped ? config : NULL, .file = "config.json", .err = err},
        .arena = arena,
    };

    for (; fields->name != NULL && failed(&r) == LR_OK; fields++)
        read_field(&r, fields, (char *)out + fields->offset);
    return failed(&r);
}

lr_code native_base_settle(struct native_base *base, struct lr_error *err)
{
    if (base->kv_heads == 0)
        base->kv_heads = base->heads;
    if (base->head_size == 0)
        base->head_size = base->hidden / base->heads;
    if (base->head_size == 0)
        return lr_fail(
            err, LR_MODEL_CORRUPT,
            "config.json: \"hidden_size\" is %u, less than \"num_attention_heads\", %u",
            base->hidden, base->heads);
    if (base->heads % base->kv_heads != 0)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "config.json: \"num_attention_heads\" is %u, no multiple of "
                       "\"num_key_value_heads\", %u",
                       base->heads, base->kv_heads);
    return LR_OK;
}
