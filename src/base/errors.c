#include "base/errors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct lr_error_row lr_error_rows[LR_ERROR_COUNT] = {
#define LR_ERROR(id, code, holes, sentence) [LR_ERROR_##id] = {#id, LR_##code, sentence},
#include "base/errors.def"
};

enum lr_error_id lr_error_find(struct lr_str id)
{
    for (unsigned i = LR_ERROR_NONE + 1; i < LR_ERROR_COUNT; i++)
        if (lr_str_eq_z(id, lr_error_rows[i].id))
            return (enum lr_error_id)i;
    return LR_ERROR_NONE;
}

/* ---- holes ---- */

struct lr_hole lr_hole_z(const char *text)
{
    return lr_hole_str(lr_str_z(text != NULL ? text : ""));
}

struct lr_hole lr_hole_str(struct lr_str text)
{
    return (struct lr_hole){.kind = LR_HOLE_TEXT, .text = text};
}

struct lr_hole lr_hole_int(long long number)
{
    return (struct lr_hole){.kind = LR_HOLE_SIGNED, .number = (uint64_t)number};
}

struct lr_hole lr_hole_uint(unsigned long long number)
{
    return (struct lr_hole){.kind = LR_HOLE_UNSIGNED, .number = number};
}

struct lr_hole lr_hole_cause(const struct lr_error *cause)
{
    return (struct lr_hole){
        .kind = LR_HOLE_CAUSE, .text = lr_str_z(cause->text), .cause = cause};
}

struct lr_error_piece lr_error_next_piece(struct lr_str *rest)
{
    struct lr_error_piece piece = {.limit = SIZE_MAX};
    size_t open = lr_str_find_char(*rest, '{');
    if (open == LR_STR_NONE) {
        piece.words = *rest;
        *rest = lr_str("", 0);
        return piece;
    }
    size_t close = lr_str_find_char(*rest, '}');
    uint64_t limit;
    piece.words = lr_str_sub(*rest, 0, open);
    piece.name = lr_str_sub(*rest, open + 1, close);
    size_t colon = lr_str_find_char(piece.name, ':');
    if (colon != LR_STR_NONE &&
        lr_str_u64(lr_str_sub(piece.name, colon + 1, piece.name.len), &limit)) {
        piece.limit = limit;
        piece.name = lr_str_sub(piece.name, 0, colon);
    }
    *rest = lr_str_sub(*rest, close + 1, rest->len);
    return piece;
}

size_t lr_error_holes(enum lr_error_id id, struct lr_str names[LR_ERROR_HOLES])
{
    struct lr_str rest = lr_str_z(lr_error_rows[id].sentence);
    size_t count = 0;
    while (rest.len != 0 && count < LR_ERROR_HOLES) {
        struct lr_error_piece piece = lr_error_next_piece(&rest);
        if (piece.name.len != 0)
            names[count++] = piece.name;
    }
    return count;
}

/* ---- what lies behind a sentence: u32 sum, then the identity as it travels, ended by NUL ----
 */

enum { SUM = 4 };

/* Of sentence and identity: bytes that something else left behind a sentence are none. */
static uint32_t sum_of(struct lr_str sentence, struct lr_str identity)
{
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < sentence.len; i++)
        sum = (sum ^ (unsigned char)sentence.ptr[i]) * 16777619u;
    for (size_t i = 0; i < identity.len; i++)
        sum = (sum ^ (unsigned char)identity.ptr[i]) * 16777619u;
    return sum;
}

static struct lr_str sentence_of(const char *text, size_t size)
{
    const char *end = memchr(text, '\0', size);
    return lr_str(text, end != NULL ? (size_t)(end - text) : size);
}

static struct lr_str identity_in(const char *text, size_t size)
{
    struct lr_str sentence = sentence_of(text, size);
    size_t at = sentence.len + 1 + SUM;
    uint32_t sum;
    if (at + 1 >= size)
        return lr_str("", 0);
    struct lr_str identity = sentence_of(text + at, size - at);
    memcpy(&sum, text + sentence.len + 1, SUM);
    bool is_one =
        identity.len != 0 && identity.len < size - at && sum == sum_of(sentence, identity);
    return is_one ? identity : lr_str("", 0);
}

static void put_identity(char *text, size_t size, struct lr_str identity)
{
    struct lr_str sentence = sentence_of(text, size);
    size_t at = sentence.len + 1 + SUM;
    if (at + identity.len + 1 > size)
        return;
    uint32_t sum = identity.len != 0 ? sum_of(sentence, identity) : 0;
    memmove(text + at, identity.ptr, identity.len);
    text[at + identity.len] = '\0';
    memcpy(text + sentence.len + 1, &sum, SUM);
}

void lr_fail_forget(char *text, size_t size)
{
    put_identity(text, size, lr_str("", 0));
}

/* ---- identities as text ---- */

struct word_buf {
    char bytes[LR_IDENTITY_MAX];
    size_t len;
};

