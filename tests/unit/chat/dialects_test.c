/* What models of each dialect write, as the reader gives it: reasoning, content and calls.
 * Every output is read whole and in pieces of one, three and seven bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "dialects.h"

#define BAR   "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"
#define DS(x) "<" BAR "tool" BLANK x BAR ">"
#define DSML  BAR "DSML" BAR
#define M3    "]<]minimax[>["

/* Reasoning in (), content as it is, calls as [name#id arguments]. */
struct said {
    struct lr_buf text;
    enum chat_delta_kind last;
    bool any;
};

static void take(void *ctx, const struct chat_delta *d)
{
    struct said *s = ctx;
    bool goes_on = s->any && s->last == d->kind;
    if (s->any && s->last == CHAT_DELTA_REASONING && !goes_on)
        lr_buf_add_char(&s->text, ')');
    if (d->kind == CHAT_DELTA_REASONING && !goes_on)
        lr_buf_add_char(&s->text, '(');
    if (d->kind == CHAT_DELTA_TOOL_BEGIN)
        lr_buf_addf(&s->text, "[" LR_STR_FMT "%s" LR_STR_FMT " ", LR_STR_ARG(d->text),
                    d->id.len != 0 ? "#" : "", LR_STR_ARG(d->id));
    else if (d->kind == CHAT_DELTA_TOOL_END)
        lr_buf_add_char(&s->text, ']');
    else
        lr_buf_add_str(&s->text, d->text);
    s->last = d->kind;
    s->any = true;
}

struct row {
    enum grammar_format format;
    const char *output, *wanted;
    bool is_opened, is_cut;
};

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"n\":{\"type\":\"integer\"},\"on\":{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"null\"}"
    "]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
    "\"at\":{\"$ref\":\"#/$defs/at\"}},"
    "\"$defs\":{\"at\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}}}}}";

static void read_row(const struct row *row, const struct chat_declared *tools, size_t piece,
                     struct said *s)
{
    struct chat_dialect dialect = dialect_of(row->format);
    struct chat_reader reader = {.dialect = &dialect};
    struct chat_reader_options options = {
        .tools = tools, .tool_count = 2, .is_opened = row->is_opened};
    struct lr_str rest = lr_str_z(row->output);
    *s = (struct said){0};
    lr_buf_init(&s->text, 1 << 20);
    dialect.reading->init(&reader, &options, take, s);
    while (rest.len != 0) {
        size_t n = piece == 0 || piece > rest.len ? rest.len : piece;
        dialect.reading->token(&reader, lr_str_sub(rest, 0, n), false);
        rest = lr_str_sub(rest, n, rest.len);
    }
    dialect.reading->end(&reader, row->is_cut);
    dialect.reading->free(&reader);
    if (s->any && s->last == CHAT_DELTA_REASONING)
        lr_buf_add_char(&s->text, ')');
}

