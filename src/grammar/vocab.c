/* grammar/vocab.c - see grammar/vocab.h. */
#include "grammar/vocab.h"

#include <stdlib.h>

#include "grammar/matcher.h"
#include "llm-router/engine.h"

/* More than any existing vocabulary has. */
enum { TOKENS_MAX = 4 << 20, BYTES_MAX = 256 << 20 };

static const char *const names[GRAMMAR_CONTROL_COUNT] = {
    "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>",
    "<|start|>",   "<|call|>",    "<|return|>",    "the stop token",
};

const char *grammar_control_name(enum grammar_control control)
{
    return names[control];
}

static lr_code grammar_vocab_no_memory(struct lr_error *err)
{
    return lr_fail(err, LR_OUT_OF_RAM, "no memory for the vocabulary of constrained output");
}

/* ---- reading the tokens ---- */

static lr_code take_tokens(struct grammar_vocab *v, const struct grammar_tokens *tokens,
                           struct lr_error *err)
{
    struct lr_buf bytes, begins, flags;
    struct lr_str text;
    uint32_t flag, zero = 0;
    lr_buf_init(&bytes, BYTES_MAX);
    lr_buf_init(&begins, ((size_t)TOKENS_MAX + 1) * sizeof(uint32_t));
    lr_buf_init(&flags, TOKENS_MAX);
    lr_buf_add(&begins, &zero, sizeof(zero));
    while (tokens->token(tokens->ctx, v->size, &text, &flag)) {
        lr_buf_add(&bytes, text.ptr, text.len);
        uint32_t end = (uint32_t)bytes.len;
        lr_buf_add(&begins, &end, sizeof(end));
        lr_buf_add_char(&flags, (char)flag);
        v->size++;
        if (bytes.failed || begins.failed || flags.failed)
            break;
    }
    bool failed = bytes.failed || begins.failed || flags.failed;
    v->words = ((size_t)v->size + 31) / 32;
    v->bytes = bytes.data;
    v->begins = (uint32_t *)(void *)begins.data;
    v->flags = (uint8_t *)flags.data;
    if (v->size == 0 && !failed)
        return lr_fail(err, LR_UNSUPPORTED, "the engine does not expose its vocabulary");
    return failed ? grammar_vocab_no_memory(err) : LR_OK;
}

static bool vocab_is_text(const struct grammar_vocab *v, uint32_t id)
{
    return (v->flags[id] & (LR_VOCAB_SPECIAL | LR_VOCAB_UNUSED)) == 0 &&
           v->begins[id] != v->begins[id + 1];
}

uint32_t grammar_vocab_special(const struct grammar_vocab *v, struct lr_str name)
{
    for (uint32_t i = 0; i < v->special_count; i++)
        if (lr_str_eq(grammar_vocab_bytes(v, v->specials[i]), name))
            return v->specials[i];
    return GRAMMAR_NO_TOKEN;
}

static bool find_controls(struct grammar_vocab *v)
{
    for (uint32_t c = 0; c < GRAMMAR_CONTROL_COUNT; c++)
        v->control[c] = GRAMMAR_NO_TOKEN;
    v->stops = calloc(v->size, sizeof(*v->stops));
    v->specials = calloc(v->size, sizeof(*v->specials));
    if (v->stops == NULL || v->specials == NULL)
        return false;
    for (uint32_t id = 0; id < v->size; id++) {
        if ((v->flags[id] & LR_VOCAB_STOP) != 0)
            v->stops[v->stop_count++] = id;
        if ((v->flags[id] & LR_VOCAB_SPECIAL) != 0)
            v->specials[v->special_count++] = id;
        for (uint32_t c = 0; (v->flags[id] & LR_VOCAB_SPECIAL) != 0 && c < GRAMMAR_STOP; c++)
            if (lr_str_eq_z(grammar_vocab_bytes(v, id), names[c]))
                v->control[c] = id;
    }
    if (v->stop_count != 0)
        v->control[GRAMMAR_STOP] = v->stops[0];
    return true;
}

/* ---- tries ---- */

