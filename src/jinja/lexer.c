/* jinja/lexer.c - tokens and whitespace control. */
#include "jinja/lexer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "jinja/unicode.h"

bool jinja_lexer_init(struct lexer *lexer, struct run *run, struct lr_str source)
{
    char *copy = jinja_alloc(run, source.len + 1);
    if (copy == NULL)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r') {
            if (i + 1 < source.len && source.ptr[i + 1] == '\n')
                i++;
            c = '\n';
        }
        copy[n++] = c;
    }
    if (n > 0 && copy[n - 1] == '\n')
        n--;
    *lexer =
        (struct lexer){.run = run, .source = lr_str(copy, n), .line = 1, .line_starting = true};
    return true;
}

static struct token lexer_fail(struct lexer *lx, const char *what)
{
    lx->run->line = lx->line;
    (void)jinja_error(lx->run, "%s", what);
    return (struct token){.kind = T_ERROR, .line = lx->line};
}

static char lexer_peek(const struct lexer *lx, size_t ahead)
{
    size_t i = lx->at + ahead;
    return i < lx->source.len ? lx->source.ptr[i] : '\0';
}

static inline bool looking_at(const struct lexer *lx, size_t at, const char *what)
{
    size_t len = strlen(what);
    return lx->source.len - at >= len && at <= lx->source.len &&
           memcmp(lx->source.ptr + at, what, len) == 0;
}

static size_t space_len(const struct lexer *lx, size_t at)
{
    return jinja_space_len(lx->source.ptr + at, lx->source.len - at);
}

static size_t skip_space(const struct lexer *lx, size_t at)
{
    for (size_t n; at < lx->source.len && (n = space_len(lx, at)) > 0;)
        at += n;
    return at;
}

/* Advances and counts lines; remembers whether the match ended a line. */
static void advance_to(struct lexer *lx, size_t at)
{
    for (size_t i = lx->at; i < at; i++)
        lx->line += lx->source.ptr[i] == '\n';
    if (at > lx->at)
        lx->line_starting = lx->source.ptr[at - 1] == '\n';
    lx->at = at;
}

/* The end of a block tag that starts at `at`, with the white space that it trims; 0: no end. */
static size_t block_end(const struct lexer *lx, size_t at)
{
    if (looking_at(lx, at, "+%}"))
        return at + 3;
    if (looking_at(lx, at, "-%}"))
        return skip_space(lx, at + 3);
    if (looking_at(lx, at, "%}"))
        return at + 2 + looking_at(lx, at + 2, "\n");
    return 0;
}

/* `{%- raw -%}` at `at`: where its text begins; 0: no raw block. */
static size_t raw_begin(const struct lexer *lx, size_t at)
{
    at += 2;
    if (at < lx->source.len && (lx->source.ptr[at] == '-' || lx->source.ptr[at] == '+'))
        at++;
    at = skip_space(lx, at);
    if (!looking_at(lx, at, "raw"))
        return 0;
    at = skip_space(lx, at + 3);
    if (looking_at(lx, at, "-%}"))
        return skip_space(lx, at + 3);
    return looking_at(lx, at, "%}") ? at + 2 : 0;
}

static size_t raw_end(const struct lexer *lx, size_t at)
{
    at += 2;
    if (at < lx->source.len && (lx->source.ptr[at] == '-' || lx->source.ptr[at] == '+'))
        at++;
    at = skip_space(lx, at);
    if (!looking_at(lx, at, "endraw"))
        return 0;
    return block_end(lx, skip_space(lx, at + 6));
}

/* The text before a tag, trimmed by the tag's sign and lstrip_blocks. */
static struct lr_str cut_data(const struct lexer *lx, size_t from, size_t to, char sign,
                              bool variable)
{
    struct lr_str data = lr_str(lx->source.ptr + from, to - from);
    if (sign == '-') {
        data.len = jinja_rstrip_len(data);
        return data;
    }
    if (sign == '+' || variable)
        return data;
    size_t line = data.len;
    while (line > 0 && data.ptr[line - 1] != '\n')
        line--;
    if (line == 0 && !lx->line_starting)
        return data;
    struct lr_str tail = lr_str(data.ptr + line, data.len - line);
    size_t at = 0;
    for (size_t n; at < tail.len && (n = jinja_space_len(tail.ptr + at, tail.len - at)) > 0;)
        at += n;
    if (at == tail.len)
        data.len = line;
    return data;
}

