/* jinja/context.c - converts the JSON input of a template to values.
 *
 * Trust is assigned here: all text is untrusted, except for the strings that the caller gives
 * as trusted and for a message's role if it is a known one.
 */
#include <math.h>
#include <stdlib.h>

#include "jinja/exec.h"

/* The position in the input: only messages[n].role is a role. */
enum place {
    AT_TOP,
    AT_MESSAGES,
    AT_MESSAGE,
    AT_ROLE,
    AT_ANY,
};

static bool is_known_role(struct lr_str s)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (lr_str_eq_z(s, roles[i]))
            return true;
    return false;
}

/* Keys, roles and types repeat in every message.  Sharing one text for each keeps a long
 * conversation in the CPU cache.  Sharing the bytes with the template's own names turns most
 * comparisons into comparisons of addresses. */
struct loader {
    struct run *run;
    struct text_table shared[2]; /* by trust */
};

static struct text *load_text(struct loader *l, struct lr_str s, bool trusted)
{
    struct text **slot = text_table_slot(&l->shared[trusted], s);
    if (slot == NULL)
        return jinja_text_slice(l->run, s, trusted);
    if (*slot != NULL && lr_str_eq(text_str(*slot), s))
        return *slot;
    size_t hash = (size_t)(slot - l->shared[trusted].slots);
    const struct text *name = l->run->tmpl->names.slots[hash];
    if (name != NULL && lr_str_eq(text_str(name), s))
        s = text_str(name);
    *slot = jinja_text_slice(l->run, s, trusted);
    return *slot;
}

static struct value convert(struct loader *l, const struct lr_json *json, enum place place);

static struct value convert_number(struct run *run, struct lr_str text)
{
    int64_t integer;
    bool whole = true;
    for (size_t i = 0; i < text.len; i++)
        whole = whole && text.ptr[i] != '.' && text.ptr[i] != 'e' && text.ptr[i] != 'E';
    if (whole && lr_str_i64(text, &integer))
        return value_int(integer);
    if (whole && lr_str_eq_z(text, "-0"))
        return value_int(0);
    if (whole) {
        struct value v = value_text(jinja_text_slice(run, text, false));
        if (!is_fail(v))
            v.kind = K_BIG;
        return v;
    }
    char digits[400];
    if (text.len >= sizeof(digits))
        return jinja_error(run, "a number of %zu characters is too long", text.len);
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    return value_float(strtod(digits, NULL));
}

static enum place context_place_of(enum place outer, struct lr_str key)
{
    if (outer == AT_TOP && lr_str_eq_z(key, "messages"))
        return AT_MESSAGES;
    if (outer == AT_MESSAGE && lr_str_eq_z(key, "role"))
        return AT_ROLE;
    return AT_ANY;
}

static struct value convert_array(struct loader *l, const struct lr_json *json,
                                  enum place place)
{
    struct run *run = l->run;
    struct list *list = jinja_list_new(run, json->count);
    enum place inner = place == AT_MESSAGES ? AT_MESSAGE : AT_ANY;
    for (uint32_t i = 0; list != NULL && i < json->count; i++)
        if (!jinja_list_push(run, list, convert(l, &json->items[i], inner)))
            return V_FAIL;
    if (list != NULL)
        list->is_given = true;
    return value_list(K_LIST, list);
}

static struct value convert_object(struct loader *l, const struct lr_json *json,
                                   enum place place)
{
    struct run *run = l->run;
    struct dict *dict = jinja_dict_new(run, json->count);
    for (uint32_t i = 0; dict != NULL && i < json->count; i++) {
        const struct lr_json_member *m = &json->members[i];
        struct value key = value_text(load_text(l, m->key, false));
        struct value value =
            is_fail(key) ? key : convert(l, &m->value, context_place_of(place, m->key));
        if (!jinja_dict_set(run, dict, key, value))
            return V_FAIL;
    }
    return value_dict(dict);
}

static struct value convert(struct loader *l, const struct lr_json *json, enum place place)
{
    struct run *run = l->run;
    struct value v = V_NONE;
    if (!jinja_enter(run))
        return V_FAIL;
    switch (json->type) {
    case LR_JSON_NULL:
        break;
    case LR_JSON_BOOL:
        v = value_bool(json->boolean);
        break;
    case LR_JSON_NUMBER:
        v = convert_number(run, json->text);
        break;
    case LR_JSON_STRING: {
        bool trusted = place == AT_ROLE && is_known_role(json->text);
        run->text_bytes += json->text.len;
        jinja_leave(run);
        return value_text(load_text(l, json->text, trusted));
    }
    case LR_JSON_ARRAY:
        v = convert_array(l, json, place);
        break;
    case LR_JSON_OBJECT:
        v = convert_object(l, json, place);
        break;
    }
    jinja_leave(run);
    return tainted(v, true);
}

bool jinja_load_context(struct run *run)
{
    const struct lr_json *json = run->input->context;
    if (json == NULL || json->type != LR_JSON_OBJECT)
        return !is_fail(jinja_error(run, "the input of a template must be a JSON object"));
    struct loader loader = {.run = run};
    struct value context = convert(&loader, json, AT_TOP);
    if (is_fail(context))
        return false;
    run->context = context.dict;
    for (size_t i = 0; i < run->input->trusted_count; i++) {
        const struct jinja_var *var = &run->input->trusted[i];
        struct text *name = jinja_text_slice(run, var->name, true);
        struct text *text = name != NULL ? jinja_text_slice(run, var->text, true) : NULL;
        if (text == NULL ||
            !jinja_dict_set(run, run->context, value_text(name), value_text(text)))
            return false;
    }
    return true;
}

struct value jinja_resolve(struct run *run, const struct text *name)
{
    struct lr_str key = text_str(name);
    const struct jinja_template *tmpl = run->tmpl;
    if (lr_str_eq_z(key, "self"))
        return (struct value){.kind = K_BLOCKS};
    for (size_t i = 0; i < tmpl->export_count; i++) {
        struct value v = run->root->slots[tmpl->exports[i].slot];
        if (is_given(v) && jinja_text_eq(tmpl->exports[i].name, name))
            return v;
    }
    const struct value *found = jinja_dict_find(run->context, key);
    if (found != NULL)
        return *found;
    const struct builtin_row *function = jinja_find_function(key);
    if (function != NULL)
        return (struct value){.kind = K_FUNCTION, .function = function};
    return V_MISSING;
}
