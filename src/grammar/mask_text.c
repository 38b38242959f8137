/* grammar/mask_text.c - see grammar/matcher.h: masks within texts that are not JSON.
 *
 * The threads at one place of an automaton are looked at together, place by place.  The tokens
 * that stay in its automaton are found by the automaton's table alone, without the matcher.
 * Tokens that leave it go through a place where the automaton may end: from there on the
 * matcher walks, and only where the next byte fits what follows the automaton.
 */
#include "grammar/matcher.h"

bool grammar_mask_is_text(const struct grammar_matcher *m, const struct thread *t)
{
    const struct grammar_step *s = &m->program->steps[t->step];
    return s->op == GRAMMAR_DFA && s->high == GRAMMAR_DFA_OF_TEXT && t->part == 0;
}

static const struct dfa *dfa_of(const struct grammar_matcher *m, const struct thread *t)
{
    return m->program->dfas[m->program->steps[t->step].other];
}

/* The bytes that a thread may take. */
static void first_bytes(struct grammar_matcher *m, const struct thread *t, bool fits[256])
{
    const struct grammar_step *s = &m->program->steps[t->step];
    if (s->op == GRAMMAR_CONTROL || s->op == GRAMMAR_END)
        return;
    m->moves += 256 / NODES_A_MOVE;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = t->sub, part = t->part;
        if (s->op == GRAMMAR_BYTE)
            fits[byte] = fits[byte] || (byte >= s->low && byte <= s->high);
        else
            fits[byte] = fits[byte] || !grammar_mask_is_text(m, t) ||
                         grammar_dfa_step(dfa_of(m, t), DFA_RAW, &state, &part, (uint8_t)byte);
    }
}

/* The bytes that some thread of the state may take.  The threads of an ambiguous grammar are in
 * few places and differ in what they return to, so a place is looked at once. */
static void bytes_of_state(struct grammar_matcher *m, const struct span *state, bool fits[256])
{
    enum { PLACES = 64 };
    struct thread known[PLACES];
    memset(known, 0xFF, sizeof(known));
    memset(fits, 0, 256 * sizeof(*fits));
    m->moves += state->count;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct thread *t = &m->threads[state->begin + i];
        struct thread *k = &known[matcher_mix(t->step, t->sub ^ t->part << 16) % PLACES];
        if (k->step == t->step && k->sub == t->sub && k->part == t->part)
            continue;
        *k = *t;
        first_bytes(m, t, fits);
    }
}

/* Begins the walk of a place.  Where plain characters may come whatever they are, tokens of
 * them need no walk. */
static void mask_text_begin(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    const struct thread t = m->threads[k->text]; /* the threads may move */
    const struct dfa *d = dfa_of(m, &t);
    uint32_t least = d->least[t.sub];
    m->floor = m->count;
    k->state = grammar_matcher_after(m, k->text, k->text_done, m->count);
    bytes_of_state(m, &k->state, k->text_fits);
    k->text_ends = true;
    for (uint32_t i = 0; i < 256; i++)
        k->text_ends = k->text_ends && !k->text_fits[i];
    grammar_memo_begin(m, &k->state);
    k->at[0].state = t.sub;
    k->at[0].part = 0;
    k->dfa_node = k->inner = k->inner_end = k->skipped = 0;
    bool is_known = least >= GRAMMAR_UP_TO || (k->text_ends && least >= d->most[t.sub]);
    k->text_trie = is_known ? &v->uneven : &v->all;
    if (k->text_ends) {
        memset(k->dfa_mask, 0, v->words * sizeof(*k->dfa_mask));
        mask = k->dfa_mask;
    }
    if (is_known)
        grammar_mask_up_to(v, &v->plain, least == DFA_ENDLESS ? UINT32_MAX : least, mask);
}

/* Walks on by the automaton's table, up to a token that may leave the automaton: that part of
 * the trie is then in `inner`.  False: the work is used up. */
static bool walk_table(struct grammar_matcher *m, const struct dfa *d, uint32_t *mask)
{
    struct masking *k = &m->masking;
    const struct grammar_trie *trie = k->text_trie;
    const uint32_t moves = m->moves;
    uint32_t count = 0;
    while (k->dfa_node < trie->count && k->inner >= k->inner_end) {
        const uint32_t i = k->dfa_node;
        const struct grammar_node *n = &trie->nodes[i];
        uint32_t state = k->at[n->depth].state, part = k->at[n->depth].part;
        if (matcher_is_spent(m))
            return false;
        m->moves = moves + ++count / NODES_A_MOVE;
        /* At depth 0 what follows has threads of its own. */
        if (k->text_fits[n->byte] && n->depth != 0 && part == 0 && d->accept[state]) {
            m->spans[n->depth - 1] = k->state;
            k->inner = i;
            k->inner_end = n->skip;
        }
        k->dfa_node = n->skip;
        if (part == 0 && n->byte < 0x80)
            state = d->next[(size_t)state * d->classes + d->ascii[n->byte]];
        else if (!grammar_dfa_step(d, DFA_RAW, &state, &part, n->byte))
            continue;
        if (state == DFA_DEAD)
            continue;
        k->at[n->depth + 1].state = state;
        k->at[n->depth + 1].part = part;
        if (n->token != GRAMMAR_NO_TOKEN)
            mask[n->token >> 5] |= 1u << (n->token & 31);
        k->dfa_node = i + 1;
    }
    return true;
}

static bool mask_text_walk(struct grammar_matcher *m, const struct dfa *d, uint32_t *mask)
{
    struct masking *k = &m->masking;
    while (walk_table(m, d, mask) &&
           grammar_mask_tokens(m, k->text_trie, &k->inner, k->inner_end, mask))
        if (k->dfa_node >= k->text_trie->count)
            return true;
    return false;
}

/* The tokens of one place.  If nothing but a control token follows, they depend on the
 * automaton alone, and are kept with the vocabulary. */
static bool add_place(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    const struct thread t = m->threads[k->text];
    const struct dfa *d = dfa_of(m, &t);
    const uint32_t *kept = NULL;
    if (k->text_trie == NULL) {
        mask_text_begin(m, mask);
        kept = k->text_ends ? grammar_vocab_kept(v, d->id, t.sub) : NULL;
    }
    if (kept == NULL) {
        if (!mask_text_walk(m, d, k->text_ends ? k->dfa_mask : mask))
            return false;
        if (k->text_ends)
            grammar_vocab_keep(v, d->id, t.sub, k->dfa_mask);
        kept = k->dfa_mask;
    }
    for (size_t i = 0; k->text_ends && i < v->words; i++)
        mask[i] |= kept[i];
    return true;
}

bool grammar_mask_texts(struct grammar_matcher *m, uint32_t *mask)
{
    struct masking *k = &m->masking;
    for (; k->text < m->count; k->text++) {
        bool is_done = (k->text_done[k->text / 64] >> k->text % 64 & 1) != 0;
        bool goes_on = k->text_trie != NULL; /* the walk of this thread was interrupted */
        if ((is_done && !goes_on) || !grammar_mask_is_text(m, &m->threads[k->text]))
            continue;
        if (matcher_is_spent(m) || !add_place(m, mask))
            return false;
        k->text_trie = NULL;
    }
    return true;
}
