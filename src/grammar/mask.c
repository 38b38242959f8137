/* grammar/mask.c - see grammar/vocab.h: the tokens that a state takes, as bits. */
#include <stdlib.h>

#include "grammar/matcher.h"

enum {
    WORDS_A_MOVE = 32, /* of masks that are joined */
    NAME_MOVES = 16,   /* that forbidding a name is worth */
    BRANCH_LEAST = 16, /* nodes that are worth being taken together */
};

void grammar_matcher_clear_masks(struct grammar_matcher *m)
{
    for (size_t i = 0; i < CACHED_MAX; i++) {
        free(m->cache[i].threads);
        free(m->cache[i].mask);
        m->cache[i] = (struct cached){0};
    }
    grammar_matcher_drop_mask(m);
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

/* ---- inside strings ---- */

void grammar_mask_up_to(const struct grammar_vocab *v, const struct grammar_inside_list *list,
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
    const uint32_t skip = trie->nodes[i].skip;
    if (trie->begins != NULL) {
        for (uint32_t k = trie->begins[i]; k < trie->begins[skip]; k++)
            set_bit(mask, trie->tokens[k]);
        return skip;
    }
    for (; i < skip; i++)
        if (trie->nodes[i].token != GRAMMAR_NO_TOKEN)
            set_bit(mask, trie->nodes[i].token);
    return skip;
}

/* The tokens of a trie that an automaton takes.  plain: all of them are plain, so that a state
 * after which enough plain characters are free takes everything below.  False: the work is used
 * up. */
static inline bool walk_dfa(struct grammar_matcher *m, const struct dfa *d,
                            const struct grammar_trie *trie, bool plain)
{
    struct masking *k = &m->masking;
    const uint32_t words = (uint32_t)m->vocab->words;
    const uint32_t most = matcher_is_spent(m) ? 0 : (m->pause - m->moves) * NODES_A_MOVE;
    uint32_t i = k->dfa_node, count = 0;
    for (; i < trie->count && count < most; count++) {
        const struct grammar_node *n = &trie->nodes[i];
        uint32_t s = k->at[n->depth].state, part = k->at[n->depth].part;
        bool ok;
        if (plain && part == 0 && n->byte < 0x80) {
            s = d->next[(size_t)s * d->classes + d->ascii[n->byte]];
            ok = s != DFA_DEAD;
        } else {
            ok = grammar_dfa_step(d, DFA_JSON, &s, &part, n->byte);
        }
        if (!ok) {
            i = n->skip;
            continue;
        }
        if (n->skip - i > BRANCH_LEAST && plain && part == 0 && d->least[s] >= n->below) {
            count += (n->skip - i) / NODES_A_MOVE;
            i = add_below(trie, i, k->dfa_mask);
            continue;
        }
        k->at[n->depth + 1].state = s;
        k->at[n->depth + 1].part = part;
        /* The word behind the mask is for nodes without a token: a branch would cost more. */
        uint32_t word = n->token >> 5;
        k->dfa_mask[word < words ? word : words] |= 1u << (n->token & 31);
        i++;
    }
    m->moves += count / NODES_A_MOVE + 1;
    k->dfa_node = i;
    return i == trie->count;
}

/* Tokens that stay inside a string and go on from this state of its automaton, in dfa_mask.
 * False: the work is used up. */
static bool make_dfa_mask(struct grammar_matcher *m, const struct dfa *d, uint32_t state)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    if (k->dfa_stage == DFA_NOT_BEGUN) {
        uint32_t least = d->least[state];
        bool known = least == DFA_ENDLESS || least >= d->most[state];
        memset(k->dfa_mask, 0, (v->words + 1) * sizeof(*k->dfa_mask));
        if (known)
            grammar_mask_up_to(v, &v->plain, least == DFA_ENDLESS ? UINT32_MAX : least,
                               k->dfa_mask);
        k->at[0].state = state;
        k->at[0].part = 0;
        k->dfa_node = 0;
        k->dfa_stage = known ? DFA_ODD : DFA_EVEN;
    }
    if (k->dfa_stage == DFA_EVEN) {
        if (!walk_dfa(m, d, &v->even, true))
            return false;
        k->dfa_node = 0;
        k->dfa_stage = DFA_ODD;
    }
    if (!walk_dfa(m, d, &v->odd, false))
        return false;
    k->dfa_stage = DFA_NOT_BEGUN;
    return true;
}

/* ---- text in which a call may begin ---- */