static void write_spans(struct word_buf *out, const struct lr_spans *spans)
{
    size_t room = sizeof(out->bytes);
    int n = snprintf(out->bytes + out->len, room - out->len, "%s", lr_error_rows[spans->id].id);
    for (size_t i = 0; n >= 0 && i < spans->count; i++) {
        out->len += (size_t)n;
        n = snprintf(out->bytes + out->len, room - out->len, "%c%u+%u", i == 0 ? ' ' : ',',
                     spans->holes[i].at, spans->holes[i].len);
        if (n < 0 || (size_t)n >= room - out->len)
            n = 0; /* the number is longer than that of any identity */
    }
    out->len += (size_t)n;
}

void lr_error_write_identity(char *text, size_t size, const struct lr_identity *identity)
{
    struct word_buf out = {.len = 0};
    write_spans(&out, &identity->error);
    size_t without_cause = out.len;
    if (identity->cause.id != LR_ERROR_NONE && out.len + 2 < sizeof(out.bytes)) {
        out.bytes[out.len++] = ';';
        write_spans(&out, &identity->cause);
    }
    size_t used = sentence_of(text, size).len + 1 + SUM + 1;
    struct lr_str whole = lr_str(out.bytes, out.len);
    if (used + whole.len > size)
        whole.len = without_cause;
    if (used + whole.len > size) /* the id alone */
        whole.len = strlen(lr_error_rows[identity->error.id].id);
    put_identity(text, size, whole);
}

/* "12+4" from the front of *rest. */
static bool errors_take_number(struct lr_str *rest, char before, uint16_t *out)
{
    size_t n = 1;
    uint64_t value;
    if (rest->len == 0 || rest->ptr[0] != before)
        return false;
    while (n < rest->len && rest->ptr[n] >= '0' && rest->ptr[n] <= '9')
        n++;
    if (!lr_str_u64(lr_str_sub(*rest, 1, n), &value) || value > UINT16_MAX)
        return false;
    *out = (uint16_t)value;
    *rest = lr_str_sub(*rest, n, rest->len);
    return true;
}

/* Either all holes of the sentence are there or none. */
static bool parse_spans(struct lr_str text, size_t sentence_len, struct lr_spans *out)
{
    struct lr_str names[LR_ERROR_HOLES];
    size_t space = lr_str_find_char(text, ' ');
    out->id = lr_error_find(lr_str_sub(text, 0, space));
    out->count = 0;
    if (out->id == LR_ERROR_NONE)
        return false;
    struct lr_str rest =
        space != LR_STR_NONE ? lr_str_sub(text, space, text.len) : (struct lr_str){0};
    while (rest.len != 0) {
        uint16_t at, len;
        if (out->count == LR_ERROR_HOLES ||
            !errors_take_number(&rest, out->count == 0 ? ' ' : ',', &at) ||
            !errors_take_number(&rest, '+', &len) || (size_t)at + len > sentence_len)
            return false;
        out->holes[out->count].at = at;
        out->holes[out->count++].len = len;
    }
    return out->count == 0 || out->count == lr_error_holes(out->id, names);
}

static bool parse_identity(struct lr_str text, size_t sentence_len, struct lr_identity *out)
{
    size_t end = lr_str_find_char(text, ';');
    out->cause = (struct lr_spans){LR_ERROR_NONE};
    if (text.len == 0 || text.len >= LR_IDENTITY_MAX ||
        !parse_spans(lr_str_sub(text, 0, end), sentence_len, &out->error))
        return false;
    if (end != LR_STR_NONE &&
        !parse_spans(lr_str_sub(text, end + 1, text.len), sentence_len, &out->cause))
        out->cause = (struct lr_spans){LR_ERROR_NONE};
    return true;
}

/* ---- making ---- */

struct filling {
    char *text;
    size_t len, size;
    struct lr_identity identity;
};

static void add_words(struct filling *f, struct lr_str words)
{
    size_t room = f->size - 1 - f->len;
    size_t n = words.len < room ? words.len : room;
    memcpy(f->text + f->len, words.ptr, n);
    f->len += n;
}

static void shift_spans(struct lr_spans *spans, size_t by, size_t end)
{
    for (size_t i = 0; i < spans->count; i++) {
        size_t at = spans->holes[i].at + by, to = at + spans->holes[i].len;
        at = at < end ? at : end;
        to = to < end ? to : end;
        spans->holes[i].at = (uint16_t)at;
        spans->holes[i].len = (uint16_t)(to - at);
    }
}

