/* cli/debug_answer.c - `debug answer` and `debug dialect`: a model's raw text as the message
 * that a client gets, and what a chat template shows about its model.
 *
 * With --batch each line of stdin is a JSON object with an answer and what it answers; the
 * texts that it names as control tokens are given to the reader as control tokens. */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "chat/dialect/dialect.h"
#include "cli/commands.h"

enum {
    INPUT_MAX = 256 << 20,
    TEMPLATE_MAX = 4 << 20,
    TREE_MAX = 1 << 30,
    TOKENS_MAX = 64,
    CALLS_MAX = 1024,
};

/* ---- one answer ---- */

struct question {
    struct chat_dialect dialect;
    const struct lr_json *tools; /* as in a request; or NULL */
    bool forbids_calls, is_opened, is_cut;
    struct lr_str output;
    struct lr_str control[TOKENS_MAX];
    uint32_t control_count;
    uint64_t split; /* bytes of a piece; 0: all at once */
};

struct read_call {
    struct lr_buf name, id, arguments; /* owned */
};

struct reading {
    struct lr_buf content, reasoning;  /* owned */
    struct read_call calls[CALLS_MAX]; /* owned */
    uint32_t count;
};

static void take_delta(void *ctx, const struct chat_delta *delta)
{
    struct reading *r = ctx;
    struct read_call *call = r->count != 0 ? &r->calls[r->count - 1] : NULL;
    switch (delta->kind) {
    case CHAT_DELTA_CONTENT:
        lr_buf_add_str(&r->content, delta->text);
        break;
    case CHAT_DELTA_REASONING:
        lr_buf_add_str(&r->reasoning, delta->text);
        break;
    case CHAT_DELTA_TOOL_BEGIN:
        if (r->count == CALLS_MAX)
            break;
        call = &r->calls[r->count++];
        lr_buf_init(&call->name, INPUT_MAX);
        lr_buf_init(&call->id, INPUT_MAX);
        lr_buf_init(&call->arguments, INPUT_MAX);
        lr_buf_add_str(&call->name, delta->text);
        lr_buf_add_str(&call->id, delta->id);
        break;
    case CHAT_DELTA_TOOL_ARGUMENTS:
        if (call != NULL)
            lr_buf_add_str(&call->arguments, delta->text);
        break;
    default:
        break;
    }
}

/* The longest control token at the front; 0: none. */
static size_t control_at(const struct question *q, struct lr_str text)
{
    size_t best = 0;
    for (uint32_t i = 0; i < q->control_count; i++) {
        struct lr_str token = q->control[i];
        if (token.len > best && token.len <= text.len &&
            memcmp(token.ptr, text.ptr, token.len) == 0)
            best = token.len;
    }
    return best;
}

static void feed_pieces(struct chat_reader *reader, const struct question *q)
{
    struct lr_str rest = q->output;
    while (rest.len != 0) {
        size_t control = control_at(q, rest), n = control;
        while (control == 0 && n < rest.len && (n == 0 || n < q->split || q->split == 0) &&
               (n == 0 || control_at(q, lr_str_sub(rest, n, rest.len)) == 0))
            n++;
        reader->dialect->reading->token(reader, lr_str(rest.ptr, n), control != 0);
        rest = lr_str_sub(rest, n, rest.len);
    }
}

/* The declared tools, for a reader. */
static lr_code declare(struct lr_arena *arena, const struct lr_json *tools,
                       struct chat_reader_options *out, struct lr_error *err)
{
    uint32_t count = lr_json_is(tools, LR_JSON_ARRAY) ? tools->count : 0;
    struct chat_declared *list = lr_arena_array(arena, count + 1, sizeof(*list));
    struct lr_str *builtin = lr_arena_array(arena, count + 1, sizeof(*builtin));
    if (list == NULL || builtin == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u tools", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct lr_json *function = lr_json_get(&tools->items[i], "function");
        const struct lr_json *tool = function != NULL ? function : &tools->items[i];
        struct lr_str name;
        if (!lr_json_str(lr_json_get(tool, "name"), &name))
            return lr_fail(err, LR_INVALID_ARGUMENT, "tools[%u] has no name", i);
        list[out->tool_count].name = name;
        if (!chat_types_of(arena, lr_json_get(tool, "parameters"),
                           &list[out->tool_count].types))
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for the types of a tool");
        out->tool_count++;
        if (chat_harmony_is_builtin(name))
            builtin[out->builtin_count++] = name;
    }
    out->tools = list;
    out->builtin_tools = builtin;
    return LR_OK;
}

static void put_reading(const struct reading *r, bool is_cut, struct lr_buf *out)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "reasoning_content", lr_buf_str(&r->reasoning));
    lr_json_member_str(&w, "content", lr_buf_str(&r->content));
    lr_json_member_array(&w, "tool_calls");
    for (uint32_t i = 0; i < r->count; i++) {
        lr_json_begin_object(&w);
        lr_json_key(&w, "id");
        if (r->calls[i].id.len != 0)
            lr_json_put_str(&w, lr_buf_str(&r->calls[i].id));
        else
            lr_json_put_null(&w);
        lr_json_member_str(&w, "name", lr_buf_str(&r->calls[i].name));
        lr_json_member_str(&w, "arguments", lr_buf_str(&r->calls[i].arguments));
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_json_member_z(&w, "finish_reason",
                     is_cut         ? "length"
                     : r->count > 0 ? "tool_calls"
                                    : "stop");
    lr_json_end_object(&w);
    lr_buf_add_char(out, '\n');
}