/* Tokens within which a call begins, after text that left the scan in `scan`, in dfa_mask. */
static void find_beginnings(struct grammar_matcher *m, const struct grammar_mark *mark,
                            uint32_t scan)
{
    const struct grammar_trie *trie = &m->vocab->all;
    uint32_t *mask = m->masking.dfa_mask;
    uint32_t at[GRAMMAR_TOKEN_MAX + 1], count = 0;
    memset(mask, 0, m->vocab->words * sizeof(*mask));
    at[0] = scan;
    for (uint32_t i = 0; i < trie->count; count++) {
        const struct grammar_node *n = &trie->nodes[i];
        uint32_t next = grammar_mark_scan(mark->text, mark->first, at[n->depth], (char)n->byte);
        if (next == GRAMMAR_SCAN_FOUND) {
            i = add_below(trie, i, mask);
            continue;
        }
        at[n->depth + 1] = next;
        i = next == GRAMMAR_SCAN_NEVER ? n->skip : i + 1;
    }
    m->moves += count / NODES_A_MOVE;
}

static bool takes(struct grammar_matcher *m, struct lr_str bytes)
{
    struct span at = {.count = m->count, .key_begin = m->key_begin};
    m->position = m->text_len;
    for (size_t i = 0; i < bytes.len && at.count != 0; i++)
        at = grammar_matcher_advance(m, &at, (uint8_t)bytes.ptr[i]);
    return at.count != 0;
}

/* Every text token, except those within which a call begins and goes on wrongly.  Few tokens
 * begin a call, so these are tried one by one, whatever work is left. */
static void add_until(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    const struct thread t = m->threads[m->masking.until];
    const struct grammar_mark *mark = &m->program->marks[m->program->steps[t.step].low];
    const uint32_t *begins = grammar_vocab_kept(v, mark->id, t.sub);
    if (begins == NULL) {
        find_beginnings(m, mark, t.sub);
        grammar_vocab_keep(v, mark->id, t.sub, m->masking.dfa_mask);
        begins = m->masking.dfa_mask;
    }
    for (uint32_t i = 0; i < v->words; i++) {
        mask[i] |= v->text_mask[i] & ~begins[i];
        for (uint32_t rest = begins[i]; rest != 0; rest &= rest - 1) {
            uint32_t token = 32 * i + (uint32_t)__builtin_ctz(rest);
            if (m->moves < MOVES_MAX && takes(m, grammar_vocab_bytes(v, token)))
                set_bit(mask, token);
        }
    }
    m->moves += (uint32_t)v->words / WORDS_A_MOVE;
}

