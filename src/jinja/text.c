/* jinja/text.c - texts, and the sink in which they are built. */
#include "jinja/text.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "jinja/run.h"

static struct text *new_text(struct run *run, const char *ptr, size_t len, enum trust trust,
                             struct text_store *store)
{
    struct text *t = jinja_alloc(run, sizeof(*t));
    if (t == NULL)
        return NULL;
    *t = (struct text){
        .ptr = ptr, .len = len, .chars = SIZE_MAX, .trust = trust, .store = store};
    return t;
}

struct text *jinja_text_slice(struct run *run, struct lr_str s, bool trusted)
{
    return new_text(run, s.ptr != NULL ? s.ptr : "", s.len, trusted ? TRUSTED : UNTRUSTED,
                    NULL);
}

struct text *jinja_text_copy(struct run *run, struct lr_str s, bool trusted)
{
    char *bytes = jinja_alloc(run, s.len);
    if (bytes == NULL)
        return NULL;
    if (s.len != 0)
        memcpy(bytes, s.ptr, s.len);
    return jinja_text_slice(run, lr_str(bytes, s.len), trusted);
}

struct text *jinja_text_z(struct run *run, const char *literal)
{
    return jinja_text_slice(run, lr_str_z(literal), true);
}

static size_t count_chars(const char *s, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

size_t jinja_text_chars(struct text *t)
{
    if (t->chars == SIZE_MAX)
        t->chars = count_chars(t->ptr, t->len);
    return t->chars;
}

bool jinja_text_is_ascii(struct text *t)
{
    return jinja_text_chars(t) == t->len;
}

uint32_t jinja_text_hash(struct text *t)
{
    if (t->hash != 0)
        return t->hash;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < t->len; i++)
        h = (h ^ (unsigned char)t->ptr[i]) * 16777619u;
    t->hash = h != 0 ? h : 1;
    return t->hash;
}

size_t jinja_text_offset(struct text *t, size_t index)
{
    if (jinja_text_is_ascii(t))
        return index < t->len ? index : t->len;
    size_t at = 0;
    while (at < t->len) {
        if (((unsigned char)t->ptr[at] & 0xC0) != 0x80) {
            if (index == 0)
                return at;
            index--;
        }
        at++;
    }
    return t->len;
}

size_t jinja_find(struct lr_str s, struct lr_str part)
{
    if (part.len == 0)
        return 0;
    if (part.len > s.len)
        return LR_STR_NONE;
    const char *hit = memmem(s.ptr, s.len, part.ptr, part.len);
    return hit != NULL ? (size_t)(hit - s.ptr) : LR_STR_NONE;
}

/* Up to this length the naive search is fast enough. */
enum { SHORT_PART = 16 };

bool jinja_backwards(struct run *run, struct lr_str s, struct lr_str part,
                     struct backwards *out)
{
    *out = (struct backwards){.s = s, .part = part, .at = s.len};
    if (part.len <= SHORT_PART || part.len > s.len)
        return true;
    char *reversed = jinja_alloc(run, s.len + part.len);
    if (reversed == NULL)
        return false;
    for (size_t i = 0; i < s.len; i++)
        reversed[i] = s.ptr[s.len - 1 - i];
    for (size_t i = 0; i < part.len; i++)
        reversed[s.len + i] = part.ptr[part.len - 1 - i];
    out->reversed = reversed;
    return true;
}

bool jinja_find_before(struct backwards *b)
{
    if (b->part.len > b->at)
        return false;
    if (b->reversed != NULL) {
        size_t done = b->s.len - b->at;
        size_t hit = jinja_find(lr_str(b->reversed + done, b->at),
                                lr_str(b->reversed + b->s.len, b->part.len));
        if (hit == LR_STR_NONE)
            return false;
        b->at -= hit + b->part.len;
        return true;
    }
    for (size_t at = b->at - b->part.len + 1; at-- > 0;) {
        if (memcmp(b->s.ptr + at, b->part.ptr, b->part.len) == 0) {
            b->at = at;
            return true;
        }
    }
    return false;
}