static void fill_hole(struct filling *f, const struct lr_hole *hole, size_t limit)
{
    char digits[24];
    struct lr_spans *spans = &f->identity.error;
    struct lr_identity cause;
    struct lr_str value = hole->text;
    if (hole->kind == LR_HOLE_SIGNED)
        value = lr_str(digits, (size_t)snprintf(digits, sizeof(digits), "%" PRId64,
                                                (int64_t)hole->number));
    else if (hole->kind == LR_HOLE_UNSIGNED)
        value =
            lr_str(digits, (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, hole->number));
    size_t at = f->len;
    add_words(f, lr_str_sub(value, 0, limit));
    spans->holes[spans->count].at = (uint16_t)at;
    spans->holes[spans->count++].len = (uint16_t)(f->len - at);
    if (hole->kind == LR_HOLE_CAUSE && lr_error_read(hole->cause, &cause)) {
        f->identity.cause = cause.error;
        shift_spans(&f->identity.cause, at, f->len);
    }
}

lr_code lr_fail_holes(struct lr_error *err, enum lr_error_id id, const struct lr_hole *holes,
                      size_t count)
{
    char text[sizeof(err->text)];
    struct filling f = {.text = text, .size = sizeof(text), .identity = {.error = {.id = id}}};
    struct lr_str rest = lr_str_z(lr_error_rows[id].sentence);
    lr_code code = lr_error_rows[id].code;
    if (err == NULL)
        return code;
    for (size_t next = 0; rest.len != 0;) {
        struct lr_error_piece piece = lr_error_next_piece(&rest);
        add_words(&f, piece.words);
        if (piece.name.len != 0 && next < count)
            fill_hole(&f, &holes[next++], piece.limit);
    }
    text[f.len] = '\0';
    err->code = code;
    memcpy(err->text, text, f.len + 1); /* a hole may have borrowed from *err */
    lr_error_write_identity(err->text, sizeof(err->text), &f.identity);
    return code;
}

void lr_fail_moved(struct lr_error *err, const struct lr_error *old, size_t by)
{
    struct lr_identity identity;
    size_t end = strlen(err->text);
    if (!lr_error_read(old, &identity))
        return;
    shift_spans(&identity.error, by, end);
    shift_spans(&identity.cause, by, end);
    lr_error_write_identity(err->text, sizeof(err->text), &identity);
}

/* ---- reading ---- */

bool lr_error_read_text(const char *text, size_t size, struct lr_identity *out)
{
    return parse_identity(identity_in(text, size), sentence_of(text, size).len, out);
}

bool lr_error_read(const struct lr_error *err, struct lr_identity *out)
{
    return lr_error_read_text(err->text, sizeof(err->text), out);
}

bool lr_error_is(const struct lr_error *err, enum lr_error_id id)
{
    struct lr_identity identity;
    return lr_error_read(err, &identity) && identity.error.id == id;
}

bool lr_error_hole(const struct lr_error *err, const char *name, struct lr_str *out)
{
    struct lr_identity identity;
    struct lr_str names[LR_ERROR_HOLES];
    if (!lr_error_read(err, &identity))
        return false;
    (void)lr_error_holes(identity.error.id, names);
    for (size_t i = 0; i < identity.error.count; i++)
        if (lr_str_eq_z(names[i], name)) {
            *out = lr_str(err->text + identity.error.holes[i].at, identity.error.holes[i].len);
            return true;
        }
    return false;
}

const char *lr_error_word(const struct lr_error *err, char out[LR_ERROR_WORD])
{
    struct lr_identity identity;
    size_t n = 0;
    if (lr_error_read(err, &identity))
        return lr_error_rows[identity.error.id].id;
    if (err->code == LR_TOO_LARGE) /* too_large is a model's */
        return "over_limit";
    for (const char *c = lr_code_name(err->code); *c != '\0' && n + 1 < LR_ERROR_WORD; c++)
        out[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    out[n] = '\0';
    return out;
}

/* ---- carrying ---- */

void lr_error_copy_text(char *out, size_t size, const char *text, size_t text_size)
{
    struct lr_identity identity;
    bool has_identity = lr_error_read_text(text, text_size, &identity);
    lr_str_copy(out, size, sentence_of(text, text_size));
    lr_fail_forget(out, size);
    if (!has_identity)
        return;
    shift_spans(&identity.error, 0, strlen(out));
    shift_spans(&identity.cause, 0, strlen(out));
    lr_error_write_identity(out, size, &identity);
}

struct lr_str lr_error_identity(const char *text, size_t size)
{
    return identity_in(text, size);
}

struct lr_str lr_error_identity_of(const struct lr_error *err)
{
    return identity_in(err->text, sizeof(err->text));
}

void lr_error_restore(struct lr_error *out, lr_code code, struct lr_str text,
                      struct lr_str identity)
{
    out->code = code;
    LR_COPY(out->text, text);
    lr_fail_forget(out->text, sizeof(out->text));
    lr_error_identify(out->text, sizeof(out->text), identity);
}

bool lr_error_same(const struct lr_error *a, const struct lr_error *b)
{
    return a->code == b->code && strcmp(a->text, b->text) == 0;
}

void lr_error_identify(char *text, size_t size, struct lr_str identity)
{
    struct lr_identity checked;
    if (parse_identity(identity, sentence_of(text, size).len, &checked))
        lr_error_write_identity(text, size, &checked);
}