/* What the threads of a state say about the string they are in. */
struct inside {
    bool any_text;
    bool any_token;
    bool until;     /* text in which a call may begin */
    uint32_t left;  /* characters that may come whatever they are */
    uint32_t dfas;  /* threads with an automaton */
    uint32_t other; /* threads that stay in the string in another way */
    uint32_t texts; /* threads of a text that is not JSON: no thread is in a string */
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
    inside->texts += grammar_mask_is_text(m, t);
    if (s->op == GRAMMAR_FREE) {
        inside->any_token = true;
    } else if (s->op == GRAMMAR_TEXT) {
        inside->any_text = true;
    } else if (s->op == GRAMMAR_UNTIL) {
        inside->until = true;
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
    if (s->op == GRAMMAR_CONTROL && s->low == GRAMMAR_STOP) {
        for (uint32_t k = 0; k < v->stop_count; k++)
            set_bit(mask, v->stops[k]);
    } else if (s->op == GRAMMAR_CONTROL) {
        uint32_t id = s->low < GRAMMAR_CONTROL_COUNT ? v->control[s->low]
                                                     : m->named[s->low - GRAMMAR_CONTROL_COUNT];
        if (id != GRAMMAR_NO_TOKEN)
            set_bit(mask, id);
    }
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

/* A string that may be as long as it likes and end anywhere. */
static bool is_free_string(const struct grammar_matcher *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        const struct grammar_step *s = &m->program->steps[t->step];
        if (s->op == GRAMMAR_BYTE && s->low == '"' && s->high == '"')
            continue;
        if (s->op != GRAMMAR_CHARS || t->part != 0)
            return false;
        const struct grammar_length *l = &m->program->lengths[s->other];
        if (l->max != GRAMMAR_UNBOUNDED || t->sub < l->min)
            return false;
    }
    return true;
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

/* The only thread with an automaton is a name of any text. */
static bool find_free_name(const struct grammar_matcher *m, uint32_t *name)
{
    *name = m->count;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        const struct grammar_step *s = &m->program->steps[t->step];
        if (s->op == GRAMMAR_KEY && t->part == 0 && *name == m->count &&
            m->program->keys[s->other].dfa->id == DFA_ANY)
            *name = i;
        else if (!is_other(m, t))
            return false;
    }
    return *name != m->count;
}

/* Where any name may come, tokens that end it are told apart by what follows.  Names that are
 * taken are taken out again; declared ones come by their letters. */
static void forbid_names(struct grammar_matcher *m, uint32_t *mask)
{
    const struct thread *name = &m->threads[m->masking.name];
    const struct grammar_key *key = &m->program->keys[m->program->steps[name->step].other];
    m->moves += NAME_MOVES * (key->taken_count + m->kept.members[name->set].count);
    for (uint32_t i = 0; i < key->taken_count; i++)
        forbid_name(m, key->taken[i], mask);
    for (uint32_t set = name->set; set != 0; set = m->kept.members[set].parent) {
        const struct member *taken = &m->kept.members[set];
        if (taken->len != SET_COUNTED)
            forbid_name(m, lr_str(m->kept.texts + taken->begin, taken->len), mask);
    }
}

/* ---- walks ---- */

static void plan_walk(struct masking *k, const struct grammar_trie *trie,
                      enum walk_threads threads, enum walk_way way)
{
    k->walks[k->walk_count++] = (struct walk){trie, threads, way};
}

/* The threads of a walk, behind those of the state. */
static struct span threads_of(struct grammar_matcher *m, enum walk_threads threads)
{
    struct span some = {.begin = m->count, .key_begin = m->key_begin};
    if (threads == WALK_ALL)
        return (struct span){.count = m->count, .key_begin = m->key_begin};
    if (!grammar_matcher_reserve(m, 2 * m->count + 2))
        return some;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        if (threads == WALK_NAME      ? i == m->masking.name
            : threads == WALK_NO_TEXT ? !grammar_mask_is_text(m, t)
                                      : is_other(m, t))
            m->threads[some.begin + some.count++] = *t;
    }
    return some;
}

/* The node to look at next: among first bytes only those that fit. */
static uint32_t next_node(struct grammar_matcher *m, const struct grammar_trie *trie,
                          uint32_t node)
{
    if (node >= trie->count || trie->nodes[node].depth != 0)
        return node;
    uint32_t byte = trie->nodes[node].byte;
    uint32_t fits = grammar_memo_byte(m, &m->masking.state, byte);
    return fits == byte ? node : trie->roots[fits];
}

static void begin_walk(struct grammar_matcher *m, const struct walk *w)
{
    struct masking *k = &m->masking;
    m->floor = m->count;
    k->state = threads_of(m, w->threads);
    k->inner = k->inner_end = k->skipped = 0;
    if (w->way == WALK_ENDS && w->threads == WALK_NAME) {
        m->text[m->text_len] = (char)0xFF; /* stands for letters that make it a new name */
        k->skipped = 1;
    }
    grammar_memo_begin(m, &k->state);
    k->node = next_node(m, w->trie, 0);
}

/* The state after the byte of a node, empty if it is not legal, and the node that comes next.
 */
static struct span visit(struct grammar_matcher *m, const struct grammar_trie *trie,
                         uint32_t *node)
{
    const struct grammar_node *n = &trie->nodes[*node];
    struct masking *k = &m->masking;
    m->position = m->text_len + k->skipped + n->depth;
    struct span to =
        grammar_memo_advance(m, n->depth == 0 ? &k->state : &m->spans[n->depth - 1], n->byte);
    m->spans[n->depth] = to;
    *node = next_node(m, trie, to.count != 0 ? *node + 1 : n->skip);
    return to;
}

bool grammar_mask_tokens(struct grammar_matcher *m, const struct grammar_trie *trie,
                         uint32_t *node, uint32_t end, uint32_t *mask)
{
    while (*node < end) {
        if (matcher_is_spent(m))
            return false;
        uint32_t token = trie->nodes[*node].token;
        if (visit(m, trie, node).count != 0 && token != GRAMMAR_NO_TOKEN)
            set_bit(mask, token);
    }
    return true;
}

/* Tokens that leave a string of any text, by what they have from the quote on. */
static bool walk_ends(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    while (k->node < v->ends.count) {
        if (matcher_is_spent(m))
            return false;
        uint32_t group = v->ends.nodes[k->node].token;
        if (visit(m, &v->ends, &k->node).count == 0 || group == GRAMMAR_NO_TOKEN)
            continue;
        for (uint32_t i = v->group_begins[group]; i < v->group_begins[group + 1]; i++)
            set_bit(mask, v->grouped[i]);
    }
    return true;
}

