/* tokenizer/merges.c - model.merges: which pairs of tokens merge, and in what order.
 *
 * The position in the list is the priority.  Both notations are read: "a b" and ["a", "b"].  A
 * repeated pair has its last position, as in the Hugging Face tokenizer.
 */
#include <stdlib.h>

#include "tokenizer/internal.h"
#include "tokenizer/reader.h"

struct loading {
    struct merges *m;
    const struct vocab *v;
    struct reader r;
    struct lr_buf bytes;           /* left, then right, of the merge being read */
    struct lr_buf half;            /* one of them, as bytes */
    struct lr_buf scratch;         /* the same with the mark of its end */
    uint32_t capacity;             /* of m->results */
    uint64_t *pairs;               /* owned: by rank, left << 20 | right */
    const struct vocab_slot *both; /* result of the previous merge */
};

static lr_code bad_merge(struct loading *l, const char *what)
{
    lr_code rc = tokenizer_reader_fail(&l->r, what);
    if (l->r.err != NULL)
        (void)lr_fail_prefix(l->r.err, "model.merges, entry %u", l->m->count);
    return rc;
}

/* Appends a token's bytes to l->bytes. */
static lr_code read_half(struct loading *l, size_t *len)
{
    struct lr_str half;
    bool is_bytes = true;
    lr_code rc = l->v->raw ? tokenizer_reader_string(&l->r, &half)
                           : tokenizer_reader_token(&l->r, &half, &is_bytes);
    if (rc != LR_OK)
        return rc;
    if ((!l->v->raw && !is_bytes) || half.len == 0)
        return bad_merge(l, "the token before here is not in the vocabulary's alphabet");
    half = tokenizer_vocab_form(l->v, half, true, &l->scratch);
    lr_buf_add_str(&l->bytes, half);
    *len = half.len;
    return LR_OK;
}

/* Appends half of a merge that is written with a blank in between. */
static bool add_half(struct loading *l, struct lr_str half)
{
    if (!l->v->raw) {
        lr_buf_clear(&l->half);
        if (!tokenizer_alphabet_bytes(half, &l->half))
            return false;
        half = lr_buf_str(&l->half);
    }
    lr_buf_add_str(&l->bytes, tokenizer_vocab_form(l->v, half, true, &l->scratch));
    return true;
}

/* "a b": the alphabet has no blank, so there is exactly one. */
static lr_code read_joined(struct loading *l, size_t *left_len)
{
    struct lr_str text;
    lr_code rc = tokenizer_reader_string(&l->r, &text);
    if (rc != LR_OK)
        return rc;
    size_t blank = lr_str_find_char(text, ' ');
    if (blank == LR_STR_NONE)
        return bad_merge(l, "a merge \"left right\" needs a blank");
    bool good = add_half(l, lr_str(text.ptr, blank));
    *left_len = l->bytes.len;
    good = good && add_half(l, lr_str_sub(text, blank + 1, text.len));
    if (!good || *left_len == 0 || *left_len == l->bytes.len)
        return bad_merge(l, "the token before here is not in the vocabulary's alphabet");
    return LR_OK;
}

static lr_code read_merge(struct loading *l, size_t *left_len)
{
    size_t right_len;
    lr_buf_clear(&l->bytes);
    if (!tokenizer_reader_take(&l->r, '['))
        return read_joined(l, left_len);
    lr_code rc = read_half(l, left_len);
    if (rc == LR_OK)
        rc = tokenizer_reader_expect(&l->r, ',', "a merge has two tokens");
    if (rc == LR_OK)
        rc = read_half(l, &right_len);
    if (rc == LR_OK)
        rc = tokenizer_reader_expect(&l->r, ']', "a merge has two tokens");
    return rc;
}

static lr_code merges_make_room(struct loading *l)
{
    struct merges *m = l->m;
    if (m->count == TOKENIZER_MAX_MERGES)
        return lr_fail(l->r.err, LR_MODEL_CORRUPT, "model.merges has more than %d entries",
                       TOKENIZER_MAX_MERGES);
    if (m->count < l->capacity)
        return LR_OK;
    uint32_t capacity = l->capacity != 0 ? l->capacity * 2 : 4096;
    uint32_t *results = realloc(m->results, capacity * sizeof(*results));
    if (results != NULL)
        m->results = results;
    uint64_t *pairs = realloc(l->pairs, capacity * sizeof(*pairs));
    if (pairs != NULL)
        l->pairs = pairs;
    if (results == NULL || pairs == NULL)
        return lr_fail(l->r.err, LR_OUT_OF_RAM, "no memory for %u merges", capacity);
    l->capacity = capacity;
    return LR_OK;
}

