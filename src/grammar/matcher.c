/* grammar/matcher.c - see grammar/grammar.h: following an answer through a program. */
#include "grammar/matcher.h"

#include <stdlib.h>

#include "llm-router/engine.h"

enum { BLANKS_OVER = GRAMMAR_INDENT_MAX + 2 }; /* of a thread in a run of blanks */

/* ---- stepping ---- */

static bool same(struct place a, struct place b)
{
    return a.step == b.step && a.frame == b.frame && a.set == b.set;
}

static bool is_new(struct grammar_scratch *s, struct place p)
{
    uint32_t at = matcher_mix(p.step, p.frame ^ p.set << 16) & (SEEN_SLOTS - 1);
    while (s->seen[at].epoch == s->epoch) {
        if (same(s->seen[at].place, p))
            return false;
        at = (at + 1) & (SEEN_SLOTS - 1);
    }
    if (s->seen_count >= SEEN_SLOTS / 2)
        return false;
    s->seen_count++;
    s->seen[at].place = p;
    s->seen[at].epoch = s->epoch;
    return true;
}

bool grammar_matcher_reserve(struct grammar_matcher *m, uint32_t count)
{
    if (count <= m->capacity)
        return true;
    uint32_t capacity = m->capacity + m->capacity / 2;
    capacity = capacity > count ? capacity : count;
    struct thread *grown = realloc(m->threads, capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    m->threads = grown;
    m->capacity = capacity;
    return true;
}

static bool reserve_text(struct grammar_matcher *m, size_t len)
{
    if (len <= m->text_capacity)
        return true;
    char *grown = realloc(m->text, 2 * len);
    if (grown == NULL)
        return false;
    m->text = grown;
    m->text_capacity = (uint32_t)(2 * len);
    return true;
}

static void matcher_put(struct grammar_matcher *m, struct span *out, struct thread t)
{
    if (out->count < THREADS_MAX)
        m->threads[out->begin + out->count++] = t;
}

static bool matcher_has(struct grammar_matcher *m, uint32_t set, const struct grammar_name *n)
{
    m->moves++; /* looking for names is work, too */
    return n->index != GRAMMAR_NO_INDEX ? grammar_kept_has_index(&m->kept, set, n->index)
                                        : grammar_kept_has(&m->kept, set, n->text, n->hash);
}

/* Some text of the automaton from here on is not in the set yet. */
static bool is_left(struct grammar_matcher *m, const struct dfa *d, const struct thread *t,
                    struct lr_str so_far)
{
    if (d->tame || t->set == 0)
        return true;
    uint32_t words = grammar_dfa_words(d, t->sub, t->part);
    if (words == DFA_UNBOUNDED)
        return true;
    m->moves += m->kept.members[t->set].count;
    return words > grammar_kept_begins(&m->kept, t->set, so_far, d);
}

/* Some property can still come. */
static bool is_some_left(struct grammar_matcher *m, const struct grammar_check *c,
                         struct place at)
{
    uint32_t depth = m->kept.frames[at.frame].depth + 1;
    const struct thread begin = {.set = at.set};
    for (uint32_t i = 0; i < c->left_count; i++) {
        const struct grammar_name *n = &c->left[i];
        uint32_t entry = m->program->rules[n->rule].entry;
        if (depth + m->program->steps[entry].height > GRAMMAR_CALLS_MAX)
            continue;
        if (n->dfa != NULL ? is_left(m, n->dfa, &begin, (struct lr_str){0})
                           : !matcher_has(m, at.set, n))
            return true;
    }
    return false;
}

/* The members of the object satisfy the check: their number, and which names are there. */
static bool is_met(struct grammar_matcher *m, const struct grammar_check *c, struct place at)
{
    uint32_t count = m->kept.members[at.set].count;
    if (count < c->min || count > c->max)
        return false;
    for (uint32_t i = 0; i < c->name_count; i++)
        if (!matcher_has(m, at.set, &c->names[i]))
            return false;
    if (c->absent != NULL && matcher_has(m, at.set, c->absent))
        return false;
    return c->left == NULL || is_some_left(m, c, at);
}

static void enter_chars(struct grammar_matcher *m, struct place at,
                        const struct grammar_step *s, struct span *out, uint32_t *count)
{
    const struct grammar_length *l = &m->program->lengths[s->other];
    if (l->max != 0)
        matcher_put(m, out, (struct thread){.step = at.step, .frame = at.frame, .set = at.set});
    if (l->min == 0)
        m->scratch->work[(*count)++] = (struct place){s->next, at.frame, at.set};
}

static void enter_dfa(struct grammar_matcher *m, struct place at, const struct grammar_step *s,
                      struct span *out, uint32_t *count)
{
    const struct dfa *d = m->program->dfas[s->other];
    matcher_put(m, out, (struct thread){.step = at.step, .frame = at.frame, .set = at.set});
    if (d->accept[0])
        m->scratch->work[(*count)++] = (struct place){s->next, at.frame, at.set};
}

static void enter_key(struct grammar_matcher *m, struct place at, const struct grammar_step *s,
                      struct span *out)
{
    const struct dfa *d = m->program->keys[s->other].dfa;
    const struct thread t = {.step = at.step, .frame = at.frame, .set = at.set};
    if (!is_left(m, d, &t, (struct lr_str){0}))
        return;
    out->key_begin = m->position;
    matcher_put(m, out, t);
}

/* Everything that waits for a byte or a control token, from `at` on. */
static void matcher_follow(struct grammar_matcher *m, struct place from, struct span *out)
{
    const struct grammar_step *steps = m->program->steps;
    struct place *work = m->scratch->work;
    uint32_t count = 0;
    work[count++] = from;
    while (count != 0) {
        struct place at = work[--count];
        const struct grammar_step *s = &steps[at.step];
        m->moves++;
        if (m->kept.frames[at.frame].depth + s->height > GRAMMAR_CALLS_MAX ||
            !is_new(m->scratch, at) || count + 2 > WORK_MAX)
            continue;
        switch ((enum grammar_op)s->op) {
        case GRAMMAR_FORK:
            work[count++] = (struct place){s->other, at.frame, at.set};
            work[count++] = (struct place){s->next, at.frame, at.set};
            break;
        case GRAMMAR_CALL: {
            uint32_t down = grammar_kept_frame(&m->kept, s->next, at.frame, at.set);
            if (down != 0)
                work[count++] = (struct place){m->program->rules[s->other].entry, down, 0};
            break;
        }
        case GRAMMAR_RETURN: {
            const struct frame *f = &m->kept.frames[at.frame];
            work[count++] = (struct place){f->next, f->parent, f->set};
            break;
        }
        case GRAMMAR_COUNT: {
            uint32_t set = at.set;
            if (m->kept.members[set].count < s->other)
                set = grammar_kept_count(&m->kept, set);
            if (set != 0)
                work[count++] = (struct place){s->next, at.frame, set};
            break;
        }
        case GRAMMAR_ADD: {
            const struct grammar_name *name = m->program->checks[s->other].absent;
            uint32_t set = grammar_kept_add(&m->kept, at.set, name->text, name->index);
            if (set != 0)
                work[count++] = (struct place){s->next, at.frame, set};
            break;
        }
        case GRAMMAR_CHECK:
            if (is_met(m, &m->program->checks[s->other], at))
                work[count++] = (struct place){s->next, at.frame, at.set};
            break;
        case GRAMMAR_CHARS:
            enter_chars(m, at, s, out, &count);
            break;
        case GRAMMAR_DFA:
            enter_dfa(m, at, s, out, &count);
            break;
        case GRAMMAR_KEY:
            enter_key(m, at, s, out);
            break;
        case GRAMMAR_UNTIL:
            matcher_put(m, out,
                        (struct thread){.step = at.step, .frame = at.frame, .set = at.set});
            work[count++] = (struct place){s->next, at.frame, at.set};
            break;
        case GRAMMAR_NEVER:
            break;
        default:
            matcher_put(m, out,
                        (struct thread){.step = at.step, .frame = at.frame, .set = at.set});
        }
    }
}

static void next_epoch(struct grammar_matcher *m)
{
    struct grammar_scratch *s = m->scratch;
    s->seen_count = 0;
    if (++s->epoch == 0) {
        memset(s->seen, 0, sizeof(s->seen));
        s->epoch = 1;
    }
}

static struct place after(const struct grammar_matcher *m, struct thread t)
{
    return (struct place){m->program->steps[t.step].next, t.frame, t.set};
}

/* Blanks, and nothing else: what may follow them is followed once a byte asks for it. */
static void step_space(struct grammar_matcher *m, struct thread t, uint8_t byte,
                       struct span *out)
{
    bool begins = t.sub == 0 && byte == '\n';
    bool goes_on = t.sub != 0 && t.sub <= GRAMMAR_INDENT_MAX && (byte == ' ' || byte == '\t');
    if (begins || goes_on)
        t.sub++;
    else if (t.sub == 0 && byte == ' ')
        t.sub = BLANKS_OVER;
    else
        return;
    matcher_put(m, out, t);
}

/* The first thread behind a state that nothing else needs. */
static uint32_t after_all(const struct grammar_matcher *m, const struct span *state)
{
    uint32_t end = state->begin + state->count;
    return end > m->floor ? end : m->floor;
}

static bool matcher_is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t';
}