static struct token data_token(const struct lexer *lx, struct lr_str data)
{
    return (struct token){.kind = T_DATA, .line = lx->line, .text = data};
}

/* Skips `{# ... #}` whose body starts at `at`. */
static bool skip_comment(struct lexer *lx, size_t at)
{
    for (size_t i = at; i + 1 < lx->source.len; i++) {
        if (!looking_at(lx, i, "#}"))
            continue;
        size_t end = i + 2;
        char sign = i > at ? lx->source.ptr[i - 1] : '\0';
        if (sign == '-')
            end = skip_space(lx, end);
        else if (sign != '+' && looking_at(lx, end, "\n"))
            end++;
        advance_to(lx, end);
        return true;
    }
    return false;
}

static struct token next_raw(struct lexer *lx)
{
    for (size_t i = lx->at; i + 1 < lx->source.len; i++) {
        size_t end = looking_at(lx, i, "{%") ? raw_end(lx, i) : 0;
        if (end == 0)
            continue;
        char sign = i + 2 < lx->source.len ? lx->source.ptr[i + 2] : '\0';
        struct token t = data_token(lx, cut_data(lx, lx->at, i, sign, false));
        advance_to(lx, end);
        lx->state = LEX_ROOT;
        return t;
    }
    if (lx->at < lx->source.len)
        return lexer_fail(lx, "missing end of raw directive");
    lx->state = LEX_ROOT; /* opened at the very end: Jinja2 accepts it */
    return data_token(lx, lr_str("", 0));
}

/* Text up to the next tag.  May return empty data; the caller skips it. */
static struct token next_root(struct lexer *lx)
{
    size_t i = lx->at;
    for (; i < lx->source.len; i++) {
        const char *brace = memchr(lx->source.ptr + i, '{', lx->source.len - i);
        if (brace == NULL) {
            i = lx->source.len;
            break;
        }
        i = (size_t)(brace - lx->source.ptr);
        char c = i + 1 < lx->source.len ? lx->source.ptr[i + 1] : '\0';
        if (c == '{' || c == '%' || c == '#')
            break;
    }
    if (i >= lx->source.len) {
        struct token t = data_token(lx, lr_str(lx->source.ptr + lx->at, i - lx->at));
        advance_to(lx, i);
        return t;
    }
    char c = lx->source.ptr[i + 1];
    char sign = i + 2 < lx->source.len ? lx->source.ptr[i + 2] : '\0';
    bool signed_tag = sign == '-' || sign == '+';
    struct token t = data_token(lx, cut_data(lx, lx->at, i, sign, c == '{'));
    size_t raw = c == '%' ? raw_begin(lx, i) : 0;
    size_t tag_end = i + 2 + signed_tag;
    if (raw != 0) {
        advance_to(lx, raw);
        lx->state = LEX_RAW;
    } else if (c == '#') {
        advance_to(lx, tag_end);
        if (!skip_comment(lx, tag_end) && lx->at < lx->source.len)
            return lexer_fail(lx, "missing end of comment tag");
    } else {
        advance_to(lx, tag_end);
        lx->state = c == '{' ? LEX_VARIABLE : LEX_BLOCK;
        lx->pending = c == '{' ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN;
        lx->has_pending = true;
    }
    return t;
}

/* ---- inside a tag ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool lexer_is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* Digits with single underscores between them; returns where they end. */
static size_t scan_digits(const struct lexer *lx, size_t at)
{
    while (at < lx->source.len &&
           (is_digit(lx->source.ptr[at]) ||
            (lx->source.ptr[at] == '_' && at + 1 < lx->source.len &&
             is_digit(lx->source.ptr[at - 1]) && is_digit(lx->source.ptr[at + 1]))))
        at++;
    return at;
}