static lr_code read_answer(struct lr_arena *arena, const struct question *q, struct lr_buf *out,
                           struct lr_error *err)
{
    struct chat_reader_options options = {.forbids_calls = q->forbids_calls,
                                          .is_opened = q->is_opened};
    struct chat_reader reader = {.dialect = &q->dialect};
    struct reading *r = lr_arena_zalloc(arena, sizeof(*r));
    lr_code code = declare(arena, q->tools, &options, err);
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for an answer");
    if (code != LR_OK)
        return code;
    lr_buf_init(&r->content, INPUT_MAX);
    lr_buf_init(&r->reasoning, INPUT_MAX);
    q->dialect.reading->init(&reader, &options, take_delta, r);
    feed_pieces(&reader, q);
    q->dialect.reading->end(&reader, q->is_cut);
    q->dialect.reading->free(&reader);
    put_reading(r, q->is_cut, out);
    lr_buf_free(&r->content);
    lr_buf_free(&r->reasoning);
    for (uint32_t i = 0; i < r->count; i++) {
        lr_buf_free(&r->calls[i].name);
        lr_buf_free(&r->calls[i].id);
        lr_buf_free(&r->calls[i].arguments);
    }
    return LR_OK;
}

/* ---- many answers ---- */

static lr_code debug_answer_choose(struct lr_arena *arena, const char *dir,
                                   const struct lr_json *line, struct question *q,
                                   struct lr_error *err)
{
    struct lr_str name, form, text = {0};
    char path[LR_PATH_MAX];
    if (lr_json_str(lr_json_get(line, "template"), &name)) {
        (void)snprintf(path, sizeof(path), "%s/" LR_STR_FMT, dir, LR_STR_ARG(name));
        lr_code code = lr_file_read(arena, path, TEMPLATE_MAX, &text, err);
        if (code == LR_OK)
            q->dialect = chat_dialect_of(text, (struct lr_str){0});
        return code;
    }
    if (!lr_json_str(lr_json_get(line, "form"), &form))
        return lr_fail(err, LR_INVALID_ARGUMENT, "a line has neither a template nor a form");
    /* No template says which marks reasoning has; most have these. */
    if (!chat_dialect_named(form, LR_STR_LIT("<think></think>"), &q->dialect))
        return lr_fail(err, LR_NOT_FOUND, "there is no dialect \"" LR_STR_FMT "\"",
                       LR_STR_ARG(form));
    return LR_OK;
}

static lr_code answer_line(const char *dir, struct lr_str text, struct lr_buf *out,
                           struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *line;
    struct lr_str prompt, word;
    struct question q = {0};
    lr_arena_init(&arena, TREE_MAX);
    lr_code code = lr_json_parse(&arena, text, NULL, &line, err);
    if (code == LR_OK)
        code = debug_answer_choose(&arena, dir, line, &q, err);
    if (code == LR_OK) {
        const struct lr_json *control = lr_json_get(line, "control_tokens");
        q.tools = lr_json_get(line, "tools");
        q.forbids_calls =
            lr_json_str(lr_json_get(line, "tool_choice"), &word) && lr_str_eq_z(word, "none");
        q.is_cut =
            lr_json_str(lr_json_get(line, "finish"), &word) && lr_str_eq_z(word, "length");
        q.is_opened = lr_json_str(lr_json_get(line, "generation_prompt"), &prompt)
                          ? chat_dialect_opens(&q.dialect, prompt)
                          : grammar_form_of(q.dialect.format)->opens_thought;
        (void)lr_json_str(lr_json_get(line, "output"), &q.output);
        (void)lr_json_u64(lr_json_get(line, "split"), &q.split);
        for (uint32_t i = 0;
             lr_json_is(control, LR_JSON_ARRAY) && i < control->count && i < TOKENS_MAX; i++)
            (void)lr_json_str(&control->items[i], &q.control[q.control_count++]);
        code = read_answer(&arena, &q, out, err);
    }
    lr_arena_free(&arena);
    return code;
}

static lr_code answer_batch(const char *dir, struct lr_str input, struct lr_buf *out,
                            struct lr_error *err)
{
    lr_code code = LR_OK;
    for (uint32_t number = 1; code == LR_OK && input.len != 0; number++) {
        size_t end = lr_str_find(input, LR_STR_LIT("\n"));
        struct lr_str line = lr_str_trim(lr_str_sub(input, 0, end));
        input = lr_str_sub(input, end == LR_STR_NONE ? input.len : end + 1, input.len);
        char where[32];
        (void)snprintf(where, sizeof(where), "line %u", number);
        if (line.len != 0)
            code = answer_line(dir, line, out, err);
        if (code != LR_OK)
            code = lr_fail_prefix(err, "%s", where);
    }
    return code;
}