static bool grammar_vocab_add_node(struct grammar_trie *t, uint8_t byte, uint16_t depth)
{
    if (t->count == t->capacity) {
        uint32_t capacity = t->capacity != 0 ? 2 * t->capacity : 1024;
        struct grammar_node *grown = realloc(t->nodes, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        t->nodes = grown;
        t->capacity = capacity;
    }
    t->nodes[t->count++] =
        (struct grammar_node){.token = GRAMMAR_NO_TOKEN, .byte = byte, .depth = depth};
    return true;
}

/* `text` sorts behind or equals `last`, the text added before.  Equal texts get a leaf each. */
static bool add_token(struct grammar_trie *t, struct lr_str last, struct lr_str text,
                      uint32_t id)
{
    size_t same = 0;
    while (same < last.len && same < text.len && last.ptr[same] == text.ptr[same])
        same++;
    if (same == text.len)
        same--;
    for (size_t i = same; i < text.len; i++)
        if (!grammar_vocab_add_node(t, (uint8_t)text.ptr[i], (uint16_t)i))
            return false;
    t->nodes[t->count - 1].token = id;
    return true;
}

/* Sets each node's skip (the next node of its depth or less), and where each first byte is. */
static void link_nodes(struct grammar_trie *t)
{
    uint32_t open[GRAMMAR_TOKEN_MAX]; /* path from the root to the previous node, by depth */
    uint32_t depth = 0, byte = 0;
    for (uint32_t i = 0; i <= t->count; i++) {
        uint32_t to = i < t->count ? t->nodes[i].depth : 0;
        while (depth > to) {
            struct grammar_node *n = &t->nodes[open[--depth]];
            uint8_t *below = depth != 0 ? &t->nodes[open[depth - 1]].below : &n->below;
            n->skip = i;
            if (depth != 0 && *below <= n->below)
                *below = n->below < 255 ? n->below + 1 : 255;
        }
        if (i < t->count)
            open[depth++] = i;
    }
    for (uint32_t i = 0; i < t->count; i = t->nodes[i].skip)
        while (byte <= t->nodes[i].byte)
            t->roots[byte++] = i;
    while (byte <= 256)
        t->roots[byte++] = t->count;
}

/* Lists the tokens, for a trie of which whole branches are taken. */
static bool list_tokens(struct grammar_trie *t)
{
    uint32_t count = 0;
    t->tokens = malloc(((size_t)t->count + 1) * sizeof(*t->tokens));
    t->begins = malloc(((size_t)t->count + 1) * sizeof(*t->begins));
    if (t->tokens == NULL || t->begins == NULL)
        return false;
    for (uint32_t i = 0; i < t->count; i++) {
        t->begins[i] = count;
        if (t->nodes[i].token != GRAMMAR_NO_TOKEN)
            t->tokens[count++] = t->nodes[i].token;
    }
    t->begins[t->count] = count;
    return true;
}

static void free_trie(struct grammar_trie *t)
{
    free(t->nodes);
    free(t->tokens);
    free(t->begins);
}

/* ---- strings ---- */

enum side { NOT_IN_STRING, STAYS, LEAVES };

/* Where a token that starts between two characters of a JSON string ends: inside or outside. */
static enum side grammar_vocab_place_of(struct lr_str text, uint32_t *chars)
{
    uint8_t state = 0;
    *chars = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (state == 0 && text.ptr[i] == '"')
            return LEAVES;
        *chars += state == 0;
        state = grammar_char_next(state, (uint8_t)text.ptr[i]);
        if (state == GRAMMAR_CHAR_BAD)
            return NOT_IN_STRING;
    }
    return STAYS;
}

/* Without escapes and quotes, without U+2028, U+2029 and DEL, and not of endless length. */
static bool grammar_vocab_is_plain(struct lr_str text, uint32_t chars)
{
    if (chars > 250)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '\\' || c == '"' || c < 0x20 || c == 0x7F)
            return false;
        if (c != 0xE2)
            continue;
        if (i + 2 >= text.len)
            return false; /* may become one of them */
        unsigned char last = (unsigned char)text.ptr[i + 2];
        if ((unsigned char)text.ptr[i + 1] == 0x80 && (last == 0xA8 || last == 0xA9))
            return false;
    }
    return true;
}