static struct lr_str without_underscores(struct lexer *lx, size_t from, size_t to)
{
    char *out = jinja_alloc(lx->run, to - from + 1);
    size_t n = 0;
    if (out == NULL)
        return lr_str("", 0);
    for (size_t i = from; i < to; i++)
        if (lx->source.ptr[i] != '_')
            out[n++] = lx->source.ptr[i];
    out[n] = '\0';
    return lr_str(out, n);
}

/* Where a float that starts at `at` ends; 0 when it is not one. */
static size_t scan_float(const struct lexer *lx, size_t at)
{
    if (at > 0 && lx->source.ptr[at - 1] == '.')
        return 0;
    size_t whole = scan_digits(lx, at);
    size_t end = 0, after = whole;
    if (looking_at(lx, whole, ".") && whole + 1 < lx->source.len &&
        is_digit(lx->source.ptr[whole + 1])) {
        after = scan_digits(lx, whole + 1);
        end = after;
    }
    if (after < lx->source.len && (lx->source.ptr[after] | 0x20) == 'e') {
        size_t e = after + 1;
        if (e < lx->source.len && (lx->source.ptr[e] == '+' || lx->source.ptr[e] == '-'))
            e++;
        if (e < lx->source.len && is_digit(lx->source.ptr[e]))
            end = scan_digits(lx, e);
    }
    return end;
}

static struct token integer_token(struct lexer *lx)
{
    size_t from = lx->at, end = from + 1;
    int base = 10;
    char kind = (char)(lexer_peek(lx, 1) | 0x20);
    if (lexer_peek(lx, 0) == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
        for (end = from + 2; end < lx->source.len; end++) {
            char c = lx->source.ptr[end], low = (char)(c | 0x20);
            int digit = is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
            if (c != '_' && digit >= base)
                break;
        }
    } else if (lexer_peek(lx, 0) == '0') {
        while (end < lx->source.len && lx->source.ptr[end] == '0')
            end++;
    } else {
        end = scan_digits(lx, from);
    }
    struct lr_str digits = without_underscores(lx, from + (base == 10 ? 0 : 2), end);
    struct token t = {.kind = T_INTEGER, .line = lx->line};
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];
        uint64_t digit = (uint64_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
        if (value > (INT64_MAX - digit) / (uint64_t)base)
            return lexer_fail(lx, "an integer past 64 bits");
        value = value * (uint64_t)base + digit;
    }
    t.integer = (int64_t)value;
    advance_to(lx, end);
    return t;
}

