/* chat/harmony/types.c - JSON Schema to the TypeScript of the prompt.
 *
 * Types are built in a buffer, because an array's element type is inspected before it is used.
 * Everything from the schema is untrusted text of the client.
 */
#include "chat/harmony/types.h"

#include "base/errors.h"

#include <stdlib.h>

enum { TYPE_MAX = 4 << 20, LONGEST_ELEMENT = 50, MAX_DEPTH = 64, REQUIRED_TEXT_MAX = 256 };

bool chat_harmony_truthy(const struct lr_json *v)
{
    double d = 0;
    if (v == NULL)
        return false;
    switch (v->type) {
    case LR_JSON_NULL:
        return false;
    case LR_JSON_BOOL:
        return v->boolean;
    case LR_JSON_NUMBER:
        return !lr_json_double(v, &d) || d != 0;
    case LR_JSON_STRING:
        return v->text.len > 0;
    case LR_JSON_ARRAY:
    case LR_JSON_OBJECT:
        return v->count > 0;
    }
    return false;
}

static bool is_text(const struct lr_json *v, const char *text)
{
    return v != NULL && v->type == LR_JSON_STRING && lr_str_eq_z(v->text, text);
}

/* str() of a value in a list of choices. */
static void add_plain(struct lr_buf *out, const struct lr_json *v)
{
    if (v->type == LR_JSON_STRING)
        lr_buf_add_str(out, v->text);
    else if (v->type == LR_JSON_NULL)
        lr_buf_add_z(out, "None");
    else if (v->type == LR_JSON_BOOL)
        lr_buf_add_z(out, v->boolean ? "True" : "False");
    else
        jinja_dumps(out, v);
}

static void add_joined(struct lr_buf *out, const struct lr_json *list, const char *separator)
{
    for (uint32_t i = 0; list->type == LR_JSON_ARRAY && i < list->count && !out->failed; i++) {
        if (i > 0)
            lr_buf_add_z(out, separator);
        add_plain(out, &list->items[i]);
    }
}

/* The names in "required": a list, or (as a template reads it) a text that contains the
 * names. */
struct required {
    struct lr_json_set names;
    struct lr_str text;
};

static void required_init(struct required *r, struct lr_buf *out, const struct lr_json *value)
{
    *r = (struct required){0};
    (void)lr_json_str(value, &r->text);
    /* A text is searched for each property, so a long text is ignored. */
    if (!lr_json_set_init(&r->names, value) || r->text.len > REQUIRED_TEXT_MAX)
        out->failed = true;
}

static bool is_required(const struct required *r, struct lr_str name)
{
    return lr_json_set_has(&r->names, name) ||
           (r->text.len != 0 && lr_str_find(r->text, name) != LR_STR_NONE);
}

static size_t count_chars(struct lr_str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++)
        count += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return count;
}

static void add_type(struct lr_buf *out, const struct lr_json *spec, int depth);

static void add_array_type(struct lr_buf *out, const struct lr_json *spec, int depth)
{
    const struct lr_json *items = lr_json_get(spec, "items");
    const struct lr_json *type = lr_json_get(items, "type");
    if (items != NULL && !chat_harmony_truthy(items)) {
        lr_buf_add_z(out, "any[]");
    } else if (is_text(type, "string") || is_text(type, "number") || is_text(type, "boolean")) {
        lr_buf_add_str(out, type->text);
        lr_buf_add_z(out, "[]");
    } else if (is_text(type, "integer")) {
        lr_buf_add_z(out, "number[]");
    } else {
        struct lr_buf inner;
        lr_buf_init(&inner, TYPE_MAX);
        add_type(&inner, items, depth + 1);
        struct lr_str text = lr_buf_str(&inner);
        if (inner.failed || lr_str_eq_z(text, "object | object") ||
            count_chars(text) > LONGEST_ELEMENT)
            text = LR_STR_LIT("any");
        lr_buf_add_str(out, text);
        lr_buf_add_z(out, "[]");
        lr_buf_free(&inner);
    }
    if (chat_harmony_truthy(lr_json_get(spec, "nullable")))
        lr_buf_add_z(out, " | null");
}

static void add_variants(struct lr_buf *out, const struct lr_json *variants, int depth)
{
    uint32_t count = variants->type == LR_JSON_ARRAY ? variants->count : 0;
    for (uint32_t i = 0; i < count && !out->failed; i++) {
        const struct lr_json *variant = &variants->items[i];
        const struct lr_json *description = lr_json_get(variant, "description");
        const struct lr_json *value = lr_json_get(variant, "default");
        add_type(out, variant, depth + 1);
        if (chat_harmony_truthy(description)) {
            lr_buf_add_z(out, "// ");
            add_plain(out, description);
        }
        if (value != NULL) {
            lr_buf_add_z(out, "                    // default: ");
            jinja_dumps(out, value);
        }
        if (i + 1 < count)
            lr_buf_add_z(out, " | \n");
    }
}

static void add_object_type(struct lr_buf *out, const struct lr_json *spec, int depth)
{
    const struct lr_json *properties = lr_json_get(spec, "properties");
    struct required required;
    if (!chat_harmony_truthy(properties) || properties->type != LR_JSON_OBJECT) {
        lr_buf_add_z(out, "object");
        return;
    }
    lr_buf_add_z(out, "{\n");
    required_init(&required, out, lr_json_get(spec, "required"));
    for (uint32_t i = 0; i < properties->count && !out->failed; i++) {
        const struct lr_json_member *m = &properties->members[i];
        lr_buf_add_str(out, m->key);
        if (!is_required(&required, m->key))
            lr_buf_add_char(out, '?');
        lr_buf_add_z(out, ": \n                ");
        add_type(out, &m->value, depth + 1);
        if (i + 1 < properties->count)
            lr_buf_add_z(out, ", ");
    }
    lr_json_set_free(&required.names);
    lr_buf_add_char(out, '}');
}