static int by_chars(const void *a, const void *b)
{
    const struct grammar_inside *x = a, *y = b;
    if (x->chars != y->chars)
        return x->chars < y->chars ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void add_inside(struct grammar_inside_list *list, uint32_t token, uint32_t chars)
{
    list->items[list->count++] = (struct grammar_inside){token, chars};
    list->chars = chars > list->chars ? chars : list->chars;
}

/* The masks of a list that is complete. */
static bool sum_up(struct grammar_inside_list *list, size_t words)
{
    uint32_t i = 0;
    list->up_to = calloc((GRAMMAR_UP_TO + 2) * words, sizeof(*list->up_to));
    if (list->up_to == NULL)
        return false;
    qsort(list->items, list->count, sizeof(*list->items), by_chars);
    for (uint32_t n = 0; n <= GRAMMAR_UP_TO + 1; n++) {
        uint32_t *mask = list->up_to + n * words;
        if (n > 0)
            memcpy(mask, mask - words, words * sizeof(*mask));
        for (; i < list->count && (n > GRAMMAR_UP_TO || list->items[i].chars <= n); i++)
            mask[list->items[i].token >> 5] |= 1u << (list->items[i].token & 31);
        if (n == GRAMMAR_UP_TO)
            list->beyond = i;
    }
    return true;
}

/* ---- masks of automata ---- */

enum { MASKS_MAX = 128 };

struct grammar_dfa_masks {
    struct {
        uint64_t dfa;
        uint64_t used;
        uint32_t *mask; /* owned */
        uint32_t state;
    } items[MASKS_MAX];
    uint64_t clock;
};

const uint32_t *grammar_vocab_kept(const struct grammar_vocab *v, uint64_t dfa, uint32_t state)
{
    struct grammar_dfa_masks *masks = v->masks;
    for (uint32_t i = 0; i < MASKS_MAX; i++)
        if (masks->items[i].dfa == dfa && masks->items[i].state == state) {
            masks->items[i].used = ++masks->clock;
            return masks->items[i].mask;
        }
    return NULL;
}

void grammar_vocab_keep(const struct grammar_vocab *v, uint64_t dfa, uint32_t state,
                        const uint32_t *mask)
{
    struct grammar_dfa_masks *masks = v->masks;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < MASKS_MAX; i++)
        if (masks->items[i].used < masks->items[oldest].used)
            oldest = i;
    if (masks->items[oldest].mask == NULL)
        masks->items[oldest].mask = malloc(v->words * sizeof(uint32_t));
    if (masks->items[oldest].mask == NULL)
        return;
    memcpy(masks->items[oldest].mask, mask, v->words * sizeof(uint32_t));
    masks->items[oldest].dfa = dfa;
    masks->items[oldest].state = state;
    masks->items[oldest].used = ++masks->clock;
}

static void free_masks(struct grammar_dfa_masks *masks)
{
    for (uint32_t i = 0; masks != NULL && i < MASKS_MAX; i++)
        free(masks->items[i].mask);
    free(masks);
}

/* ---- building ---- */

struct sorted {
    struct lr_str text;
    uint32_t id;
};

static int grammar_vocab_by_text(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    int order = lr_str_cmp(x->text, y->text);
    return order != 0 ? order : x->id < y->id ? -1 : x->id > y->id;
}

/* A trie in the making, and the last text that was added. */
struct adding {
    struct grammar_trie *trie;
    struct lr_str last;
};

static bool add_to(struct adding *a, const struct sorted *s)
{
    bool ok = add_token(a->trie, a->last, s->text, s->id);
    a->last = s->text;
    return ok;
}

static bool sort_in(struct grammar_vocab *v, const struct sorted *list, uint32_t count)
{
    struct adding all = {&v->all, {0}}, leaving = {&v->leaving, {0}};
    struct adding staying = {&v->staying, {0}}, odd = {&v->odd, {0}}, even = {&v->even, {0}};
    struct adding uneven = {&v->uneven, {0}};
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        const struct sorted *s = &list[i];
        uint32_t chars;
        enum side place = grammar_vocab_place_of(s->text, &chars);
        ok = add_to(&all, s);
        if (place != STAYS || chars > GRAMMAR_UP_TO || !grammar_vocab_is_plain(s->text, chars))
            ok = ok && add_to(&uneven, s);
        switch (place) {
        case STAYS:
            add_inside(&v->inside, s->id, chars);
            ok = ok && add_to(&staying, s);
            if (grammar_vocab_is_plain(s->text, chars)) {
                add_inside(&v->plain, s->id, chars);
                ok = ok && add_to(&even, s);
            } else {
                ok = ok && add_to(&odd, s);
            }
            break;
        case LEAVES:
            ok = ok && add_to(&leaving, s);
            break;
        case NOT_IN_STRING:
            break;
        }
    }
    link_nodes(&v->all);
    link_nodes(&v->leaving);
    link_nodes(&v->staying);
    link_nodes(&v->even);
    link_nodes(&v->odd);
    link_nodes(&v->uneven);
    return ok && list_tokens(&v->even) && sum_up(&v->inside, v->words) &&
           sum_up(&v->plain, v->words);
}

/* Where the quote is that ends a string. */
static size_t end_of_string(struct lr_str text)
{
    uint8_t state = 0;
    size_t i = 0;
    for (; i < text.len && !(state == 0 && text.ptr[i] == '"'); i++)
        state = grammar_char_next(state, (uint8_t)text.ptr[i]);
    return i;
}

