/* grammar/mask.c - see grammar/vocab.h: the tokens that a state takes, as bits. */
#include <stdlib.h>

#include "grammar/matcher.h"

void grammar_matcher_clear_masks(struct grammar_matcher *m)
{
    for (size_t i = 0; i < CACHED_MAX; i++) {
        free(m->cache[i].threads);
        free(m->cache[i].mask);
        m->cache[i] = (struct cached){0};
    }
}

static void set_bit(uint32_t *mask, uint32_t id)
{
    mask[id >> 5] |= 1u << (id & 31);
}

static void add_mask(uint32_t *mask, const uint32_t *more, size_t words)
{
    for (size_t i = 0; i < words; i++)
        mask[i] |= more[i];
}

/* The tokens from node `from` to `to`; spans are those of the nodes above. */
static void walk_part(struct grammar_matcher *m, struct span state,
                      const struct grammar_trie *trie, uint32_t from, uint32_t to,
                      uint32_t *mask)
{
    for (uint32_t i = from; i < to && m->moves < MOVES_MAX;) {
        const struct grammar_node *n = &trie->nodes[i];
        m->position = m->text_len + n->depth;
        struct span at = grammar_matcher_advance(
            m, n->depth == 0 ? &state : &m->spans[n->depth - 1], n->byte);
        if (at.count == 0) {
            i = n->skip;
            continue;
        }
        m->spans[n->depth] = at;
        if (n->token != GRAMMAR_NO_TOKEN)
            set_bit(mask, n->token);
        i++;
    }
}

static void walk(struct grammar_matcher *m, struct span state, const struct grammar_trie *trie,
                 uint32_t *mask)
{
    walk_part(m, state, trie, 0, trie->count, mask);
}

/* ---- inside strings ---- */

/* The tokens of a list that begin `left` characters at most. */
static void add_up_to(const struct grammar_vocab *v, const struct grammar_inside_list *list,
                      uint32_t left, uint32_t *mask)
{
    uint32_t whole = left < GRAMMAR_UP_TO ? left : GRAMMAR_UP_TO;
    if (left >= list->chars)
        whole = GRAMMAR_UP_TO + 1; /* the last mask has all */
    add_mask(mask, list->up_to + whole * v->words, v->words);
    for (uint32_t i = list->beyond; whole == GRAMMAR_UP_TO && i < list->count; i++) {
        if (list->items[i].chars > left)
            break;
        set_bit(mask, list->items[i].token);
    }
}

/* Everything below a node, itself included. */
static uint32_t add_below(const struct grammar_trie *trie, uint32_t i, uint32_t *mask)
{
    uint32_t end = trie->nodes[i].skip;
    for (; i < end; i++)
        if (trie->nodes[i].token != GRAMMAR_NO_TOKEN)
            set_bit(mask, trie->nodes[i].token);
    return end;
}

/* The tokens of a trie that an automaton takes.  plain: all of them are plain, so that a state
 * after which plain characters are free takes everything below. */
static void walk_dfa(const struct dfa *d, uint32_t state, const struct grammar_trie *trie,
                     bool plain, uint32_t *moves, uint32_t *mask)
{
    struct {
        uint32_t state, part;
    } at[GRAMMAR_TOKEN_MAX + 1];
    at[0].state = state;
    at[0].part = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < trie->count; count++) {
        const struct grammar_node *n = &trie->nodes[i];
        uint32_t s = at[n->depth].state, part = at[n->depth].part;
        bool ok;
        if (part == 0 && n->byte < 0x80 && plain) {
            s = d->next[(size_t)s * d->classes + d->ascii[n->byte]];
            ok = s != DFA_DEAD;
        } else {
            ok = grammar_dfa_step(d, DFA_JSON, &s, &part, n->byte);
        }
        if (!ok) {
            i = n->skip;
            continue;
        }
        if (plain && part == 0 && d->least[s] == DFA_ENDLESS) {
            i = add_below(trie, i, mask);
            continue;
        }
        at[n->depth + 1].state = s;
        at[n->depth + 1].part = part;
        if (n->token != GRAMMAR_NO_TOKEN)
            set_bit(mask, n->token);
        i++;
    }
    *moves += count / 8;
}