struct span grammar_matcher_after(struct grammar_matcher *m, uint32_t first, uint64_t *done,
                                  uint32_t begin)
{
    struct span out = {.begin = begin};
    const struct thread like = m->threads[first];
    if (!grammar_matcher_reserve(m, begin + 2 * THREADS_MAX))
        return out;
    next_epoch(m);
    for (uint32_t i = first; i < m->count; i++) {
        const struct thread t = m->threads[i];
        if (t.step != like.step || t.sub != like.sub || t.part != like.part)
            continue;
        done[i / 64] |= UINT64_C(1) << i % 64;
        matcher_follow(m, after(m, t), &out);
    }
    m->moves += (m->count - first) / NODES_A_MOVE + out.count;
    return out;
}

void grammar_matcher_look(struct grammar_matcher *m, struct span *state)
{
    const uint32_t count = state->count;
    if (state->looked)
        return;
    if (!grammar_matcher_reserve(m, after_all(m, state) + count + 2 * THREADS_MAX))
        return;
    if (state->begin + count < m->floor) { /* there is no room behind it */
        memcpy(m->threads + m->floor, m->threads + state->begin, count * sizeof(*m->threads));
        state->begin = m->floor;
    }
    state->looked = true;
    next_epoch(m);
    for (uint32_t i = 0; i < count; i++) {
        struct thread t = m->threads[state->begin + i];
        if (m->program->steps[t.step].op == GRAMMAR_SPACE)
            matcher_follow(m, after(m, t), state);
    }
}