static void expect_rows(const struct row *rows, size_t count)
{
    static const size_t pieces[] = {0, 1, 3, 7};
    struct chat_declared tools[2] = {{.name = LR_STR_LIT("get")}, {.name = LR_STR_LIT("now")}};
    const struct lr_json *parsed;
    struct lr_arena arena;
    struct said s;
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(lr_json_parse(&arena, lr_str_z(schema), NULL, &parsed, NULL), LR_OK);
    assert_true(chat_types_of(&arena, parsed, &tools[0].types));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
            read_row(&rows[i], tools, pieces[k], &s);
            if (strcmp(lr_buf_z(&s.text), rows[i].wanted) != 0)
                fail_msg("%s in pieces of %zu: %s\n gives  %s\n wanted %s",
                         grammar_format_name(rows[i].format), pieces[k], rows[i].output,
                         lr_buf_z(&s.text), rows[i].wanted);
            lr_buf_free(&s.text);
        }
    lr_arena_free(&arena);
}
#define EXPECT(rows) expect_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void calls_of_every_form_are_read(void **state)
{
    static const struct row rows[] = {
        {.format = GRAMMAR_MUSE,
         .output =
             " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Yes.<|eom|>"
             "<|start|>assistant to=get<|message|><atem:function_calls>\n<atem:invoke "
             "name=\"get\">\n<atem:parameter name=\"city\">42</atem:parameter>\n"
             "</atem:invoke>\n</atem:function_calls>",
         .wanted = "(Hm.)Yes.[get {\"city\": \"42\"}]"},
        {.format = GRAMMAR_STEP3,
         .output = "<\xEF\xBD\x9Ctool_calls_begin\xEF\xBD\x9C><\xEF\xBD\x9Ctool_call_begin"
                   "\xEF\xBD\x9C>function<\xEF\xBD\x9Ctool_sep\xEF\xBD\x9C><steptml:invoke "
                   "name=\"get\"><steptml:parameter name=\"n\">42</steptml:parameter>"
                   "</steptml:invoke><\xEF\xBD\x9Ctool_call_end\xEF\xBD\x9C>"
                   "<\xEF\xBD\x9Ctool_calls_end\xEF\xBD\x9C>",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_SOLAR,
         .output =
             "<|think|>Hm.<|end|><|begin|>assistant<|content|>Yes.<|end|><|begin|>assistant"
             "<|tool_calls|><|tool_call:begin|>a1b2<|tool_call:name|>get<|tool_call:args|>"
             "{\"n\": 42}<|tool_call:end|>",
         .wanted = "(Hm.)Yes.[get#a1b2 {\"n\": 42}]"},
        {.format = GRAMMAR_FUNCTIONGEMMA,
         .output = "<start_function_call>call:get{city:<escape>a {b}, \"c\"<escape>,n:42}"
                   "<end_function_call>",
         .wanted = "[get {\"city\": \"a {b}, \\\"c\\\"\", \"n\": 42}]"},
        {.format = GRAMMAR_COMMAND_R,
         .output = "Action:\n```json\n[{\"tool_name\": \"get\", \"parameters\": {\"n\": 42}}]\n"
                   "```",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_GRANITE20B,
         .output = "<function_call> {\"name\": \"get\", \"arguments\": {\"n\": 42}}",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_INTERNLM2,
         .output =
             "<|action_start|><|plugin|>\n{\"name\": \"get\", \"parameters\": {\"n\": 42}}"
             "<|action_end|>",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_LONGCAT,
         .output = "<longcat_think>Hm.</longcat_think><longcat_tool_call>{\"name\": \"get\", "
                   "\"arguments\": {\"n\": 42}}</longcat_tool_call>",
         .wanted = "(Hm.)[get {\"n\": 42}]"},
        {.format = GRAMMAR_GIGACHAT30,
         .output = "Yes.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", "
                   "\"arguments\": {\"n\": 42}}",
         .wanted = "Yes.[get {\"n\": 42}]"},
        {.format = GRAMMAR_FUNCTIONARY32,
         .output = "all\nYes.>>>get\n{\"n\": 42}>>>now\n{}",
         .wanted = "Yes.[get {\"n\": 42}][now {}]"},
        {.format = GRAMMAR_FUNCTIONARY32, .output = "no\nname", .wanted = "no\nname"},
        {.format = GRAMMAR_APRIEL,
         .output = "Hm.\n[BEGIN FINAL RESPONSE]\nYes.<tool_calls>[{\"name\": \"get\", "
                   "\"arguments\": {\"n\": 42}}]</tool_calls>\n[END FINAL RESPONSE]",
         .is_opened = true,
         .wanted = "(Hm.)Yes.[get {\"n\": 42}]"},
        {.format = GRAMMAR_XLAM,
         .output = "```json\n[{\"name\": \"get\", \"arguments\": {\"n\": 42}}]\n```",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_XLAM, .output = "[1, 2] is no call", .wanted = "[1, 2] is no call"},
        {.format = GRAMMAR_ERNIE,
         .output = "<response>\nYes.\n</response>\n<tool_call>\n{\"name\": \"get\", "
                   "\"arguments\": {\"n\": 42}}\n</tool_call>",
         .wanted = "Yes.\n[get {\"n\": 42}]"},
        {.format = GRAMMAR_LLAMA4,
         .output = "{\"name\": \"get\", \"parameters\": {\"n\": 42}}",
         .wanted = "[get {\"n\": 42}]"},
        {.format = GRAMMAR_KIMI_K3,
         .output = "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|>"
                   "<|open|>tools<|sep|><|open|>call tool=\"get\" index=\"1\"<|sep|>"
                   "<|open|>argument key=\"city\" type=\"string\"<|sep|>42<|close|>argument"
                   "<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>42<|close|>argument"
                   "<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
         .is_opened = true,
         .wanted = "(Hm.)Yes.[get {\"city\": \"42\", \"n\": 42}]"},
        {.format = GRAMMAR_KIMI_K2,
         .output = "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0 "
                   "<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_call_begin|>"
                   "functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                   "<|tool_calls_section_end|>",
         .wanted = "[get#functions.get:0 {\"n\": 1}][now#functions.now:1 {}]"},
        {.format = GRAMMAR_DSML,
         .output =
             "A\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"get\">\n<" DSML
             "parameter name=\"city\" string=\"true\">a \"b\"\n</" DSML "parameter>\n<" DSML
             "parameter name=\"n\" string=\"false\">7</" DSML "parameter>\n</" DSML
             "invoke>\n<" DSML "invoke name=\"now\">\n</" DSML "invoke>\n</" DSML "tool_calls>",
         .wanted = "A\n\n[get {\"city\": \"a \\\"b\\\"\\n\", \"n\": 7}][now {}]"},
        {.format = GRAMMAR_DEEPSEEK_V3,
         .output = "x</think>\n\n" DS("calls" BLANK "begin")
             DS("call" BLANK "begin") "function" DS("sep") "get\n```json\n{\"n\": 1}\n```" DS(
                 "call" BLANK "end") DS("calls" BLANK "end"),
         .is_opened = true,
         .wanted = "(x)[get {\"n\": 1}]"},
        {.format = GRAMMAR_DEEPSEEK_V31,
         .output = DS("calls" BLANK "begin")
             DS("call" BLANK "begin") "get" DS("sep") "{\"n\": 1}" DS("call" BLANK "end")
                 DS("call" BLANK "begin") "now" DS("sep") "{}" DS("call" BLANK "end")
                     DS("calls" BLANK "end"),
         .wanted = "[get {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_MINIMAX_M3,
         .output =
             M3 "<tool_call>\n" M3 "<invoke name=\"get\">" M3 "<city>a <b> " M3 "</city>" M3
                "<tags>" M3 "<item>x" M3 "</item>" M3 "<item>y" M3 "</item>" M3 "</tags>" M3
                "<at>" M3 "<x>1.5" M3 "</x>" M3 "</at>" M3 "</invoke>\n" M3 "</tool_call>",
         .wanted =
             "[get {\"city\": \"a <b> \", \"tags\": [\"x\", \"y\"], \"at\": {\"x\": 1.5}}]"},
        {.format = GRAMMAR_MINIMAX_M2,
         .output = "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"n\">3"
                   "</parameter>\n<parameter name=\"on\">null</parameter>\n</invoke>\n"
                   "</minimax:tool_call>",
         .wanted = "[get {\"n\": 3, \"on\": null}]"},
        {.format = GRAMMAR_GEMMA4,
         .output =
             "<|channel>thought\nHm.\n<channel|>Yes.<|tool_call>call:get{city:<|\"|>a, {b}"
             "<|\"|>,at:{x:1},tags:[<|\"|>c<|\"|>]}<tool_call|>",
         .wanted =
             "(Hm.)Yes.[get {\"city\": \"a, {b}\", \"at\": {\"x\": 1}, \"tags\": [\"c\"]}]"},
        {.format = GRAMMAR_MISTRAL_ARGS,
         .output = "[TOOL_CALLS]get[CALL_ID]abcdefgh1[ARGS]{\"n\": 1}[TOOL_CALLS]now[ARGS]{}",
         .wanted = "[get#abcdefgh1 {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_MISTRAL_JSON,
         .output = "[TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"n\": 1}, \"id\": "
                   "\"abcdefgh1\"}, {\"name\": \"now\", \"arguments\": {}}]",
         .wanted = "[get#abcdefgh1 {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_COHERE,
         .output =
             "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\""
             ": \"0\", \"tool_name\": \"get\", \"parameters\": {\"n\": 1}}\n]"
             "<|END_ACTION|>",
         .wanted = "(Hm.)[get#0 {\"n\": 1}]"},
        {.format = GRAMMAR_COHERE,
         .output = "<|START_RESPONSE|>Yes.<|END_RESPONSE|>",
         .wanted = "Yes."},
        {.format = GRAMMAR_GRANITE3,
         .output = "<|tool_call|>[{\"arguments\": {\"n\": 1}, \"name\": \"get\"}]",
         .wanted = "[get {\"n\": 1}]"},
        {.format = GRAMMAR_NEMOTRON2,
         .output = "<TOOLCALL>[{\"name\": \"get\", \"arguments\": {}}]</TOOLCALL>",
         .wanted = "[get {}]"},
        {.format = GRAMMAR_APERTUS,
         .output = "<|inner_prefix|>Hm.<|inner_suffix|><|tools_prefix|>[{\"get\": {\"n\": 1}}, "
                   "{\"now\": {}}]<|tools_suffix|>",
         .wanted = "(Hm.)[get {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_LFM2,
         .output = "<|tool_call_start|>[get(city='it\\'s', n=07), now()]<|tool_call_end|>",
         .wanted = "[get {\"city\": \"it's\", \"n\": 7}][now {}]"},
        {.format = GRAMMAR_SEED_OSS,
         .output =
             "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=get>\n<parameter=on>"
             "True</parameter>\n<parameter=tags>['x', \"y\"]</parameter>\n</function>\n"
             "</seed:tool_call>",
         .wanted = "(Hm.)[get {\"on\": true, \"tags\": [\"x\", \"y\"]}]"},
        {.format = GRAMMAR_QWEN_XML,
         .output = "<tool_call>\n<function=get>\n<parameter=city>\n\n a \n\n</parameter>\n"
                   "<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                   "<function=now>\n</function>\n</tool_call>",
         .wanted = "[get {\"city\": \"\\n a \\n\", \"n\": 5}][now {}]"},
        {.format = GRAMMAR_HY3,
         .output = "<tool_calls:opensource>\n<tool_call:opensource>get<tool_sep:opensource>\n"
                   "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>12"
                   "</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
         .wanted = "[get {\"city\": \"12\"}]"},
        {.format = GRAMMAR_GLM,
         .output = "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value> a</arg_value>\n"
                   "<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
         .wanted = "[get {\"city\": \" a\", \"n\": 2}]"},
        {.format = GRAMMAR_GLM, .output = "<tool_call>now</tool_call>", .wanted = "[now {}]"},
        {.format = GRAMMAR_MINICPM5,
         .output = "<function name=\"get\"><param name=\"city\"><![CDATA[</param>]]></param>"
                   "</function>",
         .wanted = "[get {\"city\": \"</param>\"}]"},
        {.format = GRAMMAR_GIGACHAT3,
         .output = "<|function_call|>{\"name\": \"get\", \"arguments\": {\"n\": 1}}",
         .wanted = "[get {\"n\": 1}]"},
        {.format = GRAMMAR_FUNCTIONARY31,
         .output = "<function=get>{\"n\": 1}</function><function=now>{}</function>",
         .wanted = "[get {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_FUNCTOOLS,
         .output = "functools[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]",
         .wanted = "[get {\"n\": 1}]"},
        {.format = GRAMMAR_CALLS_ARRAY,
         .output = "<think>\nHm.\n</think>\n<tool_calls>[{\"name\": \"get\", \"arguments\": "
                   "{\"n\": 1}}]</tool_calls>",
         .wanted = "(Hm.)[get {\"n\": 1}]"},
        {.format = GRAMMAR_OLMO3,
         .output = "<function_calls>get(n=1)\nnow()</function_calls>",
         .wanted = "[get {\"n\": 1}][now {}]"},
        {.format = GRAMMAR_PYTHONIC,
         .output = "[get(city=\"a, )\", on=None), now()]",
         .wanted = "[get {\"city\": \"a, )\", \"on\": null}][now {}]"},
    };
    (void)state;
    EXPECT(rows);
}