/* Tokens that stay inside a string and go on from this state of its automaton. */
static void add_dfa(struct grammar_matcher *m, const struct dfa *d, uint32_t state,
                    uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    uint32_t least = d->least[state];
    bool found, known = least == DFA_ENDLESS || least >= d->most[state];
    uint32_t *kept = grammar_vocab_slot(v, d->id, state, &found);
    uint32_t *to = kept != NULL ? kept : mask; /* NULL: no memory to keep it */
    if (!found) {
        if (known)
            add_up_to(v, &v->plain, least == DFA_ENDLESS ? UINT32_MAX : least, to);
        else
            walk_dfa(d, state, &v->even, true, &m->moves, to);
        walk_dfa(d, state, &v->odd, false, &m->moves, to);
    }
    if (kept != NULL)
        add_mask(mask, kept, v->words);
}

/* What the threads of a state say about the string they are in. */
struct inside {
    bool any_text;
    uint32_t left;  /* characters that may come whatever they are */
    uint32_t dfas;  /* threads with an automaton */
    uint32_t other; /* threads that stay in the string in another way */
};

/* A thread with an automaton that only its own state decides about. */
static const struct dfa *dfa_of(const struct grammar_matcher *m, const struct thread *t)
{
    const struct grammar_step *s = &m->program->steps[t->step];
    if (t->part != 0)
        return NULL;
    if (s->op == GRAMMAR_DFA && s->low == DFA_JSON)
        return m->program->dfas[s->other];
    if (s->op != GRAMMAR_KEY)
        return NULL;
    const struct dfa *d = m->program->keys[s->other].dfa;
    return d->tame || t->set == 0 ? d : NULL;
}

/* Another way to stay in a string: the letters of a name or a value that is given. */
static bool is_other(const struct grammar_matcher *m, const struct thread *t)
{
    const struct grammar_step *s = &m->program->steps[t->step];
    return s->op != GRAMMAR_TEXT && !(s->op == GRAMMAR_CHARS && t->part == 0) &&
           s->op != GRAMMAR_CONTROL && !(s->op == GRAMMAR_BYTE && s->low == '"') &&
           dfa_of(m, t) == NULL;
}

static void look_at(const struct grammar_matcher *m, const struct thread *t,
                    struct inside *inside)
{
    const struct grammar_step *s = &m->program->steps[t->step];
    if (s->op == GRAMMAR_TEXT) {
        inside->any_text = true;
    } else if (s->op == GRAMMAR_CHARS && t->part == 0) {
        const struct grammar_length *l = &m->program->lengths[s->other];
        uint32_t left = l->max != GRAMMAR_UNBOUNDED ? l->max - t->sub : GRAMMAR_UNBOUNDED;
        inside->left = left > inside->left ? left : inside->left;
    } else if (dfa_of(m, t) != NULL) {
        inside->dfas++;
    } else if (is_other(m, t)) {
        inside->other++;
    }
}

static void add_controls(const struct grammar_matcher *m, const struct thread *t,
                         uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    const struct grammar_step *s = &m->program->steps[t->step];
    if (s->op == GRAMMAR_CONTROL && s->low == GRAMMAR_STOP)
        for (uint32_t k = 0; k < v->stop_count; k++)
            set_bit(mask, v->stops[k]);
    else if (s->op == GRAMMAR_CONTROL)
        set_bit(mask, v->control[s->low]);
}

/* Some thread takes plain characters whatever they are, without end. */
static bool has_free_text(const struct grammar_matcher *m, struct span at)
{
    for (uint32_t i = 0; i < at.count; i++) {
        const struct thread *t = &m->threads[at.begin + i];
        const struct grammar_step *s = &m->program->steps[t->step];
        const struct dfa *d = dfa_of(m, t);
        if ((s->op == GRAMMAR_CHARS && t->part == 0 &&
             m->program->lengths[s->other].max == GRAMMAR_UNBOUNDED) ||
            (d != NULL && d->least[t->sub] == DFA_ENDLESS))
            return true;
    }
    return false;
}

