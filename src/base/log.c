/* base/log.c - formats one event into one line and writes it.
 *
 * The format string is walked once: a word is "key=" followed by literal text and conversions
 * up to the next blank.  A value is first built in plain form and then escaped into the line,
 * so that no caller can forget to escape.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "base/os/file.h"
#include "base/utf8.h"

_Atomic int lr_log_threshold = LR_LOG_INFO;
static _Atomic int line_format = LR_LOG_TEXT;
static _Atomic int line_fd = 2;
static char *line_path; /* owned; NULL: lines go to a descriptor that was given */
static const struct lr_clock *_Atomic line_clock;
static _Atomic(lr_log_tap_fn) line_tap;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void lr_log_set(enum lr_log_level level, enum lr_log_format format)
{
    atomic_store(&lr_log_threshold, (int)level);
    atomic_store(&line_format, (int)format);
}

void lr_log_set_fd(int fd)
{
    atomic_store(&line_fd, fd);
}

static int open_file(const char *path)
{
    return lr_open(path, LR_OPEN_WRITE | LR_OPEN_APPEND | LR_OPEN_CREATE, 0640);
}

lr_code lr_log_open(const char *path, struct lr_error *err)
{
    if (path == NULL)
        return LR_OK;
    int fd = open_file(path);
    if (fd < 0)
        return lr_fail_errno(err, LR_INVALID_ARGUMENT, "log-file: cannot write %s", path);
    free(line_path);
    line_path = strdup(path);
    lr_log_set_fd(fd);
    return LR_OK;
}

void lr_log_reopen(void)
{
    if (line_path == NULL)
        return;
    int fd = open_file(line_path);
    if (fd < 0) {
        lr_log_warn(NULL, "log.kept file=%s reason=%s", line_path, strerror(errno));
        return;
    }
    /* The descriptor's number stays, because another thread may be writing to it. */
    (void)lr_fd_replace(fd, atomic_load(&line_fd));
    (void)close(fd);
}

void lr_log_set_clock(const struct lr_clock *clock)
{
    atomic_store(&line_clock, clock);
}

void lr_log_set_tap(lr_log_tap_fn tap)
{
    atomic_store(&line_tap, tap);
}

const char *lr_log_level_name(enum lr_log_level level)
{
    return level_names[level];
}

bool lr_log_level_parse(struct lr_str text, enum lr_log_level *out)
{
    for (int i = 0; i <= LR_LOG_DEBUG; i++) {
        if (lr_str_eq_z(text, level_names[i])) {
            *out = (enum lr_log_level)i;
            return true;
        }
    }
    return false;
}

/* The last TAIL bytes are reserved for closing a truncated line: quote, truncation mark, brace,
 * newline. */
enum { TAIL = 32, VALUE_MAX = 4096 };

struct line {
    char data[LR_LOG_LINE_MAX];
    size_t len;
    size_t event_at; /* where the text after time and level begins; 0 in JSON form */
    bool json;
    bool cut; /* truncated: only the tail is still added */
};

static void log_add(struct line *line, const char *bytes, size_t len)
{
    if (line->cut || line->len + len > LR_LOG_LINE_MAX - TAIL) {
        line->cut = true;
        return;
    }
    memcpy(line->data + line->len, bytes, len);
    line->len += len;
}

static void add_z(struct line *line, const char *text)
{
    log_add(line, text, strlen(text));
}

static void add_tail(struct line *line, const char *text)
{
    memcpy(line->data + line->len, text,
           strlen(text)); /* TAIL bytes are enough for all of these */
    line->len += strlen(text);
}

/* Control characters, and separators that some viewers treat as line ends. */
static bool is_unprintable(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
}

static void add_escaped(struct line *line, uint32_t c)
{
    char text[8];
    if (c == '"' || c == '\\')
        (void)snprintf(text, sizeof(text), "\\%c", (char)c);
    else if (c == '\n')
        (void)snprintf(text, sizeof(text), "\\n");
    else
        (void)snprintf(text, sizeof(text), "\\u%04x", c & 0xFFFFu);
    add_z(line, text);
}

static void add_quoted(struct line *line, struct lr_str s)
{
    log_add(line, "\"", 1);
    if (line->cut)
        return;
    for (size_t at = 0; at < s.len && !line->cut;) {
        uint32_t c = LR_UTF8_REPLACEMENT;
        int len = lr_utf8_decode(s.ptr + at, s.len - at, &c);
        if (len <= 0)
            add_z(line, "\xEF\xBF\xBD");
        else if (c == '"' || c == '\\' || is_unprintable(c))
            add_escaped(line, c);
        else
            log_add(line, s.ptr + at, (size_t)len);
        at += len > 0 ? (size_t)len : lr_utf8_invalid_len(s.ptr + at, s.len - at);
    }
    add_tail(line, "\"");
}

/* A value that needs no quotes in the text form: it contains nothing that ends a word or looks
 * like a key. */
