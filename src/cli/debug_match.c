/* cli/debug_match.c - `debug match`: texts against a schema, as constrained output sees them.
 *
 * stdin has one JSON object for each line, {"text": "..."}.  One line comes out for each:
 * "accept", "reject at BYTE" or "refused: WHY" (the schema is not offered).
 */

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "grammar/grammar.h"

enum { SCHEMA_MAX = 4 << 20, INPUT_MAX = 1 << 30, TREE_MAX = 256 << 20 };

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

static lr_code match(const struct lr_settings *settings, struct lr_str schema,
                     struct lr_str input, struct lr_error *err)
{
    struct grammar_program *program = NULL;
    struct lr_error why = {0};
    struct lr_buf constraint, out;
    struct lr_str line;
    lr_code rc = LR_OK;
    lr_buf_init(&constraint, SCHEMA_MAX + 200);
    lr_buf_init(&out, INPUT_MAX);
    lr_buf_addf(&constraint,
                "{\"format\":\"plain\",\"answer\":\"schema\",\"strict\":%s,\"schema\":",
                lr_settings_bool(settings, "strict") ? "true" : "false");
    lr_buf_add_str(&constraint, schema);
    lr_buf_add_char(&constraint, '}');
    if (grammar_compile(lr_buf_str(&constraint), &program, &why) == LR_OUT_OF_RAM)
        rc = lr_fail(err, LR_OUT_OF_RAM, "%s", why.text);
    while (rc == LR_OK && lr_str_split(&input, '\n', &line))
        if (lr_str_trim(line).len != 0)
            rc = match_line(program, &why, line, &out, err);
    if (rc == LR_OK)
        rc = out.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the result")
                        : cli_print(&out, err);
    grammar_program_free(program);
    lr_buf_free(&constraint);
    lr_buf_free(&out);
    return rc;
}

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    const char *path = lr_settings_str(settings, "schema");
    struct lr_buf schema, input;
    if (path == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--schema FILE is needed: a JSON Schema");
    lr_buf_init(&schema, SCHEMA_MAX);
    lr_buf_init(&input, INPUT_MAX);
    lr_code rc = lr_file_read_buf(path, &schema, err);
    if (rc == LR_OK)
        rc = cli_read_stdin(&input, err);
    if (rc == LR_OK)
        rc = match(settings, lr_buf_str(&schema), lr_buf_str(&input), err);
    lr_buf_free(&schema);
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
};

const struct cli_command cli_debug_match = {
    .name = "match",
    .summary = "Match texts against a JSON Schema as constrained output does",
    .details =
        "stdin has a line {\"text\": \"...\"} for each text.  Each gets a line: \"accept\", "
        "\"reject at BYTE\" or \"refused: WHY\".\n"
        "  echo '{\"text\":\"[1]\"}' | llm-router debug match --schema schema.json",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
};
