/* tokenizer/source.c - opens the tokenizer of a model's folder, whichever files it has. */
#include "tokenizer/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/os/file.h"
#include "tokenizer/model.h"

enum { CONFIG_MAX = 64 << 20, CONFIG_ARENA = 512 << 20 };

static const struct {
    const char *first;
    const char *second; /* NULL: one file is enough */
    tokenizer_convert *convert;
} sources[] = {
    {"tokenizer.json", NULL, NULL},
    {"tokenizer.model", NULL, tokenizer_from_sentencepiece},
    {"tekken.json", NULL, tokenizer_from_tekken},
    {"vocab.json", "merges.txt", tokenizer_from_merges},
    {"vocab.txt", NULL, tokenizer_from_words},
};

void tokenizer_write_text(struct lr_buf *out, bool first, const char *key, struct lr_str text)
{
    lr_buf_addf(out, "%s\"%s\":", first ? "" : ",", key);
    lr_json_quote(out, text);
}

void tokenizer_write_added(struct lr_buf *out, bool first, uint32_t id, struct lr_str text,
                           bool special)
{
    lr_buf_add_z(out, first ? "{" : ",{");
    if (id == SOURCE_ANY_ID)
        lr_buf_add_z(out, "\"id\":null");
    else
        lr_buf_addf(out, "\"id\":%u", id);
    tokenizer_write_text(out, false, "content", text);
    lr_buf_addf(out, ",\"normalized\":false,\"special\":%s}", special ? "true" : "false");
}

static bool path_of(char *path, size_t size, const char *dir, const char *name)
{
    int n = snprintf(path, size, "%s/%s", dir, name);
    return n > 0 && (size_t)n < size;
}

static bool has(const char *dir, const char *name)
{
    char path[LR_PATH_MAX];
    struct lr_stat st;
    return name == NULL || (path_of(path, sizeof(path), dir, name) && lr_stat(path, &st));
}

static lr_code read_named(const char *dir, const char *name, struct lr_buf *out,
                          struct lr_error *err)
{
    char path[LR_PATH_MAX];
    if (name == NULL)
        return LR_OK;
    if (!path_of(path, sizeof(path), dir, name))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the model's path is too long: %s", dir);
    return lr_file_read_buf(path, out, err);
}

static lr_code read_config(const char *dir, struct lr_buf *text, struct lr_arena *arena,
                           const struct lr_json **config, struct lr_error *err)
{
    *config = NULL;
    if (!has(dir, "tokenizer_config.json"))
        return LR_OK;
    lr_code rc = read_named(dir, "tokenizer_config.json", text, err);
    if (rc == LR_OK)
        rc = lr_json_parse(arena, lr_buf_str(text), NULL, config, err);
    if (rc != LR_OK)
        (void)lr_fail_prefix(err, "%s/tokenizer_config.json", dir);
    return rc;
}

static lr_code convert(size_t i, const char *dir, const struct lr_json *config,
                       struct lr_buf *out, struct lr_error *err)
{
    struct lr_buf first, second;
    lr_buf_init(&first, TOKENIZER_MAX_FILE);
    lr_buf_init(&second, TOKENIZER_MAX_FILE);
    lr_code rc =
        read_named(dir, sources[i].first, sources[i].convert != NULL ? &first : out, err);
    if (rc == LR_OK)
        rc = read_named(dir, sources[i].second, &second, err);
    if (rc == LR_OK && sources[i].convert != NULL)
        rc = sources[i].convert(lr_buf_str(&first), lr_buf_str(&second), config, out, err);
    if (rc == LR_OK && out->failed)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for the tokenizer");
    lr_buf_free(&first);
    lr_buf_free(&second);
    return rc;
}

bool tokenizer_dir_has_one(const char *dir)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (has(dir, sources[i].first) && has(dir, sources[i].second))
            return true;
    return false;
}

static lr_code open_any(const char *dir, const struct lr_json *config, struct tokenizer **out,
                        struct lr_error *err)
{
    struct lr_buf text;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!has(dir, sources[i].first) || !has(dir, sources[i].second))
            continue;
        lr_buf_init(&text, 4 * (size_t)TOKENIZER_MAX_FILE);
        lr_code rc = convert(i, dir, config, &text, err);
        if (rc == LR_OK)
            rc = tokenizer_open_with(lr_buf_str(&text), config, out, err);
        lr_buf_free(&text);
        if (rc != LR_OK)
            (void)lr_fail_prefix(err, "%s/%s", dir, sources[i].first);
        return rc;
    }
    return lr_fail(err, LR_MODEL_CORRUPT,
                   "%s has no tokenizer: tokenizer.json, tokenizer.model, tekken.json, "
                   "vocab.json with merges.txt, or vocab.txt",
                   dir);
}

lr_code tokenizer_open_dir(const char *dir, struct tokenizer **out, struct lr_error *err)
{
    struct lr_buf text;
    struct lr_arena arena;
    struct lr_error own;
    const struct lr_json *config;
    *out = NULL;
    err = err != NULL ? err : &own;
    lr_buf_init(&text, CONFIG_MAX);
    lr_arena_init(&arena, CONFIG_ARENA);
    lr_code rc = read_config(dir, &text, &arena, &config, err);
    if (rc == LR_OK)
        rc = open_any(dir, config, out, err);
    lr_arena_free(&arena);
    lr_buf_free(&text);
    /* Engines use this too and may only return the codes of the ABI. */
    if (rc != LR_OK && rc != LR_OUT_OF_RAM && rc != LR_UNSUPPORTED)
        rc = err->code = LR_MODEL_CORRUPT;
    return rc;
}