/* In a string of any length only what comes after it tells tokens apart. */
static bool group_ends(struct grammar_vocab *v, const struct sorted *list, uint32_t count)
{
    struct adding odd = {&v->leaving_odd, {0}};
    struct sorted *ends = calloc((size_t)count + 1, sizeof(*ends));
    uint32_t used = 0, groups = 0, chars;
    v->group_begins = calloc((size_t)count + 2, sizeof(*v->group_begins));
    v->grouped = calloc((size_t)count + 1, sizeof(*v->grouped));
    bool ok = ends != NULL && v->group_begins != NULL && v->grouped != NULL;
    for (uint32_t i = 0; ok && i < count; i++)
        if (grammar_vocab_place_of(list[i].text, &chars) == LEAVES) {
            size_t end = end_of_string(list[i].text);
            if (grammar_vocab_is_plain(lr_str_sub(list[i].text, 0, end), chars))
                ends[used++] = (struct sorted){lr_str_sub(list[i].text, end, list[i].text.len),
                                               list[i].id};
            else
                ok = add_to(&odd, &list[i]);
        }
    if (ok)
        qsort(ends, used, sizeof(*ends), grammar_vocab_by_text);
    for (uint32_t i = 0; ok && i < used; i++) {
        if (i == 0 || !lr_str_eq(ends[i].text, ends[i - 1].text)) {
            struct lr_str last = i == 0 ? (struct lr_str){0} : ends[i - 1].text;
            ok = add_token(&v->ends, last, ends[i].text, groups);
            v->group_begins[groups++] = i;
        }
        v->grouped[i] = ends[i].id;
        v->group_begins[groups] = i + 1;
    }
    link_nodes(&v->ends);
    link_nodes(&v->leaving_odd);
    free(ends);
    return ok;
}

/* ---- tokens that begin a string ---- */

/* How much of a token comes up to its only quote, if plain characters follow; 0: it is another
 * kind of token. */
static size_t opening_of(struct lr_str text)
{
    size_t quote = lr_str_find_char(text, '"');
    uint32_t chars;
    if (quote == LR_STR_NONE || quote + 1 >= text.len)
        return 0;
    struct lr_str rest = lr_str_sub(text, quote + 1, text.len);
    return grammar_vocab_place_of(rest, &chars) == STAYS && grammar_vocab_is_plain(rest, chars)
               ? quote + 1
               : 0;
}

/* The node of a text in a trie that has tokens below it. */
static uint32_t node_of(const struct grammar_trie *t, struct lr_str text)
{
    uint32_t from = 0, to = t->count, found = 0;
    for (size_t i = 0; i < text.len; i++) {
        for (uint32_t k = from; k < to; k = t->nodes[k].skip)
            if (t->nodes[k].byte == (uint8_t)text.ptr[i])
                found = k; /* of equal ones the last has what is below */
        from = found + 1;
        to = t->nodes[found].skip;
    }
    return found;
}

/* The others, and one entry for each group: sorted in as a token that there is not. */
static bool fill_outer(struct grammar_vocab *v, struct sorted *list, uint32_t count,
                       const struct lr_str *heads)
{
    struct adding outer = {&v->outer, {0}};
    qsort(list, count, sizeof(*list), grammar_vocab_by_text);
    v->outer_groups = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!add_to(&outer, &list[i]))
            return false;
    link_nodes(&v->outer);
    v->outer_groups = calloc((size_t)v->outer.count + 1, sizeof(*v->outer_groups));
    if (v->outer_groups == NULL)
        return false;
    for (uint32_t g = 0; g < v->opening_count; g++) {
        v->outer_groups[node_of(&v->outer, heads[g])] = g + 1;
        v->openings[g].node = node_of(&v->all, heads[g]);
    }
    return true;
}

