/* tokenizer/normalize.c - applies the steps of a normalizer, and the short steps. */
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/normal.h"

enum { NORMAL_ROOM = 64 }; /* bytes that even the shortest text may grow to */

void tokenizer_normal_work_init(struct normal_work *work)
{
    for (int i = 0; i < 2; i++) {
        lr_buf_init(&work->texts[i], 0);
        lr_buf_init(&work->marks[i], 0);
    }
}

void tokenizer_normal_work_free(struct normal_work *work)
{
    for (int i = 0; i < 2; i++) {
        lr_buf_free(&work->texts[i]);
        lr_buf_free(&work->marks[i]);
    }
}

void tokenizer_normal_emit(struct normal_io *io, const char *bytes, size_t len, size_t from,
                           size_t to)
{
    lr_buf_add(io->out, bytes, len);
    if (io->trusted == NULL)
        return;
    bool trusted = true; /* what the tokenizer itself adds */
    for (size_t i = from; i < to; i++)
        trusted = trusted && io->trusted[i] != 0;
    for (size_t i = 0; i < len; i++)
        lr_buf_add_char(io->marks, (char)trusted);
}

void tokenizer_normal_emit_char(struct normal_io *io, uint32_t c, size_t from, size_t to)
{
    char utf8[4];
    tokenizer_normal_emit(io, utf8, lr_utf8_encode(c, utf8), from, to);
}

lr_code tokenizer_normal_apply(const struct normalizer *n, struct normal_work *work,
                               struct finder *finder, struct lr_str text,
                               const unsigned char **trusted, struct lr_str *out,
                               struct lr_error *err)
{
    if (text.ptr == NULL)
        text = LR_STR_LIT("");
    struct normal_io io = {.text = text, .trusted = *trusted, .finder = finder, .err = err};
    for (uint32_t i = 0; i < n->count; i++) {
        io.out = &work->texts[i % 2];
        io.marks = &work->marks[i % 2];
        io.out->limit = io.marks->limit = text.len * NORMAL_MAX_GROWTH + NORMAL_ROOM;
        lr_buf_clear(io.out);
        lr_buf_clear(io.marks);
        (void)lr_buf_reserve(io.out, io.text.len + NORMAL_ROOM);
        lr_code rc = n->steps[i].apply(&n->steps[i], &io);
        if (rc != LR_OK)
            return rc;
        if (io.out->failed || io.marks->failed)
            return lr_fail(err, LR_OUT_OF_RAM,
                           "the normalizer makes more than %zu bytes of %zu", io.out->limit,
                           text.len);
        io.text = lr_buf_str(io.out);
        if (io.text.ptr == NULL)
            io.text = LR_STR_LIT("");
        if (io.trusted != NULL)
            io.trusted = (const unsigned char *)(io.marks->data != NULL ? io.marks->data : "");
    }
    *out = io.text;
    *trusted = io.trusted;
    return LR_OK;
}

struct lr_str tokenizer_copy(struct lr_str s)
{
    char *copy = malloc(s.len + 1);
    if (copy == NULL)
        return lr_str(NULL, 0);
    if (s.len != 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return lr_str(copy, s.len);
}

void tokenizer_copy_free(struct lr_str s)
{
    void *memory;
    memcpy(&memory, &s.ptr, sizeof(memory)); /* the copy is not const; a slice of it is */
    free(memory);
}

void tokenizer_normal_step_free(struct normal_step *s)
{
    if (s == NULL)
        return;
    tokenizer_copy_free(s->pattern);
    tokenizer_copy_free(s->content);
    tokenizer_split_free_code(s->code);
    free(s->map.units);
    free(s->map.texts);
    free(s->stable);
    tokenizer_normal_step_free(s->forms);
    free(s->forms);
}

void tokenizer_normal_free(struct normalizer *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        tokenizer_normal_step_free(&n->steps[i]);
}
