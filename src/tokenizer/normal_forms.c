/* tokenizer/normal_forms.c - the normal forms NFC, NFD, NFKC and NFKD.
 *
 * A character is stable if it is its own normal form, orders as 0 and is never the second of a
 * composed pair: nothing before it can change it.  Text is copied, except from a stable
 * character with unstable ones behind it to the next stable one: such a cluster is decomposed,
 * its marks are put in order and, for the C forms, composed.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "tokenizer/chars.h"
#include "tokenizer/normal.h"

enum {
    CHARACTERS = 0x110000,
    DECOMPOSED_MAX = 18, /* the most characters that one character decomposes to (U+FDFA) */
    INSERTION_MAX = 16,  /* marks in one run up to which insertion is the fastest order */
};

static const int options[] = {
    [NORMAL_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [NORMAL_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [NORMAL_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [NORMAL_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

struct cluster {
    utf8proc_int32_t *chars; /* owned */
    utf8proc_int32_t *spare; /* owned */
    size_t count;
    size_t capacity;
};

static bool is_stable(const struct normal_step *s, uint32_t c)
{
    return (s->stable[c >> 6] >> (c & 63) & 1) != 0;
}

static size_t decompose(int form, uint32_t c, utf8proc_int32_t *out)
{
    int how = (form & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE, boundary = 0;
    utf8proc_ssize_t count =
        tokenizer_char_has_form(c)
            ? utf8proc_decompose_char((utf8proc_int32_t)c, out, DECOMPOSED_MAX,
                                      (utf8proc_option_t)how, &boundary)
            : 0;
    if (count >= 1 && count <= DECOMPOSED_MAX)
        return (size_t)count;
    out[0] = (utf8proc_int32_t)c;
    return 1;
}

static lr_code no_memory(size_t count, struct lr_error *err)
{
    return lr_fail(err, LR_OUT_OF_RAM, "no memory to normalize %zu characters", count);
}

static lr_code add(struct cluster *k, int form, uint32_t c, struct lr_error *err)
{
    if (k->capacity - k->count < DECOMPOSED_MAX) {
        size_t capacity = k->capacity * 2 + 256;
        utf8proc_int32_t *chars = realloc(k->chars, capacity * sizeof(*chars));
        if (chars != NULL)
            k->chars = chars;
        utf8proc_int32_t *spare = realloc(k->spare, capacity * sizeof(*spare));
        if (spare != NULL)
            k->spare = spare;
        if (chars == NULL || spare == NULL)
            return no_memory(capacity, err);
        k->capacity = capacity;
    }
    k->count += decompose(form, c, k->chars + k->count);
    return LR_OK;
}

/* Sorts marks by their order; equal ones keep their places. */
static void sort_marks(utf8proc_int32_t *marks, utf8proc_int32_t *spare, size_t count)
{
    if (count <= INSERTION_MAX) {
        for (size_t i = 1; i < count; i++) {
            utf8proc_int32_t mark = marks[i];
            unsigned char order = tokenizer_char_order((uint32_t)mark);
            size_t at = i;
            for (; at > 0 && tokenizer_char_order((uint32_t)marks[at - 1]) > order; at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++)
        starts[tokenizer_char_order((uint32_t)marks[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        spare[starts[tokenizer_char_order((uint32_t)marks[i])]++] = marks[i];
    memcpy(marks, spare, count * sizeof(*marks));
}

static void order_marks(struct cluster *k)
{
    for (size_t i = 0; i < k->count;) {
        if (tokenizer_char_order((uint32_t)k->chars[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < k->count && tokenizer_char_order((uint32_t)k->chars[end]) != 0)
            end++;
        sort_marks(k->chars + i, k->spare, end - i);
        i = end;
    }
}

/* Normalizes text[from..to). */
static lr_code emit_cluster(const struct normal_step *s, struct normal_io *io,
                            struct cluster *k, size_t from, size_t to)
{
    lr_code rc = LR_OK;
    size_t len;
    k->count = 0;
    for (size_t at = from; rc == LR_OK && at < to; at += len)
        rc = add(k, s->form, char_at(io->text.ptr + at, &len), io->err);
    if (rc != LR_OK)
        return rc;
    order_marks(k);
    size_t count = k->count;
    if ((s->form & UTF8PROC_COMPOSE) != 0) {
        utf8proc_ssize_t left = utf8proc_normalize_utf32(k->chars, (utf8proc_ssize_t)k->count,
                                                         (utf8proc_option_t)s->form);
        count = left > 0 ? (size_t)left : 0;
    }
    for (size_t i = 0; i < count; i++)
        tokenizer_normal_emit_char(io, (uint32_t)k->chars[i], from, to);
    return LR_OK;
}

static lr_code normalize(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    struct cluster k = {0};
    lr_code rc = LR_OK;
    size_t kept = 0, last = 0, at = 0, len; /* last: the stable character before `at` */
    while (rc == LR_OK && at < text.len) {
        if ((unsigned char)text.ptr[at] < 0x80) {
            last = at++;
            continue;
        }
        if (is_stable(s, char_at(text.ptr + at, &len))) {
            last = at;
            at += len;
            continue;
        }
        do
            at += len;
        while (at < text.len && !is_stable(s, char_at(text.ptr + at, &len)));
        normal_keep(io, kept, last);
        rc = emit_cluster(s, io, &k, last, at);
        kept = last = at;
    }
    normal_keep(io, kept, text.len);
    free(k.chars);
    free(k.spare);
    return rc;
}

/* ---- which characters are stable ---- */

static void clear(uint64_t *bits, uint32_t c)
{
    bits[c >> 6] &= ~((uint64_t)1 << (c & 63));
}

static void find_stable(struct normal_step *s)
{
    utf8proc_int32_t parts[DECOMPOSED_MAX];
    bool composes = (s->form & UTF8PROC_COMPOSE) != 0;
    memset(s->stable, 0xFF, CHARACTERS / 8);
    for (uint32_t c = 0x80; c < CHARACTERS; c++) {
        const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
        bool is_hangul = c >= 0xAC00 && c < 0xD7A4;
        if (property->combining_class != 0)
            clear(s->stable, c);
        if (property->decomp_seqindex == UINT16_MAX && !is_hangul)
            continue;
        size_t count = decompose(s->form, c, parts);
        bool same = count == 1 && (uint32_t)parts[0] == c;
        if (composes && !same) {
            size_t canonical = decompose(UTF8PROC_STABLE, c, parts);
            for (size_t i = 1; i < canonical; i++)
                clear(s->stable, (uint32_t)parts[i]);
            count = decompose(s->form, c, parts);
            same = utf8proc_normalize_utf32(parts, (utf8proc_ssize_t)count,
                                            (utf8proc_option_t)s->form) == 1 &&
                   (uint32_t)parts[0] == c;
        }
        if (!same)
            clear(s->stable, c);
    }
}

lr_code tokenizer_normal_forms_init(struct normal_step *s, int form, struct lr_error *err)
{
    s->apply = normalize;
    s->form = options[form];
    s->stable = malloc(CHARACTERS / 8);
    if (s->stable == NULL)
        return no_memory(CHARACTERS, err);
    find_stable(s);
    return LR_OK;
}

lr_code tokenizer_normal_read_nfc(struct normal_step *s, const struct lr_json *json,
                                  struct lr_error *err)
{
    (void)json;
    return tokenizer_normal_forms_init(s, NORMAL_NFC, err);
}

lr_code tokenizer_normal_read_nfd(struct normal_step *s, const struct lr_json *json,
                                  struct lr_error *err)
{
    (void)json;
    return tokenizer_normal_forms_init(s, NORMAL_NFD, err);
}

lr_code tokenizer_normal_read_nfkc(struct normal_step *s, const struct lr_json *json,
                                   struct lr_error *err)
{
    (void)json;
    return tokenizer_normal_forms_init(s, NORMAL_NFKC, err);
}

lr_code tokenizer_normal_read_nfkd(struct normal_step *s, const struct lr_json *json,
                                   struct lr_error *err)
{
    (void)json;
    return tokenizer_normal_forms_init(s, NORMAL_NFKD, err);
}