static void step_chars(struct grammar_matcher *m, struct thread t, uint8_t byte,
                       struct span *out)
{
    const struct grammar_length *l = &m->program->lengths[m->program->steps[t.step].other];
    uint8_t part = grammar_char_next((uint8_t)t.part, byte);
    if (part == GRAMMAR_CHAR_BAD)
        return;
    t.part = part;
    if (part != 0) {
        matcher_put(m, out, t);
        return;
    }
    /* Without an upper bound only the way to the lower one is counted. */
    if (l->max != GRAMMAR_UNBOUNDED || t.sub < l->min)
        t.sub++;
    if (t.sub < l->max)
        matcher_put(m, out, t);
    if (t.sub >= l->min)
        matcher_follow(m, after(m, t), out);
}

static void step_dfa(struct grammar_matcher *m, struct thread t, uint8_t byte, struct span *out)
{
    const struct grammar_step *s = &m->program->steps[t.step];
    const struct dfa *d = m->program->dfas[s->other];
    if (!grammar_dfa_step(d, (enum dfa_spelling)s->low, &t.sub, &t.part, byte))
        return;
    if (t.part != 0 || d->most[t.sub] != 0)
        matcher_put(m, out, t);
    if (t.part == 0 && d->accept[t.sub])
        matcher_follow(m, after(m, t), out);
}

