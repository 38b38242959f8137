/* base/json_read.c - the JSON parser.
 *
 * One pass, no recursion: open containers sit on a stack of at most max_depth
 * levels, and finished values wait on one shared stack until their container
 * closes and copies them, in order, into the arena.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "base/strmap.h"
#include "base/utf8.h"

/* A value with the key it has when it sits in an object. */
struct pending {
    struct lr_str key;
    struct lr_json value;
};

struct level {
    size_t first; /* index of its first value on the pending stack */
    bool object;
};

struct parser {
    struct lr_arena *arena;
    struct lr_str text;
    size_t at;
    struct pending *pending; /* owned, malloc'ed, because an arena would keep the old copies */
    size_t pending_count;
    size_t pending_capacity;
    struct level *levels; /* owned */
    uint32_t depth;
    uint32_t max_depth;
    struct lr_error *err;
};

static lr_code fail_at(struct parser *p, size_t at, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->text.len; i++) {
        column++;
        if (p->text.ptr[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return lr_fail(p->err, LR_INVALID_ARGUMENT, "JSON line %zu column %zu: %s", line, column,
                   what);
}

static lr_code fail_twice(struct parser *p, struct lr_str key)
{
    char what[160];
    (void)snprintf(what, sizeof(what), "an object has the same key twice: \"%.*s\"",
                   key.len < 100 ? (int)key.len : 100, key.ptr != NULL ? key.ptr : "");
    return fail_at(p, p->at, what);
}

static lr_code fail_memory(struct parser *p)
{
    return lr_fail(p->err, LR_OUT_OF_RAM,
                   "JSON of %zu bytes needs more than the %zu bytes allowed for it",
                   p->text.len, p->arena->limit);
}

static void json_read_skip_blanks(struct parser *p)
{
    const char *text = p->text.ptr;
    size_t at = p->at, len = p->text.len;
    while (at < len && (unsigned char)text[at] <= ' ') {
        char c = text[at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            break;
        at++;
        /* Indentation: eight blanks at a time. */
        for (uint64_t word; len - at >= sizeof(word); at += sizeof(word)) {
            memcpy(&word, text + at, sizeof(word));
            if (word != 0x2020202020202020u)
                break;
        }
    }
    p->at = at;
}

static int hex4(const char *s)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = lr_hex_digit(s[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Reads \uXXXX at text[at..] (at is the 'u'), pairs included; moves *at past it. */
static bool read_unicode(struct lr_str text, size_t *at, uint32_t *code_point)
{
    if (text.len - *at < 5)
        return false;
    int high = hex4(text.ptr + *at + 1);
    if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF))
        return false;
    *at += 5;
    if (high < 0xD800 || high > 0xDBFF) {
        *code_point = (uint32_t)high;
        return true;
    }
    if (text.len - *at < 6 || text.ptr[*at] != '\\' || text.ptr[*at + 1] != 'u')
        return false;
    int low = hex4(text.ptr + *at + 2);
    if (low < 0xDC00 || low > 0xDFFF)
        return false;
    *at += 6;
    *code_point = 0x10000u + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    return true;
}

/* Decodes the raw text between the quotes, which holds at least one escape. */
static lr_code unescape(struct parser *p, size_t start, size_t end, struct lr_str *out)
{
    struct lr_str raw = lr_str_sub(p->text, start, end);
    char *copy =
        lr_arena_alloc(p->arena, raw.len); /* decoding never needs more bytes than the escape */
    if (copy == NULL)
        return fail_memory(p);
    size_t len = 0, at = 0;
    while (at < raw.len) {
        const char *escape = memchr(raw.ptr + at, '\\', raw.len - at);
        size_t plain = escape != NULL ? (size_t)(escape - raw.ptr) - at : raw.len - at;
        memcpy(copy + len, raw.ptr + at, plain);
        len += plain;
        at += plain;
        if (at == raw.len)
            break;
        at++; /* the backslash; the scanner made sure that a byte follows */
        uint32_t code_point;
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *simple = raw.ptr[at] != '\0' ? strchr(from, raw.ptr[at]) : NULL;
        if (simple != NULL) {
            copy[len++] = to[simple - from];
            at++;
        } else if (raw.ptr[at] == 'u' && read_unicode(raw, &at, &code_point)) {
            len += lr_utf8_encode(code_point, copy + len);
        } else {
            return fail_at(p, start + at - 1, "bad escape, or half a surrogate pair");
        }
    }
    *out = lr_str(copy, len);
    return LR_OK;
}

/* p->at is just past the opening quote; leaves it past the closing one.  One pass:
 * plain bytes in steps of eight, UTF-8 checked where it occurs. */
static lr_code json_read_string(struct parser *p, struct lr_str *out)
{
    const char *text = p->text.ptr;
    size_t start = p->at, at = p->at, len = p->text.len;
    bool escaped = false;
    for (;;) {
        at += lr_json_plain_len(text + at, len - at);
        if (at == len)
            return fail_at(p, start - 1, "string without an end");
        unsigned char c = (unsigned char)text[at];
        if (c == '"')
            break;
        if (c == '\\') {
            escaped = true;
            at += 2; /* unescape checks the escape later */
            if (at > len)
                return fail_at(p, start - 1, "string without an end");
        } else if (c < 0x20) {
            return fail_at(p, at, "control character in a string");
        } else {
            size_t step = lr_utf8_step(text + at, len - at);
            if (step == 0)
                return fail_at(p, at, "not UTF-8");
            at += step;
        }
    }
    p->at = at + 1;
    if (escaped)
        return unescape(p, start, at, out);
    *out = lr_str(text + start, at - start);
    return LR_OK;
}

static bool digit_at(const struct parser *p, size_t at)
{
    return at < p->text.len && p->text.ptr[at] >= '0' && p->text.ptr[at] <= '9';
}

static lr_code json_read_number(struct parser *p, struct lr_json *out)
{
    size_t start = p->at, at = p->at;
    if (p->text.ptr[at] == '-')
        at++;
    if (!digit_at(p, at))
        return fail_at(p, start, "expected a value");
    if (p->text.ptr[at] == '0' && digit_at(p, at + 1))
        return fail_at(p, start, "number with a leading zero");
    while (digit_at(p, at))
        at++;
    if (at < p->text.len && p->text.ptr[at] == '.') {
        if (!digit_at(p, ++at))
            return fail_at(p, at, "expected a digit after the point");
        while (digit_at(p, at))
            at++;
    }
    if (at < p->text.len && (p->text.ptr[at] == 'e' || p->text.ptr[at] == 'E')) {
        at++;
        if (at < p->text.len && (p->text.ptr[at] == '+' || p->text.ptr[at] == '-'))
            at++;
        if (!digit_at(p, at))
            return fail_at(p, at, "expected a digit in the exponent");
        while (digit_at(p, at))
            at++;
    }
    *out = (struct lr_json){.type = LR_JSON_NUMBER, .text = lr_str_sub(p->text, start, at)};
    p->at = at;
    return LR_OK;
}

static bool read_word(struct parser *p, const char *word)
{
    if (!lr_str_starts(lr_str_sub(p->text, p->at, p->text.len), word))
        return false;
    p->at += strlen(word);
    return true;
}

static lr_code read_scalar(struct parser *p, struct lr_json *out)
{
    char c = p->text.ptr[p->at];
    *out = (struct lr_json){.type = LR_JSON_NULL};
    if (c == '"') {
        p->at++;
        out->type = LR_JSON_STRING;
        return json_read_string(p, &out->text);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return json_read_number(p, out);
    if (read_word(p, "null"))
        return LR_OK;
    out->type = LR_JSON_BOOL;
    out->boolean = true;
    if (read_word(p, "true"))
        return LR_OK;
    out->boolean = false;
    if (read_word(p, "false"))
        return LR_OK;
    return fail_at(p, p->at, "expected a value");
}

static lr_code push_pending(struct parser *p, struct lr_str key)
{
    if (p->pending_count == p->pending_capacity) {
        size_t capacity = p->pending_capacity == 0 ? 32 : p->pending_capacity * 2;
        /* The stack counts towards the arena's limit; otherwise a flat array could exceed
         * it. */
        if (capacity > p->arena->limit / sizeof(*p->pending) + 32)
            return fail_memory(p);
        struct pending *grown = realloc(p->pending, capacity * sizeof(*grown));
        if (grown == NULL)
            return fail_memory(p);
        p->pending = grown;
        p->pending_capacity = capacity;
    }
    p->pending[p->pending_count++] = (struct pending){.key = key};
    return LR_OK;
}

enum { PAIRWISE = 12 };

/* Looks for a repeated key by comparing all pairs. */
static lr_code close_small(struct parser *p, const struct pending *values, uint32_t count,
                           struct lr_json_member *members)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (lr_str_eq(values[i].key, values[j].key))
                return fail_twice(p, values[i].key);
        members[i] = (struct lr_json_member){values[i].key, values[i].value};
    }
    return LR_OK;
}

/* Gives a large object a hash table, so that n keys cost O(n) to check and O(1) each to find.
 * The hash is seeded, so that a client cannot make keys collide. */
static lr_code close_large(struct parser *p, const struct pending *values, uint32_t count,
                           uint32_t *slots, struct lr_json_member *members)
{
    size_t size = lr_json_slots(count);
    memset(slots, 0xFF, size * sizeof(*slots));
    for (uint32_t i = 0; i < count; i++) {
        size_t slot = lr_hash(values[i].key) & (size - 1);
        for (; slots[slot] != UINT32_MAX; slot = (slot + 1) & (size - 1))
            if (lr_str_eq(values[slots[slot]].key, values[i].key))
                return fail_twice(p, values[i].key);
        slots[slot] = i;
        members[i] = (struct lr_json_member){values[i].key, values[i].value};
    }
    return LR_OK;
}

static lr_code close_object(struct parser *p, const struct pending *values,
                            struct lr_json *done)
{
    done->indexed = done->count > PAIRWISE;
    /* A multiple of 128 bytes: the members behind the table stay aligned. */
    size_t table = done->indexed ? lr_json_slots(done->count) * sizeof(uint32_t) : 0;
    char *block = lr_arena_alloc(p->arena, table + done->count * sizeof(*done->members));
    if (block == NULL)
        return fail_memory(p);
    struct lr_json_member *members = (struct lr_json_member *)(void *)(block + table);
    done->members = members;
    return done->indexed
               ? close_large(p, values, done->count, (uint32_t *)(void *)block, members)
               : close_small(p, values, done->count, members);
}

static lr_code close_array(struct parser *p, const struct pending *values, struct lr_json *done)
{
    struct lr_json *items = lr_arena_array(p->arena, done->count, sizeof(*items));
    if (items == NULL)
        return fail_memory(p);
    for (uint32_t i = 0; i < done->count; i++)
        items[i] = values[i].value;
    done->items = items;
    return LR_OK;
}

/* Moves the values of the innermost container from the stack into the arena and
 * leaves the container itself on the stack. */
static lr_code close_container(struct parser *p)
{
    struct level level = p->levels[--p->depth];
    size_t count = p->pending_count - level.first;
    const struct pending *values = p->pending + level.first;
    struct lr_json done = {.type = level.object ? LR_JSON_OBJECT : LR_JSON_ARRAY};
    if (count >= UINT32_MAX)
        return fail_memory(p);
    done.count = (uint32_t)count;
    lr_code code =
        level.object ? close_object(p, values, &done) : close_array(p, values, &done);
    if (code != LR_OK)
        return code;
    p->pending_count = level.first;
    p->pending[level.first - 1].value = done;
    return LR_OK;
}

static lr_code json_read_key(struct parser *p, struct lr_str *key)
{
    json_read_skip_blanks(p);
    if (p->at == p->text.len || p->text.ptr[p->at] != '"')
        return fail_at(p, p->at, "expected a key in quotes");
    p->at++;
    lr_code code = json_read_string(p, key);
    if (code != LR_OK)
        return code;
    json_read_skip_blanks(p);
    if (p->at == p->text.len || p->text.ptr[p->at] != ':')
        return fail_at(p, p->at, "expected ':' after the key");
    p->at++;
    return LR_OK;
}

/* Reads one value: a scalar, or the opening of a container, which stays open. */
static lr_code json_read_begin_value(struct parser *p, struct lr_str key, bool *opened)
{
    *opened = false;
    json_read_skip_blanks(p);
    if (p->at == p->text.len)
        return fail_at(p, p->at, "expected a value, found the end");
    lr_code code = push_pending(p, key);
    if (code != LR_OK)
        return code;
    char c = p->text.ptr[p->at];
    if (c != '{' && c != '[')
        return read_scalar(p, &p->pending[p->pending_count - 1].value);
    if (p->depth == p->max_depth)
        return fail_at(p, p->at, "nested too deeply");
    p->levels[p->depth++] = (struct level){.first = p->pending_count, .object = c == '{'};
    p->at++;
    *opened = true;
    return LR_OK;
}

/* After a value: closes the containers that end here.  *next is set when another value of the
 * innermost container follows. */
static lr_code after_value(struct parser *p, bool *next)
{
    *next = false;
    while (p->depth != 0) {
        bool object = p->levels[p->depth - 1].object;
        json_read_skip_blanks(p);
        char c = p->at < p->text.len ? p->text.ptr[p->at] : '\0';
        if (c == ',') {
            p->at++;
            *next = true;
            return LR_OK;
        }
        if (c != (object ? '}' : ']'))
            return fail_at(p, p->at, object ? "expected ',' or '}'" : "expected ',' or ']'");
        p->at++;
        lr_code code = close_container(p);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

static lr_code parse_all(struct parser *p)
{
    struct lr_str key = {0};
    for (;;) {
        bool opened, next;
        lr_code code = json_read_begin_value(p, key, &opened);
        if (code != LR_OK)
            return code;
        if (opened) {
            json_read_skip_blanks(p);
            char closing = p->levels[p->depth - 1].object ? '}' : ']';
            next = p->at == p->text.len || p->text.ptr[p->at] != closing;
        }
        if (!opened || !next) {
            code = after_value(p, &next);
            if (code != LR_OK)
                return code;
            if (!next)
                return LR_OK;
        }
        key = lr_str(NULL, 0);
        if (p->levels[p->depth - 1].object) {
            code = json_read_key(p, &key);
            if (code != LR_OK)
                return code;
        }
    }
}

lr_code lr_json_parse(struct lr_arena *arena, struct lr_str text,
                      const struct lr_json_limits *limits, const struct lr_json **out,
                      struct lr_error *err)
{
    *out = NULL;
    struct parser p = {.arena = arena, .text = text, .err = err, .max_depth = LR_JSON_DEPTH};
    if (limits != NULL && limits->max_depth != 0)
        p.max_depth = limits->max_depth;
    if (limits != NULL && limits->max_bytes != 0 && text.len > limits->max_bytes)
        return lr_fail(err, LR_TOO_LARGE, "JSON of %zu bytes, limit %zu", text.len,
                       limits->max_bytes);

    lr_code code = LR_OK;
    struct lr_json *root = lr_arena_alloc(arena, sizeof(*root));
    p.levels = malloc(sizeof(*p.levels) * p.max_depth);
    if (root == NULL || p.levels == NULL)
        code = fail_memory(&p);
    if (code == LR_OK)
        code = parse_all(&p);
    if (code == LR_OK) {
        json_read_skip_blanks(&p);
        if (p.at != text.len)
            code = fail_at(&p, p.at, "something follows the value");
    }
    if (code == LR_OK) {
        *root = p.pending[0].value;
        *out = root;
    }
    free(p.pending);
    free(p.levels);
    return code;
}
