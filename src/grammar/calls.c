/* grammar/calls.c - see grammar/calls.h. */
#include "grammar/calls.h"

#define S(text)                                                                                \
    {                                                                                          \
        text, sizeof(text) - 1                                                                 \
    }
#define JSON_MEMBERS .name_key = S("name"), .arguments = S("arguments")
#define HY           ":opensource" /* Hunyuan 3 has it in all its marks */
#define P            "]<]minimax[>["
#define D                                                                                      \
    "\xEF\xBD\x9C"                                                                             \
    "DSML"                                                                                     \
    "\xEF\xBD\x9C" /* a token of DeepSeek's */
#define BAR   "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"

/* Signs have no closing quotes, because templates write quotes as " or \". */
static const struct grammar_form forms[GRAMMAR_FORMAT_COUNT] =
    {
        [GRAMMAR_PLAIN] = {.name = "plain"},
        [GRAMMAR_HARMONY] = {.name = "harmony",
                             .shape = GRAMMAR_SHAPE_CHANNELS,
                             .signs = {"<|start|>", "<|message|>"},
                             .others = {"<atem:"}},
        [GRAMMAR_MUSE] =
            {
                .name = "muse",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<atem:function_calls>"),
                .section_end = S("</atem:function_calls>"),
                .begin = S("<atem:invoke name=\""),
                .end = S("</atem:invoke>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .key = S("<atem:parameter name=\""),
                .key_end = S("\""),
                .key_close = S(">"),
                .value_end = S("</atem:parameter>"),
                .heading = S("to="),
                .heading_end = S("<|message|>"),
                .drops = {S("<|start|>assistant"), S("<|eom|>"), S("<|eot|>")},
                .thought = {S("to=self<|message|>"), S("<|eom|>")},
                .thinks_anywhere = true,
                .signs = {"<atem:function_calls>"},
            },
        [GRAMMAR_KIMI_K3] =
            {
                .name = "kimi_k3",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<|open|>tools<|sep|>"),
                .section_end = S("<|close|>tools<|sep|>"),
                .begin = S("<|open|>call tool=\""),
                .end = S("<|close|>call<|sep|>"),
                .name_end = S("\""),
                .name_close = S("<|sep|>"),
                .key = S("<|open|>argument key=\""),
                .key_end = S("\""),
                .key_close = S("<|sep|>"),
                .value_end = S("<|close|>argument<|sep|>"),
                .string_attribute = S("type=\"string\""),
                .has_attributes = true,
                .has_index = true,
                .ends_content = true,
                .drops = {S("<|open|>response<|sep|>"), S("<|close|>response<|sep|>"),
                          S("<|close|>message<|sep|>")},
                .thought = {S("<|open|>think<|sep|>"), S("<|close|>think<|sep|>")},
                .thinks_anywhere = true,
                .signs = {"<|open|>", "<|close|>", "<|sep|>"},
            },
        [GRAMMAR_KIMI_K2] =
            {
                .name = "kimi_k2",
                .shape = GRAMMAR_SHAPE_NAMED,
                .section = S("<|tool_calls_section_begin|>"),
                .section_end = S("<|tool_calls_section_end|>"),
                .section2 = S("<|tool_call_section_begin|>"),
                .section2_end = S("<|tool_call_section_end|>"),
                .begin = S("<|tool_call_begin|>"),
                .end = S("<|tool_call_end|>"),
                .prefix = S("functions."),
                .name_end = S("<|tool_call_argument_begin|>"),
                .name_is_id = true,
                .signs = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"},
            },
        [GRAMMAR_DSML] =
            {
                .name = "deepseek_dsml",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<" D "function_calls>"),
                .section_end = S("</" D "function_calls>"),
                .section2 = S("<" D "tool_calls>"),
                .section2_end = S("</" D "tool_calls>"),
                .begin = S("<" D "invoke name=\""),
                .end = S("</" D "invoke>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .key = S("<" D "parameter name=\""),
                .key_end = S("\""),
                .key_close = S(">"),
                .value_end = S("</" D "parameter>"),
                .string_attribute = S("string=\"true\""),
                .has_attributes = true,
                .signs = {"DSML", "invoke name="},
            },
        [GRAMMAR_DEEPSEEK_V3] =
            {
                .name = "deepseek_v3",
                .shape = GRAMMAR_SHAPE_NAMED,
                .section = S("<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">"),
                .section_end = S("<" BAR "tool" BLANK "calls" BLANK "end" BAR ">"),
                .begin = S("<" BAR "tool" BLANK "call" BLANK "begin" BAR ">"),
                .end = S("<" BAR "tool" BLANK "call" BLANK "end" BAR ">"),
                .prefix = S("function<" BAR "tool" BLANK "sep" BAR ">"),
                .name_end = S("\n```json\n"),
                .signs = {"<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">", "```json"},
            },
        [GRAMMAR_DEEPSEEK_V31] =
            {
                .name = "deepseek_v31",
                .shape = GRAMMAR_SHAPE_NAMED,
                .section = S("<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">"),
                .section_end = S("<" BAR "tool" BLANK "calls" BLANK "end" BAR ">"),
                .begin = S("<" BAR "tool" BLANK "call" BLANK "begin" BAR ">"),
                .end = S("<" BAR "tool" BLANK "call" BLANK "end" BAR ">"),
                .name_end = S("<" BAR "tool" BLANK "sep" BAR ">"),
                .signs = {"<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">"},
                .others = {"```json"},
            },
        [GRAMMAR_MINIMAX_M3] =
            {
                .name = "minimax_m3",
                .shape = GRAMMAR_SHAPE_NESTED,
                .section = S(P "<tool_call>"),
                .section_end = S(P "</tool_call>"),
                .begin = S(P "<invoke name=\""),
                .end = S(P "</invoke>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .thought = {S("<mm:think>"), S("</mm:think>")},
                .signs = {P},
            },
        [GRAMMAR_MINIMAX_M2] =
            {
                .name = "minimax_m2",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<minimax:tool_call>"),
                .section_end = S("</minimax:tool_call>"),
                .begin = S("<invoke name=\""),
                .end = S("</invoke>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .key = S("<parameter name=\""),
                .key_end = S("\""),
                .key_close = S(">"),
                .value_end = S("</parameter>"),
                .signs = {"<minimax:tool_call>"},
            },
        [GRAMMAR_STEP3] =
            {
                .name = "step3",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<" BAR "tool_calls_begin" BAR ">"),
                .section_end = S("<" BAR "tool_calls_end" BAR ">"),
                .begin = S("<steptml:invoke name=\""),
                .end = S("</steptml:invoke>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .key = S("<steptml:parameter name=\""),
                .key_end = S("\""),
                .key_close = S(">"),
                .value_end = S("</steptml:parameter>"),
                .skipped = {S("<" BAR "tool_call_begin" BAR ">"),
                            S("<" BAR "tool_call_end" BAR ">"), S("<" BAR "tool_sep" BAR ">"),
                            S("function<" BAR "tool_sep" BAR ">")},
                .signs = {"steptml:invoke"},
            },
        [GRAMMAR_SOLAR] =
            {
                .name = "solar_open",
                .shape = GRAMMAR_SHAPE_NAMED,
                .begin = S("<|tool_call:begin|>"),
                .end = S("<|tool_call:end|>"),
                .id_end = S("<|tool_call:name|>"),
                .name_end = S("<|tool_call:args|>"),
                .drops = {S("<|begin|>assistant"), S("<|content|>"), S("<|tool_calls|>")},
                .thought = {S("<|think|>"), S("<|end|>")},
                .thinks_anywhere = true,
                .signs = {"<|tool_call:begin|>"},
            },
        [GRAMMAR_GEMMA4] =
            {
                .name = "gemma4",
                .shape = GRAMMAR_SHAPE_GEMMA,
                .begin = S("<|tool_call>call:"),
                .end = S("<tool_call|>"),
                .quote = S("<|\"|>"),
                .thought = {S("<|channel>thought"), S("<channel|>")},
                .thinks_anywhere = true,
                .signs = {"<|tool_call>call:"},
            },
        [GRAMMAR_FUNCTIONGEMMA] =
            {
                .name = "functiongemma",
                .shape = GRAMMAR_SHAPE_GEMMA,
                .begin = S("<start_function_call>call:"),
                .end = S("<end_function_call>"),
                .quote = S("<escape>"),
                .signs = {"<start_function_call>"},
            },
        [GRAMMAR_MISTRAL_ARGS] =
            {
                .name = "mistral_args",
                .shape = GRAMMAR_SHAPE_NAMED,
                .begin = S("[TOOL_CALLS]"),
                .name_end = S("[ARGS]"),
                .id_mark = S("[CALL_ID]"),
                .name_key = S("name"),
                .arguments = S("arguments"),
                .id_key = S("id"),
                .signs = {"[TOOL_CALLS]", "[ARGS]"},
            },
        [GRAMMAR_MISTRAL_JSON] =
            {
                .name = "mistral_json",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("[TOOL_CALLS]"),
                JSON_MEMBERS,
                .id_key = S("id"),
                .signs = {"[TOOL_CALLS]"},
                .others = {"[ARGS]"},
            },
        [GRAMMAR_COHERE] =
            {
                .name = "cohere",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<|START_ACTION|>"),
                .end = S("<|END_ACTION|>"),
                .name_key = S("tool_name"),
                .arguments = S("parameters"),
                .id_key = S("tool_call_id"),
                .drops = {S("<|START_RESPONSE|>"), S("<|END_RESPONSE|>"), S("<|START_TEXT|>"),
                          S("<|END_TEXT|>")},
                .thought = {S("<|START_THINKING|>"), S("<|END_THINKING|>")},
                .signs = {"<|START_ACTION|>"},
            },
        [GRAMMAR_COMMAND_R] =
            {
                .name = "command_r",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("Action:"),
                .name_key = S("tool_name"),
                .arguments = S("parameters"),
                .is_fenced = true,
                .signs = {"Action:", "tool_name", "<|CHATBOT_TOKEN|>"},
            },
        [GRAMMAR_GRANITE3] =
            {
                .name = "granite3",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<|tool_call|>"),
                JSON_MEMBERS,
                .drops = {S("<response>"), S("</response>")},
                .signs = {"<|tool_call|>"},
            },
        [GRAMMAR_GRANITE20B] =
            {
                .name = "granite20b",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("<function_call>"),
                JSON_MEMBERS,
                .signs = {"<function_call>"},
                .others = {"</function_call>"},
            },
        [GRAMMAR_INTERNLM2] =
            {
                .name = "internlm2",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("<|action_start|><|plugin|>"),
                .end = S("<|action_end|>"),
                .name_key = S("name"),
                .arguments = S("parameters"),
                .signs = {"<|action_start|>", "<|plugin|>"},
            },
        [GRAMMAR_LONGCAT] =
            {
                .name = "longcat",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("<longcat_tool_call>"),
                .end = S("</longcat_tool_call>"),
                JSON_MEMBERS,
                .thought = {S("<longcat_think>"), S("</longcat_think>")},
                .signs = {"<longcat_tool_call>"},
            },
        [GRAMMAR_NEMOTRON2] =
            {
                .name = "nemotron2",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<TOOLCALL>"),
                .end = S("</TOOLCALL>"),
                JSON_MEMBERS,
                .signs = {"<TOOLCALL>"},
            },
        [GRAMMAR_APERTUS] =
            {
                .name = "apertus",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<|tools_prefix|>"),
                .end = S("<|tools_suffix|>"),
                .name_is_key = true,
                .thought = {S("<|inner_prefix|>"), S("<|inner_suffix|>")},
                .signs = {"<|tools_prefix|>"},
            },
        [GRAMMAR_LFM2] =
            {
                .name = "lfm2",
                .shape = GRAMMAR_SHAPE_PYTHON,
                .begin = S("<|tool_call_start|>"),
                .end = S("<|tool_call_end|>"),
                .signs = {"List of tools: "},
                .others = {"<tool_call>", "<|python_tag|>"},
            },
        [GRAMMAR_SEED_OSS] =
            {
                .name = "seed_oss",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<seed:tool_call>"),
                .section_end = S("</seed:tool_call>"),
                .begin = S("<function="),
                .end = S("</function>"),
                .name_end = S(">"),
                .key = S("<parameter="),
                .key_end = S(">"),
                .value_end = S("</parameter>"),
                .thought = {S("<seed:think>"), S("</seed:think>")},
                .signs = {"<seed:tool_call>"},
            },
        [GRAMMAR_QWEN_XML] =
            {
                .name = "qwen_xml",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<tool_call>"),
                .section_end = S("</tool_call>"),
                .begin = S("<function="),
                .end = S("</function>"),
                .name_end = S(">"),
                .key = S("<parameter="),
                .key_end = S(">"),
                .value_end = S("</parameter>"),
                .strips_newline = true,
                .signs = {"<tool_call>", "<function=", "<parameter="},
            },
        [GRAMMAR_HY3] =
            {
                .name = "hy3",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .section = S("<tool_calls" HY ">"),
                .section_end = S("</tool_calls" HY ">"),
                .begin = S("<tool_call" HY ">"),
                .end = S("</tool_call" HY ">"),
                .name_end = S("<tool_sep" HY ">"),
                .key = S("<arg_key" HY ">"),
                .key_end = S("</arg_key" HY ">"),
                .value = S("<arg_value" HY ">"),
                .value_end = S("</arg_value" HY ">"),
                .thought = {S("<think" HY ">"), S("</think" HY ">")},
                .signs = {"<tool_sep", "<arg_key"},
                .others = {"<function name="},
            },
        [GRAMMAR_GLM] =
            {
                .name = "glm",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .begin = S("<tool_call>"),
                .end = S("</tool_call>"),
                .key = S("<arg_key>"),
                .key_end = S("</arg_key>"),
                .value = S("<arg_value>"),
                .value_end = S("</arg_value>"),
                .signs = {"<tool_call>", "<arg_key>", "<arg_value>"},
            },
        [GRAMMAR_MINICPM5] =
            {
                .name = "minicpm5",
                .shape = GRAMMAR_SHAPE_TAGGED,
                .begin = S("<function name=\""),
                .end = S("</function>"),
                .name_end = S("\""),
                .name_close = S(">"),
                .key = S("<param name=\""),
                .key_end = S("\""),
                .key_close = S(">"),
                .value_end = S("</param>"),
                .is_cdata = true,
                .signs = {"<function name=", "<param name="},
            },
        [GRAMMAR_GIGACHAT3] =
            {
                .name = "gigachat3",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("<|function_call|>"),
                JSON_MEMBERS,
                .signs = {"<|role_sep|>", "<|message_sep|>", "<|function_call|>"},
            },
        [GRAMMAR_GIGACHAT30] =
            {
                .name = "gigachat30",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("function call<|role_sep|>"),
                JSON_MEMBERS,
                .drops = {S("<|message_sep|>")},
                .signs = {"<|role_sep|>", "<|message_sep|>"},
                .others = {"<|function_call|>"},
            },
        [GRAMMAR_FUNCTIONARY32] =
            {
                .name = "functionary32",
                .shape = GRAMMAR_SHAPE_NAMED,
                .begin = S(">>>"),
                .name_end = S("\n"),
                .is_begun = true,
                .said = S("all"),
                .signs = {">>>all"},
            },
        [GRAMMAR_FUNCTIONARY31] =
            {
                .name = "functionary31",
                .shape = GRAMMAR_SHAPE_NAMED,
                .begin = S("<function="),
                .end = S("</function>"),
                .name_end = S(">"),
                .signs = {"<function="},
                .others = {"<parameter="},
            },
        [GRAMMAR_FUNCTOOLS] =
            {
                .name = "functools",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("functools"),
                JSON_MEMBERS,
                .signs = {"functools"},
            },
        [GRAMMAR_APRIEL] =
            {
                .name = "apriel",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<tool_calls>"),
                .end = S("</tool_calls>"),
                JSON_MEMBERS,
                .drops = {S("[END FINAL RESPONSE]"), S("<|end|>")},
                .thought = {S("Here are my reasoning steps:"), S("[BEGIN FINAL RESPONSE]")},
                .signs = {"[BEGIN FINAL RESPONSE]", "<tool_calls>"},
            },
        [GRAMMAR_CALLS_ARRAY] =
            {
                .name = "tool_calls_array",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .begin = S("<tool_calls>"),
                .end = S("</tool_calls>"),
                JSON_MEMBERS,
                .drops = {S("<answer>"), S("</answer>")},
                .signs = {"<tool_calls>"},
            },
        [GRAMMAR_XLAM] =
            {
                .name = "xlam",
                .shape = GRAMMAR_SHAPE_ARRAY,
                .is_fenced = true,
                JSON_MEMBERS,
                .signs = {"\"tool_call_name"},
            },
        [GRAMMAR_OLMO3] =
            {
                .name = "olmo3",
                .shape = GRAMMAR_SHAPE_PYTHON,
                .begin = S("<function_calls>"),
                .end = S("</function_calls>"),
                .is_lines = true,
                .opens_thought = true,
                .signs = {"<function_calls>"},
                .others = {"DSML", "<atem:"},
            },
        [GRAMMAR_PYTHONIC] =
            {
                .name = "pythonic",
                .shape = GRAMMAR_SHAPE_PYTHON,
                .lead = S("<|python_start|>"),
                .signs = {"[func_name1("},
            },
        [GRAMMAR_ERNIE] =
            {
                .name = "ernie",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .begin = S("<tool_call>"),
                .end = S("</tool_call>"),
                JSON_MEMBERS,
                .drops = {S("<response>"), S("</response>")},
                .signs = {"<tool_call>", "<response>", "\"arguments"},
                .others = {"<tool_calls>", "<function=", "<arg_key>"},
            },
        [GRAMMAR_HERMES] =
            {
                .name = "hermes",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .is_fenced = true,
                .begin = S("<tool_call>"),
                .end = S("</tool_call>"),
                JSON_MEMBERS,
                .signs = {"<tool_call>", "\"name", "\"arguments"},
                .others = {"<tool_calls>", "<function=", "<arg_key>"},
            },
        [GRAMMAR_LLAMA3] =
            {
                .name = "llama3",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .between = ';',
                .lead = S("<|python_tag|>"),
                .name_key = S("name"),
                .arguments = S("parameters"),
                /* other models write members of these names, too */
                .one_by_one = true,
                .signs = {"\"name", "\"parameters", "<|start_header_id|>"},
                .others = {"<tool_call>", "<function="},
            },
        [GRAMMAR_LLAMA4] =
            {
                .name = "llama4",
                .shape = GRAMMAR_SHAPE_OBJECT,
                .between = ';',
                .lead = S("<|python_start|>"),
                .name_key = S("name"),
                .arguments = S("parameters"),
                .signs = {"\"name", "\"parameters", "<|header_start|>"},
                .others = {"<tool_call>", "<function="},
            },
};

const struct grammar_form *grammar_form_of(enum grammar_format format)
{
    return &forms[format];
}

const char *grammar_format_name(enum grammar_format format)
{
    return forms[format].name;
}

bool grammar_format_find(struct lr_str name, enum grammar_format *out)
{
    for (enum grammar_format i = GRAMMAR_PLAIN; i < GRAMMAR_FORMAT_COUNT; i++)
        if (lr_str_eq_z(name, forms[i].name)) {
            *out = i;
            return true;
        }
    return false;
}

static bool grammar_calls_has(struct lr_str text, const char *part)
{
    return lr_str_find(text, lr_str_z(part)) != LR_STR_NONE;
}

static bool shows(struct lr_str chat_template, const struct grammar_form *form)
{
    if (form->signs[0] == NULL)
        return false;
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

bool grammar_format_is_old(enum grammar_format format)
{
    return format == GRAMMAR_PLAIN || format == GRAMMAR_HARMONY || format == GRAMMAR_HERMES ||
           format == GRAMMAR_LLAMA3;
}

bool grammar_form_is_enforced(enum grammar_format format)
{
    return format != GRAMMAR_PLAIN;
}

struct grammar_thought grammar_thought_of(enum grammar_format format,
                                          struct lr_str chat_template)
{
    static const struct grammar_thought pairs[] = {
        {S("[THINK]"), S("[/THINK]")},
        {S("<|START_THINKING|>"), S("<|END_THINKING|>")},
        {S("<seed:think>"), S("</seed:think>")},
        {S("<think>"), S("</think>")},
    };
    const struct grammar_form *form = &forms[format];
    bool has_none = form->shape == GRAMMAR_SHAPE_CHANNELS || form->is_begun;
    if (form->thought.end.len != 0 || has_none)
        return form->thought;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (lr_str_find(chat_template, pairs[i].begin) != LR_STR_NONE ||
            lr_str_find(chat_template, pairs[i].end) != LR_STR_NONE)
            return pairs[i];
    return (struct grammar_thought){0};
}

uint32_t grammar_mark_scan(struct lr_str mark, char first, uint32_t state, char byte)
{
    if (mark.len == 0) {
        if (state != 0 || grammar_is_blank(byte))
            return state;
        return byte == first ? GRAMMAR_SCAN_FOUND : GRAMMAR_SCAN_NEVER;
    }
    /* The longest beginning of the mark that the text now ends with.  Marks repeat their first
     * bytes seldom, so that few lengths are compared. */
    for (uint32_t n = state + 1; n != 0; n--)
        if (mark.ptr[n - 1] == byte && memcmp(mark.ptr, mark.ptr + (state + 1 - n), n - 1) == 0)
            return n == mark.len ? GRAMMAR_SCAN_FOUND : n;
    return 0;
}
