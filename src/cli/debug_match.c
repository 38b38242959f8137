/* cli/debug_match.c - `debug match`: texts against a schema, a grammar, a regular
 * expression or choices, as constrained output sees them.
 *
 * stdin has one JSON object for each line, {"text": "..."}.  One line comes out for each:
 * "accept", "reject at BYTE" or "refused: WHY" (the constraint is not offered).
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

static lr_code match_line(const struct grammar_program *program, const struct lr_error *why,
                          struct lr_str line, struct lr_buf *out, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *root;
    struct lr_str text;
    lr_arena_init(&arena, TREE_MAX);
    lr_code rc = lr_json_parse(&arena, line, NULL, &root, err);
    if (rc == LR_OK && !lr_json_str(lr_json_get(root, "text"), &text))
        rc = lr_fail(err, LR_INVALID_ARGUMENT, "a line of stdin is not {\"text\": string}");
    if (rc == LR_OK && program == NULL)
        lr_buf_addf(out, "refused: %s\n", why->text);
    else if (rc == LR_OK)
        rc = match_text(program, text, out, err);
    lr_arena_free(&arena);
    return rc;
}

static lr_code match(struct lr_str constraint, struct lr_str input, struct lr_error *err)
{
    struct grammar_program *program = NULL;
    struct lr_error why = {0};
    struct lr_buf out;
    struct lr_str line;
    lr_code rc = LR_OK;
    lr_buf_init(&out, INPUT_MAX);
    if (grammar_compile(constraint, &program, &why) == LR_OUT_OF_RAM)
        rc = lr_fail(err, LR_OUT_OF_RAM, "%s", why.text);
    while (rc == LR_OK && lr_str_split(&input, '\n', &line))
        if (lr_str_trim(line).len != 0)
            rc = match_line(program, &why, line, &out, err);
    if (rc == LR_OK)
        rc = out.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the result")
                        : cli_print(&out, err);
    grammar_program_free(program);
    lr_buf_free(&out);
    return rc;
}

/* The constraint that a flag gives: `text` is its value, or the contents of its file. */
static void write_constraint(const struct lr_settings *settings, const char *answer,
                             struct lr_str text, struct lr_buf *out)
{
    bool is_json = strcmp(answer, "schema") == 0 || strcmp(answer, "choice") == 0;
    lr_buf_addf(out, "{\"format\":\"plain\",\"answer\":\"%s\",\"strict\":%s,\"%s\":", answer,
                lr_settings_bool(settings, "strict") ? "true" : "false", answer);
    if (is_json)
        lr_buf_add_str(out, text);
    else
        lr_json_quote(out, text);
    lr_buf_add_char(out, '}');
}

static lr_code read_constraint(const struct lr_settings *settings, struct lr_buf *out,
                               struct lr_error *err)
{
    static const char *const answers[] = {"schema", "grammar", "regex", "choice"};
    const char *found = NULL, *value = NULL;
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (lr_settings_str(settings, answers[i]) != NULL) {
            found = answers[i];
            value = lr_settings_str(settings, found);
            count++;
        }
    if (count != 1)
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "one of --schema FILE, --grammar FILE, --regex PATTERN and --choice LIST "
            "is needed");
    struct lr_buf file;
    lr_buf_init(&file, FILE_MAX);
    bool is_file = strcmp(found, "schema") == 0 || strcmp(found, "grammar") == 0;
    lr_code rc = is_file ? lr_file_read_buf(value, &file, err) : LR_OK;
    if (rc == LR_OK)
        write_constraint(settings, found, is_file ? lr_buf_str(&file) : lr_str_z(value), out);
    lr_buf_free(&file);
    return rc;
}

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    struct lr_buf constraint, input;
    lr_buf_init(&constraint, 2 * FILE_MAX);
    lr_buf_init(&input, INPUT_MAX);
    lr_code rc = read_constraint(settings, &constraint, err);
    if (rc == LR_OK)
        rc = cli_read_stdin(&input, err);
    if (rc == LR_OK)
        rc = match(lr_buf_str(&constraint), lr_buf_str(&input), err);
    lr_buf_free(&constraint);
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
        "  echo '{\"text\":\"[1]\"}' | llm-router debug match --schema schema.json",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
};
