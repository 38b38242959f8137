/* cli/debug_tokenize.c - `debug tokenize` and `debug detokenize`: text <-> ids.
 *
 * Both read stdin to its end and write exactly their result, with a newline after JSON and
 * nothing after text.
 */
#include "base/json.h"
#include "base/os/file.h"
#include "cli/commands.h"
#include "tokenizer/tokenizer.h"

/* JSON escapes make a text up to six times as long; the tree lies in an arena. */
enum { INPUT_MAX = 2000 << 20 };
#define TREE_MAX ((size_t)8 << 30)

/* Without printf, because ten million ids are common here. */
static void add_ids(struct lr_buf *out, const struct tokenizer_ids *ids)
{
    lr_buf_add_char(out, '[');
    for (size_t i = 0; i < ids->count; i++) {
        char *room = lr_buf_reserve(out, 12);
        if (room == NULL)
            return;
        char digits[10];
        size_t count = 0, len = 0;
        for (uint32_t id = ids->items[i]; id != 0 || count == 0; id /= 10)
            digits[count++] = (char)('0' + id % 10);
        if (i != 0)
            room[len++] = ',';
        while (count != 0)
            room[len++] = digits[--count];
        lr_buf_commit(out, len);
    }
    lr_buf_add_char(out, ']');
}

static lr_code segments_of(struct lr_arena *arena, const struct lr_json *list,
                           struct lr_segment **out, struct lr_error *err)
{
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(err, LR_INVALID_ARGUMENT, "--segments wants [{\"text\", \"control\"}]");
    struct lr_segment *segments = lr_arena_zalloc(arena, (list->count + 1) * sizeof(*segments));
    if (segments == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u segments", list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *control = lr_json_get(&list->items[i], "control");
        struct lr_str text;
        bool trusted = false;
        int64_t number = 0;
        if (!lr_json_str(lr_json_get(&list->items[i], "text"), &text) ||
            (control != NULL && !lr_json_bool(control, &trusted) &&
             !lr_json_i64(control, &number)))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "segment %u is not {\"text\": string, \"control\": true or false}",
                           i);
        segments[i].text = text.ptr;
        segments[i].len = text.len;
        segments[i].control = trusted || number != 0;
    }
    *out = segments;
    return LR_OK;
}

struct job {
    const struct tokenizer *t;
    struct lr_str input;
    struct lr_arena arena;
    struct tokenizer_ids ids;
    struct lr_buf out;
    struct lr_error *err;
};

/* How texts are tokenized. */
struct how {
    bool special;
    bool template;
};

static lr_code encode_one(struct job *j, struct lr_str text, struct how how)
{
    if (how.template)
        tokenizer_add_wrapping(j->t, true, &j->ids);
    lr_code rc = tokenizer_encode(j->t, text, how.special, &j->ids, j->err);
    if (how.template)
        tokenizer_add_wrapping(j->t, false, &j->ids);
    return rc;
}

static lr_code tokenize_batch(struct job *j, struct how how)
{
    const struct lr_json *list;
    struct lr_str text;
    lr_code rc = lr_json_parse(&j->arena, j->input, NULL, &list, j->err);
    if (rc == LR_OK && !lr_json_is(list, LR_JSON_ARRAY))
        rc = lr_fail(j->err, LR_INVALID_ARGUMENT, "--batch wants a JSON array of strings");
    lr_buf_add_char(&j->out, '[');
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++) {
        if (!lr_json_str(&list->items[i], &text))
            return lr_fail(j->err, LR_INVALID_ARGUMENT, "item %u of the batch is no string", i);
        j->ids.count = 0;
        rc = encode_one(j, text, how);
        if (i != 0)
            lr_buf_add_char(&j->out, ',');
        add_ids(&j->out, &j->ids);
    }
    lr_buf_add_char(&j->out, ']');
    return rc;
}

static lr_code tokenize_segments(struct job *j, struct how how)
{
    const struct lr_json *list;
    struct lr_segment *segments = NULL;
    lr_code rc = lr_json_parse(&j->arena, j->input, NULL, &list, j->err);
    if (rc == LR_OK)
        rc = segments_of(&j->arena, list, &segments, j->err);
    if (rc == LR_OK)
        rc = how.template
                 ? tokenizer_encode_prompt(j->t, segments, list->count, &j->ids, j->err)
                 : tokenizer_encode_segments(j->t, segments, list->count, &j->ids, j->err);
    add_ids(&j->out, &j->ids);
    return rc;
}

static lr_code tokenize(struct job *j, const struct lr_settings *settings)
{
    struct how how = {lr_settings_bool(settings, "special"),
                      lr_settings_bool(settings, "template")};
    lr_code rc;
    if (lr_settings_bool(settings, "segments")) {
        rc = tokenize_segments(j, how);
    } else if (lr_settings_bool(settings, "batch")) {
        rc = tokenize_batch(j, how);
    } else {
        rc = encode_one(j, j->input, how);
        add_ids(&j->out, &j->ids);
    }
    lr_buf_add_char(&j->out, '\n');
    return rc;
}

