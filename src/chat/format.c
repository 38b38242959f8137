/* chat/format.c - see chat/format.h. */
#include "chat/format.h"

#include "base/errors.h"
#include "chat/dialect/dialect.h"
#include "chat/template/object.h"
#include "grammar/constraint.h"
#include "grammar/grammar.h"

/* ---- the constraint ---- */

static bool is_strict(const struct lr_json *function)
{
    bool strict = false;
    return lr_json_bool(lr_json_get(function, "strict"), &strict) && strict;
}

static bool any_strict(const struct chat_request *req)
{
    for (uint32_t i = 0; req->tools != NULL && i < req->tools->count; i++)
        if (is_strict(lr_json_get(&req->tools->items[i], "function")))
            return true;
    return false;
}

/* The schema of a tool that is not strict is optional: it is dropped if it cannot be
 * enforced. */
static const struct lr_json *followed(const struct lr_json *schema, bool strict, uint32_t *work)
{
    if (schema == NULL || schema->type != LR_JSON_OBJECT)
        return NULL;
    return strict || grammar_check_lenient(schema, work, NULL) == LR_OK ? schema : NULL;
}

static uint32_t list_tools(const struct chat_request *req, struct grammar_tool *list)
{
    uint32_t count = 0, work = GRAMMAR_WORK_MAX;
    for (uint32_t i = 0; req->tools != NULL && i < req->tools->count; i++) {
        const struct lr_json *function = lr_json_get(&req->tools->items[i], "function");
        struct grammar_tool tool = {.strict = is_strict(function)};
        (void)lr_json_str(lr_json_get(function, "name"), &tool.name);
        if (req->required_tool.len != 0 && !lr_str_eq(req->required_tool, tool.name))
            continue;
        tool.schema = followed(lr_json_get(function, "parameters"), tool.strict, &work);
        list[count++] = tool;
    }
    return count;
}

static lr_code write_constraint(struct lr_arena *arena, const struct grammar_constraint *c,
                                struct lr_str *out, struct lr_error *err)
{
    struct grammar_program *program = NULL;
    struct lr_buf text;
    lr_buf_init(&text, GRAMMAR_CONSTRAINT_MAX);
    grammar_constraint_write(&text, c);
    char *copy = text.failed ? NULL : lr_arena_copy(arena, lr_buf_str(&text));
    lr_code code = LR_OK;
    if (text.failed)
        code = lr_fail_as(err, schemas_over, GRAMMAR_CONSTRAINT_MAX);
    else if (copy == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for the schemas of a request");
    else
        code = grammar_compile(
            lr_buf_str(&text), &program,
            err); /* checked here, so that a node never gets an invalid constraint */
    if (code == LR_OK)
        *out = lr_str(copy, text.len);
    grammar_program_free(program);
    lr_buf_free(&text);
    return code;
}

/* Drops the schemas of tools that are not strict.  False: there were none. */
static bool drop_schemas(struct grammar_tool *tools, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        any = any || (!tools[i].strict && tools[i].schema != NULL);
        if (!tools[i].strict)
            tools[i].schema = NULL;
    }
    return any;
}

