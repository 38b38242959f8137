/* chat/parse_constraint.c - constraints on the answer, under whatever name they are sent: see
 * chat/parse.h.
 *
 * OpenAI's response_format and text.format end here, as do vLLM's guided_* and
 * structured_outputs and llama.cpp's grammar and json_schema.  A request has one constraint at
 * most.
 */
#include <stdio.h>

#include "chat/parse.h"
#include "grammar/grammar.h"

/* ---- one constraint ---- */

lr_code chat_check_constraint(struct chat_parse *p, const char *param,
                              enum grammar_answer answer, const struct lr_json *value)
{
    static const char *const nouns[] = {
        [GRAMMAR_ANSWER_SCHEMA] = "schema",
        [GRAMMAR_ANSWER_REGEX] = "regular expression",
        [GRAMMAR_ANSWER_CHOICE] = "list of choices",
        [GRAMMAR_ANSWER_GRAMMAR] = "grammar",
    };
    struct lr_error err = {0};
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, GRAMMAR_CONSTRAINT_MAX);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, value);
    bool too_large = text.failed;
    lr_buf_free(&text);
    if (too_large)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has more than %d bytes, or too many levels.", param,
                               GRAMMAR_CONSTRAINT_MAX);
    lr_code code = grammar_check_answer(answer, value, &p->schema_work, &err);
    if (code == LR_OK)
        return LR_OK;
    return chat_parse_fail(
        p, param, code == LR_UNSUPPORTED ? "unsupported_value" : "invalid_value",
        code == LR_UNSUPPORTED ? LR_UNSUPPORTED : LR_INVALID_ARGUMENT,
        "Invalid %s for '%s': %s. docs/structured-output.md lists what is supported.",
        nouns[answer], param, err.text);
}

lr_code chat_set_constraint(struct chat_parse *p, const char *param, enum grammar_answer answer,
                            const struct lr_json *value)
{
    if (p->constrained_by[0] != '\0')
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' and '%s' both constrain the answer; send one of them.",
                               p->constrained_by, param);
    (void)snprintf(p->constrained_by, sizeof(p->constrained_by), "%s", param);
    p->req->format = answer;
    p->req->format_value = value;
    if (p->req->schema_name.len == 0)
        p->req->schema_name = LR_STR_LIT("response");
    return value != NULL ? chat_check_constraint(p, param, answer, value) : LR_OK;
}

/* ---- other servers' names ---- */

/* A schema, or a string that has one as JSON. */
static lr_code set_schema(struct chat_parse *p, const char *param, const struct lr_json *value)
{
    struct lr_error err = {0};
    if (value->type == LR_JSON_STRING &&
        lr_json_parse(p->arena, value->text, NULL, &value, &err) != LR_OK)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' is not JSON: %s.", param, err.text);
    if (value->type != LR_JSON_OBJECT && value->type != LR_JSON_BOOL)
        return chat_parse_type(p, param, "a JSON Schema", value);
    return chat_set_constraint(p, param, GRAMMAR_ANSWER_SCHEMA, value);
}

static lr_code set_choice(struct chat_parse *p, const char *param, const struct lr_json *value)
{
    char at[96];
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, param, "an array of strings", value);
    if (value->count == 0)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' is empty; it needs at least one string.", param);
    for (uint32_t i = 0; i < value->count; i++)
        if (value->items[i].type != LR_JSON_STRING) {
            (void)snprintf(at, sizeof(at), "%s[%u]", param, i);
            return chat_parse_type(p, at, "a string", &value->items[i]);
        }
    return chat_set_constraint(p, param, GRAMMAR_ANSWER_CHOICE, value);
}

static lr_code set_object(struct chat_parse *p, const char *param, const struct lr_json *value)
{
    bool flag = false;
    lr_code code = chat_parse_bool(p, param, value, &flag);
    if (code != LR_OK || !flag)
        return code;
    return chat_set_constraint(p, param, GRAMMAR_ANSWER_OBJECT, NULL);
}

