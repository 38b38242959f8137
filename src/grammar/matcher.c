/* grammar/matcher.c - see grammar/grammar.h: follows an answer through a program.
 *
 * At a fork all branches are followed at once: a state is a list of threads, each a step and a
 * stack of rules to return to.  The stacks are shared frames, unique by content, so that two
 * states are equal if their threads are.  A thread that could not end within the allowed depth
 * is never started, and dropping a thread does not affect the others: so there are no dead
 * ends.
 */
#include <stdlib.h>

#include "grammar/vocab.h"
#include "llm-router/engine.h"

enum {
    THREADS_MAX = 2048, /* of one state; more alternatives are dropped */
    WORK_MAX = 8192,
    SEEN_SLOTS = 16384,
    FRAMES_SOFT = 1 << 14, /* above this, unused frames are dropped between two tokens */
    FRAMES_MAX = 1 << 20,
    CACHED_MAX = 24,     /* masks kept: 25 KB each for 200 000 tokens */
    MOVES_MAX = 4 << 20, /* of threads for one mask: about 20 ms */
};

struct thread {
    uint32_t step;
    uint32_t frame;
    uint32_t sub; /* position within a character or a run of blanks */
};

struct frame {
    uint32_t next; /* step to return to */
    uint32_t parent;
    uint32_t depth;
};

struct frames {
    struct frame *items; /* owned; [0] is the bottom */
    uint32_t count;
    uint32_t capacity;
    uint32_t *slots; /* owned: index + 1, 0 is free; twice the capacity, a power of two */
};

struct place {
    uint32_t step;
    uint32_t frame;
};

struct cached {
    struct thread *threads; /* owned */
    uint32_t count;
    uint32_t hash;
    uint64_t used;
    uint32_t *mask; /* owned; NULL: free */
};

struct span {
    uint32_t begin;
    uint32_t count;
};

struct grammar_matcher {
    const struct grammar_program *program;
    const struct grammar_vocab *vocab;
    struct frames frames;
    struct thread *threads; /* owned; [0, count) is the state, the rest is scratch */
    uint32_t count;
    uint32_t capacity;
    struct place work[WORK_MAX];
    struct {
        struct place place;
        uint32_t epoch;
    } seen[SEEN_SLOTS];
    uint32_t epoch;
    uint32_t seen_count;
    uint32_t moves;                           /* of threads, for the current mask */
    struct span spans[GRAMMAR_TOKEN_MAX + 1]; /* of a walk, by depth */
    struct cached cache[CACHED_MAX];
    uint64_t clock;
};

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 11);
}

/* ---- frames ---- */