#define CALL "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"n\": 1}}\n</tool_call>"

static void reasoning_has_no_marks_and_no_blanks_around_it(void **state)
{
    static const struct row rows[] = {
        {.format = GRAMMAR_HERMES,
         .output = "<think>\nHm.\n\nSo.\n</think>\n\nYes.",
         .wanted = "(Hm.\n\nSo.)Yes."},
        {.format = GRAMMAR_HERMES,
         .output = "Hm.\n</think>\n\nYes.",
         .is_opened = true,
         .wanted = "(Hm.)Yes."},
        /* the model repeats what the prompt has opened */
        {.format = GRAMMAR_HERMES,
         .output = "<think>\nHm.</think>Yes.",
         .is_opened = true,
         .wanted = "(Hm.)Yes."},
        {.format = GRAMMAR_HERMES, .output = "<think>\n\n</think>\n\nYes.", .wanted = "Yes."},
        {.format = GRAMMAR_HERMES,
         .output = "Hm. No end",
         .is_opened = true,
         .wanted = "(Hm. No end)"},
        {.format = GRAMMAR_HERMES, .output = "</think>Yes.", .wanted = "Yes."},
        /* in the middle of an answer the words are words */
        {.format = GRAMMAR_HERMES,
         .output = "The mark is <think>, then </think>.",
         .wanted = "The mark is <think>, then </think>."},
        {.format = GRAMMAR_MISTRAL_ARGS, .output = "Say </think>", .wanted = "Say </think>"},
    };
    (void)state;
    EXPECT(rows);
}

