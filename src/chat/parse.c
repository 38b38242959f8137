/* chat/parse.c - see chat/parse.h and chat/codec.h. */
#include "chat/parse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/errors.h"
#include "grammar/grammar.h"

enum { NOTED_NAME_MAX = 64 }; /* bytes of one name in the list of ignored fields */

lr_code chat_parse_fail(struct chat_parse *p, const char *param, const char *code,
                        lr_code status, const char *fmt, ...)
{
    struct chat_error *e = p->e;
    char text[sizeof(e->error.text)];
    enum lr_error_id id = code != NULL ? lr_error_find(lr_str_z(code)) : LR_ERROR_NONE;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (id != LR_ERROR_NONE)
        (void)lr_fail_holes(&e->error, id, (const struct lr_hole[]){lr_hole_z(text)}, 1);
    else
        (void)lr_fail(&e->error, status, "%s", text);
    e->error.code = status;
    snprintf(e->param, sizeof(e->param), "%s", param != NULL ? param : "");
    e->code = code;
    return status;
}

static bool is_noted(const char *list, const char *name)
{
    struct lr_str rest = lr_str_z(list), one;
    while (lr_str_split(&rest, ',', &one))
        if (lr_str_eq_z(lr_str_trim(one), name))
            return true;
    return false;
}

/* The client chose the name: letters that could mean something in a header become '?'. */
void chat_parse_note(struct chat_parse *p, const char *param)
{
    static const char more[] = ", ...";
    char *list = p->req->ignored, name[NOTED_NAME_MAX];
    size_t len = strlen(list), n = 0;
    for (; param[n] != '\0' && n < sizeof(name) - 1; n++) {
        bool is_plain = lr_str_is_plain(lr_str(param + n, 1), "_-.[]");
        name[n] = is_plain ? param[n] : '?';
    }
    if (n == 0)
        name[n++] = '?';
    name[n] = '\0';
    bool is_full = len >= sizeof(more) && strcmp(list + len - strlen(more), more) == 0;
    if (is_full || is_noted(list, name))
        return;
    if (len + 2 + n + sizeof(more) > CHAT_IGNORED_MAX)
        (void)snprintf(list + len, CHAT_IGNORED_MAX - len, "%s", more);
    else
        (void)snprintf(list + len, CHAT_IGNORED_MAX - len, "%s%s", len > 0 ? ", " : "", name);
}

lr_code chat_parse_ignore(struct chat_parse *p, const char *param, const char *code,
                          lr_code status, const char *fmt, ...)
{
    char text[sizeof(p->e->error.text)];
    va_list args;
    if (!p->is_strict) {
        chat_parse_note(p, param);
        return LR_OK;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return chat_parse_fail(p, param, code, status, "%s", text);
}

lr_code chat_parse_type(struct chat_parse *p, const char *param, const char *wanted,
                        const struct lr_json *value)
{
    return chat_parse_fail(p, param, "invalid_type", LR_INVALID_ARGUMENT,
                           "Invalid type for '%s': expected %s, got %s.", param, wanted,
                           value != NULL ? lr_json_type_name(value->type) : "nothing");
}

lr_code chat_parse_bool(struct chat_parse *p, const char *param, const struct lr_json *value,
                        bool *out)
{
    if (!lr_json_bool(value, out))
        return chat_parse_type(p, param, "a boolean", value);
    return LR_OK;
}

/* Length of a number as the client wrote it, shortened for an error message. */
static int shown(const struct lr_json *value)
{
    return value->text.len < 40 ? (int)value->text.len : 40;
}

lr_code chat_parse_u32(struct chat_parse *p, const char *param, const struct lr_json *value,
                       uint32_t min, uint32_t max, uint32_t *out)
{
    int64_t n;
    if (!lr_json_is(value, LR_JSON_NUMBER))
        return chat_parse_type(p, param, "an integer", value);
    if (!lr_json_i64(value, &n) || n < (int64_t)min || n > (int64_t)max)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for '%s': expected an integer from %u to %u, "
                               "got %.*s.",
                               param, min, max, shown(value), value->text.ptr);
    *out = (uint32_t)n;
    return LR_OK;
}

