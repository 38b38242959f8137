/* cli/debug_match.c - `debug match`: texts against a schema, a grammar, a regular
 * expression or choices, as constrained output sees them.
 *
 * stdin has one JSON object for each line.  {"text": "..."} gives a line: "accept", "reject at
 * BYTE" or "refused: WHY" (the constraint is not supported).  {"schema": ...} replaces the
 * constraint from that line on, so one process can try many schemas.
 */

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "grammar/grammar.h"

enum { FILE_MAX = 4 << 20, INPUT_MAX = 1 << 30, TREE_MAX = 256 << 20 };

/* Where the text stops being legal; its length, with *ends, when it is an answer. */
static size_t legal_bytes(struct grammar_matcher *m, struct lr_str text, bool *ends)
{
    size_t i = 0;
    while (i < text.len && grammar_matcher_bytes(m, lr_str(text.ptr + i, 1), false))
        i++;
    *ends = i == text.len && grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true);
    return i;
}

static lr_code match_text(const struct grammar_program *program, struct lr_str text,
                          struct lr_buf *out, struct lr_error *err)
{
    struct grammar_matcher *m;
    bool ends;
    lr_code rc = grammar_matcher_create(program, NULL, &m, err);
    if (rc != LR_OK)
        return rc;
    size_t at = legal_bytes(m, text, &ends);
    if (ends)
        lr_buf_add_z(out, "accept\n");
    else
        lr_buf_addf(out, "reject at %zu\n", at);
    grammar_matcher_free(m);
    return LR_OK;
}

/* `text` is the value of a flag, the contents of its file, or the schema of a line. */
static void write_constraint(bool strict, const char *answer, struct lr_str text,
                             struct lr_buf *out)
{
    bool is_json = strcmp(answer, "schema") == 0 || strcmp(answer, "choice") == 0;
    lr_buf_addf(out, "{\"format\":\"plain\",\"answer\":\"%s\",\"strict\":%s,\"%s\":", answer,
                strict ? "true" : "false", answer);
    if (is_json)
        lr_buf_add_str(out, text);
    else
        lr_json_quote(out, text);
    lr_buf_add_char(out, '}');
}

/* The constraint that holds, and the reason why it is refused. */
struct matching {
    bool strict;
    bool has_constraint;
    struct grammar_program *program; /* NULL: the constraint is refused */
    struct lr_error why;
};

static lr_code set_constraint(struct matching *m, const char *answer, struct lr_str text,
                              struct lr_error *err)
{
    struct lr_buf constraint;
    lr_code rc = LR_OK;
    lr_buf_init(&constraint, 2 * FILE_MAX);
    write_constraint(m->strict, answer, text, &constraint);
    grammar_program_free(m->program);
    m->program = NULL;
    m->has_constraint = true;
    if (constraint.failed ||
        grammar_compile(lr_buf_str(&constraint), &m->program, &m->why) == LR_OUT_OF_RAM)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for the constraint");
    lr_buf_free(&constraint);
    return rc;
}

static lr_code set_line_schema(struct matching *m, const struct lr_json *schema,
                               struct lr_error *err)
{
    struct lr_json_writer w;
    struct lr_buf text;
    if (schema == NULL)
        return LR_OK;
    lr_buf_init(&text, FILE_MAX);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, schema);
    lr_code rc = text.failed ? lr_fail(err, LR_INVALID_ARGUMENT, "a schema is too large")
                             : set_constraint(m, "schema", lr_buf_str(&text), err);
    lr_buf_free(&text);
    return rc;
}