static bool is_bare(struct lr_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return s.len != 0;
}

static void add_pair(struct line *line, struct lr_str key, struct lr_str value, bool verbatim)
{
    size_t before = line->len;
    if (line->json) {
        log_add(line, ",", 1);
        add_quoted(line, key);
        log_add(line, ":", 1);
    } else {
        log_add(line, " ", 1);
        log_add(line, key.ptr, key.len);
        log_add(line, "=", 1);
    }
    /* A number must not be truncated to another number, and a key needs its value. */
    if (line->cut || (verbatim && line->len + value.len > LR_LOG_LINE_MAX - TAIL)) {
        line->len = before;
        line->cut = true;
        return;
    }
    if (verbatim || (!line->json && is_bare(value)))
        log_add(line, value.ptr, value.len);
    else
        add_quoted(line, value);
    if (line->cut && line->len > before && line->data[line->len - 1] != '"')
        line->len = before;
}

/* One value in plain form. */
struct value {
    char data[VALUE_MAX];
    size_t len;
    bool cut;
    int numbers;  /* conversions that wrote a number */
    int others;   /* conversions and literal text that are no number */
    bool is_null; /* a NULL string */
};

static void value_add(struct value *v, const char *bytes, size_t len)
{
    if (len > VALUE_MAX - v->len) {
        len = VALUE_MAX - v->len;
        v->cut = true;
    }
    memcpy(v->data + v->len, bytes, len);
    v->len += len;
}

struct arguments {
    va_list list;
};

struct conversion {
    int precision; /* -1: none */
    int width;     /* zero-padded; 0: none */
    char length;   /* 0, 'l', 'L' (ll), 'z', 'j', 't' */
    char kind;
};

/* Reads the conversion after a '%'; returns the text after it. */
static const char *read_conversion(const char *p, struct arguments *args, struct conversion *c)
{
    *c = (struct conversion){.precision = -1};
    while (*p == '-' || *p == '+' || *p == ' ' || *p == '#' || *p == '0')
        p++;
    for (; *p >= '0' && *p <= '9'; p++)
        c->width = (c->width * 10 + (*p - '0')) % 100;
    if (*p == '.') {
        p++;
        c->precision = 0;
        if (*p == '*') {
            c->precision = va_arg(args->list, int);
            p++;
        }
        for (; *p >= '0' && *p <= '9'; p++)
            c->precision = (c->precision * 10 + (*p - '0')) % 100000;
    }
    for (; *p == 'h' || *p == 'l' || *p == 'z' || *p == 'j' || *p == 't'; p++)
        c->length = *p == 'l' && c->length == 'l' ? 'L' : *p;
    c->kind = *p;
    return *p != '\0' ? p + 1 : p;
}

static intmax_t take_signed(struct arguments *args, char length)
{
    switch (length) {
    case 'l':
        return va_arg(args->list, long);
    case 'L':
        return va_arg(args->list, long long);
    case 'j':
        return va_arg(args->list, intmax_t);
    case 'z':
    case 't':
        return va_arg(args->list, ptrdiff_t);
    default:
        return va_arg(args->list, int);
    }
}

static uintmax_t take_unsigned(struct arguments *args, char length)
{
    switch (length) {
    case 'l':
        return va_arg(args->list, unsigned long);
    case 'L':
        return va_arg(args->list, unsigned long long);
    case 'j':
        return va_arg(args->list, uintmax_t);
    case 'z':
    case 't':
        return va_arg(args->list, size_t);
    default:
        return va_arg(args->list, unsigned);
    }
}

static void add_string(struct value *v, const char *text, int precision)
{
    v->others++;
    if (text == NULL) {
        v->is_null = true;
        value_add(v, "null", 4);
        return;
    }
    value_add(v, text, precision >= 0 ? strnlen(text, (size_t)precision) : strlen(text));
}

static void add_double(struct value *v, double x, const struct conversion *c)
{
    char text[352]; /* %f of DBL_MAX has 309 digits before the point */
    int precision = c->precision >= 0 && c->precision <= 30 ? c->precision : 6;
    if (c->kind == 'f')
        (void)snprintf(text, sizeof(text), "%.*f", precision, x);
    else if (c->kind == 'e')
        (void)snprintf(text, sizeof(text), "%.*e", precision, x);
    else
        (void)snprintf(text, sizeof(text), "%.*g", precision, x);
    /* nan and inf are no JSON numbers */
    if (x - x == 0)
        v->numbers++;
    else
        v->others++;
    value_add(v, text, strlen(text));
}

/* 007 is no JSON number. */
static void count_integer(struct value *v, const struct conversion *c)
{
    if (c->width == 0)
        v->numbers++;
    else
        v->others++;
}