/* All tokens; those that begin a string with free text are taken together. */
static bool walk_outer(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    while (grammar_mask_tokens(m, &v->all, &k->inner, k->inner_end, mask)) {
        if (k->node >= v->outer.count)
            return true;
        if (matcher_is_spent(m))
            return false;
        const struct grammar_node *n = &v->outer.nodes[k->node];
        uint32_t group = v->outer_groups[k->node];
        struct span at = visit(m, &v->outer, &k->node);
        if (at.count == 0)
            continue;
        if (n->token != GRAMMAR_NO_TOKEN)
            set_bit(mask, n->token);
        if (group == 0)
            continue;
        const struct grammar_opening *g = &v->openings[group - 1];
        if (has_free_text(m, at)) {
            for (uint32_t i = g->begin; i < g->end; i++)
                set_bit(mask, v->opened[i]);
        } else {
            k->inner = g->node + 1;
            k->inner_end = v->all.nodes[g->node].skip;
            k->node = next_node(m, &v->outer, n->skip);
        }
    }
    return false;
}

static bool walk_on(struct grammar_matcher *m, const struct walk *w, uint32_t *mask)
{
    struct masking *k = &m->masking;
    switch (w->way) {
    case WALK_TOKENS:
        return grammar_mask_tokens(m, w->trie, &k->node, w->trie->count, mask);
    case WALK_OUTER:
        return walk_outer(m, mask);
    case WALK_ENDS:
        break;
    }
    if (!walk_ends(m, mask))
        return false;
    if (w->threads == WALK_NAME)
        forbid_names(m, mask);
    return true;
}

/* ---- making a mask ---- */

/* All threads of a state are within the same string, or none is.  Tokens that stay inside are
 * known for most threads without a walk; those that leave it are walked. */
static void plan(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    struct inside inside = {0};
    k->walk = k->walk_count = 0;
    k->is_walking = false;
    k->dfa_stage = DFA_NOT_BEGUN;
    k->thread = k->text = k->until = m->count;
    k->text_trie = NULL;
    for (uint32_t i = 0; i < m->count; i++) {
        look_at(m, &m->threads[i], &inside);
        if (inside.until && k->until == m->count)
            k->until = i;
        add_controls(m, &m->threads[i], mask);
    }
    for (uint32_t i = 0; inside.any_token && i < v->special_count; i++)
        set_bit(mask, v->specials[i]);
    for (uint32_t i = 0; inside.any_token && i < v->stop_count; i++)
        set_bit(mask, v->stops[i]);
    if (inside.any_text || inside.any_token) {
        add_mask(mask, v->text_mask, v->words);
        k->until = m->count;
        return;
    }
    if (inside.until)
        return;
    if (inside.texts != 0) {
        k->text = 0;
        memset(k->text_done, 0, sizeof(k->text_done));
        plan_walk(k, &v->outer, WALK_NO_TEXT, WALK_OUTER);
        return;
    }
    bool has_all = inside.left >= v->inside.chars;
    if (inside.left != 0)
        grammar_mask_up_to(v, &v->inside, inside.left, mask);
    if (inside.dfas != 0 && !has_all)
        k->thread = 0;
    if (inside.left == 0 && inside.dfas == 0) {
        plan_walk(k, &v->outer, WALK_ALL, WALK_OUTER);
    } else if (find_free_name(m, &k->name)) {
        plan_walk(k, &v->ends, WALK_NAME, WALK_ENDS);
        plan_walk(k, &v->leaving_odd, WALK_NAME, WALK_TOKENS);
        if (inside.other != 0) {
            plan_walk(k, &v->leaving, WALK_OTHERS, WALK_TOKENS);
            plan_walk(k, &v->staying, WALK_OTHERS, WALK_TOKENS);
        }
    } else if (is_free_string(m)) {
        plan_walk(k, &v->ends, WALK_ALL, WALK_ENDS);
        plan_walk(k, &v->leaving_odd, WALK_ALL, WALK_TOKENS);
    } else {
        plan_walk(k, &v->leaving, WALK_ALL, WALK_TOKENS);
        if (inside.other != 0 && !has_all)
            plan_walk(k, &v->staying, WALK_OTHERS, WALK_TOKENS);
    }
}

