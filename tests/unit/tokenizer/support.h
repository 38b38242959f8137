/* tests/unit/tokenizer/support.h - small tokenizers for tests.
 *
 * A generated tokenizer.json has the 256 bytes as ids 0 to 255 (id = byte), then the tokens
 * that its merges make, in order, then the test's added tokens.
 */
#ifndef TESTS_UNIT_TOKENIZER_SUPPORT_H
#define TESTS_UNIT_TOKENIZER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#define O200K_SPLIT                                                                            \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"              \
    "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"                             \
    "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*"    \
    "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":"     \
    "false}"
#define BYTE_LEVEL                                                                             \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"                \
    "\"use_regex\":false}"
#define O200K_SEQUENCE                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" O200K_SPLIT "," BYTE_LEVEL "]}"

/* One merge: both halves as bytes. */
struct made_merge {
    const char *left;
    const char *right;
};

struct made {
    const struct made_merge *merges;
    size_t merge_count;
    const char *pre_tokenizer; /* JSON; NULL: BYTE_LEVEL, which does not split */
    const char *added;         /* JSON members of added_tokens; NULL: none */
    const char *extra;         /* JSON members for "model", each ending in ','; NULL: none */
    bool joined_merges;        /* "a b" instead of ["a","b"] */
};

/* The character that byte-level BPE writes for a byte. */
static inline void add_letter(struct lr_buf *out, unsigned char byte)
{
    uint32_t c = byte;
    char utf8[4];
    if (byte <= 0x20)
        c = 0x100u + byte;
    else if (byte >= 0x7F && byte <= 0xA0)
        c = 0x121u + byte - 0x7F;
    else if (byte == 0xAD)
        c = 0x143;
    if (c == '"' || c == '\\')
        lr_buf_add_char(out, '\\');
    lr_buf_add(out, utf8, lr_utf8_encode(c, utf8));
}

static inline void add_letters(struct lr_buf *out, const char *bytes)
{
    for (; *bytes != '\0'; bytes++)
        add_letter(out, (unsigned char)*bytes);
}

static inline bool same_result(const struct made_merge *a, const struct made_merge *b)
{
    size_t left = strlen(a->left), len = left + strlen(a->right), other = strlen(b->left);
    if (len != other + strlen(b->right))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((i < left ? a->left[i] : a->right[i - left]) !=
            (i < other ? b->left[i] : b->right[i - other]))
            return false;
    return true;
}

static inline void make_json(const struct made *m, struct lr_buf *out)
{
    lr_buf_init(out, 16 << 20);
    lr_buf_addf(
        out,
        "{\"version\":\"1.0\",\"added_tokens\":[%s],\"normalizer\":null,"
        "\"pre_tokenizer\":%s,\"decoder\":null,\"model\":{\"type\":\"BPE\",%s\"vocab\":{",
        m->added != NULL ? m->added : "",
        m->pre_tokenizer != NULL ? m->pre_tokenizer : BYTE_LEVEL,
        m->extra != NULL ? m->extra : "");
    for (int b = 0; b < 256; b++) {
        lr_buf_add_z(out, b != 0 ? ",\"" : "\"");
        add_letter(out, (unsigned char)b);
        lr_buf_addf(out, "\":%d", b);
    }
    size_t next = 256;
    for (size_t i = 0; i < m->merge_count; i++) {
        bool known = false; /* another merge makes the same token */
        for (size_t j = 0; j < i; j++)
            known = known || same_result(&m->merges[i], &m->merges[j]);
        if (known)
            continue;
        lr_buf_add_z(out, ",\"");
        add_letters(out, m->merges[i].left);
        add_letters(out, m->merges[i].right);
        lr_buf_addf(out, "\":%zu", next++);
    }
    lr_buf_add_z(out, "},\"merges\":[");
    for (size_t i = 0; i < m->merge_count; i++) {
        lr_buf_add_z(out, i != 0 ? "," : "");
        lr_buf_add_z(out, m->joined_merges ? "\"" : "[\"");
        add_letters(out, m->merges[i].left);
        lr_buf_add_z(out, m->joined_merges ? " " : "\",\"");
        add_letters(out, m->merges[i].right);
        lr_buf_add_z(out, m->joined_merges ? "\"" : "\"]");
    }
    lr_buf_add_z(out, "]}}");
    assert_false(out->failed);
}

static inline struct tokenizer *make_tokenizer(const struct made *m)
{
    struct lr_buf json;
    struct lr_error err = {0};
    struct tokenizer *t = NULL;
    make_json(m, &json);
    if (tokenizer_open_text(lr_buf_str(&json), &t, &err) != LR_OK)
        fail_msg("%s", err.text);
    lr_buf_free(&json);
    return t;
}

static inline void expect_ids(const struct tokenizer_ids *ids, const uint32_t *want,
                              size_t count, const char *what)
{
    bool same = ids->count == count;
    for (size_t i = 0; same && i < count; i++)
        same = ids->items[i] == want[i];
    if (same)
        return;
    struct lr_buf text;
    lr_buf_init(&text, 1 << 20);
    for (size_t i = 0; i < ids->count && i < 60; i++)
        lr_buf_addf(&text, " %u", ids->items[i]);
    lr_buf_add_z(&text, "; wanted");
    for (size_t i = 0; i < count && i < 60; i++)
        lr_buf_addf(&text, " %u", want[i]);
    print_error("%s: got%s\n", what, lr_buf_z(&text));
    lr_buf_free(&text);
    fail();
}

static inline void encode(const struct tokenizer *t, struct lr_str text, bool control,
                          struct tokenizer_ids *ids)
{
    struct lr_error err = {0};
    ids->count = 0;
    if (tokenizer_encode(t, text, control, ids, &err) != LR_OK)
        fail_msg("%s", err.text);
}

static inline void expect_encoding(const struct tokenizer *t, const char *text, bool control,
                                   const uint32_t *want, size_t count)
{
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, 1 << 24);
    encode(t, lr_str_z(text), control, &ids);
    expect_ids(&ids, want, count, text);
    tokenizer_ids_free(&ids);
}

#define EXPECT_IDS(t, text, control, ...)                                                      \
    expect_encoding(t, text, control, (const uint32_t[]){__VA_ARGS__},                         \
                    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
