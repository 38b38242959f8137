/* tokenizer/reader.c - the streaming JSON reader and the byte alphabet. */
#include "tokenizer/reader.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"

/* Byte-level BPE writes each byte as a printable character: bytes that are printable in Latin-1
 * as themselves, the other 68, in order, as U+0100 and up. */
enum { ALPHABET_END = 0x100 + 68 };

/* Byte of an alphabet character, or -1. */
static int alphabet_byte(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF))
        return (int)c;
    if (c < 0x100 || c >= ALPHABET_END)
        return -1;
    if (c <= 0x120)
        return (int)(c - 0x100); /* 0x00..0x20 */
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7F); /* 0x7F..0xA0 */
    return 0xAD;
}

bool tokenizer_alphabet_bytes(struct lr_str text, struct lr_buf *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        int len = lr_utf8_decode(text.ptr + i, text.len - i, &c);
        int byte = len > 0 ? alphabet_byte(c) : -1;
        if (byte < 0)
            return false;
        lr_buf_add_char(out, (char)byte);
        i += (size_t)len;
    }
    return true;
}

void tokenizer_alphabet_letters(struct lr_str bytes, struct lr_buf *out)
{
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.ptr[i];
        uint32_t c = byte <= 0x20                   ? 0x100u + byte
                     : byte >= 0x7F && byte <= 0xA0 ? 0x121u + byte - 0x7F
                     : byte == 0xAD                 ? 0x143
                                                    : byte;
        char utf8[4];
        lr_buf_add(out, utf8, lr_utf8_encode(c, utf8));
    }
}

void tokenizer_reader_init(struct reader *r, struct lr_str whole, struct lr_str part,
                           struct lr_error *err)
{
    *r =
        (struct reader){.at = part.ptr, .end = part.ptr + part.len, .whole = whole, .err = err};
    lr_buf_init(&r->scratch, whole.len + 1024);
}

void tokenizer_reader_free(struct reader *r)
{
    lr_buf_free(&r->scratch);
}

lr_code tokenizer_reader_fail(const struct reader *r, const char *what)
{
    size_t line = 1, column = 1;
    for (const char *p = r->whole.ptr; p < r->at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return lr_fail(r->err, LR_MODEL_CORRUPT, "JSON line %zu column %zu: %s", line, column,
                   what);
}

static lr_code fail_memory(const struct reader *r)
{
    return lr_fail(r->err, LR_OUT_OF_RAM, "no memory for a string of the tokenizer's file");
}

static inline void skip_blanks(struct reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

bool tokenizer_reader_take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

lr_code tokenizer_reader_expect(struct reader *r, char c, const char *what)
{
    return tokenizer_reader_take(r, c) ? LR_OK : tokenizer_reader_fail(r, what);
}

/* \uXXXX with r->at on the 'u'; -1 when malformed. */
static int32_t read_hex4(struct reader *r)
{
    if (r->end - r->at < 5)
        return -1;
    int32_t value = 0;
    for (int i = 1; i <= 4; i++) {
        int digit = lr_hex_digit(r->at[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    r->at += 5;
    return value;
}

/* r->at is just past a backslash. */
static bool read_escape(struct reader *r, uint32_t *code_point)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end || *r->at == '\0')
        return false;
    const char *simple = strchr(from, *r->at);
    if (simple != NULL) {
        *code_point = (uint32_t)to[simple - from];
        r->at++;
        return true;
    }
    if (*r->at != 'u')
        return false;
    int32_t high = read_hex4(r);
    if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF))
        return false;
    if (high < 0xD800 || high > 0xDBFF) {
        *code_point = (uint32_t)high;
        return true;
    }
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return false;
    r->at++;
    int32_t low = read_hex4(r);
    if (low < 0xDC00 || low > 0xDFFF)
        return false;
    *code_point = 0x10000u + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    return true;
}

/* One character of a string; false with r->at on the error. */
static bool read_character(struct reader *r, uint32_t *code_point)
{
    if (r->at == r->end || (unsigned char)*r->at < 0x20)
        return false;
    if (*r->at == '\\') {
        r->at++;
        return read_escape(r, code_point);
    }
    int len = lr_utf8_decode(r->at, (size_t)(r->end - r->at), code_point);
    if (len <= 0)
        return false;
    r->at += len;
    return true;
}

lr_code tokenizer_reader_string(struct reader *r, struct lr_str *out)
{
    lr_code rc = tokenizer_reader_expect(r, '"', "a string is expected");
    if (rc != LR_OK)
        return rc;
    lr_buf_clear(&r->scratch);
    while (r->at < r->end && *r->at != '"') {
        uint32_t c;
        char utf8[4];
        if (!read_character(r, &c))
            return tokenizer_reader_fail(r, "this is not valid in a string");
        lr_buf_add(&r->scratch, utf8, lr_utf8_encode(c, utf8));
    }
    if (r->at == r->end)
        return tokenizer_reader_fail(r, "the string does not end");
    r->at++;
    *out = lr_buf_str(&r->scratch);
    return r->scratch.failed ? fail_memory(r) : LR_OK;
}

lr_code tokenizer_reader_token(struct reader *r, struct lr_str *out, bool *is_bytes)
{
    lr_code rc = tokenizer_reader_expect(r, '"', "a token in quotes is expected");
    if (rc != LR_OK)
        return rc;
    const char *start = r->at - 1;
    char *out_bytes = NULL;
    size_t len = 0, room = 0;
    lr_buf_clear(&r->scratch);
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at;
        uint32_t code_point = c;
        if (c >= 0x21 && c <= 0x7E && c != '\\') /* most of them */
            r->at++;
        else if (!read_character(r, &code_point))
            return tokenizer_reader_fail(r, "this is not valid in a string");
        int byte = alphabet_byte(code_point);
        if (byte < 0) {
            r->at = start;
            *is_bytes = false;
            return tokenizer_reader_string(r, out);
        }
        if (len == room) {
            lr_buf_commit(&r->scratch, len - r->scratch.len);
            room = len + 256;
            if (lr_buf_reserve(&r->scratch, 256) == NULL)
                return fail_memory(r);
            out_bytes = r->scratch.data;
        }
        out_bytes[len++] = (char)byte;
    }
    if (r->at == r->end)
        return tokenizer_reader_fail(r, "the string does not end");
    r->at++;
    *is_bytes = true;
    *out = lr_str(out_bytes, len);
    return LR_OK;
}