/* False for an unknown conversion: its argument cannot be skipped. */
static bool log_convert(struct value *v, struct arguments *args, const struct conversion *c)
{
    char text[128];
    switch (c->kind) {
    case 's':
        add_string(v, va_arg(args->list, const char *), c->precision);
        return true;
    case 'c':
        text[0] = (char)va_arg(args->list, int);
        v->others++;
        value_add(v, text, 1);
        return true;
    case 'd':
    case 'i':
        count_integer(v, c);
        (void)snprintf(text, sizeof(text), "%0*jd", c->width, take_signed(args, c->length));
        break;
    case 'u':
        count_integer(v, c);
        (void)snprintf(text, sizeof(text), "%0*ju", c->width, take_unsigned(args, c->length));
        break;
    case 'x':
        v->others++;
        (void)snprintf(text, sizeof(text), "%0*jx", c->width, take_unsigned(args, c->length));
        break;
    case 'p':
        v->others++;
        (void)snprintf(text, sizeof(text), "%p", va_arg(args->list, void *));
        break;
    case 'f':
    case 'g':
    case 'e':
        add_double(v, va_arg(args->list, double), c);
        return true;
    default:
        return false;
    }
    value_add(v, text, strlen(text));
    return true;
}

/* Adds the word at p; returns where the next begins, or NULL to stop. */
static const char *add_word(struct line *line, const char *p, struct arguments *args)
{
    const char *equals = strchr(p, '=');
    if (equals == NULL)
        return NULL;
    struct lr_str key = lr_str(p, (size_t)(equals - p));
    struct value v;
    v.len = 0;
    v.cut = v.is_null = false;
    v.numbers = v.others = 0;
    for (p = equals + 1; *p != '\0' && *p != ' ';) {
        struct conversion c;
        if (*p != '%') {
            v.others++;
            value_add(&v, p++, 1);
            continue;
        }
        p = read_conversion(p + 1, args, &c);
        if (!log_convert(&v, args, &c)) {
            add_pair(line, lr_str_z("log_defect"), lr_str_z("conversion"), false);
            return NULL;
        }
    }
    bool verbatim = (v.numbers == 1 && v.others == 0) || (v.is_null && v.others == 1);
    add_pair(line, key, lr_str(v.data, v.len), verbatim);
    if (v.cut)
        line->cut = true;
    return p;
}

static void add_head(struct line *line, int64_t wall_ms, enum lr_log_level level,
                     const struct lr_log_ctx *ctx, struct lr_str event)
{
    char now[LR_TIME_TEXT_LEN + 1];
    lr_time_format(wall_ms, now);
    if (line->json) {
        add_z(line, "{\"time\":\"");
        add_z(line, now);
        add_z(line, "\",\"level\":\"");
        add_z(line, level_names[level]);
        add_z(line, "\",\"event\":");
        add_quoted(line, event);
    } else {
        add_z(line, now);
        add_z(line, " ");
        add_z(line, level_names[level]);
        add_z(line, " ");
        line->event_at = line->len;
        log_add(line, event.ptr, event.len);
    }
    if (ctx != NULL && ctx->request_id != NULL && ctx->request_id[0] != '\0')
        add_pair(line, lr_str_z("request_id"), lr_str_z(ctx->request_id), false);
}

static void log_write_all(int fd, const char *bytes, size_t len)
{
    while (len != 0) {
        ssize_t wrote = write(fd, bytes, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return; /* a failed log write cannot be reported anywhere */
        bytes += wrote;
        len -= (size_t)wrote;
    }
}

void lr_log_write(enum lr_log_level level, const struct lr_log_ctx *ctx, const char *fmt, ...)
{
    int saved_errno = errno;
    struct line line;
    line.len = line.event_at = 0;
    line.cut = false;
    line.json = atomic_load(&line_format) == LR_LOG_JSON;

    const char *blank = strchr(fmt, ' ');
    size_t event_len = blank != NULL ? (size_t)(blank - fmt) : strlen(fmt);
    int64_t wall_ms = lr_clock_wall_ms(atomic_load(&line_clock));
    add_head(&line, wall_ms, level, ctx, lr_str(fmt, event_len));
    struct arguments args;
    va_start(args.list, fmt);
    for (const char *p = blank; p != NULL && !line.cut;) {
        while (*p == ' ')
            p++;
        p = *p != '\0' ? add_word(&line, p, &args) : NULL;
    }
    va_end(args.list);

    char word[LR_ERROR_WORD];
    if (ctx != NULL && ctx->error != NULL && !line.cut)
        add_pair(&line, lr_str_z("error"), lr_str_z(lr_error_word(ctx->error, word)), false);
    if (line.cut)
        add_tail(&line, line.json ? ",\"cut\":true" : " cut=true");
    add_tail(&line, line.json ? "}\n" : "\n");
    log_write_all(atomic_load(&line_fd), line.data, line.len);
    lr_log_tap_fn tap = atomic_load(&line_tap);
    if (tap != NULL)
        tap(level, wall_ms, lr_str(line.data + line.event_at, line.len - 1 - line.event_at));
    errno = saved_errno;
}
