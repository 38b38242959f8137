/* base/errors.h - the identity of an error.
 *
 * errors.def is the catalogue: for each error its id, its code, its sentence with named holes.
 * An id is what programs compare, in every release; a sentence is for people and may change.
 *
 *     return lr_fail_as(err, node_busy, slots, model->id);
 *
 * fills *err with code and sentence, and keeps the id and what stands in the holes behind the
 * sentence (docs/adr/0124): they stay with every copy of the struct, and with a copy of the
 * text that lr_error_copy_text makes.  An error of lr_fail has no identity; then its code
 * stands for one (lr_error_word).  Thread: any.
 */
#ifndef BASE_ERRORS_H
#define BASE_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

enum lr_error_id {
    LR_ERROR_NONE,
#define LR_ERROR(id, code, holes, sentence) LR_ERROR_##id,
#include "base/errors.def"
    LR_ERROR_COUNT
};

enum { LR_ERROR_HOLES = 12, LR_ERROR_WORD = 48, LR_IDENTITY_MAX = 256 };

/* The number of holes of each. */
enum {
#define LR_ERROR(id, code, holes, sentence) LR_HOLES_OF_##id = (holes),
#include "base/errors.def"
};

struct lr_error_row {
    const char *id;
    lr_code code;
    const char *sentence; /* "node {node} has been silent for {ms} ms"; {name:80}: 80 bytes at
                             most of that value */
};
extern const struct lr_error_row lr_error_rows[LR_ERROR_COUNT]; /* by lr_error_id */

/* LR_ERROR_NONE for a word that is no id. */
enum lr_error_id lr_error_find(struct lr_str id);

/* ---- making ---- */

/* What stands in a hole. */
struct lr_hole {
    enum { LR_HOLE_TEXT, LR_HOLE_SIGNED, LR_HOLE_UNSIGNED, LR_HOLE_CAUSE } kind;
    struct lr_str text;
    uint64_t number; /* LR_HOLE_SIGNED: as two's complement */
    const struct lr_error *cause;
};

lr_code lr_fail_holes(struct lr_error *err, enum lr_error_id id, const struct lr_hole *holes,
                      size_t count);

struct lr_hole lr_hole_z(const char *text); /* NULL: empty */
struct lr_hole lr_hole_str(struct lr_str text);
struct lr_hole lr_hole_int(long long number);
struct lr_hole lr_hole_uint(unsigned long long number);
/* Its sentence; an identity that it has stays findable (lr_identity.cause). */
struct lr_hole lr_hole_cause(const struct lr_error *cause);

/* clang-format off */
#define LR_HOLE(x)                                                                             \
    _Generic((x), char *: lr_hole_z, const char *: lr_hole_z, struct lr_str: lr_hole_str,      \
        signed char: lr_hole_int, short: lr_hole_int, int: lr_hole_int, long: lr_hole_int,     \
        long long: lr_hole_int, bool: lr_hole_uint, unsigned char: lr_hole_uint,               \
        unsigned short: lr_hole_uint, unsigned: lr_hole_uint, unsigned long: lr_hole_uint,     \
        unsigned long long: lr_hole_uint, struct lr_error *: lr_hole_cause,                    \
        const struct lr_error *: lr_hole_cause)(x)
#define LR_HOLES_1(a) LR_HOLE(a)
#define LR_HOLES_2(a, ...) LR_HOLE(a), LR_HOLES_1(__VA_ARGS__)
#define LR_HOLES_3(a, ...) LR_HOLE(a), LR_HOLES_2(__VA_ARGS__)
#define LR_HOLES_4(a, ...) LR_HOLE(a), LR_HOLES_3(__VA_ARGS__)
#define LR_HOLES_5(a, ...) LR_HOLE(a), LR_HOLES_4(__VA_ARGS__)
#define LR_HOLES_6(a, ...) LR_HOLE(a), LR_HOLES_5(__VA_ARGS__)
#define LR_HOLES_7(a, ...) LR_HOLE(a), LR_HOLES_6(__VA_ARGS__)
#define LR_HOLES_8(a, ...) LR_HOLE(a), LR_HOLES_7(__VA_ARGS__)
#define LR_HOLES_9(a, ...) LR_HOLE(a), LR_HOLES_8(__VA_ARGS__)
#define LR_HOLES_10(a, ...) LR_HOLE(a), LR_HOLES_9(__VA_ARGS__)
#define LR_HOLES_11(a, ...) LR_HOLE(a), LR_HOLES_10(__VA_ARGS__)
#define LR_HOLES_12(a, ...) LR_HOLE(a), LR_HOLES_11(__VA_ARGS__)
#define LR_HOLES_NTH(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define LR_HOLES_COUNT(...) LR_HOLES_NTH(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define LR_HOLES_JOIN(a, b) a##b
#define LR_HOLES_MAP(n, ...) LR_HOLES_JOIN(LR_HOLES_, n)(__VA_ARGS__)
#define LR_HOLES_OF(...) LR_HOLES_MAP(LR_HOLES_COUNT(__VA_ARGS__), __VA_ARGS__)
/* clang-format on */