static void step_until(struct grammar_matcher *m, struct thread t, uint8_t byte,
                       struct span *out)
{
    const struct grammar_step *s = &m->program->steps[t.step];
    const struct grammar_mark *mark = &m->program->marks[s->low];
    t.sub = grammar_mark_scan(mark->text, mark->first, t.sub, (char)byte);
    if (t.sub == GRAMMAR_SCAN_FOUND) {
        matcher_follow(m, (struct place){s->other, t.frame, t.set}, out);
        return;
    }
    matcher_put(m, out, t);
    matcher_follow(m, after(m, t), out);
}

static bool is_taken(const struct grammar_key *key, struct lr_str text)
{
    uint32_t low = 0, high = key->taken_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = lr_str_cmp(key->taken[middle], text);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void step_key(struct grammar_matcher *m, struct thread t, uint8_t byte,
                     uint32_t key_begin, struct span *out)
{
    const struct grammar_key *key = &m->program->keys[m->program->steps[t.step].other];
    const struct dfa *d = key->dfa;
    struct lr_str text = lr_str(m->text + key_begin, m->position - 1 - key_begin);
    if (byte == '"' && t.part == 0) {
        if (!d->accept[t.sub] || is_taken(key, text) ||
            grammar_kept_has(&m->kept, t.set, text, grammar_name_hash(text)))
            return;
        t.set = grammar_kept_add(&m->kept, t.set, text, GRAMMAR_NO_INDEX);
        if (t.set != 0)
            matcher_follow(m, after(m, t), out);
        return;
    }
    text.len++;
    if (grammar_dfa_step(d, DFA_JSON, &t.sub, &t.part, byte) && is_left(m, d, &t, text))
        matcher_put(m, out, t);
}

struct span grammar_matcher_advance(struct grammar_matcher *m, struct span *from, uint8_t byte)
{
    if (!matcher_is_blank(byte))
        grammar_matcher_look(m, from);
    struct span out = {.begin = after_all(m, from), .key_begin = from->key_begin};
    if (!grammar_matcher_reserve(m, out.begin + 2 * THREADS_MAX))
        return (struct span){0};
    m->text[m->position++] = (char)byte;
    next_epoch(m);
    m->moves += from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        struct thread t = m->threads[from->begin + i];
        const struct grammar_step *s = &m->program->steps[t.step];
        switch ((enum grammar_op)s->op) {
        case GRAMMAR_BYTE:
            if (byte >= s->low && byte <= s->high)
                matcher_follow(m, after(m, t), &out);
            break;
        case GRAMMAR_TEXT:
            matcher_follow(m, after(m, t), &out);
            break;
        case GRAMMAR_FREE:
            matcher_put(m, &out, t);
            break;
        case GRAMMAR_CHARS:
            step_chars(m, t, byte, &out);
            break;
        case GRAMMAR_DFA:
            step_dfa(m, t, byte, &out);
            break;
        case GRAMMAR_KEY:
            step_key(m, t, byte, from->key_begin, &out);
            break;
        case GRAMMAR_UNTIL:
            step_until(m, t, byte, &out);
            break;
        case GRAMMAR_SPACE:
            step_space(m, t, byte, &out);
            break;
        default:
            break;
        }
    }
    return out;
}

static struct span advance_control(struct grammar_matcher *m, uint32_t controls)
{
    struct span out = {.begin = m->count};
    if (!grammar_matcher_reserve(m, out.begin + THREADS_MAX))
        return out;
    next_epoch(m);
    m->position = m->text_len;
    for (uint32_t i = 0; i < m->count; i++) {
        struct thread t = m->threads[i];
        const struct grammar_step *s = &m->program->steps[t.step];
        if (s->op == GRAMMAR_CONTROL && (controls & 1u << s->low) != 0)
            matcher_follow(m, after(m, t), &out);
        else if (s->op == GRAMMAR_FREE && (controls & 1u << GRAMMAR_STOP) != 0)
            matcher_follow(m, after(m, t), &out);
        else if (s->op == GRAMMAR_FREE)
            matcher_put(m, &out, t);
    }
    return out;
}

