/* tokenizer/decoding.h - decoder: token texts to text.
 *
 * A list of steps.  A step gets one token's text after the other, knows the position, and
 * passes texts on to the next step.  So text can be decoded while its tokens come, with the
 * same result as all at once.
 */
#ifndef TOKENIZER_DECODING_H
#define TOKENIZER_DECODING_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "tokenizer/find.h"

enum decode_kind {
    DECODE_BYTE_LEVEL,    /* letters of the byte alphabet become bytes; all is one text */
    DECODE_REPLACE,       /* a string or the matches of a pattern */
    DECODE_BYTE_FALLBACK, /* "<0x41>": a byte; neighbours together make characters */
    DECODE_FUSE,          /* all is one text for later steps */
    DECODE_STRIP,         /* a character from the ends, up to a number of times */
    DECODE_METASPACE,     /* the replacement becomes a blank, in the first token nothing */
    DECODE_WORDPIECE,     /* a blank before each token that does not continue a word */
    DECODE_SUFFIX,        /* the end of a word becomes a blank, in the last token nothing */
};

/* Members that a kind does not use are zero. */
struct decode_step {
    enum decode_kind kind;
    struct lr_str pattern; /* owned: Replace, Strip, Metaspace, WordPiece's prefix, suffix */
    struct lr_str content; /* owned: Replace */
    void *code;            /* owned pcre2_code: Replace */
    uint64_t start, stop;  /* Strip: most characters at each end */
    bool flag;             /* Metaspace: the first loses it; WordPiece: cleanup */
};

enum { DECODE_MAX_STEPS = 16 };

struct decoder {
    struct decode_step steps[DECODE_MAX_STEPS];
    uint32_t count;
    bool joins_with_blanks; /* there is no decoder */
};

LR_MUST_USE lr_code tokenizer_decoder_read(struct decoder *d, const struct lr_json *json,
                                           struct lr_error *err);
void tokenizer_decoder_free(struct decoder *d);

/* What a step remembers between two tokens. */
struct decode_state {
    uint64_t seen;      /* texts */
    struct lr_buf held; /* owned: what a later token may still change */
    struct lr_buf made; /* owned: the text that is passed on */
};

/* A text in the making.  Thread: one at a time. */
struct decode_run {
    const struct decoder *decoder; /* borrowed */
    struct decode_state states[DECODE_MAX_STEPS];
    struct finder finder;
    struct lr_buf *out; /* borrowed */
    struct lr_error *err;
};

void tokenizer_decode_begin(struct decode_run *run, const struct decoder *d, size_t limit,
                            struct lr_buf *out, struct lr_error *err);
/* The next token is not the first one of the text. */
void tokenizer_decode_skip_start(struct decode_run *run);
/* True if the decoder makes a byte of this token. */
bool tokenizer_decode_is_byte(const struct decoder *d, struct lr_str token,
                              unsigned char *byte);
LR_MUST_USE lr_code tokenizer_decode_add(struct decode_run *run, struct lr_str token);
LR_MUST_USE lr_code tokenizer_decode_end(struct decode_run *run);
void tokenizer_decode_free(struct decode_run *run);

#endif
