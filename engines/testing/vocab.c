/* engines/testing/vocab.c - the vocabulary: bytes and a few control tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/testing/testing.h"

const char *const testing_specials[TESTING_SPECIAL_COUNT] = {
    "<|end|>",      "<|start|>",  "<|message|>", "<|channel|>",
    "<|im_start|>", "<|im_end|>", "<|return|>",  "<|endoftext|>",
};

/* The joined text of the segments, and for each byte whether it is trusted. */
struct joined {
    char *text;
    char *trusted;
    size_t len;
};

static bool join(struct joined *out, const struct lr_segment *segments, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += segments[i].len;
    out->text = malloc(total + 1);
    out->trusted = malloc(total + 1);
    out->len = 0;
    if (out->text == NULL || out->trusted == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].len == 0)
            continue;
        memcpy(out->text + out->len, segments[i].text, segments[i].len);
        memset(out->trusted + out->len, segments[i].control != 0, segments[i].len);
        out->len += segments[i].len;
    }
    return true;
}

/* Index of the control token at `at` whose bytes are all trusted, or -1. */
static int special_at(const struct joined *j, size_t at)
{
    for (int i = 0; i < TESTING_SPECIAL_COUNT; i++) {
        size_t len = strlen(testing_specials[i]);
        if (len <= j->len - at && memcmp(j->text + at, testing_specials[i], len) == 0 &&
            memchr(j->trusted + at, 0, len) == NULL)
            return i;
    }
    return -1;
}

lr_code testing_tokenize(const struct lr_engine_model *model, const struct lr_segment *segments,
                         size_t segment_count, uint32_t *ids, size_t capacity, size_t *count,
                         struct lr_error *err)
{
    struct joined j = {0};
    (void)model;
    *count = 0;
    if (!join(&j, segments, segment_count)) {
        free(j.text);
        free(j.trusted);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the prompt");
    }
    for (size_t at = 0; at < j.len;) {
        uint32_t id = (unsigned char)j.text[at];
        size_t len = 1;
        int special = j.text[at] == '<' ? special_at(&j, at) : -1;
        if (special >= 0) {
            id = TESTING_SPECIAL_BASE + (uint32_t)special;
            len = strlen(testing_specials[special]);
        }
        if (*count < capacity)
            ids[*count] = id;
        ++*count;
        at += len;
    }
    free(j.text);
    free(j.trusted);
    return LR_OK;
}

lr_code testing_vocab(const struct lr_engine_model *model, uint32_t id, const char **bytes,
                      uint32_t *len, uint32_t *flags)
{
    static char all[TESTING_SPECIAL_BASE];
    (void)model;
    if (id >= TESTING_VOCAB)
        return LR_INVALID_ARGUMENT;
    if (id < TESTING_SPECIAL_BASE) {
        all[id] = (char)(unsigned char)id;
        *bytes = &all[id];
        *len = 1;
        *flags = 0;
        return LR_OK;
    }
    *bytes = testing_specials[id - TESTING_SPECIAL_BASE];
    *len = (uint32_t)strlen(*bytes);
    *flags = LR_VOCAB_SPECIAL;
    if (id == TESTING_SPECIAL_BASE + TESTING_SPECIAL_END)
        *flags |= LR_VOCAB_STOP;
    return LR_OK;
}
