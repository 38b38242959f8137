/* gptoss/model/vocabulary.c - see vocabulary.h. */
#include "engines/gptoss/model/vocabulary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/file.h"

static void set_bit(uint32_t *words, uint32_t i)
{
    words[i >> 5] |= 1u << (i & 31);
}

static void clear_bit(uint32_t *words, uint32_t i)
{
    words[i >> 5] &= ~(1u << (i & 31));
}

static void add_stops(struct gptoss_vocabulary *v, const struct model_token_ids *ids)
{
    for (uint32_t i = 0; i < ids->eos_count; i++)
        if (ids->eos[i] < v->rows)
            set_bit(v->stop, ids->eos[i]);
}

/* Ids without bytes in the tokenizer are padding of the matrix and never sampled. */
static void mark_unused(struct gptoss_vocabulary *v)
{
    const char *bytes;
    uint32_t len, flags;

    for (uint32_t id = 0; id < v->rows; id++)
        if (!tokenizer_token(v->tokenizer, id, &bytes, &len, &flags) ||
            (flags & LR_VOCAB_UNUSED) != 0)
            clear_bit(v->usable, id);
}

lr_code gptoss_tokenizer_open(const char *dir, struct tokenizer **out, struct lr_error *err)
{
    char path[4096];
    struct lr_stat st;

    *out = NULL;
    int n = snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the model's path is too long: %s", dir);
    if (!lr_stat(path, &st) && errno == ENOENT)
        return LR_OK; /* no tokenizer: only ids */
    lr_code code = tokenizer_open_file(path, out, err);
    return code >= 100 ? (err->code = LR_MODEL_CORRUPT) : code;
}

static lr_code open_tokenizer(struct gptoss_vocabulary *v, const char *dir,
                              struct lr_error *err)
{
    static const char *const stops[] = {"<|return|>", "<|call|>", "<|endoftext|>"};
    uint32_t id;

    lr_code code = gptoss_tokenizer_open(dir, &v->tokenizer, err);
    if (code != LR_OK || v->tokenizer == NULL)
        return code;
    mark_unused(v);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        if (tokenizer_find_special(v->tokenizer, stops[i], &id) && id < v->rows)
            set_bit(v->stop, id);
    return LR_OK;
}

lr_code gptoss_vocabulary_open(const char *dir, const struct model_config *config,
                               uint32_t rows, struct gptoss_vocabulary *out,
                               struct lr_error *err)
{
    struct model_generation generation;
    size_t words = ((size_t)rows + 31) / 32;

    *out = (struct gptoss_vocabulary){.rows = rows};
    out->usable = calloc(words, sizeof(*out->usable));
    out->stop = calloc(words, sizeof(*out->stop));
    if (out->usable == NULL || out->stop == NULL) {
        gptoss_vocabulary_close(out);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a vocabulary of %u", rows);
    }
    for (uint32_t id = 0; id < rows; id++)
        set_bit(out->usable, id);
    lr_code code = model_generation_read(dir, &generation, err);
    if (code == LR_OK)
        code = open_tokenizer(out, dir, err);
    if (code != LR_OK) {
        gptoss_vocabulary_close(out);
        return code;
    }
    add_stops(out, &config->tokens);
    add_stops(out, &generation.tokens);
    return LR_OK;
}

void gptoss_vocabulary_close(struct gptoss_vocabulary *v)
{
    tokenizer_free(v->tokenizer);
    free(v->usable);
    free(v->stop);
    *v = (struct gptoss_vocabulary){0};
}

bool gptoss_vocabulary_is_stop(const struct gptoss_vocabulary *v, uint32_t id)
{
    return id < v->rows && (v->stop[id >> 5] >> (id & 31) & 1u) != 0;
}

struct lr_str gptoss_vocabulary_bytes(const struct gptoss_vocabulary *v, uint32_t id,
                                      uint32_t *flags)
{
    const char *bytes = "";
    uint32_t len = 0;

    *flags = 0;
    if (v->tokenizer != NULL && !tokenizer_token(v->tokenizer, id, &bytes, &len, flags))
        *flags = LR_VOCAB_UNUSED;
    if (gptoss_vocabulary_is_stop(v, id))
        *flags |= LR_VOCAB_STOP;
    return lr_str(bytes != NULL ? bytes : "", len);
}