static void a_call_ends_reasoning_unless_it_is_quoted(void **state)
{
    static const struct row rows[] = {
        {.format = GRAMMAR_HERMES,
         .output = "Hm.\n" CALL,
         .is_opened = true,
         .wanted = "(Hm.)[get {\"n\": 1}]"},
        {.format = GRAMMAR_HERMES,
         .output = "Hm. " CALL "\n" CALL "\n",
         .is_opened = true,
         .wanted = "(Hm.)[get {\"n\": 1}][get {\"n\": 1}]"},
        {.format = GRAMMAR_HERMES,
         .output = "Hm. " CALL "\n</think>\nYes.",
         .is_opened = true,
         .wanted = "(Hm.)[get {\"n\": 1}]\nYes."},
        {.format = GRAMMAR_HERMES,
         .output = "I could write " CALL " but no.</think>Yes.",
         .is_opened = true,
         .wanted = "(I could write " CALL " but no.)Yes."},
        {.format = GRAMMAR_HERMES,
         .output = "It begins with <tool_call>.</think>Yes.",
         .is_opened = true,
         .wanted = "(It begins with <tool_call>.)Yes."},
        {.format = GRAMMAR_QWEN_XML,
         .output = "As <tool_call>\n<function=get>\n<parameter=city>\nx</think>Yes.",
         .is_opened = true,
         .wanted = "(As <tool_call>\n<function=get>\n<parameter=city>\nx)Yes."},
    };
    (void)state;
    EXPECT(rows);
}