/* The bytes that some thread of a state may take; most bytes fit none. */
static void first_bytes(const struct grammar_matcher *m, struct span state, bool fits[256])
{
    for (uint32_t i = 0; i < state.count; i++) {
        const struct thread *t = &m->threads[state.begin + i];
        const struct grammar_step *s = &m->program->steps[t->step];
        if (s->op == GRAMMAR_BYTE)
            memset(fits + s->low, 1, (size_t)(s->high - s->low) + 1);
        else if (s->op == GRAMMAR_SPACE)
            fits[' '] = fits['\n'] = fits['\t'] = true;
        else if (s->op != GRAMMAR_CONTROL && s->op != GRAMMAR_END)
            memset(fits, 1, 256);
    }
}

/* All tokens; those that begin a string with free text are taken together. */
static void walk_all(struct grammar_matcher *m, struct span state, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    bool fits[256] = {false};
    grammar_matcher_look(m, &state);
    first_bytes(m, state, fits);
    for (uint32_t i = 0; i < v->outer.count && m->moves < MOVES_MAX;) {
        const struct grammar_node *n = &v->outer.nodes[i];
        if (n->depth == 0 && !fits[n->byte]) {
            i = n->skip;
            continue;
        }
        m->position = m->text_len + n->depth;
        struct span at = grammar_matcher_advance(
            m, n->depth == 0 ? &state : &m->spans[n->depth - 1], n->byte);
        if (at.count == 0) {
            i = n->skip;
            continue;
        }
        m->spans[n->depth] = at;
        if (n->token != GRAMMAR_NO_TOKEN)
            set_bit(mask, n->token);
        if (v->outer_groups[i] == 0) {
            i++;
            continue;
        }
        const struct grammar_opening *g = &v->openings[v->outer_groups[i] - 1];
        if (has_free_text(m, at)) {
            for (uint32_t k = g->begin; k < g->end; k++)
                set_bit(mask, v->opened[k]);
            i++;
        } else {
            walk_part(m, state, &v->all, g->node + 1, v->all.nodes[g->node].skip, mask);
            i = n->skip;
        }
    }
}

static void walk_others(struct grammar_matcher *m, uint32_t *mask)
{
    struct span some = {.begin = m->count, .key_begin = m->key_begin};
    if (!grammar_matcher_reserve(m, 2 * m->count))
        return;
    for (uint32_t i = 0; i < m->count; i++)
        if (is_other(m, &m->threads[i]))
            m->threads[some.begin + some.count++] = m->threads[i];
    walk(m, some, &m->vocab->staying, mask);
}

/* A string that may be as long as it likes and end anywhere. */
static bool is_free_string(const struct grammar_matcher *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        const struct grammar_step *s = &m->program->steps[t->step];
        const struct grammar_length *l = &m->program->lengths[s->other];
        bool is_quote = s->op == GRAMMAR_BYTE && s->low == '"' && s->high == '"';
        if (!is_quote && !(s->op == GRAMMAR_CHARS && t->part == 0 &&
                           l->max == GRAMMAR_UNBOUNDED && t->sub >= l->min))
            return false;
    }
    return true;
}

/* Tokens that leave a string of any text, by what they have from the quote on; skipped: bytes
 * of the text that stand for what they have before it. */
static void walk_ends(struct grammar_matcher *m, struct span state, uint32_t skipped,
                      uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    for (uint32_t i = 0; i < v->ends.count && m->moves < MOVES_MAX;) {
        const struct grammar_node *n = &v->ends.nodes[i];
        m->position = m->text_len + skipped + n->depth;
        struct span at = grammar_matcher_advance(
            m, n->depth == 0 ? &state : &m->spans[n->depth - 1], n->byte);
        if (at.count == 0) {
            i = n->skip;
            continue;
        }
        m->spans[n->depth] = at;
        if (n->token != GRAMMAR_NO_TOKEN)
            for (uint32_t k = v->group_begins[n->token]; k < v->group_begins[n->token + 1]; k++)
                set_bit(mask, v->grouped[k]);
        i++;
    }
}