/* The text is needed from where a key begins. */
static void keep_text(struct grammar_matcher *m, uint32_t key_begin)
{
    uint32_t end = m->position;
    m->text_len = m->key_begin = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->program->steps[m->threads[i].step].op == GRAMMAR_KEY) {
            m->text_len = end - key_begin;
            memmove(m->text, m->text + key_begin, m->text_len);
            return;
        }
}

static bool matcher_take(struct grammar_matcher *m, struct span to)
{
    if (to.count == 0)
        return false;
    memmove(m->threads, m->threads + to.begin, to.count * sizeof(*m->threads));
    m->count = to.count;
    keep_text(m, to.key_begin);
    return true;
}

static bool take_bytes(struct grammar_matcher *m, struct lr_str bytes)
{
    struct span at = {.count = m->count, .key_begin = m->key_begin};
    uint32_t first = 0;
    if (!reserve_text(m, m->text_len + bytes.len + GRAMMAR_TOKEN_MAX + 2))
        return false;
    m->position = m->text_len;
    for (size_t i = 0; i < bytes.len; i++) {
        struct span next = grammar_matcher_advance(m, &at, (uint8_t)bytes.ptr[i]);
        if (next.count == 0)
            return false;
        /* One state of scratch is enough for any length. */
        uint32_t begin = i == 0 ? at.begin + at.count : first;
        first = begin;
        memmove(m->threads + begin, m->threads + next.begin, next.count * sizeof(*m->threads));
        next.begin = begin;
        at = next;
    }
    return bytes.len == 0 || matcher_take(m, at);
}

/* ---- life ---- */

static lr_code matcher_create(const struct grammar_program *program,
                              const struct grammar_vocab *vocab,
                              struct grammar_scratch *scratch, struct grammar_matcher **out,
                              struct lr_error *err)
{
    *out = NULL;
    for (uint32_t c = 0; vocab != NULL && c < GRAMMAR_CONTROL_COUNT; c++)
        if ((program->controls & 1u << c) != 0 && vocab->control[c] == GRAMMAR_NO_TOKEN)
            return lr_fail(err, LR_UNSUPPORTED,
                           "this model has no token for %s, which the constrained output needs",
                           grammar_control_name((enum grammar_control)c));
    struct grammar_matcher *m = calloc(1, sizeof(*m));
    if (m != NULL) {
        m->vocab = vocab;
        m->scratch = vocab != NULL ? scratch : calloc(1, sizeof(*m->scratch));
    }
    if (m == NULL || m->scratch == NULL || !grammar_kept_init(&m->kept) ||
        !grammar_matcher_reserve(m, 3 * THREADS_MAX) ||
        !reserve_text(m, GRAMMAR_TOKEN_MAX + 2)) {
        grammar_matcher_free(m);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    }
    m->program = program;
    for (uint32_t i = 0; i < program->named_count; i++)
        m->named[i] =
            vocab != NULL ? grammar_vocab_special(vocab, program->named[i]) : GRAMMAR_NO_TOKEN;
    struct span start = {0};
    next_epoch(m);
    matcher_follow(m, (struct place){.step = program->start}, &start);
    m->count = start.count;
    *out = m;
    return LR_OK;
}

lr_code grammar_matcher_create(const struct grammar_program *program,
                               const struct grammar_vocab *vocab, struct grammar_matcher **out,
                               struct lr_error *err)
{
    return matcher_create(program, vocab, vocab != NULL ? vocab->scratch : NULL, out, err);
}

lr_code grammar_matcher_create_aside(const struct grammar_program *program,
                                     const struct grammar_vocab *vocab,
                                     struct grammar_matcher **out, struct lr_error *err)
{
    return matcher_create(program, vocab, vocab->aside, out, err);
}

void grammar_matcher_settle(struct grammar_matcher *m, const struct grammar_vocab *vocab)
{
    m->vocab = vocab;
    m->scratch = vocab->scratch;
}

