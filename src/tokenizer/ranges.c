/* tokenizer/ranges.c - the characters that match a pattern, as ranges. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/pattern.h"
#include "tokenizer/split.h"

enum { CHARACTERS = 0x110000 };

static void add_range(struct lr_buf *out, uint32_t first, uint32_t last)
{
    lr_buf_addf(out, "\\x{%X}", first);
    if (last != first)
        lr_buf_addf(out, "-\\x{%X}", last);
}

/* All characters that match, one after the other, from a text that has each of them once. */
static uint32_t add_ranges(pcre2_code *code, pcre2_match_data *data, const char *all,
                           size_t len, struct lr_buf *out)
{
    uint32_t first = 0, last = 0, count = 0;
    size_t at = 0, width;
    while (pcre2_match(code, (PCRE2_SPTR)all, len, at, PCRE2_NO_UTF_CHECK, data, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        if (found[1] <= found[0])
            return 0;
        uint32_t c = char_at(all + found[0], &width);
        if (count != 0 && c != last + 1)
            add_range(out, first, last);
        if (count++ == 0 || c != last + 1)
            first = c;
        last = c;
        at = found[1];
    }
    if (count != 0)
        add_range(out, first, last);
    return count;
}

bool tokenizer_pattern_ranges(struct lr_str character, struct lr_buf *out)
{
    void *code = NULL;
    if (tokenizer_pattern_compile(character, PCRE2_UCP, "a set", &code, NULL) != LR_OK)
        return false;
    char *all = malloc((size_t)CHARACTERS * 4);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    size_t len = 0;
    for (uint32_t c = 0; all != NULL && c < CHARACTERS; c++)
        if (c < 0xD800 || c > 0xDFFF)
            len += lr_utf8_encode(c, all + len);
    lr_buf_add_char(out, '[');
    bool good = all != NULL && data != NULL && add_ranges(code, data, all, len, out) != 0;
    lr_buf_add_char(out, ']');
    pcre2_match_data_free(data);
    tokenizer_split_free_code(code);
    free(all);
    return good;
}