/* What the automata of the threads take.  False: the work is used up. */
static bool add_dfas(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    struct masking *k = &m->masking;
    for (; k->thread < m->count; k->thread++) {
        const struct thread *t = &m->threads[k->thread];
        const struct dfa *d = dfa_of(m, t);
        if (d == NULL)
            continue;
        if (matcher_is_spent(m))
            return false;
        const uint32_t *kept = grammar_vocab_kept(v, d->id, t->sub);
        if (kept == NULL) {
            if (!make_dfa_mask(m, d, t->sub))
                return false;
            grammar_vocab_keep(v, d->id, t->sub, k->dfa_mask);
            kept = k->dfa_mask;
        }
        k->dfa_stage = DFA_NOT_BEGUN; /* another matcher may have made it meanwhile */
        add_mask(mask, kept, v->words);
        m->moves += (uint32_t)v->words / WORDS_A_MOVE;
    }
    return true;
}

/* False: the work is used up. */
static bool make_mask(struct grammar_matcher *m, uint32_t *mask)
{
    struct masking *k = &m->masking;
    if (k->until < m->count) {
        if (matcher_is_spent(m))
            return false;
        add_until(m, mask);
        k->until = m->count;
    }
    if (!add_dfas(m, mask) || !grammar_mask_texts(m, mask))
        return false;
    for (; k->walk < k->walk_count; k->walk++) {
        const struct walk *w = &k->walks[k->walk];
        if (!k->is_walking)
            begin_walk(m, w);
        k->is_walking = true;
        if (!walk_on(m, w, mask))
            return false;
        k->is_walking = false;
    }
    grammar_memo_end(m);
    return true;
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

static lr_code mask_no_memory(struct lr_error *err)
{
    return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
}

/* Begins the mask of this state, or finds it. */
static lr_code begin_mask(struct grammar_matcher *m, struct lr_error *err)
{
    struct masking *k = &m->masking;
    const uint32_t hash = hash_state(m);
    const size_t words = m->vocab->words, bytes = m->count * sizeof(*m->threads);
    bool found;
    struct cached *c = find_cached(m, hash, &found);
    m->moves = 0;
    k->into = c;
    k->is_made = found && may_keep(m);
    if (k->is_made)
        return LR_OK;
    struct thread *threads = realloc(c->threads, bytes != 0 ? bytes : 1);
    if (threads != NULL)
        c->threads = threads;
    if (c->mask == NULL)
        c->mask = malloc(words * sizeof(*c->mask));
    if (k->dfa_mask == NULL)
        k->dfa_mask = malloc((words + 1) * sizeof(*k->dfa_mask));
    if (threads == NULL || c->mask == NULL || k->dfa_mask == NULL) {
        grammar_matcher_drop_mask(m);
        return mask_no_memory(err);
    }
    memset(c->mask, 0, words * sizeof(*c->mask));
    memcpy(c->threads, m->threads, bytes);
    c->count = CACHED_NONE;
    c->hash = hash;
    plan(m, c->mask);
    return LR_OK;
}

void grammar_matcher_drop_mask(struct grammar_matcher *m)
{
    m->masking.into = NULL;
    m->masking.is_made = false;
    m->floor = 0;
    grammar_memo_end(m);
}

lr_code grammar_matcher_prepare(struct grammar_matcher *m, uint32_t work, uint32_t *used,
                                bool *ready, struct lr_error *err)
{
    struct masking *k = &m->masking;
    *ready = false;
    *used = 0;
    if (k->into == NULL) {
        lr_code code = begin_mask(m, err);
        if (code != LR_OK)
            return code;
    }
    uint32_t before = m->moves;
    m->pause = work < MOVES_MAX - before ? before + work : MOVES_MAX;
    if (!k->is_made && make_mask(m, k->into->mask)) {
        k->is_made = true;
        k->into->count = may_keep(m) ? m->count : CACHED_NONE;
    }
    *used = m->moves - before;
    *ready = k->is_made;
    if (*ready || m->moves < MOVES_MAX)
        return LR_OK;
    grammar_matcher_drop_mask(m);
    return lr_fail(err, LR_UNSUPPORTED,
                   "the schema or grammar allows too many readings of the answer at once: one "
                   "token needs more than %d moves; offer fewer alternatives",
                   MOVES_MAX);
}

lr_code grammar_matcher_mask(struct grammar_matcher *m, uint32_t *mask, size_t words,
                             struct lr_error *err)
{
    uint32_t any = 0, used;
    bool ready;
    lr_code code = grammar_matcher_prepare(m, MOVES_MAX, &used, &ready, err);
    if (code != LR_OK)
        return code;
    struct cached *c = m->masking.into;
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
