/* tokenizer/normal.h - normalizer: text to the text that is tokenized.
 *
 * A list of steps; each reads the whole text and writes a new one.  A text may carry a mark for
 * each byte: is the byte from trusted text?  Every step passes the marks on, so that a control
 * token that only appears after normalizing (case, for example) is still trusted only if every
 * byte of it is.
 */
#ifndef TOKENIZER_NORMAL_H
#define TOKENIZER_NORMAL_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "tokenizer/find.h"
#include "tokenizer/split.h"

struct normal_step;

/* The text that a step reads, and the buffers that it writes.  Thread: the caller's. */
struct normal_io {
    struct lr_str text;
    const unsigned char *trusted; /* a mark for each byte of text; NULL: there are no marks */
    struct lr_buf *out;           /* borrowed */
    struct lr_buf *marks;         /* borrowed */
    struct finder *finder;        /* borrowed */
    struct lr_error *err;
};

typedef lr_code normal_apply(const struct normal_step *s, struct normal_io *io);

struct charsmap {
    uint32_t *units; /* owned: a double array trie */
    uint32_t unit_count;
    char *texts; /* owned: what the units' values point to, each terminated by NUL */
    uint32_t text_bytes;
};

/* Members that a kind of step does not use are zero. */
struct normal_step {
    normal_apply *apply;
    struct lr_str pattern; /* owned: Replace with a string */
    struct lr_str content; /* owned: Replace, Prepend */
    void *code;            /* owned pcre2_code: Replace with a regex */
    struct charsmap map;
    uint64_t *stable;          /* owned: NFC..., a bit for each character; normal_forms.c */
    int form;                  /* NFC...: utf8proc's options */
    bool left, right;          /* Strip */
    bool clean, chinese;       /* BertNormalizer */
    bool accents, lower;       /* BertNormalizer */
    struct normal_step *forms; /* owned: BertNormalizer's NFD */
};

enum { NORMAL_MAX_STEPS = 32, NORMAL_MAX_GROWTH = 64 };

struct normalizer {
    struct normal_step steps[NORMAL_MAX_STEPS];
    uint32_t count;
};

/* The texts of one call: a step reads one and writes the other. */
struct normal_work {
    struct lr_buf texts[2];
    struct lr_buf marks[2];
};

LR_MUST_USE lr_code tokenizer_normal_read(struct normalizer *n, const struct lr_json *json,
                                          struct lr_error *err);
void tokenizer_normal_free(struct normalizer *n);

void tokenizer_normal_work_init(struct normal_work *work);
void tokenizer_normal_work_free(struct normal_work *work);

/* Applies all steps.  *out points into `text` or into `work`; *trusted too, and is NULL where
 * it was NULL. */
LR_MUST_USE lr_code tokenizer_normal_apply(const struct normalizer *n, struct normal_work *work,
                                           struct finder *finder, struct lr_str text,
                                           const unsigned char **trusted, struct lr_str *out,
                                           struct lr_error *err);

/* ---- for the steps ---- */

/* Appends bytes that stand for text[from..to). */
void tokenizer_normal_emit(struct normal_io *io, const char *bytes, size_t len, size_t from,
                           size_t to);
/* Appends text[from..to) as it is. */
static inline void normal_keep(struct normal_io *io, size_t from, size_t to)
{
    if (from == to)
        return;
    lr_buf_add(io->out, io->text.ptr + from, to - from);
    if (io->trusted != NULL)
        lr_buf_add(io->marks, io->trusted + from, to - from);
}
void tokenizer_normal_emit_char(struct normal_io *io, uint32_t c, size_t from, size_t to);

/* Readers of one kind of step each; `json` is its object. */
typedef lr_code normal_read_step(struct normal_step *s, const struct lr_json *json,
                                 struct lr_error *err);
normal_read_step tokenizer_normal_read_nfc, tokenizer_normal_read_nfd,
    tokenizer_normal_read_nfkc, tokenizer_normal_read_nfkd;
normal_read_step tokenizer_normal_read_bert, tokenizer_normal_read_charsmap;

/* Chooses a form by name for a step of another kind: BertNormalizer needs NFD. */
LR_MUST_USE lr_code tokenizer_normal_forms_init(struct normal_step *s, int form,
                                                struct lr_error *err);
enum { NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

void tokenizer_normal_step_free(struct normal_step *s);

/* A member that is true or false, with a value for its absence. */
LR_MUST_USE lr_code tokenizer_read_flag(const struct lr_json *object, const char *owner,
                                        const char *key, bool otherwise, bool *out,
                                        struct lr_error *err);
/* A copy that lives on its own, terminated; .ptr is NULL without memory. */
struct lr_str tokenizer_copy(struct lr_str s);
void tokenizer_copy_free(struct lr_str s);

#endif