static bool group_openings(struct grammar_vocab *v, const struct sorted *list, uint32_t count)
{
    struct sorted *opening = calloc((size_t)count + 1, sizeof(*opening));
    struct sorted *others = calloc(2 * (size_t)count + 1, sizeof(*others));
    struct lr_str *heads = calloc((size_t)count + 1, sizeof(*heads));
    uint32_t used = 0, left = 0;
    v->openings = calloc((size_t)count + 1, sizeof(*v->openings));
    v->opened = calloc((size_t)count + 1, sizeof(*v->opened));
    bool ok = opening != NULL && others != NULL && heads != NULL && v->openings != NULL &&
              v->opened != NULL;
    for (uint32_t i = 0; ok && i < count; i++) {
        size_t head = opening_of(list[i].text);
        if (head != 0)
            opening[used++] = (struct sorted){lr_str_sub(list[i].text, 0, head), list[i].id};
        else
            others[left++] = list[i];
    }
    if (ok)
        qsort(opening, used, sizeof(*opening), grammar_vocab_by_text);
    for (uint32_t i = 0; ok && i < used; i++) {
        if (i == 0 || !lr_str_eq(opening[i].text, opening[i - 1].text)) {
            v->openings[v->opening_count].begin = i;
            heads[v->opening_count++] = opening[i].text;
            others[left++] = (struct sorted){opening[i].text, GRAMMAR_NO_TOKEN};
        }
        v->opened[i] = opening[i].id;
        v->openings[v->opening_count - 1].end = i + 1;
    }
    ok = ok && fill_outer(v, others, left, heads);
    free(opening);
    free(others);
    free(heads);
    return ok;
}

static bool grammar_vocab_build(struct grammar_vocab *v)
{
    uint32_t count = 0;
    v->inside.items = calloc(v->size, sizeof(*v->inside.items));
    v->plain.items = calloc(v->size, sizeof(*v->plain.items));
    v->masks = calloc(1, sizeof(*v->masks));
    v->scratch = calloc(1, sizeof(*v->scratch));
    v->aside = calloc(1, sizeof(*v->aside));
    v->text_mask = calloc(v->words, sizeof(*v->text_mask));
    struct sorted *list = calloc(v->size, sizeof(*list));
    bool ok = v->inside.items != NULL && v->plain.items != NULL && v->masks != NULL &&
              v->scratch != NULL && v->aside != NULL && v->text_mask != NULL && list != NULL &&
              find_controls(v);
    for (uint32_t id = 0; ok && id < v->size; id++) {
        struct lr_str text = grammar_vocab_bytes(v, id);
        if (!vocab_is_text(v, id))
            continue;
        v->text_mask[id >> 5] |= 1u << (id & 31);
        if (text.len <= GRAMMAR_TOKEN_MAX)
            list[count++] = (struct sorted){text, id};
    }
    if (ok) {
        qsort(list, count, sizeof(*list), grammar_vocab_by_text);
        ok = sort_in(v, list, count) && group_ends(v, list, count) &&
             group_openings(v, list, count);
    }
    free(list);
    return ok;
}

lr_code grammar_vocab_create(const struct grammar_tokens *tokens, struct grammar_vocab **out,
                             struct lr_error *err)
{
    struct grammar_vocab *v = calloc(1, sizeof(*v));
    *out = NULL;
    if (v == NULL)
        return grammar_vocab_no_memory(err);
    lr_code code = take_tokens(v, tokens, err);
    if (code == LR_OK && !grammar_vocab_build(v))
        code = grammar_vocab_no_memory(err);
    if (code != LR_OK)
        grammar_vocab_free(v);
    else
        *out = v;
    return code;
}

struct grammar_vocab *grammar_vocab_share(const struct grammar_vocab *vocab)
{
    struct grammar_vocab *v = malloc(sizeof(*v));
    if (v == NULL)
        return NULL;
    *v = *vocab;
    v->is_share = true;
    v->masks = calloc(1, sizeof(*v->masks));
    v->scratch = calloc(1, sizeof(*v->scratch));
    v->aside = NULL;
    if (v->masks != NULL && v->scratch != NULL)
        return v;
    grammar_vocab_free(v);
    return NULL;
}

static void free_tables(struct grammar_vocab *v)
{
    free(v->bytes);
    free(v->begins);
    free(v->flags);
    free_trie(&v->all);
    free_trie(&v->leaving);
    free_trie(&v->staying);
    free_trie(&v->outer);
    free(v->outer_groups);
    free(v->openings);
    free(v->opened);
    free_trie(&v->ends);
    free_trie(&v->leaving_odd);
    free(v->group_begins);
    free(v->grouped);
    free_trie(&v->even);
    free_trie(&v->odd);
    free_trie(&v->uneven);
    free(v->inside.items);
    free(v->inside.up_to);
    free(v->plain.items);
    free(v->plain.up_to);
    free(v->text_mask);
    free(v->stops);
    free(v->specials);
}

void grammar_vocab_free(struct grammar_vocab *v)
{
    if (v == NULL)
        return;
    if (!v->is_share)
        free_tables(v);
    free_masks(v->masks);
    grammar_scratch_free(v->scratch);
    grammar_scratch_free(v->aside);
    free(v);
}