/* ---- names ---- */

/* The node of a byte below another one; trie->count: there is none. */
static uint32_t child(const struct grammar_trie *trie, uint32_t from, uint32_t to, uint8_t byte)
{
    for (uint32_t i = from; i < to; i = trie->nodes[i].skip)
        if (trie->nodes[i].byte == byte)
            return i;
    return trie->count;
}

/* A name that must not come: tokens that have the rest of it and then the quote. */
static void forbid_name(const struct grammar_matcher *m, struct lr_str name, uint32_t *mask)
{
    const struct grammar_trie *t = &m->vocab->leaving;
    struct lr_str so_far = lr_str(m->text, m->text_len);
    if (name.len < so_far.len ||
        (so_far.len != 0 && memcmp(name.ptr, so_far.ptr, so_far.len) != 0))
        return;
    uint32_t from = 0, to = t->count, at = 0;
    for (size_t i = so_far.len; i <= name.len; i++) {
        at = child(t, from, to, i < name.len ? (uint8_t)name.ptr[i] : '"');
        if (at == t->count)
            return;
        from = at + 1;
        to = t->nodes[at].skip;
    }
    for (uint32_t i = at; i < t->nodes[at].skip; i++)
        if (t->nodes[i].token != GRAMMAR_NO_TOKEN)
            mask[t->nodes[i].token >> 5] &= ~(1u << (t->nodes[i].token & 31));
}

/* The only thread with an automaton is a name of any text; NULL: it is not so. */
static const struct thread *free_name(const struct grammar_matcher *m)
{
    const struct thread *name = NULL;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        const struct grammar_step *s = &m->program->steps[t->step];
        if (s->op == GRAMMAR_KEY && t->part == 0 && name == NULL &&
            m->program->keys[s->other].dfa->id == DFA_ANY)
            name = t;
        else if (!is_other(m, t))
            return NULL;
    }
    return name;
}

/* Where any name may come, tokens that end it are told apart by what follows.  Names that are
 * taken are taken out again; declared ones come by their letters. */
static void add_names(struct grammar_matcher *m, const struct thread *name, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    const struct grammar_key *key = &m->program->keys[m->program->steps[name->step].other];
    struct span one = {m->count, 1, m->key_begin, false};
    struct span some = {m->count, 0, m->key_begin, false};
    uint32_t set = name->set;
    if (!grammar_matcher_reserve(m, 2 * m->count + 2))
        return;
    m->threads[m->count] = *name;
    m->text[m->text_len] = (char)0xFF; /* stands for letters that make it a new name */
    walk_ends(m, one, 1, mask);
    for (uint32_t i = 0; i < key->taken_count; i++)
        forbid_name(m, key->taken[i], mask);
    for (; set != 0; set = m->kept.members[set].parent) {
        const struct member *taken = &m->kept.members[set];
        if (taken->len != SET_COUNTED)
            forbid_name(m, lr_str(m->kept.texts + taken->begin, taken->len), mask);
    }
    m->threads[m->count] = *name;
    walk(m, one, &v->leaving_odd, mask);
    for (uint32_t i = 0; i < m->count; i++)
        if (is_other(m, &m->threads[i]))
            m->threads[some.begin + some.count++] = m->threads[i];
    if (some.count == 0)
        return;
    walk(m, some, &v->leaving, mask);
    walk(m, some, &v->staying, mask);
}

/* All threads of a state are within the same string, or none is.  Tokens that stay inside are
 * known for most threads without a walk; those that leave it are walked. */