static lr_code add_merge(struct loading *l, size_t left_len)
{
    const char *bytes = l->bytes.data;
    size_t len = l->bytes.len;
    lr_code rc = merges_make_room(l);
    if (rc != LR_OK)
        return rc;
    if (l->bytes.failed)
        return lr_fail(l->r.err, LR_OUT_OF_RAM, "no memory for merge %u", l->m->count);
    const struct vocab_slot *left = tokenizer_vocab_find(l->v, bytes, left_len);
    const struct vocab_slot *right =
        tokenizer_vocab_find(l->v, bytes + left_len, len - left_len);
    /* Several ways to split the same token are often neighbours. */
    const struct vocab_slot *both = l->both;
    if (both == NULL || both->len != len ||
        memcmp(vocab_bytes(l->v, both->id), bytes, len) != 0)
        both = l->both = tokenizer_vocab_find(l->v, bytes, len);
    if (left == NULL || right == NULL)
        return bad_merge(l, left == NULL ? "the left token is not in model.vocab"
                                         : "the right token is not in model.vocab");
    if (both == NULL)
        return bad_merge(l, "the merged token is not in model.vocab");
    l->pairs[l->m->count] = (uint64_t)left->id << 20 | right->id;
    l->m->results[l->m->count++] = both->id;
    return LR_OK;
}

static lr_code read_list(struct loading *l)
{
    lr_code rc = tokenizer_reader_expect(&l->r, '[', "model.merges must be an array");
    bool more = rc == LR_OK && !tokenizer_reader_take(&l->r, ']');
    while (rc == LR_OK && more) {
        size_t left_len = 0;
        rc = read_merge(l, &left_len);
        if (rc == LR_OK)
            rc = add_merge(l, left_len);
        more = tokenizer_reader_take(&l->r, ',');
        if (rc == LR_OK && !more)
            rc = tokenizer_reader_expect(&l->r, ']', "',' or ']' is expected in model.merges");
    }
    return rc == LR_OK ? tokenizer_reader_done(&l->r) : rc;
}

/* A merge that makes a control token is dropped; otherwise untrusted text could spell one. */
static lr_code build_table(struct loading *l)
{
    struct merges *m = l->m;
    m->slot_bits = 10;
    while (((uint64_t)1 << m->slot_bits) < 2 * (uint64_t)m->count)
        m->slot_bits++;
    size_t slot_count = (size_t)1 << m->slot_bits;
    m->slots = malloc(slot_count * sizeof(*m->slots));
    m->byte_pairs = malloc(sizeof(*m->byte_pairs) * 256 * 256);
    if (m->slots == NULL || m->byte_pairs == NULL)
        return lr_fail(l->r.err, LR_OUT_OF_RAM, "no memory to index %u merges", m->count);
    memset(m->slots, 0xFF, slot_count * sizeof(*m->slots));
    for (uint32_t rank = 0; rank < m->count; rank++) {
        if ((l->v->tokens[m->results[rank]].flags & TOKEN_SPECIAL) != 0)
            continue;
        uint64_t pair = l->pairs[rank];
        size_t i = merges_hash(pair, m->slot_bits);
        while (m->slots[i] != MERGES_FREE && m->slots[i] >> 24 != pair)
            i = (i + 1) & (slot_count - 1);
        m->slots[i] = pair << 24 | rank;
    }
    tokenizer_merges_index_bytes(m, l->v);
    return LR_OK;
}

void tokenizer_merges_index_bytes(struct merges *m, const struct vocab *v)
{
    for (uint32_t a = 0; a < 256; a++)
        for (uint32_t b = 0; b < 256; b++)
            m->byte_pairs[a << 8 | b] =
                v->byte_ids[a] == TOKENIZER_NONE || v->byte_ids[b] == TOKENIZER_NONE
                    ? TOKENIZER_NONE
                    : merges_rank(m, v->byte_ids[a], v->byte_ids[b]);
    memset(m->seams, 0, sizeof(m->seams));
    for (size_t i = 0; i < (size_t)1 << m->slot_bits; i++) {
        if (m->slots[i] == MERGES_FREE)
            continue;
        uint32_t left = (uint32_t)(m->slots[i] >> 44);
        uint32_t right = (uint32_t)(m->slots[i] >> 24) & 0xFFFFF;
        unsigned char a = (unsigned char)vocab_bytes(v, left)[(size_t)v->tokens[left].len - 1];
        unsigned char b = (unsigned char)vocab_bytes(v, right)[0];
        m->seams[a << 2 | b >> 6] |= (uint64_t)1 << (b & 63);
    }
}

lr_code tokenizer_merges_read(struct merges *m, const struct vocab *v, struct lr_str whole,
                              struct lr_str array, struct lr_error *err)
{
    struct loading l = {.m = m, .v = v};
    tokenizer_reader_init(&l.r, whole, array, err);
    lr_buf_init(&l.bytes, array.len + 16);
    lr_buf_init(&l.half, array.len + 16);
    lr_buf_init(&l.scratch, array.len + 16);
    lr_code rc = read_list(&l);
    if (rc == LR_OK)
        rc = build_table(&l);
    tokenizer_reader_free(&l.r);
    lr_buf_free(&l.bytes);
    lr_buf_free(&l.half);
    lr_buf_free(&l.scratch);
    free(l.pairs);
    return rc;
}

void tokenizer_merges_free(struct merges *m)
{
    free(m->slots);
    free(m->filter);
    free(m->results);
    free(m->byte_pairs);
}
