/* tokenizer/model.c - see model.h; also chooses the encoder of a piece. */
#include "tokenizer/model.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "tokenizer/encoding.h"
#include "tokenizer/key.h"
#include "tokenizer/reader.h"

static bool is_null(const struct member *m)
{
    return m->tree == NULL || m->tree->type == LR_JSON_NULL;
}

static lr_code read_flag(const struct model_source *s, int which, bool *out)
{
    const struct member *m = &s->model[which];
    if (is_null(m) || lr_json_bool(m->tree, out))
        return LR_OK;
    return lr_fail(s->err, LR_MODEL_CORRUPT, "model.%s must be true or false", m->name);
}

static lr_code read_text(const struct model_source *s, int which, struct lr_str *out)
{
    const struct member *m = &s->model[which];
    *out = LR_STR_LIT("");
    if (is_null(m) || lr_json_str(m->tree, out))
        return LR_OK;
    return lr_fail(s->err, LR_MODEL_CORRUPT, "model.%s must be a string", m->name);
}

/* The id of a token of model.vocab by its text as written, or TOKENIZER_NONE. */
static uint32_t find(const struct vocab *v, struct lr_str text)
{
    struct lr_buf bytes;
    lr_buf_init(&bytes, text.len + 1);
    const struct vocab_slot *slot = NULL;
    if (v->raw)
        lr_buf_add_str(&bytes, text);
    if ((v->raw || tokenizer_alphabet_bytes(text, &bytes)) && bytes.len != 0)
        slot = tokenizer_vocab_find(v, bytes.data, bytes.len);
    lr_buf_free(&bytes);
    return slot != NULL ? slot->id & ~(uint32_t)VOCAB_DIRECT : TOKENIZER_NONE;
}

static void find_fallback(struct tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "<0x%02X>", (unsigned)b);
        t->fallback_ids[b] = find(&t->vocab, lr_str_z(name));
    }
}

/* Vocabulary, index and added tokens, which all models need. */
static lr_code read_vocab(struct tokenizer *t, const struct model_source *s)
{
    lr_code rc = tokenizer_vocab_index(&t->vocab, s->err);
    if (rc == LR_OK)
        rc = tokenizer_added_read(&t->added, &t->vocab, s->added_tokens, s->err);
    return rc == LR_OK && t->fallback ? find_fallback(t), rc : rc;
}

/* Puts the tokens into the trie; those that only trusted text may spell are marked. */
static lr_code fill_trie(struct tokenizer *t, struct lr_error *err)
{
    bool good = tokenizer_trie_init(&t->trie);
    for (uint32_t id = 0; good && id < t->vocab.size; id++) {
        const struct token *token = &t->vocab.tokens[id];
        uint32_t control = (token->flags & TOKEN_SPECIAL) != 0 ? TRIE_CONTROL : 0;
        if ((token->flags & TOKEN_INDEXED) != 0 && token->len != 0)
            good = tokenizer_trie_add(&t->trie, lr_str(vocab_bytes(&t->vocab, id), token->len),
                                      id | control);
    }
    return good ? LR_OK
                : lr_fail(err, LR_OUT_OF_RAM, "no memory for the trie of %u tokens",
                          t->vocab.size);
}

/* ---- BPE ---- */

static lr_code check_bpe(const struct model_source *s)
{
    const struct member *m = s->model;
    struct lr_str text;
    double dropout = 0;
    if (!is_null(&m[MODEL_DROPOUT]) &&
        !(lr_json_double(m[MODEL_DROPOUT].tree, &dropout) && dropout == 0))
        return lr_fail(s->err, LR_UNSUPPORTED, "model.dropout is set; it is not supported");
    if (!is_null(&m[MODEL_PREFIX]) &&
        !(lr_json_str(m[MODEL_PREFIX].tree, &text) && text.len == 0))
        return lr_fail(s->err, LR_UNSUPPORTED,
                       "model.continuing_subword_prefix is set; for BPE it is not supported");
    if (m[MODEL_MERGES].text.len == 0)
        return lr_fail(s->err, LR_MODEL_CORRUPT, "model has no \"merges\"");
    return LR_OK;
}