static void add_type(struct lr_buf *out, const struct lr_json *spec, int depth)
{
    const struct lr_json *type = lr_json_get(spec, "type");
    const struct lr_json *one_of = lr_json_get(spec, "oneOf");
    const struct lr_json *choices = lr_json_get(spec, "enum");
    if (depth > MAX_DEPTH) {
        out->failed = true;
    } else if (is_text(type, "array")) {
        add_array_type(out, spec, depth);
    } else if (lr_json_is(type, LR_JSON_ARRAY) && type->count > 0) {
        add_joined(out, type, " | ");
    } else if (chat_harmony_truthy(one_of)) {
        add_variants(out, one_of, depth);
    } else if (is_text(type, "string") && chat_harmony_truthy(choices)) {
        lr_buf_add_char(out, '"');
        add_joined(out, choices, "\" | \"");
        lr_buf_add_char(out, '"');
    } else if (is_text(type, "string")) {
        lr_buf_add_z(out, "string");
        if (chat_harmony_truthy(lr_json_get(spec, "nullable")))
            lr_buf_add_z(out, " | null");
    } else if (is_text(type, "number") || is_text(type, "integer")) {
        lr_buf_add_z(out, "number");
    } else if (is_text(type, "boolean")) {
        lr_buf_add_z(out, "boolean");
    } else if (is_text(type, "object")) {
        add_object_type(out, spec, depth);
    } else {
        lr_buf_add_z(out, "any");
    }
}

static void add_parameter(struct lr_buf *out, const struct lr_json_member *m,
                          const struct required *required)
{
    const struct lr_json *spec = &m->value;
    const struct lr_json *description = lr_json_get(spec, "description");
    const struct lr_json *value = lr_json_get(spec, "default");
    if (chat_harmony_truthy(description)) {
        lr_buf_add_z(out, "// ");
        add_plain(out, description);
        lr_buf_add_char(out, '\n');
    }
    lr_buf_add_str(out, m->key);
    if (!is_required(required, m->key))
        lr_buf_add_char(out, '?');
    lr_buf_add_z(out, ": ");
    add_type(out, spec, 0);
    if (value != NULL) {
        bool choice = chat_harmony_truthy(lr_json_get(spec, "enum"));
        bool variant = !choice && chat_harmony_truthy(lr_json_get(spec, "oneOf"));
        lr_buf_add_z(out, variant ? "// default: " : ", // default: ");
        if ((choice || variant) && value->type == LR_JSON_STRING)
            lr_buf_add_str(out, value->text);
        else
            jinja_dumps(out, value);
    }
    lr_buf_add_z(out, ",\n");
}

static lr_code add_tool(struct jinja_output *out, const struct lr_json *tools, uint32_t i,
                        struct lr_error *err)
{
    const struct lr_json *f = lr_json_get(&tools->items[i], "function");
    const struct lr_json *parameters = lr_json_get(f, "parameters");
    const struct lr_json *properties = lr_json_get(parameters, "properties");
    struct lr_str name, description;
    if (!lr_json_str(lr_json_get(f, "name"), &name) ||
        !lr_json_str(lr_json_get(f, "description"), &description))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "tools[%u].function needs a name and a description", i);
    jinja_output_add(out, LR_STR_LIT("// "), true);
    jinja_output_add(out, description, false);
    jinja_output_add(out, LR_STR_LIT("\ntype "), true);
    jinja_output_add(out, name, false);
    jinja_output_add(out, LR_STR_LIT(" = "), true);
    if (!chat_harmony_truthy(properties)) {
        jinja_output_add(out, LR_STR_LIT("() => any;\n\n"), true);
        return LR_OK;
    }
    if (properties->type != LR_JSON_OBJECT)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "tools[%u].function.parameters.properties must be an object", i);
    struct lr_buf types;
    struct required required;
    lr_buf_init(&types, TYPE_MAX);
    required_init(&required, &types, lr_json_get(parameters, "required"));
    for (uint32_t k = 0; k < properties->count && !types.failed; k++)
        add_parameter(&types, &properties->members[k], &required);
    lr_json_set_free(&required.names);
    lr_code rc = LR_OK;
    if (types.failed)
        rc = lr_fail_as(err, tool_parameters_over, i, TYPE_MAX, MAX_DEPTH);
    jinja_output_add(out, LR_STR_LIT("(_: {\n"), true);
    jinja_output_add(out, lr_buf_str(&types), false);
    jinja_output_add(out, LR_STR_LIT("}) => any;\n\n"), true);
    lr_buf_free(&types);
    return rc;
}

lr_code chat_harmony_add_tools(struct jinja_output *out, const struct lr_json *tools,
                               struct lr_error *err)
{
    if (tools->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_INVALID_ARGUMENT, "tools must be a list");
    jinja_output_add(out, LR_STR_LIT("## functions\n\nnamespace functions {\n\n"), true);
    for (uint32_t i = 0; i < tools->count; i++) {
        lr_code rc = add_tool(out, tools, i, err);
        if (rc != LR_OK)
            return rc;
    }
    jinja_output_add(out, LR_STR_LIT("} // namespace functions"), true);
    return LR_OK;
}
