/* tokenizer/charsmap.c - Precompiled: the character map of a SentencePiece model.
 *
 * The map is a double array trie (darts-clone's format) whose values are offsets of texts.  As
 * in the reference, a grapheme of less than six bytes is looked up as a whole first, the
 * shortest key that it begins with decides, and the whole grapheme is replaced; otherwise the
 * same is done with each of its characters.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/normal.h"

enum {
    MAP_MAX = 16 << 20,  /* bytes of base64 */
    WHOLE_GRAPHEME = 6,  /* graphemes with fewer bytes are looked up as a whole */
    UNIT_LEAF = 1 << 8,  /* this node has a value */
    UNIT_SHIFT = 1 << 9, /* the offset is 256 times as large */
};

#define UNIT_LABEL 0x800000FFu
#define UNIT_VALUE 0x7FFFFFFFu

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & UNIT_SHIFT) >> 6);
}

/* The replacement by the shortest key that bytes[0..len) begins with; false: none. */
static bool look_up(const struct charsmap *m, const char *bytes, size_t len,
                    struct lr_str *replacement)
{
    uint32_t node = unit_offset(m->units[0]);
    for (size_t i = 0; i < len && bytes[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        node ^= byte;
        if (node >= m->unit_count || (m->units[node] & UNIT_LABEL) != byte)
            return false;
        uint32_t unit = m->units[node];
        node ^= unit_offset(unit);
        if (node >= m->unit_count)
            return false;
        if ((unit & UNIT_LEAF) == 0)
            continue;
        uint32_t at = m->units[node] & UNIT_VALUE;
        if (at > m->text_bytes || ((unsigned char)m->texts[at] & 0xC0) == 0x80)
            return false;
        *replacement = lr_str(m->texts + at, strlen(m->texts + at));
        return true;
    }
    return false;
}

static void replace(const struct charsmap *m, struct normal_io *io, size_t from, size_t to)
{
    struct lr_str by;
    if (to - from < WHOLE_GRAPHEME && look_up(m, io->text.ptr + from, to - from, &by)) {
        tokenizer_normal_emit(io, by.ptr, by.len, from, to);
        return;
    }
    for (size_t len; from < to; from += len) {
        (void)char_at(io->text.ptr + from, &len);
        if (look_up(m, io->text.ptr + from, len, &by))
            tokenizer_normal_emit(io, by.ptr, by.len, from, from + len);
        else
            normal_keep(io, from, from + len);
    }
}

static lr_code apply_map(const struct normal_step *s, struct normal_io *io)
{
    struct lr_str text = io->text;
    size_t from = 0, at = 0, len;
    utf8proc_int32_t state = 0, before = -1;
    for (; at < text.len; at += len) {
        uint32_t c = char_at(text.ptr + at, &len);
        bool plain = c < 0x300 && before >= 0 && before < 0x300 && c != 0xAD && before != 0xAD;
        /* Below U+0300 only CR LF is a grapheme of two characters. */
        bool breaks =
            at == 0 ||
            (plain ? !(before == '\r' && c == '\n')
                   : utf8proc_grapheme_break_stateful(before, (utf8proc_int32_t)c, &state));
        if (plain)
            state = 0;
        if (breaks && at != 0) {
            replace(&s->map, io, from, at);
            from = at;
        }
        before = (utf8proc_int32_t)c;
    }
    if (from < text.len)
        replace(&s->map, io, from, text.len);
    return LR_OK;
}

static lr_code keep_all(const struct normal_step *s, struct normal_io *io)
{
    (void)s;
    normal_keep(io, 0, io->text.len);
    return LR_OK;
}

static uint32_t load_u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static lr_code charsmap_read(struct charsmap *m, const unsigned char *bytes, size_t len,
                             struct lr_error *err)
{
    size_t trie = len >= 4 ? load_u32(bytes) : 0;
    if (trie == 0 || trie % 4 != 0 || trie > len - 4)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "normalizer: precompiled_charsmap has %zu bytes and announces a trie of "
                       "%zu",
                       len, trie);
    m->unit_count = (uint32_t)(trie / 4);
    m->text_bytes = (uint32_t)(len - 4 - trie);
    m->units = malloc(trie);
    m->texts = malloc(m->text_bytes + 1);
    if (m->units == NULL || m->texts == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a character map of %zu bytes", len);
    for (uint32_t i = 0; i < m->unit_count; i++)
        m->units[i] = load_u32(bytes + 4 + 4 * (size_t)i);
    memcpy(m->texts, bytes + 4 + trie, m->text_bytes);
    m->texts[m->text_bytes] = '\0';
    if (!lr_utf8_valid(lr_str(m->texts, m->text_bytes)))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "normalizer: the texts of precompiled_charsmap are not UTF-8");
    return LR_OK;
}

/* Standard base64, by the reader of the other alphabet; `text` is changed to it in place. */
static bool read_base64(char *text, size_t count, unsigned char *out, size_t *len)
{
    while (count > 0 && text[count - 1] == '=')
        count--;
    for (size_t i = 0; i < count; i++)
        text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    return lr_base64url_read(lr_str(text, count), out, len);
}

lr_code tokenizer_normal_read_charsmap(struct normal_step *s, const struct lr_json *json,
                                       struct lr_error *err)
{
    const struct lr_json *value = lr_json_get(json, "precompiled_charsmap");
    struct lr_str text;
    s->apply = keep_all;
    if (value == NULL || value->type == LR_JSON_NULL)
        return LR_OK;
    if (!lr_json_str(value, &text) || text.len > MAP_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "normalizer: precompiled_charsmap must be base64 of at most %d bytes",
                       MAP_MAX);
    if (text.len == 0)
        return LR_OK;
    char *letters = malloc(text.len);
    unsigned char *bytes = malloc(lr_base64url_room(text.len));
    size_t len = 0;
    lr_code rc;
    if (bytes == NULL || letters == NULL)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for a character map");
    else if (!read_base64(memcpy(letters, text.ptr, text.len), text.len, bytes, &len))
        rc = lr_fail(err, LR_MODEL_CORRUPT, "normalizer: precompiled_charsmap is not base64");
    else
        rc = charsmap_read(&s->map, bytes, len, err);
    free(bytes);
    free(letters);
    s->apply = apply_map;
    return rc;
}