static void malformed_calls_are_put_right(void **state)
{
    static const struct row rows[] = {
        {.format = GRAMMAR_QWEN_XML,
         .output =
             "I "
             "look.\n<function=get>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
         .wanted = "I look.\n[get {\"n\": 1}]"},
        {.format = GRAMMAR_QWEN_XML,
         .output = "<tool_call>\n<function=get>\n<parameter=city>\nx\n<parameter=n>\n1\n</"
                   "parameter>\n</tool_call>",
         .wanted = "[get {\"city\": \"x\", \"n\": 1}]"},
        {.format = GRAMMAR_QWEN_XML,
         .output = "<tool_call>\n<function=get\n</function>\n</"
                   "tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
         .wanted = "<tool_call>\n<function=get\n</function>\n</tool_call>\n[now {}]"},
        {.format = GRAMMAR_QWEN_XML,
         .output = "Write <function=name> first.",
         .wanted = "Write <function=name> first."},
        {.format = GRAMMAR_KIMI_K2,
         .output = "<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{\"n\": 1}",
         .wanted = "[get#functions.get:0 {\"n\": 1}]"},
        {.format = GRAMMAR_DSML,
         .output = "<" DSML "invoke name=\"now\"/>",
         .wanted = "[now {}]"},
        {.format = GRAMMAR_GEMMA4,
         .output = "<|tool_call>call:get{city:a b<|\"|>}<tool_call|>",
         .wanted = "[get {\"city\": \"a b\"}]"},
        {.format = GRAMMAR_MISTRAL_ARGS, .output = "[TOOL_CALLS]now", .wanted = "[now {}]"},
        {.format = GRAMMAR_PYTHONIC, .output = "[1, 2]", .wanted = "[1, 2]"},
        {.format = GRAMMAR_GLM,
         .output = "<tool_call>other</tool_call>",
         .wanted = "<tool_call>other</tool_call>"},
    };
    (void)state;
    EXPECT(rows);
}

