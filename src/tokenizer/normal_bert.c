/* tokenizer/normal_bert.c - BertNormalizer: cleans text, puts blanks around ideographs, strips
 * accents, lower case; each switched by a member. */
#include <stdlib.h>

#include "tokenizer/chars.h"
#include "tokenizer/normal.h"

/* Characters as they are after the first two parts, before NFD. */
static lr_code clean(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    size_t kept = 0, len;
    for (size_t at = 0; at < text.len; at += len) {
        uint32_t c = char_at(text.ptr + at, &len);
        if (c >= 0x20 && c < 0x7F)
            continue;
        bool space = s->clean && char_is_space(c);
        bool drop = s->clean && !space && tokenizer_char_is_other(c);
        bool ideograph = s->chinese && tokenizer_char_is_ideograph(c);
        if (!space && !drop && !ideograph)
            continue;
        normal_keep(io, kept, at);
        kept = at + len;
        if (space || ideograph)
            tokenizer_normal_emit(io, " ", 1, at, at + len);
        if (!ideograph)
            continue;
        normal_keep(io, at, at + len);
        tokenizer_normal_emit(io, " ", 1, at, at + len);
    }
    normal_keep(io, kept, text.len);
    return LR_OK;
}

static lr_code normal_bert_finish(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    size_t kept = 0, len;
    for (size_t at = 0; at < text.len; at += len) {
        uint32_t c = char_at(text.ptr + at, &len);
        bool drop = s->accents && tokenizer_char_is_accent(c);
        uint32_t lower = s->lower && !drop ? tokenizer_char_lower(c) : c;
        if (!drop && lower == c && (c != 0x130 || !s->lower))
            continue;
        normal_keep(io, kept, at);
        kept = at + len;
        if (c == 0x130 && s->lower)
            tokenizer_normal_emit(io, "i\xCC\x87", 3, at, at + len);
        else if (!drop)
            tokenizer_normal_emit_char(io, lower, at, at + len);
    }
    normal_keep(io, kept, text.len);
    return LR_OK;
}

/* Runs one part from io into a fresh pair of buffers and makes these the input. */
static lr_code part(normal_apply *apply, const struct normal_step *s, struct normal_io *io,
                    struct lr_buf *out, struct lr_buf *marks)
{
    struct normal_io inner = *io;
    inner.out = out;
    inner.marks = marks;
    lr_code rc = apply(s, &inner);
    if (rc == LR_OK && (out->failed || marks->failed))
        rc = lr_fail(io->err, LR_OUT_OF_RAM, "no memory to normalize %zu bytes", io->text.len);
    io->text = out->data != NULL ? lr_buf_str(out) : LR_STR_LIT("");
    if (io->trusted != NULL)
        io->trusted = (const unsigned char *)(marks->data != NULL ? marks->data : "");
    return rc;
}

static lr_code bert(const struct normal_step *s, struct normal_io *io)
{
    struct lr_buf out[2], marks[2];
    struct normal_io inner = *io;
    lr_code rc = LR_OK;
    for (int i = 0; i < 2; i++) {
        lr_buf_init(&out[i], io->out->limit);
        lr_buf_init(&marks[i], io->out->limit);
    }
    if (s->clean || s->chinese)
        rc = part(clean, s, &inner, &out[0], &marks[0]);
    if (rc == LR_OK && s->forms != NULL)
        rc = part(s->forms->apply, s->forms, &inner, &out[1], &marks[1]);
    if (rc == LR_OK)
        rc = normal_bert_finish(s, &inner);
    for (int i = 0; i < 2; i++) {
        lr_buf_free(&out[i]);
        lr_buf_free(&marks[i]);
    }
    return rc;
}

lr_code tokenizer_normal_read_bert(struct normal_step *s, const struct lr_json *json,
                                   struct lr_error *err)
{
    static const char owner[] = "normalizer: BertNormalizer";
    s->apply = bert;
    lr_code rc = tokenizer_read_flag(json, owner, "clean_text", true, &s->clean, err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, owner, "handle_chinese_chars", true, &s->chinese, err);
    if (rc == LR_OK)
        rc = tokenizer_read_flag(json, owner, "lowercase", true, &s->lower, err);
    if (rc == LR_OK) /* null: as lowercase */
        rc = tokenizer_read_flag(json, owner, "strip_accents", s->lower, &s->accents, err);
    if (rc != LR_OK || !s->accents)
        return rc;
    s->forms = calloc(1, sizeof(*s->forms));
    if (s->forms == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the normalizer");
    return tokenizer_normal_forms_init(s->forms, NORMAL_NFD, err);
}
