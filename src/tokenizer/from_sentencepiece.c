/* tokenizer/from_sentencepiece.c - tokenizer.model: a SentencePiece model (protocol buffers),
 * BPE or Unigram, as the Hugging Face converters make it.
 *
 * Only the fields that decide ids are read.  BPE's merges follow from the scores: a piece
 * merges from every pair of pieces that makes its text, better scores first; the loader keeps
 * the pair that really occurs.
 */
#include <stdlib.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/internal.h"
#include "tokenizer/source.h"

/* ---- protocol buffers ---- */

struct field {
    uint32_t number;
    uint64_t value;      /* varint, or 32 bits */
    struct lr_str bytes; /* of a field with a length */
};

static bool read_varint(struct lr_str *rest, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && rest->len != 0; shift += 7) {
        unsigned char byte = (unsigned char)rest->ptr[0];
        *rest = lr_str_sub(*rest, 1, rest->len);
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Takes the next field off the front; false at the end, and with *bad where it is damaged. */
static bool next_field(struct lr_str *rest, struct field *f, bool *bad)
{
    enum { VARINT = 0, BITS64 = 1, LENGTH = 2, BITS32 = 5 };
    uint64_t tag, len = 0;
    *f = (struct field){0};
    if (*bad || rest->len == 0)
        return false;
    *bad = !read_varint(rest, &tag);
    unsigned wire = (unsigned)(tag & 7);
    f->number = (uint32_t)(tag >> 3);
    if (!*bad && wire == VARINT) {
        *bad = !read_varint(rest, &f->value);
        return !*bad;
    }
    if (!*bad && wire == LENGTH)
        *bad = !read_varint(rest, &len);
    else
        len = wire == BITS64 ? 8 : 4;
    *bad = *bad || (wire != LENGTH && wire != BITS64 && wire != BITS32) || len > rest->len;
    if (*bad)
        return false;
    f->bytes = lr_str(rest->ptr, (size_t)len);
    if (wire == BITS32) {
        uint32_t bits = 0;
        memcpy(&bits, rest->ptr, sizeof(bits));
        f->value = bits;
    }
    *rest = lr_str_sub(*rest, (size_t)len, rest->len);
    return true;
}

/* ---- the model ---- */

enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { MODEL_TYPE_UNIGRAM = 1, MODEL_TYPE_BPE = 2 };

struct piece {
    struct lr_str text; /* borrowed from the file */
    float score;
    uint32_t type;
};

struct spm {
    struct piece *pieces; /* owned */
    uint32_t count;
    uint32_t capacity;
    uint32_t unknown;
    uint64_t model_type;
    bool byte_fallback;
    bool dummy_prefix;  /* a blank before the text */
    bool drops_blanks;  /* several blanks become one, those at the ends none */
    struct lr_str map;  /* borrowed: the character map */
    struct vocab texts; /* id = place in pieces */
};

static lr_code damaged(struct lr_error *err, const char *what)
{
    return lr_fail(err, LR_MODEL_CORRUPT, "tokenizer.model is damaged: %s", what);
}

static lr_code read_piece(struct spm *s, struct lr_str rest, struct lr_error *err)
{
    struct piece piece = {.type = NORMAL};
    struct field f;
    bool bad = false;
    while (next_field(&rest, &f, &bad)) {
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1)
            piece.text = f.bytes;
        else if (f.number == 2)
            memcpy(&piece.score, &bits, sizeof(bits));
        else if (f.number == 3)
            piece.type = bits;
    }
    if (bad || !lr_utf8_valid(piece.text) || !(piece.score > -1e30F && piece.score < 1e30F))
        return damaged(err, "a piece cannot be read");
    if (s->count == TOKENIZER_MAX_VOCAB)
        return damaged(err, "it has too many pieces");
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity != 0 ? 2 * s->capacity : 4096;
        struct piece *pieces = realloc(s->pieces, capacity * sizeof(*pieces));
        if (pieces == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u pieces", capacity);
        s->pieces = pieces;
        s->capacity = capacity;
    }
    if (piece.type == UNKNOWN)
        s->unknown = s->count;
    s->pieces[s->count++] = piece;
    return LR_OK;
}

