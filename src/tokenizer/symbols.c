/* tokenizer/symbols.c - the symbols that BPE begins with, where these are not all 256 bytes:
 * characters, a mark at the end of a piece, and what is not in the vocabulary.
 *
 * An unknown symbol takes part in no merge.  So the known parts between unknown ones are
 * encoded alone, and a part with a word mark in it (U+2581) is cut before the mark where no
 * merge crosses that border: then words are looked up one by one, also in a text of one piece.
 */
#include "tokenizer/bpe.h"
#include "tokenizer/chars.h"

uint32_t tokenizer_symbol_slow(const struct tokenizer *t, const unsigned char *bytes,
                               size_t left, size_t *len)
{
    size_t width = t->characters_only ? char_width((char)bytes[0]) : 1;
    width = width > left ? left : width;
    if (left > width && bytes[width] == (unsigned char)BPE_END) {
        *len = width + 1;
    } else if (width == 1) {
        *len = 1;
        return t->vocab.byte_ids[bytes[0]];
    } else {
        uint32_t id = closed_at(t, bytes, left, len);
        *len = width;
        if (id != TOKENIZER_NONE || width < 4)
            return id;
    }
    const struct vocab_slot *slot = tokenizer_vocab_find(&t->vocab, (const char *)bytes, *len);
    uint32_t id = slot != NULL ? slot->id & ~(uint32_t)VOCAB_DIRECT : TOKENIZER_NONE;
    return slot != NULL && (t->vocab.tokens[id].flags & TOKEN_SPECIAL) == 0 ? id
                                                                            : TOKENIZER_NONE;
}

/* Unknown symbols, as in the reference: a character with a token for each of its bytes becomes
 * these; another becomes the unknown token, which is written when a known symbol follows. */
struct unknown {
    struct bpe *b;
    bool pending;
};

static void end_unknown(struct unknown *u)
{
    if (u->pending)
        tokenizer_ids_add(u->b->out, u->b->t->unknown);
    u->pending = false;
}

static bool add_as_bytes(struct bpe *b, const unsigned char *bytes, size_t len)
{
    if (!b->t->fallback)
        return false;
    for (size_t i = 0; i < len; i++)
        if (b->t->fallback_ids[bytes[i]] == TOKENIZER_NONE)
            return false;
    for (size_t i = 0; i < len; i++)
        tokenizer_ids_add(b->out, b->t->fallback_ids[bytes[i]]);
    return true;
}

static void add_unknown(struct unknown *u, const unsigned char *bytes, size_t len)
{
    const struct tokenizer *t = u->b->t;
    if (add_as_bytes(u->b, bytes, len) || t->unknown == TOKENIZER_NONE)
        return;
    if (!t->fuse_unknown)
        end_unknown(u);
    u->pending = true;
}

static bool cuts_before(const struct tokenizer *t, const char *bytes, size_t at)
{
    unsigned char before = (unsigned char)bytes[at - 1];
    return memcmp(bytes + at, TOKENIZER_WORD_MARK, 3) == 0 &&
           (t->mark_seams[before >> 6] >> (before & 63) & 1) == 0 &&
           !(at >= 3 && memcmp(bytes + at - 3, TOKENIZER_WORD_MARK, 3) == 0);
}

static void add_known(struct unknown *u, const char *bytes, size_t from, size_t to)
{
    if (from == to)
        return;
    end_unknown(u);
    tokenizer_bpe_piece(u->b, bytes + from, to - from);
}

static void add_parts(struct bpe *b, const char *bytes, size_t len)
{
    const struct tokenizer *t = b->t;
    struct unknown u = {.b = b};
    size_t from = 0;
    for (size_t at = 0, width; at < len; at += width) {
        uint32_t id = symbol_at(t, (const unsigned char *)bytes + at, len - at, &width);
        if (id == TOKENIZER_NONE) {
            size_t own = width > 1 && bytes[at + width - 1] == BPE_END ? width - 1 : width;
            add_known(&u, bytes, from, at);
            add_unknown(&u, (const unsigned char *)bytes + at, own);
            from = at + width;
        } else if (t->cuts && at > from && width == 3 && cuts_before(t, bytes, at)) {
            add_known(&u, bytes, from, at);
            from = at;
        }
    }
    add_known(&u, bytes, from, len);
    end_unknown(&u);
}

void tokenizer_bpe_any_piece(struct bpe *b, const char *bytes, size_t len)
{
    const struct tokenizer *t = b->t;
    if (t->plain_bytes) {
        tokenizer_bpe_piece(b, bytes, len);
        return;
    }
    if (t->suffix.len != 0) {
        lr_buf_clear(&b->ended);
        b->ended.limit = len + 1;
        lr_buf_add(&b->ended, bytes, len);
        lr_buf_add_char(&b->ended, BPE_END);
        if (b->ended.failed) {
            b->out_of_memory = true;
            return;
        }
        bytes = b->ended.data;
        len++;
    }
    if (t->ignore_merges) {
        const struct vocab_slot *slot = tokenizer_vocab_find(&t->vocab, bytes, len);
        if (slot != NULL && (slot->id & VOCAB_DIRECT) != 0) {
            tokenizer_ids_add(b->out, slot->id & ~(uint32_t)VOCAB_DIRECT);
            return;
        }
    }
    add_parts(b, bytes, len);
}
