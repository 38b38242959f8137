/* chat/dialect/types.c - see chat/dialect/types.h. */
#include "chat/dialect/types.h"

enum {
    DEPTH_MAX = 12,
    VISITS_MAX = 1 << 14, /* parts of one schema, so that references cannot multiply */
};

struct walk {
    struct lr_arena *arena;
    const struct lr_json *root;
    uint32_t visits;
    bool failed;
};

static uint32_t bit_of(struct lr_str type)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } bits[] = {
        {"string", CHAT_TYPE_STRING}, {"null", CHAT_TYPE_NULL},    {"object", CHAT_TYPE_OBJECT},
        {"array", CHAT_TYPE_ARRAY},   {"number", CHAT_TYPE_OTHER}, {"integer", CHAT_TYPE_OTHER},
        {"boolean", CHAT_TYPE_OTHER},
    };
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        if (lr_str_eq_z(type, bits[i].name))
            return bits[i].bit;
    return 0;
}

static uint32_t bit_of_value(const struct lr_json *v)
{
    switch (v->type) {
    case LR_JSON_STRING:
        return CHAT_TYPE_STRING;
    case LR_JSON_NULL:
        return CHAT_TYPE_NULL;
    case LR_JSON_OBJECT:
        return CHAT_TYPE_OBJECT;
    case LR_JSON_ARRAY:
        return CHAT_TYPE_ARRAY;
    default:
        return CHAT_TYPE_OTHER;
    }
}

static uint32_t bits_of_type(const struct lr_json *type)
{
    uint32_t bits = 0;
    if (lr_json_is(type, LR_JSON_STRING))
        return bit_of(type->text);
    for (uint32_t i = 0; lr_json_is(type, LR_JSON_ARRAY) && i < type->count; i++)
        if (type->items[i].type == LR_JSON_STRING)
            bits |= bit_of(type->items[i].text);
    return bits;
}

/* "#/$defs/name"; NULL: nowhere. */
static const struct lr_json *find_reference(const struct walk *w, struct lr_str ref)
{
    const struct lr_json *at = w->root;
    if (!lr_str_starts(ref, "#"))
        return NULL;
    ref = lr_str_sub(ref, 1, ref.len);
    while (at != NULL && ref.len != 0 && ref.ptr[0] == '/') {
        ref = lr_str_sub(ref, 1, ref.len);
        size_t end = 0;
        while (end < ref.len && ref.ptr[end] != '/')
            end++;
        at = lr_json_get_str(at, lr_str_sub(ref, 0, end));
        ref = lr_str_sub(ref, end, ref.len);
    }
    return ref.len == 0 ? at : NULL;
}

static void walk(struct walk *w, const struct lr_json *schema, uint32_t depth,
                 struct chat_types *out);

static void walk_properties(struct walk *w, const struct lr_json *properties, uint32_t depth,
                            struct chat_types *out)
{
    if (!lr_json_is(properties, LR_JSON_OBJECT) || properties->count == 0 || out->count != 0)
        return;
    struct chat_property *list = lr_arena_array(w->arena, properties->count, sizeof(*list));
    w->failed = w->failed || list == NULL;
    if (w->failed)
        return;
    for (uint32_t i = 0; i < properties->count; i++) {
        const struct lr_json_member *m = &properties->members[i];
        const char *name = lr_arena_copy(w->arena, m->key);
        w->failed = w->failed || name == NULL;
        list[i] = (struct chat_property){.name = lr_str(name, name != NULL ? m->key.len : 0)};
        walk(w, &m->value, depth + 1, &list[i].types);
    }
    out->members = list;
    out->count = properties->count;
}

static void walk_list(struct walk *w, const struct lr_json *list, uint32_t depth,
                      struct chat_types *out)
{
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        walk(w, &list->items[i], depth + 1, out);
}

/* Adds what a schema allows to *out. */
static void walk(struct walk *w, const struct lr_json *schema, uint32_t depth,
                 struct chat_types *out)
{
    struct lr_str ref;
    if (depth >= DEPTH_MAX || w->failed || !lr_json_is(schema, LR_JSON_OBJECT) ||
        ++w->visits > VISITS_MAX)
        return;
    const struct lr_json *type = lr_json_get(schema, "type");
    const struct lr_json *values = lr_json_get(schema, "enum");
    const struct lr_json *only = lr_json_get(schema, "const");
    out->bits |= bits_of_type(type);
    for (uint32_t i = 0; type == NULL && lr_json_is(values, LR_JSON_ARRAY) && i < values->count;
         i++)
        out->bits |= bit_of_value(&values->items[i]);
    if (type == NULL && only != NULL)
        out->bits |= bit_of_value(only);
    if (lr_json_str(lr_json_get(schema, "$ref"), &ref))
        walk(w, find_reference(w, ref), depth + 1, out);
    walk_list(w, lr_json_get(schema, "anyOf"), depth, out);
    walk_list(w, lr_json_get(schema, "oneOf"), depth, out);
    walk_list(w, lr_json_get(schema, "allOf"), depth, out);
    walk_properties(w, lr_json_get(schema, "properties"), depth, out);
    const struct lr_json *items = lr_json_get(schema, "items");
    if (lr_json_is(items, LR_JSON_OBJECT) && out->items == NULL) {
        struct chat_types *of = lr_arena_zalloc(w->arena, sizeof(*of));
        w->failed = w->failed || of == NULL;
        if (of != NULL)
            walk(w, items, depth + 1, of);
        out->items = of;
    }
}

bool chat_types_of(struct lr_arena *arena, const struct lr_json *schema, struct chat_types *out)
{
    struct walk w = {.arena = arena, .root = schema};
    *out = (struct chat_types){0};
    walk(&w, schema, 0, out);
    return !w.failed;
}

const struct chat_types *chat_types_member(const struct chat_types *types, struct lr_str name)
{
    for (uint32_t i = 0; types != NULL && i < types->count; i++)
        if (lr_str_eq(types->members[i].name, name))
            return &types->members[i].types;
    return NULL;
}