static bool read_specs(struct spm *s, const struct field *part)
{
    struct lr_str rest = part->bytes;
    struct field f;
    bool bad = false, trainer = part->number == 2;
    while (next_field(&rest, &f, &bad)) {
        if (trainer && f.number == 3)
            s->model_type = f.value;
        else if (trainer && f.number == 35)
            s->byte_fallback = f.value != 0;
        else if (!trainer && f.number == 2)
            s->map = f.bytes;
        else if (!trainer && f.number == 3)
            s->dummy_prefix = f.value != 0;
        else if (!trainer && f.number == 4)
            s->drops_blanks = f.value != 0;
    }
    return !bad;
}

static lr_code read_model(struct spm *s, struct lr_str file, struct lr_error *err)
{
    struct field f;
    bool bad = false;
    lr_code rc = LR_OK;
    while (rc == LR_OK && next_field(&file, &f, &bad)) {
        if (f.number == 1)
            rc = read_piece(s, f.bytes, err);
        else if ((f.number == 2 || f.number == 3) && !read_specs(s, &f))
            bad = true;
    }
    if (rc != LR_OK)
        return rc;
    if (bad || s->count == 0 || s->unknown == TOKENIZER_NONE)
        return damaged(err, "a field cannot be read, or a piece for unknown text is missing");
    if (s->model_type != MODEL_TYPE_UNIGRAM && s->model_type != MODEL_TYPE_BPE)
        return lr_fail(err, LR_UNSUPPORTED,
                       "tokenizer.model has the model type %llu; known are unigram (1) and BPE "
                       "(2)",
                       (unsigned long long)s->model_type);
    return LR_OK;
}

/* ---- merges ---- */