lr_code chat_format_constraint(struct lr_arena *arena, const struct chat_request *req,
                               const struct chat_dialect *dialect, bool is_opened,
                               struct lr_str *out, struct lr_error *err)
{
    struct grammar_tool *tools = NULL;
    bool is_raw = req->prompts != NULL; /* the answer is its whole text */
    enum grammar_format format = is_raw ? GRAMMAR_PLAIN : dialect->format;
    bool has_calls = grammar_form_is_enforced(format);
    struct grammar_constraint c = {.format = format,
                                   .answer = req->format,
                                   .value = req->format_value,
                                   .is_strict = req->schema_strict};
    if (!is_raw && !dialect->is_channels) {
        c.thought = dialect->thought;
        c.is_opened = is_opened;
        c.budget = dialect->thought.end.len != 0 ? req->thinking_budget : 0;
    }
    *out = (struct lr_str){0};
    if (req->requires_tool_call)
        c.answer = GRAMMAR_ANSWER_NONE;
    if (req->requires_tool_call && !has_calls)
        return lr_fail_plain(err, tools_not_shown);
    if (c.answer == GRAMMAR_ANSWER_TEXT && !(has_calls && any_strict(req))) {
        c.answer = GRAMMAR_ANSWER_FREE;
        return c.budget != 0 ? write_constraint(arena, &c, out, err) : LR_OK;
    }
    if (has_calls && req->tools != NULL) {
        tools = lr_arena_array(arena, req->tools->count, sizeof(*tools));
        if (tools == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for the tools of a request");
        c.tool_count = list_tools(req, tools);
        c.tools = tools;
        c.one_call = format != GRAMMAR_HARMONY && !req->parallel_tool_calls;
    }
    lr_code code = write_constraint(arena, &c, out, err);
    /* Each schema can be enforced, but all of them together may be too large.  A tool that is
     * not strict never causes a refusal. */
    if ((code == LR_INVALID_ARGUMENT || code == LR_UNSUPPORTED) &&
        drop_schemas(tools, c.tool_count))
        code = write_constraint(arena, &c, out, err);
    return code;
}

/* ---- the prompt ---- */

/* As in OpenAI's description of Harmony: a name, a description, and the schema. */
static void write_format(struct lr_buf *out, const struct chat_request *req)
{
    struct lr_json_writer w;
    lr_buf_add_z(out, "# Response Formats\n\n## ");
    lr_buf_add_str(out, req->schema_name);
    lr_buf_add_z(out, "\n\n");
    if (req->schema_about.len != 0) {
        lr_buf_add_z(out, "// ");
        lr_buf_add_str(out, req->schema_about);
        lr_buf_add_z(out, "\n");
    }
    lr_json_writer_init(&w, out);
    lr_json_put_value(&w, req->format_value);
}

static bool is_instructions(const struct lr_json *message)
{
    struct lr_str role;
    return lr_json_str(lr_json_get(message, "role"), &role) &&
           (lr_str_eq_z(role, "system") || lr_str_eq_z(role, "developer"));
}

/* The content with the format appended: a string, or a list with one more part. */
static bool format_append(struct lr_arena *arena, const struct lr_json *content,
                          struct lr_str format, struct lr_json *out)
{
    if (lr_json_is(content, LR_JSON_ARRAY)) {
        struct lr_json *parts = lr_arena_array(arena, content->count + 1, sizeof(*parts));
        struct chat_object part;
        if (parts == NULL || !chat_object_begin(&part, arena, NULL, 2))
            return false;
        for (uint32_t i = 0; i < content->count; i++)
            parts[i] = content->items[i];
        chat_object_set(&part, "type", chat_string_json(LR_STR_LIT("text")));
        chat_object_set(&part, "text", chat_string_json(format));
        parts[content->count] = chat_object_json(&part);
        *out = (struct lr_json){
            .type = LR_JSON_ARRAY, .count = content->count + 1, .items = parts};
        return true;
    }
    struct lr_str before = {0};
    (void)lr_json_str(content, &before);
    char *joined = lr_arena_printf(arena, LR_STR_FMT "%s" LR_STR_FMT, LR_STR_ARG(before),
                                   before.len != 0 ? "\n\n" : "", LR_STR_ARG(format));
    *out = chat_string_json(lr_str_z(joined));
    return joined != NULL;
}

bool chat_format_show(struct lr_arena *arena, const struct chat_request *req,
                      struct lr_json *messages)
{
    struct lr_buf text;
    struct chat_object first;
    struct lr_json content;
    if (req->format != GRAMMAR_ANSWER_SCHEMA || req->requires_tool_call)
        return true;
    bool has = is_instructions(&messages->items[0]);
    struct lr_json *items = lr_arena_array(arena, messages->count + 1, sizeof(*items));
    lr_buf_init(&text, 2 * GRAMMAR_CONSTRAINT_MAX);
    write_format(&text, req);
    const char *copy = text.failed ? NULL : lr_arena_copy(arena, lr_buf_str(&text));
    struct lr_str format = lr_str(copy, text.len);
    lr_buf_free(&text);
    if (items == NULL || copy == NULL ||
        !chat_object_begin(&first, arena, has ? &messages->items[0] : NULL, 2) ||
        !format_append(arena, has ? lr_json_get(&messages->items[0], "content") : NULL, format,
                       &content))
        return false;
    if (!has)
        chat_object_set(&first, "role", chat_string_json(LR_STR_LIT("developer")));
    chat_object_set(&first, "content", content);
    items[0] = chat_object_json(&first);
    for (uint32_t i = has ? 1 : 0; i < messages->count; i++)
        items[i + (has ? 0 : 1)] = messages->items[i];
    *messages = (struct lr_json){
        .type = LR_JSON_ARRAY, .count = messages->count + (has ? 0 : 1), .items = items};
    return true;
}