lr_code tokenizer_reader_number(struct reader *r, uint64_t *out)
{
    skip_blanks(r);
    const char *start = r->at;
    uint64_t value = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - start < 15)
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    bool ends = r->at == r->end || (strchr(".eE0123456789", *r->at) == NULL || *r->at == '\0');
    if (r->at == start || !ends || (*start == '0' && r->at - start > 1)) {
        r->at = start;
        return tokenizer_reader_fail(r, "a whole number without sign is expected");
    }
    *out = value;
    return LR_OK;
}

/* Moves past the closing quote; r->at is on the opening quote. */
static bool skip_string(struct reader *r)
{
    const char *at = r->at + 1, *end = r->end;
    while (at < end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    r->at = at < end ? at + 1 : end;
    return at < end;
}

lr_code tokenizer_reader_skip(struct reader *r, struct lr_str *out)
{
    skip_blanks(r);
    const char *start = r->at;
    size_t depth = 0;
    do {
        if (r->at == r->end)
            return tokenizer_reader_fail(r, "the file ends in the middle of a value");
        char c = *r->at;
        if (c == '"') {
            if (!skip_string(r))
                return tokenizer_reader_fail(r, "the string does not end");
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ':'))
            return tokenizer_reader_fail(r, "a value is expected");
        r->at++;
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        else if (depth == 0) /* a number, true, false or null */
            while (r->at < r->end && strchr(",]}\" \t\r\n", *r->at) == NULL)
                r->at++;
    } while (depth != 0);
    *out = lr_str(start, (size_t)(r->at - start));
    return LR_OK;
}

lr_code tokenizer_reader_done(struct reader *r)
{
    skip_blanks(r);
    return r->at == r->end ? LR_OK : tokenizer_reader_fail(r, "nothing may follow here");
}

lr_code tokenizer_reader_double(struct reader *r, double *out)
{
    struct lr_json number = {.type = LR_JSON_NUMBER};
    skip_blanks(r);
    const char *start = r->at;
    while (r->at < r->end && *r->at != '\0' && strchr("+-.0123456789eE", *r->at) != NULL)
        r->at++;
    number.text = lr_str(start, (size_t)(r->at - start));
    if (number.text.len != 0 && lr_json_double(&number, out))
        return LR_OK;
    r->at = start;
    return tokenizer_reader_fail(r, "a number is expected");
}