static lr_code read_bpe_options(struct tokenizer *t, const struct model_source *s)
{
    struct lr_str suffix;
    lr_code rc = read_flag(s, MODEL_IGNORE_MERGES, &t->ignore_merges);
    if (rc == LR_OK)
        rc = read_flag(s, MODEL_BYTE_FALLBACK, &t->fallback);
    if (rc == LR_OK)
        rc = read_flag(s, MODEL_FUSE_UNK, &t->fuse_unknown);
    if (rc == LR_OK)
        rc = read_text(s, MODEL_SUFFIX, &suffix);
    if (rc != LR_OK)
        return rc;
    t->suffix = tokenizer_copy(suffix);
    t->vocab.suffix = t->suffix;
    t->vocab.raw = t->characters_only = !s->has_bytes;
    return t->suffix.ptr != NULL ? LR_OK
                                 : lr_fail(s->err, LR_OUT_OF_RAM, "no memory for a suffix");
}

/* Where a merge joins a text that does not end with a word mark and one that begins with it,
 * text must not be cut. */
static void find_cuts(struct tokenizer *t)
{
    const struct merges *m = &t->merges;
    t->cuts = t->characters_only;
    for (size_t i = 0; i < (size_t)1 << m->slot_bits; i++) {
        if (m->slots[i] == MERGES_FREE)
            continue;
        uint32_t left = (uint32_t)(m->slots[i] >> 44);
        uint32_t right = (uint32_t)(m->slots[i] >> 24) & 0xFFFFF;
        const char *end = vocab_bytes(&t->vocab, left) + t->vocab.tokens[left].len;
        unsigned char last = (unsigned char)end[-1];
        if (t->vocab.tokens[right].len < 3 ||
            memcmp(vocab_bytes(&t->vocab, right), TOKENIZER_WORD_MARK, 3) != 0 ||
            (t->vocab.tokens[left].len >= 3 && memcmp(end - 3, TOKENIZER_WORD_MARK, 3) == 0))
            continue;
        t->mark_seams[last >> 6] |= (uint64_t)1 << (last & 63);
    }
}

static lr_code read_bpe(struct tokenizer *t, const struct model_source *s)
{
    struct lr_str unknown;
    lr_code rc = check_bpe(s);
    if (rc == LR_OK)
        rc = read_bpe_options(t, s);
    if (rc == LR_OK)
        rc = read_text(s, MODEL_UNK_TOKEN, &unknown);
    if (rc == LR_OK)
        rc = tokenizer_vocab_read(&t->vocab, s->whole, s->model[MODEL_VOCAB].text, s->err);
    if (rc == LR_OK)
        rc = read_vocab(t, s);
    if (rc == LR_OK)
        rc = tokenizer_vocab_find_bytes(&t->vocab, s->err);
    if (rc != LR_OK)
        return rc;
    t->unknown = unknown.len != 0 ? find(&t->vocab, unknown) : TOKENIZER_NONE;
    t->plain_bytes = !t->characters_only && t->suffix.len == 0;
    for (int b = 0; b < 256; b++)
        t->plain_bytes = t->plain_bytes && t->vocab.byte_ids[b] != TOKENIZER_NONE;
    rc = tokenizer_merges_read(&t->merges, &t->vocab, s->whole, s->model[MODEL_MERGES].text,
                               s->err);
    if (rc == LR_OK && t->characters_only)
        rc = tokenizer_closed_find(t, s->err);
    if (rc == LR_OK)
        rc = tokenizer_prune(t, s->err);
    if (rc == LR_OK && t->plain_bytes)
        rc = tokenizer_closed_find(t, s->err);
    if (rc != LR_OK)
        return rc;
    find_cuts(t);
    return tokenizer_bpe_mark_direct(t, s->err);
}

/* ---- Unigram ---- */

