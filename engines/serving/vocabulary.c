/* serving/vocabulary.c - see vocabulary.h. */
#include "engines/serving/vocabulary.h"

#include <stdlib.h>

static void set_bit(uint32_t *words, uint32_t i)
{
    words[i >> 5] |= 1u << (i & 31);
}

static void clear_bit(uint32_t *words, uint32_t i)
{
    words[i >> 5] &= ~(1u << (i & 31));
}

/* Ids without bytes in the tokenizer are padding of the matrix and never sampled. */
static void mark_unused(struct serving_vocabulary *v)
{
    const char *bytes;
    uint32_t len, flags;

    for (uint32_t id = 0; id < v->rows; id++)
        if (!tokenizer_token(v->tokenizer, id, &bytes, &len, &flags) ||
            (flags & LR_VOCAB_UNUSED) != 0)
            clear_bit(v->usable, id);
}

lr_code serving_tokenizer_open(const char *dir, struct tokenizer **out, struct lr_error *err)
{
    *out = NULL;
    if (!tokenizer_dir_has_one(dir))
        return LR_OK; /* no tokenizer: only ids */
    return tokenizer_open_dir(dir, out, err);
}

static lr_code open_tokenizer(struct serving_vocabulary *v, const char *dir,
                              const char *const *stops, struct lr_error *err)
{
    uint32_t id;

    lr_code code = serving_tokenizer_open(dir, &v->tokenizer, err);
    if (code != LR_OK || v->tokenizer == NULL)
        return code;
    mark_unused(v);
    for (; stops != NULL && *stops != NULL; stops++)
        if (tokenizer_find_special(v->tokenizer, *stops, &id) && id < v->rows)
            set_bit(v->stop, id);
    return LR_OK;
}

lr_code serving_vocabulary_open(const char *dir, const struct serving_facts *facts,
                                struct serving_vocabulary *out, struct lr_error *err)
{
    uint32_t rows = facts->vocab_rows;
    size_t words = ((size_t)rows + 31) / 32;

    *out = (struct serving_vocabulary){.rows = rows};
    out->usable = calloc(words, sizeof(*out->usable));
    out->stop = calloc(words, sizeof(*out->stop));
    if (out->usable == NULL || out->stop == NULL) {
        serving_vocabulary_close(out);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a vocabulary of %u", rows);
    }
    for (uint32_t id = 0; id < rows; id++)
        set_bit(out->usable, id);
    for (uint32_t i = 0; i < facts->stop_count; i++)
        if (facts->stops[i] < rows)
            set_bit(out->stop, facts->stops[i]);
    lr_code code = open_tokenizer(out, dir, facts->stop_names, err);
    if (code != LR_OK)
        serving_vocabulary_close(out);
    return code;
}

void serving_vocabulary_close(struct serving_vocabulary *v)
{
    tokenizer_free(v->tokenizer);
    free(v->usable);
    free(v->stop);
    *v = (struct serving_vocabulary){0};
}

bool serving_vocabulary_is_stop(const struct serving_vocabulary *v, uint32_t id)
{
    return id < v->rows && (v->stop[id >> 5] >> (id & 31) & 1u) != 0;
}

struct lr_str serving_vocabulary_bytes(const struct serving_vocabulary *v, uint32_t id,
                                       uint32_t *flags)
{
    const char *bytes = "";
    uint32_t len = 0;

    *flags = 0;
    if (v->tokenizer != NULL && !tokenizer_token(v->tokenizer, id, &bytes, &len, flags))
        *flags = LR_VOCAB_UNUSED;
    if (serving_vocabulary_is_stop(v, id))
        *flags |= LR_VOCAB_STOP;
    return lr_str(bytes != NULL ? bytes : "", len);
}

static lr_code word_id(const struct tokenizer *t, struct lr_str word, uint32_t *out,
                       struct lr_error *err)
{
    struct tokenizer_ids ids;

    tokenizer_ids_init(&ids, 1 << 10);
    lr_code code = tokenizer_encode(t, word, false, &ids, err);
    if (code == LR_OK && ids.count != 1)
        code = lr_fail(err, LR_UNSUPPORTED, "the word \"%.*s\" is %zu tokens, expected one",
                       (int)(word.len < 80 ? word.len : 80), word.ptr, ids.count);
    if (code == LR_OK)
        *out = ids.items[0];
    tokenizer_ids_free(&ids);
    return code;
}

lr_code serving_vocabulary_words(const char *dir, const struct lr_str *words, size_t count,
                                 uint32_t *ids, struct lr_error *err)
{
    struct tokenizer *t = NULL;
    lr_code code = tokenizer_open_dir(dir, &t, err);

    for (size_t i = 0; i < count && code == LR_OK; i++)
        code = word_id(t, words[i], &ids[i], err);
    tokenizer_free(t);
    return code;
}