static bool hex_escape(struct lexer *lx, size_t at, size_t digits, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = at + i < lx->source.len ? lx->source.ptr[at + i] : '\0';
        char low = (char)(c | 0x20);
        if (!is_digit(c) && !(low >= 'a' && low <= 'f'))
            return false;
        *out = *out * 16 + (uint32_t)(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    return true;
}

/* Decodes one escape whose letter is at *at; appends to out. */
static bool decode_escape(struct lexer *lx, size_t *at, char *out, size_t *n)
{
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    char c = lx->source.ptr[*at];
    const char *known = memchr(letters, c, sizeof(letters) - 1);
    if (known != NULL) {
        out[(*n)++] = values[known - letters];
        (*at)++;
        return true;
    }
    if (c == '\n') {
        (*at)++;
        return true;
    }
    uint32_t code = 0;
    size_t used = 0;
    if (c >= '0' && c <= '7') {
        while (used < 3 && *at + used < lx->source.len && lx->source.ptr[*at + used] >= '0' &&
               lx->source.ptr[*at + used] <= '7')
            code = code * 8 + (uint32_t)(lx->source.ptr[*at + used++] - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        used = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_escape(lx, *at + 1, used, &code))
            return false;
        used++;
        uint32_t low;
        if (code >= 0xD800 && code < 0xDC00 && looking_at(lx, *at + used, "\\u") &&
            hex_escape(lx, *at + used + 2, 4, &low) && low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            used += 6;
        }
    } else if (c == 'N') {
        return false;
    } else {
        out[(*n)++] = '\\';
        return true;
    }
    if (code > 0x10FFFF)
        return false;
    if (code >= 0xD800 && code < 0xE000)
        code = LR_UTF8_REPLACEMENT;
    char utf8[4];
    size_t len = lr_utf8_encode(code, utf8);
    memcpy(out + *n, utf8, len);
    *n += len;
    *at += used;
    return true;
}

static struct token string_token(struct lexer *lx)
{
    char quote = lexer_peek(lx, 0);
    size_t end = lx->at + 1;
    while (end < lx->source.len && lx->source.ptr[end] != quote)
        end += lx->source.ptr[end] == '\\' ? 2 : 1;
    if (end >= lx->source.len)
        return lexer_fail(lx, "a string is not closed");
    char *out = jinja_alloc(lx->run, end - lx->at + 4);
    if (out == NULL)
        return (struct token){.kind = T_ERROR};
    size_t n = 0;
    for (size_t i = lx->at + 1; i < end;) {
        if (lx->source.ptr[i] != '\\') {
            out[n++] = lx->source.ptr[i++];
            continue;
        }
        i++;
        if (!decode_escape(lx, &i, out, &n))
            return lexer_fail(lx, "a string holds an escape that cannot be decoded");
    }
    struct token t = {.kind = T_STRING, .line = lx->line, .text = lr_str(out, n)};
    advance_to(lx, end + 1);
    return t;
}

static enum token_kind operator_kind(const struct lexer *lx, size_t *len)
{
    /* a byte; the same byte twice; the byte followed by `=` */
    static const struct {
        char first;
        enum token_kind single, twice, equals;
    } table[] = {{'(', T_LPAREN, T_ERROR, T_ERROR},   {')', T_RPAREN, T_ERROR, T_ERROR},
                 {',', T_COMMA, T_ERROR, T_ERROR},    {'.', T_DOT, T_ERROR, T_ERROR},
                 {'=', T_ASSIGN, T_ERROR, T_EQ},      {'[', T_LBRACKET, T_ERROR, T_ERROR},
                 {']', T_RBRACKET, T_ERROR, T_ERROR}, {'|', T_PIPE, T_ERROR, T_ERROR},
                 {'+', T_ADD, T_ERROR, T_ERROR},      {'-', T_SUB, T_ERROR, T_ERROR},
                 {'*', T_MUL, T_POW, T_ERROR},        {'/', T_DIV, T_FLOORDIV, T_ERROR},
                 {'%', T_MOD, T_ERROR, T_ERROR},      {'~', T_TILDE, T_ERROR, T_ERROR},
                 {'{', T_LBRACE, T_ERROR, T_ERROR},   {'}', T_RBRACE, T_ERROR, T_ERROR},
                 {'!', T_ERROR, T_ERROR, T_NE},       {'<', T_LT, T_ERROR, T_LE},
                 {'>', T_GT, T_ERROR, T_GE},          {':', T_COLON, T_ERROR, T_ERROR},
                 {';', T_SEMICOLON, T_ERROR, T_ERROR}};
    char c = lexer_peek(lx, 0), next = lexer_peek(lx, 1);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].first != c)
            continue;
        *len = 2;
        if (next == '=' && table[i].equals != T_ERROR)
            return table[i].equals;
        if (next == c && table[i].twice != T_ERROR)
            return table[i].twice;
        *len = 1;
        return table[i].single;
    }
    return T_ERROR;
}