static void a_cut_call_has_the_beginning_of_its_arguments(void **state)
{
    static const struct row rows[] = {
        {.format = GRAMMAR_QWEN_XML,
         .output = "<tool_call>\n<function=get>\n<parameter=n>\n1\n</"
                   "parameter>\n<parameter=city>\na b",
         .is_cut = true,
         .wanted = "[get {\"n\": 1, \"city\": \"a b]"},
        {.format = GRAMMAR_MISTRAL_ARGS,
         .output = "[TOOL_CALLS]get[ARGS]{\"n\": 1",
         .is_cut = true,
         .wanted = "[get {\"n\": 1]"},
        {.format = GRAMMAR_GLM,
         .output = "<tool_call>ge",
         .is_cut = true,
         .wanted = "<tool_call>ge"},
    };
    (void)state;
    EXPECT(rows);
}

/* Reads `size` bytes of one mark after the beginning of a call; gives the processor time. */
static double time_marks(enum grammar_format format, struct lr_str mark, size_t size)
{
    const struct chat_declared tools[2] = {{.name = LR_STR_LIT("get")},
                                           {.name = LR_STR_LIT("now")}};
    const struct grammar_form *f = grammar_form_of(format);
    char *text = malloc(size + 256);
    assert_non_null(text);
    struct row row = {.format = format, .output = text};
    struct said s;
    size_t len = (size_t)snprintf(text, 256, LR_STR_FMT LR_STR_FMT "get",
                                  LR_STR_ARG(f->section), LR_STR_ARG(f->begin));
    for (; len < size; len += mark.len)
        memcpy(text + len, mark.ptr, mark.len);
    text[len] = '\0';
    clock_t from = clock();
    read_row(&row, tools, 1 << 12, &s);
    double took = (double)(clock() - from) / CLOCKS_PER_SEC;
    assert_true(s.text.len >= size / 2);
    lr_buf_free(&s.text);
    free(text);
    return took;
}

/* Marks again and again: what is given up is looked at once more, and no more than that. */
static void hostile_outputs_take_linear_time(void **state)
{
    size_t size = getenv("LR_LONG") != NULL ? 1 << 18 : 1 << 14;
    double little = 0, much = 0;
    (void)state;
    for (int i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++) {
        const struct grammar_form *f = grammar_form_of((enum grammar_format)i);
        const struct lr_str marks[] = {
            f->section,        f->begin, f->key, LR_STR_LIT("<"), LR_STR_LIT("{\"a\":"),
            LR_STR_LIT("get(")};
        for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++) {
            if (marks[m].len == 0)
                continue;
            little += time_marks((enum grammar_format)i, marks[m], size);
            much += time_marks((enum grammar_format)i, marks[m], 8 * size);
        }
    }
    /* eight times as much would take 64 times as long if a step were not bounded */
    assert_true(much < 24 * little + 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_every_form_are_read),
        cmocka_unit_test(reasoning_has_no_marks_and_no_blanks_around_it),
        cmocka_unit_test(a_call_ends_reasoning_unless_it_is_quoted),
        cmocka_unit_test(malformed_calls_are_put_right),
        cmocka_unit_test(a_cut_call_has_the_beginning_of_its_arguments),
        cmocka_unit_test(hostile_outputs_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