/* The last span that starts at or before `offset`. */
static size_t find_span(const struct text_store *store, size_t offset)
{
    size_t low = 0, high = store->span_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (store->spans[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void jinja_text_runs(const struct text *t, size_t from, size_t to,
                     void (*visit)(void *ctx, struct lr_str part, bool trusted), void *ctx)
{
    if (from >= to)
        return;
    if (t->trust != MIXED) {
        visit(ctx, lr_str(t->ptr + from, to - from), t->trust == TRUSTED);
        return;
    }
    const struct text_store *store = t->store;
    size_t base = (size_t)(t->ptr - store->data);
    for (size_t i = find_span(store, base + from); from < to; i++) {
        size_t end = to;
        if (i + 1 < store->span_count && store->spans[i + 1].start - base < to)
            end = store->spans[i + 1].start - base;
        visit(ctx, lr_str(t->ptr + from, end - from), store->spans[i].trusted);
        from = end;
    }
}

struct text *jinja_text_sub(struct run *run, const struct text *t, size_t from, size_t to)
{
    if (to > t->len)
        to = t->len;
    if (from > to)
        from = to;
    enum trust trust = t->trust;
    if (trust == MIXED && from < to) {
        const struct text_store *store = t->store;
        size_t base = (size_t)(t->ptr - store->data);
        size_t i = find_span(store, base + from);
        if (i + 1 >= store->span_count || store->spans[i + 1].start >= base + to)
            trust = store->spans[i].trusted ? TRUSTED : UNTRUSTED;
    }
    /* A slice of one trust gets no store, because appending to it would overwrite its
     * neighbour. */
    struct text_store *store = trust == MIXED ? t->store : NULL;
    struct text *part = new_text(run, t->ptr + from, to - from, trust, store);
    if (part != NULL)
        part->markup = t->markup;
    return part;
}

struct text *jinja_with_markup(struct run *run, struct text *t, bool markup)
{
    if (t == NULL || t->markup == markup)
        return t;
    struct text *copy = jinja_alloc(run, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *t;
    copy->markup = markup;
    return copy;
}

static bool store_span(struct run *run, struct text_store *store, size_t start, bool trusted)
{
    if (store->span_count > 0 && store->spans[store->span_count - 1].trusted == trusted)
        return true;
    if (store->span_count == store->span_capacity) {
        size_t capacity = store->span_capacity == 0 ? 4 : store->span_capacity * 2;
        struct span *spans = jinja_array(run, capacity, sizeof(*spans));
        if (spans == NULL)
            return false;
        if (store->span_count > 0)
            memcpy(spans, store->spans, store->span_count * sizeof(*spans));
        store->spans = spans;
        store->span_capacity = capacity;
    }
    store->spans[store->span_count++] = (struct span){start, trusted};
    return true;
}

struct span_copy {
    struct run *run;
    struct text_store *store;
    size_t at;
    bool ok;
};

static void copy_span(void *ctx, struct lr_str part, bool trusted)
{
    struct span_copy *copy = ctx;
    copy->ok = copy->ok && store_span(copy->run, copy->store, copy->at, trusted);
    copy->at += part.len;
}

static bool add_spans(struct run *run, struct text_store *store, size_t at,
                      const struct text *t)
{
    struct span_copy copy = {run, store, at, true};
    jinja_text_runs(t, 0, t->len, copy_span, &copy);
    return copy.ok;
}

/* Reserves double space only for a text that has grown before: most sums have two or three
 * parts. */
static struct text_store *new_store(struct run *run, const struct text *first, size_t need,
                                    bool again)
{
    struct text_store *store = jinja_alloc(run, sizeof(*store));
    size_t capacity = need + (again ? need : need / 4) + 32;
    char *data = store != NULL ? jinja_alloc(run, capacity) : NULL;
    if (data == NULL)
        return NULL;
    memcpy(data, first->ptr, first->len);
    *store = (struct text_store){.data = data, .used = first->len, .capacity = capacity};
    return store;
}

struct text *jinja_text_concat(struct run *run, struct text *a, const struct text *b)
{
    if (b->len == 0)
        return a;
    if (a->len == 0)
        return jinja_text_sub(run, b, 0, b->len);
    if (!jinja_charge_bytes(run, b->len))
        return NULL;
    struct text_store *store = a->store;
    bool at_end = store != NULL && a->ptr + a->len == store->data + store->used;
    bool fresh = !at_end || store->capacity - store->used < b->len;
    if (fresh) {
        if (!jinja_charge_bytes(run, a->len))
            return NULL;
        store = new_store(run, a, a->len + b->len, at_end);
        if (store == NULL)
            return NULL;
    }
    enum trust trust = a->trust == b->trust ? a->trust : MIXED;
    if (trust == MIXED) {
        /* A store with texts of one trust so far gets its first spans now. */
        if ((fresh || store->span_count == 0) &&
            !add_spans(run, store, fresh ? 0 : (size_t)(a->ptr - store->data), a))
            return NULL;
        if (!add_spans(run, store, store->used, b))
            return NULL;
    }
    const char *start = fresh ? store->data : a->ptr;
    memcpy(store->data + store->used, b->ptr, b->len);
    store->used += b->len;
    struct text *sum = new_text(run, start, a->len + b->len, trust, store);
    if (sum != NULL)
        sum->markup = a->markup;
    return sum;
}

/* ---- the sink ---- */

struct mark jinja_mark(const struct run *run)
{
    return (struct mark){run->sink.bytes.len, run->sink.span_count};
}

void jinja_drop(struct run *run, struct mark mark)
{
    run->sink.bytes.len = mark.bytes;
    run->sink.span_count = mark.spans;
}

static bool sink_span(struct run *run, size_t first, bool trusted)
{
    struct sink *sink = &run->sink;
    if (sink->span_count == sink->span_capacity) {
        size_t capacity = sink->span_capacity == 0 ? 64 : sink->span_capacity * 2;
        if (capacity * sizeof(struct span) > run->max_memory / 4)
            return !is_fail(jinja_error_memory(run));
        struct span *spans = realloc(sink->spans, capacity * sizeof(*spans));
        if (spans == NULL)
            return !is_fail(jinja_error_memory(run));
        sink->spans = spans;
        sink->span_capacity = capacity;
    }
    sink->spans[sink->span_count++] = (struct span){first, trusted};
    return true;
}

void jinja_write(struct run *run, struct lr_str s, bool trusted)
{
    struct sink *sink = &run->sink;
    if (s.len == 0 || !jinja_charge_bytes(run, s.len))
        return;
    size_t n = sink->span_count;
    /* A span of the outer writer may be continued: jinja_take starts at the mark. */
    if ((n == 0 || sink->spans[n - 1].trusted != trusted) &&
        !sink_span(run, sink->bytes.len, trusted))
        return;
    lr_buf_add_str(&sink->bytes, s);
    if (sink->bytes.failed)
        (void)jinja_error_code(run, LR_TOO_LARGE,
                               "its output is longer than the %zu bytes allowed",
                               run->max_output);
}

void jinja_write_z(struct run *run, const char *literal, bool trusted)
{
    jinja_write(run, lr_str_z(literal), trusted);
}

static void write_run(void *ctx, struct lr_str part, bool trusted)
{
    jinja_write(ctx, part, trusted);
}

void jinja_write_part(struct run *run, const struct text *t, size_t from, size_t to)
{
    jinja_text_runs(t, from, to, write_run, run);
}

void jinja_write_text(struct run *run, const struct text *t)
{
    jinja_write_part(run, t, 0, t->len);
}

/* The trust of everything above the mark. */
static enum trust trust_above(const struct sink *sink, struct mark mark)
{
    bool any[2] = {false, false};
    size_t first = mark.spans;
    if (first > 0 && (first == sink->span_count || sink->spans[first].start > mark.bytes))
        first--;
    for (size_t i = first; i < sink->span_count; i++)
        any[sink->spans[i].trusted] = true;
    if (any[0] && any[1])
        return MIXED;
    return any[0] ? UNTRUSTED : TRUSTED;
}

struct text *jinja_take(struct run *run, struct mark mark)
{
    struct sink *sink = &run->sink;
    if (run->failed)
        return NULL;
    size_t len = sink->bytes.len - mark.bytes;
    enum trust trust = len == 0 ? TRUSTED : trust_above(sink, mark);
    char *data = jinja_alloc(run, len);
    if (data == NULL)
        return NULL;
    if (len > 0)
        memcpy(data, sink->bytes.data + mark.bytes, len);
    struct text *t = new_text(run, data, len, trust, NULL);
    if (t != NULL && trust == MIXED) {
        t->store = jinja_alloc(run, sizeof(*t->store));
        if (t->store == NULL)
            return NULL;
        *t->store = (struct text_store){.data = data, .used = len, .capacity = len};
        size_t first = mark.spans;
        if (first > 0 && sink->spans[first].start > mark.bytes)
            first--;
        for (size_t i = first; i < sink->span_count; i++) {
            size_t start = sink->spans[i].start;
            start = start > mark.bytes ? start - mark.bytes : 0;
            if (!store_span(run, t->store, start, sink->spans[i].trusted))
                return NULL;
        }
    }
    jinja_drop(run, mark);
    return t;
}

struct text *jinja_take_whole(struct run *run, struct mark mark)
{
    struct text *t = jinja_take(run, mark);
    if (t != NULL && t->trust == MIXED) {
        t->trust = UNTRUSTED;
        t->store = NULL;
    }
    return t;
}