/* Places of pieces by score, best first; equal ones by place. */
struct scored {
    float score;
    uint32_t place;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static void write_pairs(const struct spm *s, uint32_t place, bool *first, struct lr_buf *out)
{
    struct lr_str text = s->pieces[place].text;
    for (size_t at = char_width(text.ptr[0]); at < text.len; at += char_width(text.ptr[at])) {
        if (tokenizer_vocab_find(&s->texts, text.ptr, at) == NULL ||
            tokenizer_vocab_find(&s->texts, text.ptr + at, text.len - at) == NULL)
            continue;
        lr_buf_add_z(out, *first ? "[" : ",[");
        lr_json_quote(out, lr_str(text.ptr, at));
        lr_buf_add_char(out, ',');
        lr_json_quote(out, lr_str(text.ptr + at, text.len - at));
        lr_buf_add_char(out, ']');
        *first = false;
    }
}

static lr_code spm_write_merges(struct spm *s, struct lr_buf *out, struct lr_error *err)
{
    struct scored *order = malloc(s->count * sizeof(*order));
    uint32_t count = 0;
    bool first = true;
    lr_code rc = LR_OK;
    if (order == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u pieces", s->count);
    s->texts.raw = true;
    lr_buf_init(&s->texts.bytes, 1 << 30);
    for (uint32_t i = 0; rc == LR_OK && i < s->count; i++) {
        if (s->pieces[i].type != NORMAL || s->pieces[i].text.len == 0)
            continue;
        order[count++] = (struct scored){s->pieces[i].score, i};
        rc = tokenizer_vocab_add(&s->texts, i, s->pieces[i].text, TOKEN_INDEXED, err);
    }
    if (rc == LR_OK)
        rc = tokenizer_vocab_index(&s->texts, err);
    if (rc == LR_OK)
        qsort(order, count, sizeof(*order), by_score);
    for (uint32_t i = 0; rc == LR_OK && i < count; i++)
        write_pairs(s, order[i].place, &first, out);
    free(order);
    return rc;
}

/* ---- the file ---- */

static void write_added(const struct spm *s, struct lr_buf *out)
{
    bool first = true;
    lr_buf_add_z(out, "{\"added_tokens\":[");
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t type = s->pieces[i].type;
        if ((type != UNKNOWN && type != CONTROL && type != USER_DEFINED) ||
            s->pieces[i].text.len == 0)
            continue;
        tokenizer_write_added(out, first, i, s->pieces[i].text, type != USER_DEFINED);
        first = false;
    }
    lr_buf_add_char(out, ']');
}

static void write_normalizer(const struct spm *s, struct lr_buf *out)
{
    bool bpe = s->model_type == MODEL_TYPE_BPE;
    lr_buf_add_z(out, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    size_t start = out->len;
    if (s->map.len != 0) {
        lr_buf_add_z(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        lr_base64_add(out, (const unsigned char *)s->map.ptr, s->map.len);
        lr_buf_add_z(out, "\"}");
    }
    if (s->drops_blanks)
        lr_buf_addf(out,
                    "%s{\"type\":\"Strip\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
                    "\" {2,}\"},\"content\":\" \"}",
                    out->len == start ? "" : ",");
    if (bpe && s->dummy_prefix)
        lr_buf_addf(out, "%s{\"type\":\"Prepend\",\"prepend\":\"" TOKENIZER_WORD_MARK "\"}",
                    out->len == start ? "" : ",");
    if (bpe)
        lr_buf_addf(out,
                    "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
                    "\"" TOKENIZER_WORD_MARK "\"}",
                    out->len == start ? "" : ",");
    lr_buf_add_z(out, "]}");
    if (!bpe)
        lr_buf_addf(out,
                    ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
                    "\"" TOKENIZER_WORD_MARK "\",\"prepend_scheme\":\"%s\",\"split\":true}",
                    s->dummy_prefix ? "always" : "never");
    lr_buf_addf(out,
                ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                "\"pattern\":{\"String\":\"" TOKENIZER_WORD_MARK "\"},\"content\":\" \"},"
                "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]}",
                s->dummy_prefix
                    ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
                    : "");
}

/* BOS before the text, as the converters of Llama and Gemma have it; add_bos_token and
 * add_eos_token of tokenizer_config.json override it. */
static void write_wrapping(const struct spm *s, struct lr_buf *out)
{
    static const char *const names[] = {"<s>", "<bos>"};
    for (uint32_t i = 0; s->model_type == MODEL_TYPE_BPE && i < s->count; i++)
        for (int k = 0; k < 2; k++) {
            if (s->pieces[i].type != CONTROL || !lr_str_eq_z(s->pieces[i].text, names[k]))
                continue;
            lr_buf_addf(out,
                        ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                        "\"SpecialToken\":{\"id\":\"b\"}},{\"Sequence\":{\"id\":\"A\"}}],"
                        "\"special_tokens\":{\"b\":{\"ids\":[%u]}}}",
                        i);
            return;
        }
}

static lr_code write_model(struct spm *s, struct lr_buf *out, struct lr_error *err)
{
    bool bpe = s->model_type == MODEL_TYPE_BPE;
    lr_code rc = LR_OK;
    lr_buf_addf(out, ",\"model\":{\"type\":\"%s\",\"byte_fallback\":%s",
                bpe ? "BPE" : "Unigram", s->byte_fallback ? "true" : "false");
    if (bpe)
        tokenizer_write_text(out, false, "unk_token", s->pieces[s->unknown].text);
    else
        lr_buf_addf(out, ",\"unk_id\":%u", s->unknown);
    lr_buf_addf(out, ",\"fuse_unk\":true,\"vocab\":%c", bpe ? '{' : '[');
    for (uint32_t i = 0; i < s->count; i++) {
        lr_buf_add_z(out, i == 0 ? (bpe ? "" : "[") : (bpe ? "," : ",["));
        lr_json_quote(out, s->pieces[i].text);
        if (bpe)
            lr_buf_addf(out, ":%u", i);
        else
            lr_buf_addf(out, ",%.17g]", (double)s->pieces[i].score);
    }
    lr_buf_add_char(out, bpe ? '}' : ']');
    if (bpe) {
        lr_buf_add_z(out, ",\"merges\":[");
        rc = spm_write_merges(s, out, err);
        lr_buf_add_char(out, ']');
    }
    lr_buf_add_z(out, "}}");
    return rc;
}

lr_code tokenizer_from_sentencepiece(struct lr_str first, struct lr_str second,
                                     const struct lr_json *config, struct lr_buf *out,
                                     struct lr_error *err)
{
    struct spm s = {.unknown = TOKENIZER_NONE,
                    .model_type = MODEL_TYPE_UNIGRAM, /* the format's defaults */
                    .dummy_prefix = true,
                    .drops_blanks = true};
    (void)second;
    (void)config;
    lr_code rc = read_model(&s, first, err);
    if (rc == LR_OK) {
        write_added(&s, out);
        write_normalizer(&s, out);
        write_wrapping(&s, out);
        rc = write_model(&s, out, err);
    }
    tokenizer_vocab_free(&s.texts);
    free(s.pieces);
    return rc;
}
