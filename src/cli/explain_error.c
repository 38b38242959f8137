/* cli/explain_error.c - `llm-router explain-error ID`, and docs/errors.md: the catalogue of
 * errors (base/errors.def). */
#include <stdio.h>

#include "base/errors.h"
#include "cli/commands.h"

enum { ERRORS_PAGE_LIMIT = 1 << 20 };

/* An error without an identity goes by its code. */
static const struct {
    const char *name, *meaning;
    lr_code code;
} codes[] = {
#define X(name, number, http, type, meaning) {#name, meaning, LR_##name},
    LR_CODE_MAP(X)
#undef X
};
enum { CODES = sizeof(codes) / sizeof(codes[0]) };

/* "not_found" of NOT_FOUND */
static const char *code_id(size_t i, char out[LR_ERROR_WORD])
{
    return lr_error_word(&(struct lr_error){.code = codes[i].code}, out);
}

/* The sentence without the limits of its holes. */
static void add_sentence(struct lr_buf *out, const char *sentence)
{
    struct lr_str rest = lr_str_z(sentence);
    while (rest.len != 0) {
        struct lr_error_piece piece = lr_error_next_piece(&rest);
        lr_buf_add_str(out, piece.words);
        if (piece.name.len != 0)
            lr_buf_addf(out, "{" LR_STR_FMT "}", LR_STR_ARG(piece.name));
    }
}

static void add_entry(struct lr_buf *out, const char *id, lr_code code, const char *sentence)
{
    char word[LR_CODE_WORD];
    lr_buf_addf(out, "%s\n  ", id);
    add_sentence(out, sentence);
    lr_buf_addf(out, "\n  code: %s   HTTP status: %d   type: %s   \"code\" of API bodies: %s\n",
                lr_code_name(code), lr_code_http(code), lr_code_type(code),
                lr_code_word(code, word));
}

static lr_code run_explain_error(const struct lr_settings *settings, struct lr_error *err)
{
    const char *names[LR_ERROR_COUNT + CODES + 1], *id = lr_settings_positional(settings, 0);
    char words[CODES][LR_ERROR_WORD];
    struct lr_buf text;
    size_t count = 0;
    enum lr_error_id found = lr_error_find(lr_str_z(id));
    lr_buf_init(&text, ERRORS_PAGE_LIMIT);
    if (found != LR_ERROR_NONE)
        add_entry(&text, id, lr_error_rows[found].code, lr_error_rows[found].sentence);
    for (size_t i = LR_ERROR_NONE + 1; i < LR_ERROR_COUNT; i++)
        names[count++] = lr_error_rows[i].id;
    for (size_t i = 1; i < CODES; i++) {
        names[count++] = code_id(i, words[i]);
        if (text.len == 0 && lr_str_eq_z(lr_str_z(id), words[i]))
            add_entry(&text, id, codes[i].code, codes[i].meaning);
    }
    names[count] = NULL;
    lr_code code = text.len != 0
                       ? cli_print(&text, err)
                       : cli_fail_word(id, names,
                                       "no error has that id; they are the header "
                                       "X-LLM-Router-Error, \"id\" in errors of /v0 and error= "
                                       "in the log",
                                       err);
    lr_buf_free(&text);
    return code;
}

const struct cli_command cli_command_explain_error = {
    .name = "explain-error",
    .summary = "Say what an error's id means",
    .arguments = "ID",
    .details =
        "The id is in the header X-LLM-Router-Error of an answer, in \"id\" of an error of "
        "/v0, and behind error= in the log.  docs/errors.md lists them all.",
    .least = 1,
    .most = 1,
    .run = run_explain_error,
};

/* ---- docs/errors.md ---- */

static const char errors_intro[] =
    "# Errors\n\n"
    "<!-- Written by `llm-router debug errors-reference`; change src/base/errors.def. -->\n\n"
    "Every error that leaves a process has an id. It is in the header `X-LLM-Router-Error`, as "
    "`id` in\n"
    "error bodies of `/v0`, as the reason codes of `/v0` (`reason_code`, `message_code`), and "
    "as "
    "`error=`\n"
    "in the log. `llm-router explain-error ID` prints its row. Ids stay the same from release "
    "to "
    "release;\n"
    "sentences may change. What stands in `{...}` differs from case to case, and APIs of "
    "others "
    "word some\n"
    "errors as their clients expect.\n\n";

static void add_row(struct lr_buf *page, const char *id, lr_code code, const char *sentence)
{
    lr_buf_addf(page, "| `%s` | %d | %s | ", id, lr_code_http(code), lr_code_name(code));
    add_sentence(page, sentence);
    lr_buf_add_z(page, " |\n");
}

static lr_code run_errors_reference(const struct lr_settings *settings, struct lr_error *err)
{
    static const char head[] = "| id | status | code | sentence |\n|---|---|---|---|\n";
    char word[LR_ERROR_WORD];
    struct lr_buf page;
    (void)settings;
    lr_buf_init(&page, ERRORS_PAGE_LIMIT);
    lr_buf_addf(&page, "%s%s", errors_intro, head);
    for (size_t i = LR_ERROR_NONE + 1; i < LR_ERROR_COUNT; i++)
        add_row(&page, lr_error_rows[i].id, lr_error_rows[i].code, lr_error_rows[i].sentence);
    lr_buf_addf(&page,
                "\n## By code\n\nAn error that is not listed above has the id of its "
                "code.\n\n%s",
                head);
    for (size_t i = 1; i < CODES; i++)
        add_row(&page, code_id(i, word), codes[i].code, codes[i].meaning);
    lr_code code = cli_print(&page, err);
    lr_buf_free(&page);
    return code;
}

const struct cli_command cli_debug_errors_reference = {
    .name = "errors-reference",
    .summary = "Print docs/errors.md",
    .run = run_errors_reference,
};