static struct token operator_token(struct lexer *lx)
{
    size_t len = 0;
    enum token_kind kind = operator_kind(lx, &len);
    char c = lexer_peek(lx, 0);
    if (kind == T_ERROR) {
        char what[40];
        (void)snprintf(what, sizeof(what), "unexpected char 0x%02x",
                       (unsigned)(unsigned char)c);
        return lexer_fail(lx, what);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (lx->bracket_count == LEX_MAX_BRACKETS)
            return lexer_fail(lx, "brackets nested too deeply");
        lx->brackets[lx->bracket_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        char what[] = "unexpected '?'";
        what[12] = c;
        if (lx->bracket_count == 0 || lx->brackets[--lx->bracket_count] != c)
            return lexer_fail(lx, what);
    }
    struct token t = {
        .kind = kind, .line = lx->line, .text = lr_str(lx->source.ptr + lx->at, len)};
    advance_to(lx, lx->at + len);
    return t;
}

/* The end of the current tag if it is here and no bracket is open. */
static size_t tag_end(const struct lexer *lx)
{
    if (lx->bracket_count > 0)
        return 0;
    if (lx->state == LEX_BLOCK)
        return block_end(lx, lx->at);
    if (looking_at(lx, lx->at, "-}}"))
        return skip_space(lx, lx->at + 3);
    return looking_at(lx, lx->at, "}}") ? lx->at + 2 : 0;
}

static struct token next_in_tag(struct lexer *lx)
{
    size_t end = tag_end(lx);
    if (end == 0) {
        advance_to(lx, skip_space(lx, lx->at));
        end = tag_end(lx);
    }
    if (end != 0) {
        struct token t = {.kind = lx->state == LEX_BLOCK ? T_BLOCK_END : T_VARIABLE_END,
                          .line = lx->line};
        advance_to(lx, end);
        lx->state = LEX_ROOT;
        return t;
    }
    if (lx->at >= lx->source.len)
        return (struct token){.kind = T_EOF, .line = lx->line};
    char c = lexer_peek(lx, 0);
    if (is_digit(c)) {
        size_t float_end = scan_float(lx, lx->at);
        if (float_end == 0)
            return integer_token(lx);
        struct lr_str digits = without_underscores(lx, lx->at, float_end);
        struct token t = {.kind = T_FLOAT, .line = lx->line, .real = strtod(digits.ptr, NULL)};
        advance_to(lx, float_end);
        return t;
    }
    if (lexer_is_name_char(c)) {
        size_t name_end = lx->at;
        while (name_end < lx->source.len && lexer_is_name_char(lx->source.ptr[name_end]))
            name_end++;
        struct token t = {.kind = T_NAME,
                          .line = lx->line,
                          .text = lr_str(lx->source.ptr + lx->at, name_end - lx->at)};
        advance_to(lx, name_end);
        return t;
    }
    if (c == '"' || c == '\'')
        return string_token(lx);
    return operator_token(lx);
}

struct token jinja_lexer_next(struct lexer *lx)
{
    for (;;) {
        if (lx->run->failed)
            return (struct token){.kind = T_ERROR, .line = lx->line};
        if (lx->has_pending) {
            lx->has_pending = false;
            return (struct token){.kind = lx->pending, .line = lx->line};
        }
        if (lx->state == LEX_BLOCK || lx->state == LEX_VARIABLE)
            return next_in_tag(lx);
        if (lx->state == LEX_ROOT && lx->at >= lx->source.len)
            return (struct token){.kind = T_EOF, .line = lx->line};
        struct token t = lx->state == LEX_RAW ? next_raw(lx) : next_root(lx);
        if (t.kind != T_DATA || t.text.len > 0)
            return t;
    }
}

const char *jinja_token_name(const struct token *token, char out[80])
{
    switch (token->kind) {
    case T_EOF:
        return "end of template";
    case T_DATA:
        return "template data";
    case T_BLOCK_BEGIN:
        return "begin of statement block";
    case T_BLOCK_END:
        return "end of statement block";
    case T_VARIABLE_BEGIN:
        return "begin of print statement";
    case T_VARIABLE_END:
        return "end of print statement";
    case T_INTEGER:
        return "integer";
    case T_FLOAT:
        return "float";
    case T_STRING:
        return "string";
    default:
        (void)snprintf(out, 80, "'%.*s'", (int)(token->text.len < 60 ? token->text.len : 60),
                       token->text.len > 0 ? token->text.ptr : "");
        return out;
    }
}