static bool grow_frames(struct frames *f)
{
    uint32_t capacity = f->capacity != 0 ? 2 * f->capacity : 64;
    struct frame *items = realloc(f->items, capacity * sizeof(*items));
    if (items == NULL)
        return false;
    f->items = items;
    uint32_t *slots = calloc((size_t)2 * capacity, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(f->slots);
    f->slots = slots;
    f->capacity = capacity;
    for (uint32_t i = 1; i < f->count; i++) {
        uint32_t at = mix(items[i].next, items[i].parent) & (2 * capacity - 1);
        while (slots[at] != 0)
            at = (at + 1) & (2 * capacity - 1);
        slots[at] = i + 1;
    }
    return true;
}

/* The frame with this content; 0: the limit is reached. */
static uint32_t frame_of(struct frames *f, uint32_t next, uint32_t parent)
{
    if (f->count == f->capacity && (f->count >= FRAMES_MAX || !grow_frames(f)))
        return 0;
    uint32_t mask = 2 * f->capacity - 1;
    uint32_t at = mix(next, parent) & mask;
    for (; f->slots[at] != 0; at = (at + 1) & mask) {
        const struct frame *found = &f->items[f->slots[at] - 1];
        if (found->next == next && found->parent == parent)
            return f->slots[at] - 1;
    }
    f->items[f->count] = (struct frame){next, parent, f->items[parent].depth + 1};
    f->slots[at] = ++f->count;
    return f->count - 1;
}

static bool init_frames(struct frames *f)
{
    *f = (struct frames){0};
    if (!grow_frames(f))
        return false;
    f->items[0] = (struct frame){0};
    f->count = 1;
    return true;
}

static void free_frames(struct frames *f)
{
    free(f->items);
    free(f->slots);
}

/* ---- stepping ---- */

static bool is_new(struct grammar_matcher *m, struct place p)
{
    uint32_t at = mix(p.step, p.frame) & (SEEN_SLOTS - 1);
    while (m->seen[at].epoch == m->epoch) {
        if (m->seen[at].place.step == p.step && m->seen[at].place.frame == p.frame)
            return false;
        at = (at + 1) & (SEEN_SLOTS - 1);
    }
    if (m->seen_count >= SEEN_SLOTS / 2)
        return false;
    m->seen_count++;
    m->seen[at].place = p;
    m->seen[at].epoch = m->epoch;
    return true;
}

static bool reserve(struct grammar_matcher *m, uint32_t count)
{
    if (count <= m->capacity)
        return true;
    uint32_t capacity = count + count / 2;
    struct thread *grown = realloc(m->threads, capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    m->threads = grown;
    m->capacity = capacity;
    return true;
}

static void put(struct grammar_matcher *m, struct span *out, struct thread t)
{
    if (out->count < THREADS_MAX)
        m->threads[out->begin + out->count++] = t;
}

/* Adds every step that waits for a byte or a control token, reachable from `step`. */
static void follow(struct grammar_matcher *m, uint32_t step, uint32_t frame, struct span *out)
{
    const struct grammar_step *steps = m->program->steps;
    uint32_t count = 0;
    m->work[count++] = (struct place){step, frame};
    while (count != 0) {
        struct place at = m->work[--count];
        const struct grammar_step *s = &steps[at.step];
        m->moves++;
        if (m->frames.items[at.frame].depth + s->height > GRAMMAR_DEPTH_MAX || !is_new(m, at) ||
            count + 2 > WORK_MAX)
            continue;
        switch ((enum grammar_op)s->op) {
        case GRAMMAR_FORK:
            m->work[count++] = (struct place){s->other, at.frame};
            m->work[count++] = (struct place){s->next, at.frame};
            break;
        case GRAMMAR_CALL: {
            uint32_t down = frame_of(&m->frames, s->next, at.frame);
            if (down != 0)
                m->work[count++] = (struct place){m->program->rules[s->other].entry, down};
            break;
        }
        case GRAMMAR_RETURN: {
            const struct frame *f = &m->frames.items[at.frame];
            m->work[count++] = (struct place){f->next, f->parent};
            break;
        }
        case GRAMMAR_SPACE:
            put(m, out, (struct thread){at.step, at.frame, 0});
            m->work[count++] = (struct place){s->next, at.frame};
            break;
        default:
            put(m, out, (struct thread){at.step, at.frame, 0});
        }
    }
}

static void next_epoch(struct grammar_matcher *m)
{
    m->seen_count = 0;
    if (++m->epoch == 0) {
        memset(m->seen, 0, sizeof(m->seen));
        m->epoch = 1;
    }
}

static void step_space(struct grammar_matcher *m, struct thread t, uint8_t byte,
                       struct span *out)
{
    uint32_t next = m->program->steps[t.step].next;
    bool begins = t.sub == 0 && byte == '\n';
    bool goes_on = t.sub != 0 && t.sub <= GRAMMAR_INDENT_MAX && (byte == ' ' || byte == '\t');
    if (begins || goes_on) {
        t.sub++;
        put(m, out, t);
        follow(m, next, t.frame, out);
    } else if (t.sub == 0 && byte == ' ') {
        follow(m, next, t.frame, out);
    }
}

static void step_char(struct grammar_matcher *m, struct thread t, uint8_t byte,
                      struct span *out)
{
    uint8_t sub = grammar_char_next((uint8_t)t.sub, byte);
    if (sub == 0) {
        follow(m, m->program->steps[t.step].next, t.frame, out);
    } else if (sub != GRAMMAR_CHAR_BAD) {
        t.sub = sub;
        put(m, out, t);
    }
}

/* The state after `byte`, stored behind the state before.  Empty: the byte is not legal. */
static struct span advance(struct grammar_matcher *m, struct span from, uint8_t byte)
{
    struct span out = {.begin = from.begin + from.count};
    if (!reserve(m, out.begin + THREADS_MAX))
        return out;
    next_epoch(m);
    m->moves += from.count;
    for (uint32_t i = 0; i < from.count; i++) {
        struct thread t = m->threads[from.begin + i];
        const struct grammar_step *s = &m->program->steps[t.step];
        switch ((enum grammar_op)s->op) {
        case GRAMMAR_BYTE:
            if (byte >= s->low && byte <= s->high)
                follow(m, s->next, t.frame, &out);
            break;
        case GRAMMAR_TEXT:
            follow(m, s->next, t.frame, &out);
            break;
        case GRAMMAR_CHAR:
            step_char(m, t, byte, &out);
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
    if (!reserve(m, out.begin + THREADS_MAX))
        return out;
    next_epoch(m);
    for (uint32_t i = 0; i < m->count; i++) {
        struct thread t = m->threads[i];
        const struct grammar_step *s = &m->program->steps[t.step];
        if (s->op == GRAMMAR_CONTROL && (controls & 1u << s->low) != 0)
            follow(m, s->next, t.frame, &out);
    }
    return out;
}

static bool take(struct grammar_matcher *m, struct span to)
{
    if (to.count == 0)
        return false;
    memmove(m->threads, m->threads + to.begin, to.count * sizeof(*m->threads));
    m->count = to.count;
    return true;
}

static bool take_bytes(struct grammar_matcher *m, struct lr_str bytes)
{
    struct span at = {0, m->count}, first = at;
    for (size_t i = 0; i < bytes.len; i++) {
        struct span next = advance(m, at, (uint8_t)bytes.ptr[i]);
        if (next.count == 0)
            return false;
        /* Scratch space for one state is enough for any length. */
        uint32_t begin = first.begin + first.count;
        memmove(m->threads + begin, m->threads + next.begin, next.count * sizeof(*m->threads));
        at = (struct span){begin, next.count};
    }
    return bytes.len == 0 || take(m, at);
}

/* ---- life ---- */

lr_code grammar_matcher_create(const struct grammar_program *program,
                               const struct grammar_vocab *vocab, struct grammar_matcher **out,
                               struct lr_error *err)
{
    *out = NULL;
    for (uint32_t c = 0; vocab != NULL && c < GRAMMAR_CONTROL_COUNT; c++)
        if ((program->controls & 1u << c) != 0 && vocab->control[c] == GRAMMAR_NO_TOKEN)
            return lr_fail(err, LR_UNSUPPORTED,
                           "this model has no token for %s, which the constrained output needs",
                           grammar_control_name((enum grammar_control)c));
    struct grammar_matcher *m = calloc(1, sizeof(*m));
    if (m == NULL || !init_frames(&m->frames) || !reserve(m, THREADS_MAX)) {
        grammar_matcher_free(m);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    }
    m->program = program;
    m->vocab = vocab;
    struct span start = {0};
    next_epoch(m);
    follow(m, program->start, 0, &start);
    m->count = start.count;
    *out = m;
    return LR_OK;
}

static void clear_cache(struct grammar_matcher *m)
{
    for (size_t i = 0; i < CACHED_MAX; i++) {
        free(m->cache[i].threads);
        free(m->cache[i].mask);
        m->cache[i] = (struct cached){0};
    }
}

void grammar_matcher_free(struct grammar_matcher *m)
{
    if (m == NULL)
        return;
    clear_cache(m);
    free_frames(&m->frames);
    free(m->threads);
    free(m);
}

/* ---- tokens ---- */

/* Copies the frame to a new set; 0 at the bottom or without memory. */
static uint32_t move_frame(struct frames *to, const struct frames *from, uint32_t id)
{
    uint32_t chain[GRAMMAR_DEPTH_MAX + 1], depth = 0, at = 0;
    for (; id != 0 && depth <= GRAMMAR_DEPTH_MAX; id = from->items[id].parent)
        chain[depth++] = from->items[id].next;
    while (depth > 0)
        at = frame_of(to, chain[--depth], at);
    return at;
}

/* Drops unused frames; otherwise a long answer would collect all frames it ever used. */
static void forget(struct grammar_matcher *m)
{
    struct frames kept;
    if (m->frames.count < FRAMES_SOFT || !init_frames(&kept))
        return;
    for (uint32_t i = 0; i < m->count; i++)
        m->threads[i].frame = move_frame(&kept, &m->frames, m->threads[i].frame);
    free_frames(&m->frames);
    m->frames = kept;
    clear_cache(m);
}

bool grammar_matcher_token(struct grammar_matcher *m, uint32_t id)
{
    const struct grammar_vocab *v = m->vocab;
    uint32_t controls = 0;
    if (id >= v->size)
        return false;
    forget(m);
    for (uint32_t c = 0; c < GRAMMAR_STOP; c++)
        controls |= v->control[c] == id ? 1u << c : 0;
    if ((v->flags[id] & LR_VOCAB_STOP) != 0)
        controls |= 1u << GRAMMAR_STOP;
    if (controls != 0 && take(m, advance_control(m, controls)))
        return true;
    struct lr_str bytes = grammar_vocab_bytes(v, id);
    return (v->flags[id] & (LR_VOCAB_SPECIAL | LR_VOCAB_UNUSED)) == 0 && bytes.len != 0 &&
           take_bytes(m, bytes);
}

bool grammar_matcher_bytes(struct grammar_matcher *m, struct lr_str bytes, bool control)
{
    if (!control)
        return take_bytes(m, bytes);
    for (uint32_t c = 0; c < GRAMMAR_CONTROL_COUNT; c++)
        if (lr_str_eq_z(bytes, grammar_control_name((enum grammar_control)c)))
            return take(m, advance_control(m, 1u << c));
    return false;
}

bool grammar_matcher_is_complete(const struct grammar_matcher *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->program->steps[m->threads[i].step].op == GRAMMAR_END)
            return true;
    return false;
}

/* ---- masks ---- */

static void set_bit(uint32_t *mask, uint32_t id)
{
    mask[id >> 5] |= 1u << (id & 31);
}

static void walk(struct grammar_matcher *m, const struct grammar_trie *trie, uint32_t *mask)
{
    const struct span state = {0, m->count};
    for (uint32_t i = 0; i < trie->count && m->moves < MOVES_MAX;) {
        const struct grammar_node *n = &trie->nodes[i];
        struct span at = advance(m, n->depth == 0 ? state : m->spans[n->depth - 1], n->byte);
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

static void add_mask(uint32_t *mask, const uint32_t *more, size_t words)
{
    for (size_t i = 0; i < words; i++)
        mask[i] |= more[i];
}

/* Either all threads of a state are inside the same string or none is.  A thread that accepts
 * any character allows all tokens that stay inside the string. */
static void add_inside(const struct grammar_vocab *v, uint32_t left, uint32_t *mask)
{
    if (left >= v->inside_chars) {
        add_mask(mask, v->inside_mask, v->words);
        return;
    }
    for (uint32_t i = 0; i < v->inside_count && v->inside[i].chars <= left; i++)
        set_bit(mask, v->inside[i].token);
}

static void make_mask(struct grammar_matcher *m, uint32_t *mask)
{
    const struct grammar_vocab *v = m->vocab;
    bool any_text = false;
    uint32_t left = 0;
    m->moves = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct thread *t = &m->threads[i];
        const struct grammar_step *s = &m->program->steps[t->step];
        any_text = any_text || s->op == GRAMMAR_TEXT;
        if (s->op == GRAMMAR_CHAR && t->sub == 0 && s->other > left)
            left = s->other;
        if (s->op == GRAMMAR_CONTROL && s->low == GRAMMAR_STOP)
            for (uint32_t k = 0; k < v->stop_count; k++)
                set_bit(mask, v->stops[k]);
        else if (s->op == GRAMMAR_CONTROL)
            set_bit(mask, v->control[s->low]);
    }
    if (any_text)
        add_mask(mask, v->text_mask, v->words);
    else if (left != 0)
        add_inside(v, left, mask);
    if (!any_text)
        walk(m, left != 0 ? &v->leaving : &v->all, mask);
}

static uint32_t hash_state(const struct grammar_matcher *m)
{
    uint32_t h = m->count;
    for (uint32_t i = 0; i < m->count; i++)
        h = mix(h ^ m->threads[i].step, m->threads[i].frame * 64 + m->threads[i].sub);
    return h;
}

/* The cached mask of this state, or the entry to store it in. */
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
    c->count = m->count;
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
    lr_code code = found ? LR_OK : fill_cached(m, c, hash, err);
    if (code != LR_OK)
        return code;
    c->used = ++m->clock;
    for (size_t i = 0; i < words; i++) {
        mask[i] = i < m->vocab->words ? c->mask[i] : 0;
        any |= mask[i];
    }
    if (any == 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "no token of the vocabulary can continue the constrained output");
    return LR_OK;
}