lr_code chat_parse_float(struct chat_parse *p, const char *param, const struct lr_json *value,
                         double min, double max, float *out)
{
    double n;
    if (!lr_json_is(value, LR_JSON_NUMBER))
        return chat_parse_type(p, param, "a number", value);
    if (!lr_json_double(value, &n) || n < min || n > max)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for '%s': expected a number from %g to %g, "
                               "got %.*s.",
                               param, min, max, shown(value), value->text.ptr);
    *out = (float)n;
    return LR_OK;
}

lr_code chat_parse_word(struct chat_parse *p, const char *name, const struct lr_json *value,
                        const char *const *words, lr_code status, uint32_t *out)
{
    struct lr_str s;
    char list[160] = "";
    if (!lr_json_str(value, &s))
        return chat_parse_type(p, name, "a string", value);
    for (uint32_t i = 0; words[i] != NULL; i++) {
        size_t n = strlen(list);
        if (lr_str_eq_z(s, words[i])) {
            *out = i;
            return LR_OK;
        }
        snprintf(list + n, sizeof(list) - n, "%s'%s'", i == 0 ? "" : ", ", words[i]);
    }
    return chat_parse_fail(
        p, name, status == LR_UNSUPPORTED ? "unsupported_value" : "invalid_value", status,
        "'%s' takes %s here, not '%.*s'.", name, list, s.len < 40 ? (int)s.len : 40, s.ptr);
}

lr_code chat_parse_missing(struct chat_parse *p, const char *name)
{
    return chat_parse_fail(p, name, "missing_required_parameter", LR_INVALID_ARGUMENT,
                           "Missing required parameter: '%s'.", name);
}

static const struct chat_field *find_field(const struct chat_fields *fields, struct lr_str name)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct chat_field *field = &fields->rows[i];
        if ((field->row.in & fields->in) != 0 && lr_str_eq_z(name, field->row.name))
            return field;
    }
    return NULL;
}

struct chat_field_row chat_field_row(const struct chat_fields *fields, size_t index)
{
    return fields->rows[index].row;
}

/* `null` and `false` ask for nothing, so ignoring them is nothing to tell. */
static bool asks_for_nothing(const struct lr_json *value)
{
    return value->type == LR_JSON_NULL || (value->type == LR_JSON_BOOL && !value->boolean);
}

static lr_code parse_member(struct chat_parse *p, const struct lr_json_member *m)
{
    const struct chat_fields *fields = p->req->codec->fields;
    const struct chat_field *field = find_field(fields, m->key);
    char name[64];
    int len = m->key.len < sizeof(name) - 1 ? (int)m->key.len : (int)sizeof(name) - 1;

    snprintf(name, sizeof(name), "%.*s", len, m->key.ptr);
    /* Many clients write null for "not set". */
    if (m->value.type == LR_JSON_NULL && field != NULL)
        return LR_OK;
    if (field == NULL && !p->is_strict && asks_for_nothing(&m->value))
        return LR_OK;
    if (field == NULL)
        return chat_parse_ignore(p, name, "unknown_parameter", LR_INVALID_ARGUMENT,
                                 "Unrecognized request argument supplied: %s. "
                                 "docs/%s lists what is understood.",
                                 name, fields->page);
    lr_code code = LR_OK;
    if (field->parse != NULL)
        code = field->parse(p, field->row.name, &m->value);
    else if (field->row.list == CHAT_FIELD_REFUSED)
        code = chat_parse_fail(p, name, "unsupported_parameter", LR_UNSUPPORTED,
                               "Unsupported parameter: '%s'. %s", name, field->row.note);
    if (code == LR_OK && field->row.list == CHAT_FIELD_NO_EFFECT &&
        !asks_for_nothing(&m->value))
        chat_parse_note(p, name);
    return code;
}