/* As lr_fail, by an id of errors.def and what stands in its holes, in their order.  Another
 * number of holes does not compile. */
#define lr_fail_as(err, id, ...)                                                               \
    lr_fail_holes(err, LR_ERROR_##id, (const struct lr_hole[]){LR_HOLES_OF(__VA_ARGS__)},      \
                  sizeof(struct {                                                              \
                      int unused;                                                              \
                      _Static_assert(LR_HOLES_COUNT(__VA_ARGS__) == LR_HOLES_OF_##id,          \
                                     "errors.def has another number of holes");                \
                  }) / sizeof(int) *                                                           \
                      LR_HOLES_COUNT(__VA_ARGS__))
/* The same for a sentence without holes. */
#define lr_fail_plain(err, id) lr_fail_holes(err, LR_ERROR_##id, NULL, (size_t)LR_HOLES_OF_##id)

/* For fail.c: the text has no identity, or the one that `old` has, whose text now begins `by`
 * bytes later. */
void lr_fail_forget(char *text, size_t size);
void lr_fail_moved(struct lr_error *err, const struct lr_error *old, size_t by);

/* ---- reading ---- */

/* Where in the text the values are. */
struct lr_spans {
    enum lr_error_id id;
    size_t count;
    struct {
        uint16_t at, len;
    } holes[LR_ERROR_HOLES];
};

struct lr_identity {
    struct lr_spans error;
    struct lr_spans cause; /* id LR_ERROR_NONE: none is known */
};

/* text: of an lr_error, or made by lr_error_copy_text; size: of the whole array.  False: it has
 * no identity. */
bool lr_error_read_text(const char *text, size_t size, struct lr_identity *out);
bool lr_error_read(const struct lr_error *err, struct lr_identity *out);
bool lr_error_is(const struct lr_error *err, enum lr_error_id id);
/* What stands in the hole of that name, borrowed from the error; false: it has no such hole. */
bool lr_error_hole(const struct lr_error *err, const char *name, struct lr_str *out);
/* The id; without an identity the code's name in lower case. */
const char *lr_error_word(const struct lr_error *err, char out[LR_ERROR_WORD]);
/* The names of a row's holes, in order; how many. */
size_t lr_error_holes(enum lr_error_id id, struct lr_str names[LR_ERROR_HOLES]);

/* A sentence up to its next hole, and that hole: its name is empty where none follows. */
struct lr_error_piece {
    struct lr_str words, name;
    size_t limit; /* bytes of the value */
};
/* Takes it off the front of *rest. */
struct lr_error_piece lr_error_next_piece(struct lr_str *rest);

/* ---- carrying ---- */

/* A copy of sentence and identity; the identity is left out where it has no room. */
void lr_error_copy_text(char *out, size_t size, const char *text, size_t text_size);
/* The identity as it travels between processes: "node_busy 11+1,22+4", and behind ';' that of
 * the cause.  Empty: none.  Borrowed from the text. */
struct lr_str lr_error_identity(const char *text, size_t size);
struct lr_str lr_error_identity_of(const struct lr_error *err);
/* Gives a sentence the identity that came with it.  One that is malformed or not known here is
 * left out. */
void lr_error_identify(char *text, size_t size, struct lr_str identity);
/* Tells the host of an engine which error it is about to get; nothing for one without an
 * identity, or where the host does not take it. */
struct lr_engine_host;
void lr_error_tell(const struct lr_engine_host *host, const struct lr_error *err);
void lr_error_write_identity(char *text, size_t size, const struct lr_identity *identity);
/* A whole error from what came of it; what does not fit is cut. */
void lr_error_restore(struct lr_error *out, lr_code code, struct lr_str text,
                      struct lr_str identity);
/* Whether both say the same, for one that is told again and again. */
bool lr_error_same(const struct lr_error *a, const struct lr_error *b);

#endif