/* ---- debug answer ---- */

static lr_code answer_one(const struct lr_settings *s, struct lr_str input, struct lr_buf *out,
                          struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text = {0}, tools = {0};
    const char *path = lr_settings_str(s, "template");
    const char *thinking = lr_settings_str(s, "thinking");
    struct question q = {.output = input,
                         .split = (uint64_t)lr_settings_int(s, "split"),
                         .is_cut = lr_settings_bool(s, "cut")};
    lr_arena_init(&arena, TREE_MAX);
    lr_code code = path != NULL ? lr_file_read(&arena, path, TEMPLATE_MAX, &text, err) : LR_OK;
    if (code == LR_OK && path == NULL)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "--template FILE is needed, or --batch --templates DIR");
    if (code == LR_OK)
        q.dialect = chat_dialect_of(text, (struct lr_str){0});
    if (code == LR_OK && lr_settings_has(s, "tools"))
        code = lr_file_read(&arena, lr_settings_str(s, "tools"), TEMPLATE_MAX, &tools, err);
    if (code == LR_OK && tools.len != 0)
        code = lr_json_parse(&arena, tools, NULL, &q.tools, err);
    q.is_opened = thinking != NULL && lr_str_eq_z(lr_str_z(thinking), "opened");
    if (code == LR_OK)
        code = read_answer(&arena, &q, out, err);
    lr_arena_free(&arena);
    return code;
}

static lr_code debug_answer_run(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_buf input, out;
    const char *dir = lr_settings_str(s, "templates");
    lr_buf_init(&input, INPUT_MAX);
    lr_buf_init(&out, TREE_MAX);
    lr_code code = cli_read_stdin(&input, err);
    if (code == LR_OK)
        code = lr_settings_bool(s, "batch")
                   ? answer_batch(dir != NULL ? dir : ".", lr_buf_str(&input), &out, err)
                   : answer_one(s, lr_buf_str(&input), &out, err);
    if (code == LR_OK)
        code = out.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the result")
                          : cli_print(&out, err);
    lr_buf_free(&input);
    lr_buf_free(&out);
    return code;
}

static const struct lr_setting flags[] = {
    {.name = "template",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "chat template (Jinja) of the model"},
    {.name = "tools",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "JSON list of the declared tools; without it no text is a call"},
    {.name = "thinking",
     .type = LR_SETTING_STRING,
     .value = "opened|closed",
     .fallback = "closed",
     .help = "whether the prompt ended inside reasoning"},
    {.name = "split",
     .type = LR_SETTING_INT,
     .value = "N",
     .fallback = "0",
     .help = "give the reader N bytes at a time; 0: all at once"},
    {.name = "cut",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "the answer ended at max_tokens"},
    {.name = "batch",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "stdin has one JSON object a line: template or form, tools, generation_prompt, "
             "output, control_tokens, finish, split"},
    {.name = "templates",
     .type = LR_SETTING_PATH,
     .value = "DIR",
     .help = "folder of the templates that --batch names"},
};

const struct cli_command cli_debug_answer = {
    .name = "answer",
    .summary = "Convert a model's raw text into reasoning, content and calls",
    .details =
        "stdin is the text that the model wrote after the prompt.\n"
        "  llm-router debug answer --template qwen.jinja --tools tools.json < answer.txt",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_answer_run,
};

/* ---- debug dialect ---- */

static lr_code debug_dialect_run(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text;
    struct lr_buf out;
    struct lr_json_writer w;
    const char *path = lr_settings_str(s, "template");
    if (path == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--template FILE is needed");
    lr_arena_init(&arena, TREE_MAX);
    lr_buf_init(&out, 64 << 10);
    lr_code code = lr_file_read(&arena, path, TEMPLATE_MAX, &text, err);
    if (code == LR_OK) {
        struct chat_dialect d = chat_dialect_of(text, (struct lr_str){0});
        const struct grammar_form *f = grammar_form_of(d.format);
        lr_json_writer_init(&w, &out);
        lr_json_begin_object(&w);
        lr_json_member_z(&w, "dialect", d.name);
        lr_json_member_str(&w, "thought_begin", d.thought.begin);
        lr_json_member_str(&w, "thought_end", d.thought.end);
        lr_json_member_str(&w, "calls_begin", grammar_form_trigger(f));
        lr_json_member_str(&w, "call_begin", f->begin);
        lr_json_member_str(&w, "call_end", f->end);
        lr_json_end_object(&w);
        lr_buf_add_char(&out, '\n');
        code = cli_print(&out, err);
    }
    lr_buf_free(&out);
    lr_arena_free(&arena);
    return code;
}

static const struct lr_setting dialect_flags[] = {
    {.name = "template",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "chat template (Jinja) of the model"},
};

const struct cli_command cli_debug_dialect = {
    .name = "dialect",
    .summary = "Print the dialect that a chat template shows",
    .details = "  llm-router debug dialect --template chat_template.jinja",
    .flags = {dialect_flags, sizeof(dialect_flags) / sizeof(dialect_flags[0])},
    .run = debug_dialect_run,
};