static lr_code match_line(struct matching *m, struct lr_str line, struct lr_buf *out,
                          struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *root, *schema = NULL;
    struct lr_str text;
    bool has_text = false;
    lr_arena_init(&arena, TREE_MAX);
    lr_code rc = lr_json_parse(&arena, line, NULL, &root, err);
    if (rc == LR_OK) {
        schema = lr_json_get(root, "schema");
        has_text = lr_json_str(lr_json_get(root, "text"), &text);
        rc = set_line_schema(m, schema, err);
    }
    if (rc == LR_OK && !has_text && schema == NULL)
        rc = lr_fail(err, LR_INVALID_ARGUMENT,
                     "a line of stdin has neither \"text\" (a string) nor \"schema\"");
    if (rc == LR_OK && has_text && !m->has_constraint)
        rc = lr_fail(err, LR_INVALID_ARGUMENT,
                     "a text has no constraint: give a flag such as --schema FILE or a line "
                     "{\"schema\": ...}");
    if (rc == LR_OK && has_text && m->program == NULL)
        lr_buf_addf(out, "refused: %s\n", m->why.text);
    else if (rc == LR_OK && has_text)
        rc = match_text(m->program, text, out, err);
    lr_arena_free(&arena);
    return rc;
}

static lr_code debug_match_this(struct matching *m, struct lr_str input, struct lr_error *err)
{
    struct lr_buf out;
    struct lr_str line;
    lr_code rc = LR_OK;
    lr_buf_init(&out, INPUT_MAX);
    while (rc == LR_OK && lr_str_split(&input, '\n', &line))
        if (lr_str_trim(line).len != 0)
            rc = match_line(m, line, &out, err);
    if (rc == LR_OK)
        rc = out.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the result")
                        : cli_print(&out, err);
    lr_buf_free(&out);
    return rc;
}

/* The constraint that a flag gives, if one does. */
static lr_code read_constraint(const struct lr_settings *settings, struct matching *m,
                               struct lr_error *err)
{
    static const char *const answers[] = {"schema", "grammar", "regex", "choice"};
    const char *found = NULL, *value = NULL;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const char *given = lr_settings_str(settings, answers[i]);
        if (given != NULL && found != NULL)
            return lr_fail(err, LR_INVALID_ARGUMENT, "give --%s or --%s, not both", found,
                           answers[i]);
        found = given != NULL ? answers[i] : found;
        value = given != NULL ? given : value;
    }
    if (found == NULL)
        return LR_OK;
    struct lr_buf file;
    lr_buf_init(&file, FILE_MAX);
    bool is_file = strcmp(found, "schema") == 0 || strcmp(found, "grammar") == 0;
    lr_code rc = is_file ? lr_file_read_buf(value, &file, err) : LR_OK;
    if (rc == LR_OK)
        rc = set_constraint(m, found, is_file ? lr_buf_str(&file) : lr_str_z(value), err);
    lr_buf_free(&file);
    return rc;
}

static lr_code debug_match_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct matching m = {.strict = lr_settings_bool(settings, "strict")};
    struct lr_buf input;
    lr_buf_init(&input, INPUT_MAX);
    lr_code rc = read_constraint(settings, &m, err);
    if (rc == LR_OK)
        rc = cli_read_stdin(&input, err);
    if (rc == LR_OK)
        rc = debug_match_this(&m, lr_buf_str(&input), err);
    grammar_program_free(m.program);
    lr_buf_free(&input);
    return rc;
}

static const struct lr_setting flags[] = {
    {.name = "schema",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "JSON Schema that the texts are matched against"},
    {.name = "strict",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "as \"strict\": true of a request: every object is closed"},
    {.name = "grammar",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "instead of a schema: a grammar in GBNF"},
    {.name = "regex",
     .type = LR_SETTING_STRING,
     .value = "PATTERN",
     .help = "instead: a regular expression that the whole text matches"},
    {.name = "choice",
     .type = LR_SETTING_STRING,
     .value = "LIST",
     .help = "instead: a JSON array of strings, of which the text is one"},
};

const struct cli_command cli_debug_match = {
    .name = "match",
    .summary = "Match texts against a schema or grammar as constrained output does",
    .details =
        "stdin has a line {\"text\": \"...\"} for each text.  Each gets a line: \"accept\", "
        "\"reject at BYTE\" or \"refused: WHY\".\n"
        "A line {\"schema\": ...} replaces the schema for the texts after it.\n"
        "  echo '{\"text\":\"[1]\"}' | llm-router debug match --schema schema.json",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_match_run,
};
