#include "cli/terminal.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/os/terminal.h"
#include "base/utf8.h"

/* Marks and overrides of the writing direction, and separators that some terminals take for a
 * new line. */
static bool is_deceptive(uint32_t c)
{
    return (c >= 0x80 && c <= 0x9F) || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void cli_add_visible(struct lr_buf *out, struct lr_str text, enum cli_visible how)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char first = (unsigned char)text.ptr[i];
        uint32_t c = first;
        int len = 1;
        if (first >= 0x80)
            len = lr_utf8_decode(text.ptr + i, text.len - i, &c);
        if (len <= 0) {
            lr_buf_add_z(out, "\xEF\xBF\xBD");
            i += lr_utf8_invalid_len(text.ptr + i, text.len - i);
            continue;
        }
        bool is_blank = how == CLI_LINES && (c == '\n' || c == '\t');
        if ((c < 0x20 && !is_blank) || c == 0x7F)
            lr_buf_addf(out, "\\x%02x", (unsigned)c);
        else if (is_deceptive(c))
            lr_buf_addf(out, "\\u%04x", (unsigned)c);
        else
            lr_buf_add(out, text.ptr + i, (size_t)len);
        i += (size_t)len;
    }
}

void cli_tell(FILE *out, const char *fmt, ...)
{
    enum { MOST = 4 << 20 };
    struct lr_buf visible;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len >= 0 ? malloc((size_t)len + 1) : NULL;
    if (text == NULL)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    lr_buf_init(&visible, MOST);
    cli_add_visible(&visible, lr_str(text, (size_t)len), CLI_LINES);
    (void)fwrite(visible.data, 1, visible.len, out);
    (void)fflush(out);
    lr_buf_free(&visible);
    free(text);
}

struct cli_size cli_terminal_size(int fd)
{
    struct cli_size size;
    return lr_terminal_size(fd, &size.columns, &size.rows) ? size : (struct cli_size){80, 24};
}

/* Hangul, CJK, kana and full-width forms, and most emoji.  Rough: a wrong guess moves a column
 * of a table. */
static unsigned columns_of(uint32_t c)
{
    bool is_wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                   (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                   (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                   (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
    return is_wide ? 2 : 1;
}

void cli_add_cell(struct lr_buf *out, const char *text, unsigned columns)
{
    size_t len = strlen(text), at = 0;
    unsigned used = 0;
    while (at < len) {
        uint32_t c;
        int bytes = lr_utf8_decode(text + at, len - at, &c);
        if (bytes <= 0 || used + columns_of(c) > columns)
            break;
        lr_buf_add(out, text + at, (size_t)bytes);
        used += columns_of(c);
        at += (size_t)bytes;
    }
    lr_buf_addf(out, "%*s", (int)(columns - used), "");
}