static lr_code parse_constraint_set(struct chat_parse *p, const char *param,
                                    enum grammar_answer answer, const struct lr_json *value)
{
    switch (answer) {
    case GRAMMAR_ANSWER_OBJECT:
        return set_object(p, param, value);
    case GRAMMAR_ANSWER_SCHEMA:
        return set_schema(p, param, value);
    case GRAMMAR_ANSWER_CHOICE:
        return set_choice(p, param, value);
    default:
        if (value->type != LR_JSON_STRING)
            return chat_parse_type(p, param, "a string", value);
        return chat_set_constraint(p, param, answer, value);
    }
}

struct name {
    const char *name;
    enum grammar_answer answer;
};

static const struct name *parse_constraint_find(const struct name *list, size_t count,
                                                struct lr_str name)
{
    for (size_t i = 0; i < count; i++)
        if (lr_str_eq_z(name, list[i].name))
            return &list[i];
    return NULL;
}

lr_code chat_parse_constraint(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    static const struct name names[] = {
        {"guided_json", GRAMMAR_ANSWER_SCHEMA},   {"guided_regex", GRAMMAR_ANSWER_REGEX},
        {"guided_choice", GRAMMAR_ANSWER_CHOICE}, {"guided_grammar", GRAMMAR_ANSWER_GRAMMAR},
        {"json_schema", GRAMMAR_ANSWER_SCHEMA},   {"grammar", GRAMMAR_ANSWER_GRAMMAR},
    };
    const struct name *found =
        parse_constraint_find(names, sizeof(names) / sizeof(names[0]), lr_str_z(name));
    return parse_constraint_set(p, name, found->answer, value);
}

/* What vLLM's structured_outputs has beside the constraint: no effect, or (refused unless it is
 * false or null) an effect on the answer that is not offered. */
static lr_code parse_hint(struct chat_parse *p, const char *param, struct lr_str key,
                          const struct lr_json *value)
{
    static const char *const ignored[] = {"disable_fallback", "_backend", "_backend_was_auto"};
    static const char *const refused[] = {"disable_any_whitespace",
                                          "disable_additional_properties", "whitespace_pattern",
                                          "structural_tag"};
    bool flag = true;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        if (lr_str_eq_z(key, ignored[i]))
            return LR_OK;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (lr_str_eq_z(key, refused[i]))
            return lr_json_bool(value, &flag) && !flag
                       ? LR_OK
                       : chat_parse_fail(p, param, "unsupported_parameter", LR_UNSUPPORTED,
                                         "Unsupported parameter: '%s'. It would change the "
                                         "answer; leave it out.",
                                         param);
    return chat_parse_fail(p, param, "unknown_parameter", LR_INVALID_ARGUMENT,
                           "Unrecognized member of 'structured_outputs': '%s'.", param);
}

lr_code chat_parse_structured_outputs(struct chat_parse *p, const char *name,
                                      const struct lr_json *value)
{
    static const struct name names[] = {
        {"json", GRAMMAR_ANSWER_SCHEMA},        {"regex", GRAMMAR_ANSWER_REGEX},
        {"choice", GRAMMAR_ANSWER_CHOICE},      {"grammar", GRAMMAR_ANSWER_GRAMMAR},
        {"json_object", GRAMMAR_ANSWER_OBJECT},
    };
    lr_code code = LR_OK;
    bool any = false;
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    for (uint32_t i = 0; code == LR_OK && i < value->count; i++) {
        struct lr_str key = value->members[i].key;
        const struct lr_json *v = &value->members[i].value;
        const struct name *found =
            parse_constraint_find(names, sizeof(names) / sizeof(names[0]), key);
        char param[80];
        (void)snprintf(param, sizeof(param), "%s." LR_STR_FMT, name,
                       LR_STR_ARG(lr_str_sub(key, 0, 40)));
        any = any || found != NULL;
        if (v->type != LR_JSON_NULL)
            code = found != NULL ? parse_constraint_set(p, param, found->answer, v)
                                 : parse_hint(p, param, key, v);
    }
    if (code == LR_OK && !any)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has no constraint; it needs one of 'json', 'regex', "
                               "'choice', 'grammar' and 'json_object'.",
                               name);
    return code;
}