static void make_mask(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct inside inside = {0};
    m->moves = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        look_at(m, &m->threads[i], &inside);
        add_controls(m, &m->threads[i], mask);
    }
    if (inside.any_text) {
        add_mask(mask, v->text_mask, v->words);
        return;
    }
    bool has_all = inside.left >= v->inside.chars;
    if (inside.left != 0)
        add_up_to(v, &v->inside, inside.left, mask);
    for (uint32_t i = 0; inside.dfas != 0 && !has_all && i < m->count; i++) {
        const struct dfa *d = dfa_of(m, &m->threads[i]);
        if (d != NULL && m->moves < MOVES_MAX)
            add_dfa(m, d, m->threads[i].sub, mask);
    }
    struct span state = {0, m->count, m->key_begin, false};
    bool in_string = inside.left != 0 || inside.dfas != 0;
    const struct thread *name = in_string ? free_name(m) : NULL;
    if (name != NULL) {
        struct thread copy = *name; /* the threads may move */
        add_names(m, &copy, mask);
        return;
    }
    if (in_string && is_free_string(m)) {
        walk_ends(m, state, 0, mask);
        walk(m, state, &v->leaving_odd, mask);
        return;
    }
    if (in_string)
        walk(m, state, &v->leaving, mask);
    else
        walk_all(m, state, mask);
    if (in_string && inside.other != 0 && !has_all)
        walk_others(m, mask);
}

/* ---- masks that are kept ---- */

static uint32_t hash_state(const struct grammar_matcher *m)
{
    uint32_t h = m->count;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        h = matcher_mix(h ^ t->step, matcher_mix(t->frame ^ t->part, t->set ^ t->sub << 8));
    }
    return h;
}

/* Within a key the mask depends on the text so far. */
static bool may_keep(const struct grammar_matcher *m)
{
    return m->text_len == 0;
}

/* The cached mask of this state, or the entry to put it into. */
static struct cached *find_cached(struct grammar_matcher *m, uint32_t hash, bool *found)
{
    struct cached *oldest = &m->cache[0];
    size_t bytes = m->count * sizeof(*m->threads);
    for (size_t i = 0; i < CACHED_MAX; i++) {
        struct cached *c = &m->cache[i];
        if (c->mask != NULL && c->hash == hash && c->count == m->count &&
            memcmp(c->threads, m->threads, bytes) == 0) {
            *found = true;
            return c;
        }
        if (c->used < oldest->used)
            oldest = c;
    }
    *found = false;
    return oldest;
}

static lr_code fill_cached(struct grammar_matcher *m, struct cached *c, uint32_t hash,
                           struct lr_error *err)
{
    bool keep = may_keep(m);
    size_t bytes = m->count * sizeof(*m->threads);
    struct thread *threads = realloc(c->threads, bytes != 0 ? bytes : 1);
    if (threads != NULL)
        c->threads = threads;
    if (c->mask == NULL)
        c->mask = calloc(m->vocab->words, sizeof(*c->mask));
    if (threads == NULL || c->mask == NULL) {
        free(c->mask);
        c->mask = NULL;
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    }
    memset(c->mask, 0, m->vocab->words * sizeof(*c->mask));
    memcpy(c->threads, m->threads, bytes);
    c->count = keep ? m->count : UINT32_MAX;
    c->hash = hash;
    make_mask(m, c->mask);
    if (m->moves < MOVES_MAX)
        return LR_OK;
    free(c->mask);
    c->mask = NULL;
    return lr_fail(err, LR_UNSUPPORTED,
                   "the schema allows too many readings of the answer at once: one token needs "
                   "more than %d moves; offer fewer alternatives in \"anyOf\"",
                   MOVES_MAX);
}

lr_code grammar_matcher_mask(struct grammar_matcher *m, uint32_t *mask, size_t words,
                             struct lr_error *err)
{
    uint32_t hash = hash_state(m), any = 0;
    bool found;
    struct cached *c = find_cached(m, hash, &found);
    lr_code code = found && may_keep(m) ? LR_OK : fill_cached(m, c, hash, err);
    if (code != LR_OK)
        return code;
    c->used = ++m->clock;
    size_t known = words < m->vocab->words ? words : m->vocab->words;
    memcpy(mask, c->mask, known * sizeof(*mask));
    memset(mask + known, 0, (words - known) * sizeof(*mask));
    for (size_t i = 0; i < known && any == 0; i++)
        any = mask[i];
    if (any == 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "no token of the vocabulary can continue the constrained output");
    return LR_OK;
}