/* One ["token", score]; its id is its place. */
static lr_code read_scored(struct tokenizer *t, struct reader *r, uint32_t *capacity)
{
    struct unigram *u = &t->unigram;
    struct lr_str text;
    double score = 0;
    lr_code rc = tokenizer_reader_expect(r, '[', "an entry of model.vocab is [token, score]");
    if (rc == LR_OK)
        rc = tokenizer_reader_string(r, &text);
    if (rc == LR_OK && text.len > u->longest)
        u->longest = text.len;
    uint32_t id = t->vocab.size;
    if (rc == LR_OK)
        rc = tokenizer_vocab_add(&t->vocab, id, text, TOKEN_INDEXED, r->err);
    if (rc == LR_OK)
        rc = tokenizer_reader_expect(r, ',', "an entry of model.vocab is [token, score]");
    if (rc == LR_OK)
        rc = tokenizer_reader_double(r, &score);
    if (rc == LR_OK)
        rc = tokenizer_reader_expect(r, ']', "an entry of model.vocab is [token, score]");
    if (rc != LR_OK)
        return rc;
    if (id == *capacity) {
        *capacity = *capacity != 0 ? *capacity * 2 : 4096;
        double *scores = realloc(u->scores, *capacity * sizeof(*scores));
        if (scores == NULL)
            return lr_fail(r->err, LR_OUT_OF_RAM, "no memory for %u scores", *capacity);
        u->scores = scores;
    }
    u->scores[id] = score;
    u->least = score < u->least ? score : u->least;
    return LR_OK;
}

static lr_code read_scores(struct tokenizer *t, const struct model_source *s)
{
    struct reader r;
    uint32_t capacity = 0;
    t->unigram.least = DBL_MAX;
    tokenizer_reader_init(&r, s->whole, s->model[MODEL_VOCAB].text, s->err);
    lr_code rc = tokenizer_reader_expect(
        &r, '[', "model.vocab of a Unigram must be an array of [token, score]");
    bool more = rc == LR_OK && !tokenizer_reader_take(&r, ']');
    while (rc == LR_OK && more) {
        rc = read_scored(t, &r, &capacity);
        more = tokenizer_reader_take(&r, ',');
        if (rc == LR_OK && !more)
            rc = tokenizer_reader_expect(&r, ']', "',' or ']' is expected in model.vocab");
    }
    if (rc == LR_OK)
        rc = tokenizer_reader_done(&r);
    tokenizer_reader_free(&r);
    return rc;
}

static lr_code read_unigram(struct tokenizer *t, const struct model_source *s)
{
    uint64_t unknown = TOKENIZER_NONE;
    const struct member *m = &s->model[MODEL_UNK_ID];
    t->vocab.raw = t->vocab.repeats = true;
    lr_code rc = read_scores(t, s);
    if (rc == LR_OK && !is_null(m) &&
        (!lr_json_u64(m->tree, &unknown) || unknown >= t->vocab.size))
        rc = lr_fail(s->err, LR_MODEL_CORRUPT,
                     "model.unk_id must be a number below the %u tokens of model.vocab",
                     t->vocab.size);
    t->unigram.unknown = (uint32_t)unknown;
    if (rc == LR_OK)
        rc = read_flag(s, MODEL_BYTE_FALLBACK, &t->fallback);
    if (rc == LR_OK)
        rc = read_vocab(t, s);
    return rc == LR_OK ? fill_trie(t, s->err) : rc;
}

/* ---- WordPiece ---- */

