/* chat/dialect/python.c - see chat/dialect/values.h: literals of Python's -> JSON. */
#include "base/utf8.h"
#include "chat/dialect/values.h"

struct python {
    struct lr_str text;
    size_t at;
    uint32_t depth;
    struct lr_buf *out; /* borrowed */
};

static char peek(const struct python *p)
{
    return p->at < p->text.len ? p->text.ptr[p->at] : '\0';
}

static void skip_blanks(struct python *p)
{
    while (p->at < p->text.len && strchr(" \t\r\n", p->text.ptr[p->at]) != NULL)
        p->at++;
}

/* ---- strings ---- */

/* Digits of an escape; UINT32_MAX: they are not there. */
static uint32_t read_hex(struct python *p, uint32_t digits)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits; i++, p->at++) {
        int digit = lr_hex_digit(peek(p));
        if (digit < 0)
            return UINT32_MAX;
        value = value * 16 + (uint32_t)digit;
    }
    return value;
}

static bool read_escape(struct python *p, struct lr_buf *text)
{
    static const char from[] = "\\'\"nrtbfav0", to[] = "\\'\"\n\r\t\b\f\a\v";
    char c = peek(p);
    p->at++;
    if (c == '\n')
        return true;
    if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t code = read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8);
        if (code >= 0xD800 && code < 0xDC00 && peek(p) == '\\') { /* a pair, as in JSON */
            p->at += 2;
            uint32_t low = read_hex(p, 4);
            code = low >= 0xDC00 && low < 0xE000
                       ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                       : UINT32_MAX;
        }
        char bytes[4];
        size_t len = code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000)
                         ? lr_utf8_encode(code, bytes)
                         : 0;
        lr_buf_add(text, bytes, len);
        return len != 0;
    }
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    if (found == NULL)
        lr_buf_add_char(text, '\\');
    lr_buf_add_char(text, found != NULL ? to[found - from] : c);
    return true;
}

static bool read_string(struct python *p)
{
    char quote = peek(p);
    struct lr_buf text;
    bool good = true;
    lr_buf_init(&text, p->text.len + 64);
    p->at++;
    while (good && p->at < p->text.len && peek(p) != quote) {
        char c = peek(p);
        p->at++;
        if (c == '\\')
            good = read_escape(p, &text);
        else
            lr_buf_add_char(&text, c);
    }
    good = good && peek(p) == quote && !text.failed;
    p->at++;
    if (good)
        lr_json_quote(p->out, lr_buf_str(&text));
    lr_buf_free(&text);
    return good;
}

/* ---- words and numbers ---- */

static bool is_word_end(char c)
{
    return c == '\0' || strchr(",]}): \t\r\n", c) != NULL;
}

static bool read_number(struct python *p, struct lr_str word)
{
    size_t i = word.ptr[0] == '-' || word.ptr[0] == '+' ? 1 : 0, from = i;
    bool has_digit = false;
    while (from + 1 < word.len && word.ptr[from] == '0' && word.ptr[from + 1] >= '0' &&
           word.ptr[from + 1] <= '9')
        from++; /* JSON has no leading zeros */
    for (i = from; i < word.len; i++) {
        has_digit = has_digit || (word.ptr[i] >= '0' && word.ptr[i] <= '9');
        if (strchr("0123456789.eE+-", word.ptr[i]) == NULL)
            return false;
    }
    if (!has_digit || word.ptr[from] == '.' || word.ptr[word.len - 1] == '.')
        return false;
    if (word.ptr[0] == '-')
        lr_buf_add_char(p->out, '-');
    lr_buf_add_str(p->out, lr_str_sub(word, from, word.len));
    return true;
}

static bool read_word(struct python *p)
{
    static const char *const words[][2] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"},
    };
    size_t from = p->at;
    while (!is_word_end(peek(p)))
        p->at++;
    struct lr_str word = lr_str_sub(p->text, from, p->at);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (lr_str_eq_z(word, words[i][0])) {
            lr_buf_add_z(p->out, words[i][1]);
            return true;
        }
    return word.len != 0 && read_number(p, word);
}

/* ---- containers ---- */

static bool read_value(struct python *p);

/* A key of a dictionary: JSON has strings only. */
static bool read_key(struct python *p)
{
    skip_blanks(p);
    if (peek(p) != '\'' && peek(p) != '"')
        return false;
    return read_string(p);
}

/* True when the first thing in a brace is followed by a colon, or nothing is in it. */
static bool is_dictionary(const struct python *p)
{
    struct python q = *p;
    struct lr_buf ignored;
    lr_buf_init(&ignored, p->text.len * 6 + 64);
    q.out = &ignored;
    skip_blanks(&q);
    bool is = peek(&q) == '}';
    if (!is && read_key(&q)) {
        skip_blanks(&q);
        is = peek(&q) == ':';
    }
    lr_buf_free(&ignored);
    return is;
}

static bool read_items(struct python *p, char end, bool is_dict)
{
    uint32_t count = 0;
    lr_buf_add_char(p->out, is_dict ? '{' : '[');
    for (;; count++) {
        skip_blanks(p);
        if (peek(p) == end)
            break;
        if (count != 0) {
            if (peek(p) != ',')
                return false;
            p->at++;
            skip_blanks(p);
            if (peek(p) == end)
                break;
            lr_buf_add_z(p->out, ", ");
        }
        if (is_dict) {
            if (!read_key(p))
                return false;
            skip_blanks(p);
            if (peek(p) != ':')
                return false;
            p->at++;
            lr_buf_add_z(p->out, ": ");
        }
        if (!read_value(p))
            return false;
    }
    p->at++;
    lr_buf_add_char(p->out, is_dict ? '}' : ']');
    return true;
}

static bool read_value(struct python *p)
{
    bool good;
    skip_blanks(p);
    char c = peek(p);
    if (c == '\'' || c == '"')
        return read_string(p);
    if (c != '[' && c != '(' && c != '{')
        return read_word(p);
    if (++p->depth > CHAT_VALUE_DEPTH_MAX)
        return false;
    p->at++;
    if (c == '{')
        good = read_items(p, '}', is_dictionary(p));
    else
        good = read_items(p, c == '[' ? ']' : ')', false);
    p->depth--;
    return good;
}

bool chat_value_python(struct lr_str text, struct lr_buf *out)
{
    struct python p = {.text = text, .out = out};
    size_t before = out->len;
    bool good = read_value(&p);
    skip_blanks(&p);
    good = good && p.at == text.len;
    if (!good)
        out->len = before;
    return good;
}