void grammar_matcher_free(struct grammar_matcher *m)
{
    if (m == NULL)
        return;
    grammar_matcher_clear_masks(m);
    grammar_kept_free(&m->kept);
    free(m->masking.dfa_mask);
    if (m->vocab == NULL)
        grammar_scratch_free(m->scratch);
    free(m->threads);
    free(m->text);
    free(m);
}

/* ---- tokens ---- */

/* Long answers would gather frames and sets of everything they ever looked at. */
static void matcher_forget(struct grammar_matcher *m)
{
    if (m->kept.frame_count + m->kept.member_count < KEPT_SOFT)
        return;
    if (grammar_kept_forget(&m->kept, m->threads, m->count))
        grammar_matcher_clear_masks(m);
}

static bool has_step(const struct grammar_matcher *m, uint32_t step, enum grammar_op op)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->threads[i].step == step || m->program->steps[m->threads[i].step].op == op)
            return true;
    return false;
}

/* After the last token of its budget the reasoning can only end. */
static void count_thought(struct grammar_matcher *m)
{
    const struct grammar_program *p = m->program;
    if (p->thought_budget == 0 || !has_step(m, p->thought, GRAMMAR_NEVER) ||
        ++m->thought_tokens < p->thought_budget)
        return;
    struct span out = {.begin = m->count};
    if (!grammar_matcher_reserve(m, out.begin + THREADS_MAX))
        return;
    next_epoch(m);
    m->position = m->text_len;
    matcher_follow(m, (struct place){.step = p->thought_end}, &out);
    (void)matcher_take(m, out);
}

static bool take_token(struct grammar_matcher *m, uint32_t id);

bool grammar_matcher_token(struct grammar_matcher *m, uint32_t id)
{
    if (!take_token(m, id))
        return false;
    count_thought(m);
    return true;
}

static bool take_token(struct grammar_matcher *m, uint32_t id)
{
    const struct grammar_vocab *v = m->vocab;
    uint32_t controls = 0;
    if (id >= v->size)
        return false;
    grammar_matcher_drop_mask(m);
    matcher_forget(m);
    for (uint32_t c = 0; c < GRAMMAR_STOP; c++)
        controls |= v->control[c] == id ? 1u << c : 0;
    for (uint32_t i = 0; i < m->program->named_count; i++)
        controls |= m->named[i] == id ? 1u << (GRAMMAR_CONTROL_COUNT + i) : 0;
    if ((v->flags[id] & LR_VOCAB_STOP) != 0)
        controls |= 1u << GRAMMAR_STOP;
    bool is_free =
        (v->flags[id] & LR_VOCAB_SPECIAL) != 0 && has_step(m, UINT32_MAX, GRAMMAR_FREE);
    if ((controls != 0 || is_free) && matcher_take(m, advance_control(m, controls)))
        return true;
    struct lr_str bytes = grammar_vocab_bytes(v, id);
    return (v->flags[id] & (LR_VOCAB_SPECIAL | LR_VOCAB_UNUSED)) == 0 && bytes.len != 0 &&
           take_bytes(m, bytes);
}

bool grammar_matcher_bytes(struct grammar_matcher *m, struct lr_str bytes, bool control)
{
    grammar_matcher_drop_mask(m);
    if (!control)
        return take_bytes(m, bytes);
    for (uint32_t c = 0; c < GRAMMAR_CONTROL_COUNT; c++)
        if (lr_str_eq_z(bytes, grammar_control_name((enum grammar_control)c)))
            return matcher_take(m, advance_control(m, 1u << c));
    for (uint32_t i = 0; i < m->program->named_count; i++)
        if (lr_str_eq(bytes, m->program->named[i]))
            return matcher_take(m, advance_control(m, 1u << (GRAMMAR_CONTROL_COUNT + i)));
    return false;
}

bool grammar_matcher_is_complete(const struct grammar_matcher *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->program->steps[m->threads[i].step].op == GRAMMAR_END)
            return true;
    return false;
}
