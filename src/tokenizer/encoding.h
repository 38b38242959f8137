/* tokenizer/encoding.h - the state of one call that encodes; for this folder only. */
#ifndef TOKENIZER_ENCODING_H
#define TOKENIZER_ENCODING_H

#include "tokenizer/bpe.h"
#include "tokenizer/internal.h"

/* Thread: the caller's. */
struct encoding {
    const struct tokenizer *t; /* borrowed for the call */
    struct bpe bpe;
    struct trust trust;
    bool spells_control; /* all text is trusted: its letters may spell a control token */
    struct normal_work normal;
    struct lr_buf changed[SPLIT_MAX_STEPS]; /* by step: a piece with its text changed */
    struct lr_buf bytes;                    /* a piece, from letters back to bytes */
    struct finder finder;
    struct lr_error *err; /* borrowed for the call */
};

/* Splits text and encodes the pieces; first: it is the beginning of the whole text. */
LR_MUST_USE lr_code tokenizer_split(struct encoding *e, struct lr_str text, bool first);

#endif
