/* grammar/calls.c - see grammar/calls.h. */
#include "grammar/calls.h"

#include "grammar/program.h"

/* Signs have no closing quotes, because templates write quotes as " or \". */
static const struct grammar_form forms[GRAMMAR_FORMAT_COUNT] = {
    [GRAMMAR_PLAIN] = {.name = "plain"},
    [GRAMMAR_HARMONY] = {.name = "harmony", .signs = {"<|start|>", "<|message|>"}},
    [GRAMMAR_HERMES] =
        {
            .name = "hermes",
            .begin = {"<tool_call>", 11},
            .end = {"</tool_call>", 12},
            .arguments = {"arguments", 9},
            .begin_token = GRAMMAR_CALL_BEGIN,
            .end_token = GRAMMAR_CALL_END,
            .signs = {"<tool_call>", "\"name", "\"arguments"},
            .others = {"<function=", "<arg_key>"}, /* other forms between the same tags */
        },
    [GRAMMAR_LLAMA3] =
        {
            .name = "llama3",
            .between = ';',
            .lead = {"<|python_tag|>", 14},
            .arguments = {"parameters", 10},
            .lead_token = GRAMMAR_PYTHON_TAG,
            /* other models write members of these names, too */
            .signs = {"\"name", "\"parameters", "<|start_header_id|>"},
            .others = {"<tool_call>", "<function="},
        },
};

const struct grammar_form *grammar_form_of(enum grammar_format format)
{
    return format > GRAMMAR_HARMONY ? &forms[format] : NULL;
}

const char *grammar_format_name(enum grammar_format format)
{
    return forms[format].name;
}

static bool grammar_calls_has(struct lr_str text, const char *part)
{
    return lr_str_find(text, lr_str_z(part)) != LR_STR_NONE;
}

static bool shows(struct lr_str chat_template, const struct grammar_form *form)
{
    for (size_t i = 0; i < GRAMMAR_SIGNS_MAX; i++)
        if ((form->signs[i] != NULL && !grammar_calls_has(chat_template, form->signs[i])) ||
            (form->others[i] != NULL && grammar_calls_has(chat_template, form->others[i])))
            return false;
    return true;
}

enum grammar_format grammar_format_of_template(struct lr_str chat_template)
{
    for (enum grammar_format i = GRAMMAR_HARMONY; i < GRAMMAR_FORMAT_COUNT; i++)
        if (shows(chat_template, &forms[i]))
            return i;
    return GRAMMAR_PLAIN;
}