static lr_code decode_list(struct job *j, const struct lr_json *list, bool skip,
                           struct lr_buf *text)
{
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(j->err, LR_INVALID_ARGUMENT, "a JSON array of token ids is expected");
    j->ids.count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        if (!lr_json_u64(&list->items[i], &id) || id > UINT32_MAX)
            return lr_fail(j->err, LR_INVALID_ARGUMENT, "item %u is no token id", i);
        if (!tokenizer_ids_append(&j->ids, (uint32_t)id))
            return lr_fail(j->err, LR_OUT_OF_RAM, "no memory for %u token ids", list->count);
    }
    return tokenizer_decode(j->t, j->ids.items, j->ids.count, skip, text, j->err);
}

static lr_code detokenize(struct job *j, const struct lr_settings *settings)
{
    bool skip = lr_settings_bool(settings, "skip-special");
    const struct lr_json *list;
    lr_code rc = lr_json_parse(&j->arena, j->input, NULL, &list, j->err);
    if (rc != LR_OK)
        return rc;
    if (!lr_settings_bool(settings, "batch"))
        return decode_list(j, list, skip, &j->out);
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return lr_fail(j->err, LR_INVALID_ARGUMENT, "--batch wants an array of arrays of ids");
    struct lr_buf text;
    lr_buf_init(&text, INPUT_MAX);
    lr_buf_add_char(&j->out, '[');
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++) {
        lr_buf_clear(&text);
        rc = decode_list(j, &list->items[i], skip, &text);
        if (i != 0)
            lr_buf_add_char(&j->out, ',');
        lr_json_quote(&j->out, lr_buf_str(&text));
    }
    lr_buf_add_z(&j->out, "]\n");
    lr_buf_free(&text);
    return rc;
}

static bool is_folder(const char *path)
{
    struct lr_stat st;
    return lr_stat(path, &st) && st.kind == LR_KIND_FOLDER;
}

static lr_code debug_tokenize_run(const struct lr_settings *settings, struct lr_error *err,
                                  lr_code (*work)(struct job *, const struct lr_settings *))
{
    const char *path = lr_settings_str(settings, "tokenizer");
    struct tokenizer *t = NULL;
    if (path == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "--tokenizer FILE is needed: the tokenizer.json of a model");
    lr_code rc = is_folder(path) ? tokenizer_open_dir(path, &t, err)
                                 : tokenizer_open_file(path, &t, err);
    if (rc != LR_OK)
        return rc;
    struct lr_buf input;
    struct job j = {.t = t, .err = err};
    lr_buf_init(&input, INPUT_MAX);
    lr_buf_init(&j.out, (size_t)16 << 30);
    lr_arena_init(&j.arena, TREE_MAX);
    tokenizer_ids_init(&j.ids, TOKENIZER_MAX_TEXT);
    rc = cli_read_stdin(&input, err);
    j.input = lr_buf_str(&input);
    if (rc == LR_OK)
        rc = work(&j, settings);
    if (rc == LR_OK && j.out.failed)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for the result");
    if (rc == LR_OK)
        rc = cli_print(&j.out, err);
    tokenizer_ids_free(&j.ids);
    lr_arena_free(&j.arena);
    lr_buf_free(&j.out);
    lr_buf_free(&input);
    tokenizer_free(t);
    return rc;
}

static lr_code run_tokenize(const struct lr_settings *settings, struct lr_error *err)
{
    return debug_tokenize_run(settings, err, tokenize);
}

static lr_code run_detokenize(const struct lr_settings *settings, struct lr_error *err)
{
    return debug_tokenize_run(settings, err, detokenize);
}

static const struct lr_setting tokenize_flags[] = {
    {.name = "tokenizer",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "tokenizer.json of the model, or its folder"},
    {.name = "special",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "recognise control tokens such as <|start|> in the text"},
    {.name = "template",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "add the ids of the file's post_processor (BOS, for example), as for a text that "
             "no chat template wrote"},
    {.name = "batch",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "stdin is a JSON array of strings, the result an array of arrays"},
    {.name = "segments",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "stdin is JSON [{\"text\", \"control\"}]: control tokens count only where every "
             "byte of them has control true"},
};

const struct cli_command cli_debug_tokenize = {
    .name = "tokenize",
    .summary = "Convert text on stdin into a JSON array of token ids",
    .details = "The text is used unchanged, including a final newline; bytes that are not "
               "UTF-8 become "
               "U+FFFD.\n"
               "  printf 'hello world' | llm-router debug tokenize --tokenizer tokenizer.json",
    .flags = {tokenize_flags, sizeof(tokenize_flags) / sizeof(tokenize_flags[0])},
    .run = run_tokenize,
};

static const struct lr_setting detokenize_flags[] = {
    {.name = "tokenizer",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "tokenizer.json of the model, or its folder"},
    {.name = "skip-special",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "omit control tokens instead of writing their names"},
    {.name = "batch",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "stdin is an array of arrays of ids, the result a JSON array of strings"},
};

const struct cli_command cli_debug_detokenize = {
    .name = "detokenize",
    .summary = "Convert a JSON array of token ids on stdin into text",
    .details = "The bytes are written unchanged, without a newline at the end.\n"
               "  echo '[24912,2375]' | llm-router debug detokenize --tokenizer tokenizer.json",
    .flags = {detokenize_flags, sizeof(detokenize_flags) / sizeof(detokenize_flags[0])},
    .run = run_detokenize,
};