static lr_code read_wordpiece(struct tokenizer *t, const struct model_source *s)
{
    struct wordpiece *w = &t->wordpiece;
    struct lr_str prefix, unknown;
    uint64_t longest = 100;
    const struct member *m = s->model;
    t->vocab.raw = true;
    lr_code rc = read_text(s, MODEL_PREFIX, &prefix);
    if (rc == LR_OK)
        rc = read_text(s, MODEL_UNK_TOKEN, &unknown);
    if (rc == LR_OK && is_null(&m[MODEL_PREFIX]))
        prefix = LR_STR_LIT("##");
    if (rc == LR_OK && unknown.len == 0)
        unknown = LR_STR_LIT("[UNK]");
    if (rc == LR_OK && !is_null(&m[MODEL_MAX_CHARS]) &&
        !lr_json_u64(m[MODEL_MAX_CHARS].tree, &longest))
        rc = lr_fail(s->err, LR_MODEL_CORRUPT,
                     "model.max_input_chars_per_word must be a whole number");
    if (rc == LR_OK)
        rc = tokenizer_vocab_read(&t->vocab, s->whole, m[MODEL_VOCAB].text, s->err);
    if (rc == LR_OK)
        rc = read_vocab(t, s);
    if (rc == LR_OK)
        rc = fill_trie(t, s->err);
    if (rc != LR_OK)
        return rc;
    w->longest = longest < TOKENIZER_MAX_TEXT ? (size_t)longest : TOKENIZER_MAX_TEXT;
    w->unknown = find(&t->vocab, unknown);
    w->prefix = tokenizer_copy(prefix);
    for (size_t i = 0; i < prefix.len && (i == 0 || w->inner != 0); i++)
        w->inner = trie_next(&t->trie, w->inner, (unsigned char)prefix.ptr[i]);
    return w->prefix.ptr != NULL ? LR_OK
                                 : lr_fail(s->err, LR_OUT_OF_RAM, "no memory for a prefix");
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    lr_code (*read)(struct tokenizer *t, const struct model_source *s);
    lr_code (*encode)(struct encoding *e, struct lr_str piece);
} kinds[] = {
    [MODEL_BPE] = {"BPE", read_bpe, NULL},
    [MODEL_UNIGRAM] = {"Unigram", read_unigram, tokenizer_unigram_encode},
    [MODEL_WORDPIECE] = {"WordPiece", read_wordpiece, tokenizer_wordpiece_encode},
};

lr_code tokenizer_model_kind(const struct model_source *s, enum model_kind *out)
{
    const struct member *m = s->model;
    struct lr_str type;
    if (m[MODEL_VOCAB].text.len == 0)
        return lr_fail(s->err, LR_MODEL_CORRUPT, "model has no \"vocab\"");
    if (is_null(&m[MODEL_TYPE])) { /* files older than the member */
        *out = m[MODEL_MERGES].text.len != 0       ? MODEL_BPE
               : m[MODEL_VOCAB].text.ptr[0] == '[' ? MODEL_UNIGRAM
               : m[MODEL_MAX_CHARS].text.len != 0 || m[MODEL_PREFIX].text.len != 0
                   ? MODEL_WORDPIECE
                   : MODEL_BPE;
        return LR_OK;
    }
    if (!lr_json_str(m[MODEL_TYPE].tree, &type))
        return lr_fail(s->err, LR_MODEL_CORRUPT, "model.type must be a string");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (lr_str_eq_z(type, kinds[i].name)) {
            *out = (enum model_kind)i;
            return LR_OK;
        }
    return lr_fail(s->err, LR_UNSUPPORTED,
                   "model.type \"%.*s\" is not supported; known are BPE, Unigram and WordPiece",
                   (int)(type.len < 80 ? type.len : 80), type.ptr);
}

lr_code tokenizer_model_read(struct tokenizer *t, const struct model_source *s)
{
    return kinds[t->kind].read(t, s);
}

lr_code tokenizer_model_encode(struct encoding *e, struct lr_str piece)
{
    if (e->t->kind == MODEL_BPE) {
        tokenizer_bpe_any_piece(&e->bpe, piece.ptr, piece.len);
        return LR_OK;
    }
    uint64_t hash = key_hash(key_of(piece.ptr, piece.len), piece.len);
    if (tokenizer_bpe_recall(&e->bpe, hash, piece.ptr, piece.len))
        return LR_OK;
    size_t first = e->bpe.out->count;
    lr_code rc = kinds[e->t->kind].encode(e, piece);
    if (rc == LR_OK)
        tokenizer_bpe_store(&e->bpe, hash, piece.ptr, piece.len, first);
    return rc;
}
