/* grammar/memo.c - see grammar/matcher.h: the moves between states that a walk has seen.
 *
 * Different tokens lead to the same states: every number of two digits, every run of blanks.
 * So the states of a walk get numbers, and where a byte led from a state is looked up.  States
 * with a key are left out, because their moves depend on the text.
 */
#include <stdlib.h>

#include "grammar/matcher.h"

/* False: the state has a key. */
static bool hash_threads(const struct grammar_matcher *m, const struct span *s, uint32_t *hash)
{
    const struct thread *t = m->threads + s->begin, *end = t + s->count;
    uint32_t h = s->count;
    for (; t < end; t++) {
        if (m->program->steps[t->step].op == GRAMMAR_KEY)
            return false;
        h = matcher_mix(h ^ t->step ^ t->part << 16, t->frame ^ t->set << 16 ^ t->sub << 8);
    }
    *hash = h;
    return true;
}

/* The threads of a state stay where they are. */
static void memo_keep(struct grammar_matcher *m, const struct span *s)
{
    uint32_t end = s->begin + s->count;
    m->floor = end > m->floor ? end : m->floor;
}

/* Numbers a state, if that is possible; a state that is known becomes the known one. */
static void memo_number(struct grammar_matcher *m, struct span *s)
{
    struct grammar_memo *memo = m->memo;
    uint32_t hash;
    if (memo == NULL || memo->count == MEMO_STATES || m->floor > MEMO_THREADS ||
        !hash_threads(m, s, &hash))
        return;
    uint32_t at = hash & (MEMO_SLOTS - 1);
    for (; memo->slots[at].serial == memo->serial; at = (at + 1) & (MEMO_SLOTS - 1)) {
        const struct span *known = &memo->states[memo->slots[at].state];
        if (memo->slots[at].hash == hash && memo->slots[at].count == s->count &&
            memcmp(m->threads + known->begin, m->threads + s->begin,
                   s->count * sizeof(*m->threads)) == 0) {
            *s = *known;
            return;
        }
    }
    memo->slots[at].serial = memo->serial;
    memo->slots[at].hash = hash;
    memo->slots[at].count = s->count;
    memo->slots[at].state = ++memo->count;
    s->id = memo->count;
    memo->states[s->id] = *s;
    memo->has_bytes[s->id] = false;
    memo_keep(m, s);
}

static void add_bytes(uint64_t *bits, uint32_t low, uint32_t high)
{
    for (uint32_t i = low; i <= high; i++)
        bits[i >> 6] |= UINT64_C(1) << (i & 63);
}

/* The bytes that some thread of a numbered state may take, behind blanks, too; most bytes fit
 * none.  Without room for the state behind blanks every byte is tried. */
static void find_bytes(struct grammar_matcher *m, struct span *state)
{
    struct grammar_memo *memo = m->memo;
    uint64_t *bits = memo->bytes[state->id];
    memo->has_bytes[state->id] = true;
    if (m->floor > MEMO_THREADS) {
        memset(bits, 0xFF, sizeof(memo->bytes[0]));
        return;
    }
    memset(bits, 0, sizeof(memo->bytes[0]));
    grammar_matcher_look(m, state);
    memo->states[state->id] = *state;
    memo_keep(m, state);
    for (uint32_t i = 0; i < state->count; i++) {
        const struct grammar_step *s = &m->program->steps[m->threads[state->begin + i].step];
        if (s->op == GRAMMAR_BYTE) {
            add_bytes(bits, s->low, s->high);
        } else if (s->op == GRAMMAR_SPACE) {
            bits[0] |= UINT64_C(1) << ' ' | UINT64_C(1) << '\n' | UINT64_C(1) << '\t';
        } else if (s->op != GRAMMAR_CONTROL && s->op != GRAMMAR_END) {
            memset(bits, 0xFF, sizeof(memo->bytes[0]));
            return;
        }
    }
}

void grammar_memo_begin(struct grammar_matcher *m, struct span *state)
{
    struct grammar_memo *memo = m->memo != NULL ? m->memo : m->scratch->memos;
    if (memo == NULL)
        memo = calloc(1, sizeof(*memo));
    else if (memo != m->memo)
        m->scratch->memos = memo->next;
    m->memo = memo;
    memo_keep(m, state);
    if (memo == NULL)
        return; /* without memory for it nothing is remembered */
    if (++memo->serial == 0) {
        memset(memo, 0, sizeof(*memo));
        memo->serial = 1;
    }
    memo->count = 0;
    memo_number(m, state);
}

void grammar_memo_end(struct grammar_matcher *m)
{
    if (m->memo != NULL) {
        m->memo->next = m->scratch->memos;
        m->scratch->memos = m->memo;
    }
    m->memo = NULL;
}

void grammar_scratch_free(struct grammar_scratch *scratch)
{
    while (scratch != NULL && scratch->memos != NULL) {
        struct grammar_memo *memo = scratch->memos;
        scratch->memos = memo->next;
        free(memo);
    }
    free(scratch);
}

uint32_t grammar_memo_byte(struct grammar_matcher *m, struct span *state, uint32_t byte)
{
    if (state->id == 0 || byte > 255)
        return byte;
    if (!m->memo->has_bytes[state->id])
        find_bytes(m, state);
    const uint64_t *bytes = m->memo->bytes[state->id];
    uint64_t bits = bytes[byte >> 6] >> (byte & 63) << (byte & 63);
    uint32_t word = byte >> 6;
    while (bits == 0 && ++word < 4)
        bits = bytes[word];
    return bits != 0 ? word * 64 + (uint32_t)__builtin_ctzll(bits) : 256;
}

struct span grammar_memo_advance(struct grammar_matcher *m, struct span *from, uint8_t byte)
{
    struct grammar_memo *memo = m->memo;
    if (from->id == 0) {
        struct span to = grammar_matcher_advance(m, from, byte);
        if (to.count != 0)
            memo_number(m, &to);
        return to;
    }
    m->moves++;
    if (!memo->has_bytes[from->id])
        find_bytes(m, from);
    if ((memo->bytes[from->id][byte >> 6] >> (byte & 63) & 1) == 0)
        return (struct span){0};
    const uint32_t key = from->id << 8 | byte;
    struct memo_move *move = &memo->moves[matcher_mix(from->id, byte) & (MEMO_MOVES - 1)];
    if (move->serial == memo->serial && move->key == key)
        return move->to != 0 ? memo->states[move->to] : (struct span){0};
    struct span to = grammar_matcher_advance(m, from, byte);
    if (to.count != 0)
        memo_number(m, &to);
    if (to.count == 0 || to.id != 0)
        *move = (struct memo_move){memo->serial, key, to.id};
    return to;
}