static lr_code parse_inner(struct chat_parse *p, const char *name,
                           const struct lr_json_member *m, const struct chat_member *row)
{
    char param[sizeof(p->e->param)];
    int len = m->key.len < 40 ? (int)m->key.len : 40;
    (void)snprintf(param, sizeof(param), "%s.%.*s", name, len, m->key.ptr);
    while (row->name != NULL && !lr_str_eq_z(m->key, row->name))
        row++;
    if (row->name == NULL && !p->is_strict && asks_for_nothing(&m->value))
        return LR_OK;
    if (row->name == NULL)
        return chat_parse_ignore(p, param, "unknown_parameter", LR_INVALID_ARGUMENT,
                                 "Unrecognized member of '%s': %.*s.", name, len, m->key.ptr);
    if (m->value.type == LR_JSON_NULL)
        return LR_OK;
    if (row->parse != NULL)
        return row->parse(p, param, &m->value);
    if (!asks_for_nothing(&m->value))
        chat_parse_note(p, param);
    return LR_OK;
}

lr_code chat_parse_object(struct chat_parse *p, const char *name, const struct lr_json *value,
                          const struct chat_member *rows)
{
    lr_code code = LR_OK;
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    for (uint32_t i = 0; code == LR_OK && i < value->count; i++)
        code = parse_inner(p, name, &value->members[i], rows);
    return code;
}

lr_code chat_parse_members(struct chat_parse *p, const struct lr_json *root)
{
    if (root->type != LR_JSON_OBJECT)
        return chat_parse_fail(p, NULL, "invalid_type", LR_INVALID_ARGUMENT,
                               "The body must be a JSON object, not %s.",
                               lr_json_type_name(root->type));
    for (uint32_t i = 0; i < root->count; i++) {
        lr_code code = parse_member(p, &root->members[i]);
        if (code != LR_OK)
            return code;
    }
    return p->req->model.len != 0 ? LR_OK : chat_parse_missing(p, "model");
}

lr_code chat_request_read(struct lr_arena *arena, struct lr_str body,
                          const struct lr_json **out, struct lr_str *model,
                          struct chat_error *e)
{
    *model = lr_str(NULL, 0);
    *e = (struct chat_error){0};
    lr_code code = lr_json_parse(arena, body, NULL, out, &e->error);
    if (code != LR_OK) {
        lr_fail_prefix(&e->error, "The body is not a JSON object we can read");
        if (code == LR_INVALID_ARGUMENT) {
            e->code = "invalid_json";
            (void)lr_fail_as(&e->error, invalid_json, e->error.text);
        }
        return code;
    }
    (void)lr_json_str(lr_json_get(*out, "model"), model);
    return LR_OK;
}

lr_code chat_request_check(struct lr_arena *arena, const struct chat_codec *codec,
                           const struct lr_json *root, const struct chat_terms *terms,
                           const struct chat_request **out, struct chat_error *e)
{
    struct chat_parse p = {.arena = arena,
                           .e = e,
                           .is_strict = terms->is_strict,
                           .can_keep = terms->can_keep,
                           .stored = terms->stored,
                           .schema_work = GRAMMAR_WORK_MAX};

    *out = NULL;
    *e = (struct chat_error){0};
    p.req = lr_arena_zalloc(arena, sizeof(*p.req));
    if (p.req == NULL)
        return chat_parse_fail(&p, NULL, NULL, LR_OUT_OF_RAM,
                               "no memory for the request (limit %zu bytes)", arena->limit);
    *p.req = (struct chat_request){
        .codec = codec,
        .prompt_count = 1,
        .n = 1,
        .format = GRAMMAR_ANSWER_TEXT,
        .parallel_tool_calls = true,
        .reasoning = CHAT_REASONING_CONTENT,
        .sampling = {.size = sizeof(struct lr_sampling),
                     .temperature = 1,
                     .top_p = 1,
                     .repetition_penalty = 1},
    };
    lr_code code = codec->parse(&p, root);
    if (code == LR_OK)
        *out = p.req;
    return code;
}

lr_code chat_request_parse(struct lr_arena *arena, const struct chat_codec *codec,
                           struct lr_str body, const struct chat_request **out,
                           struct chat_error *e)
{
    const struct lr_json *root;
    struct lr_str model;
    *out = NULL;
    lr_code code = chat_request_read(arena, body, &root, &model, e);
    return code == LR_OK
               ? chat_request_check(arena, codec, root, &(struct chat_terms){0}, out, e)
               : code;
}
