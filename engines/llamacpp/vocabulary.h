/* llamacpp/vocabulary.h - a GGUF's tokens: bytes, flags, control tokens, tokenizing.
 *
 * Bytes and flags of every token are copied from libllama once, at open: the ABI lends them
 * until close, and a token's text costs nothing per step.  Read-only afterwards.  Thread: any.
 */
#ifndef LLAMACPP_VOCABULARY_H
#define LLAMACPP_VOCABULARY_H

#include "base/buf.h"
#include "base/str.h"
#include "engines/llamacpp/library.h"

struct llamacpp_control { /* a token that only trusted text may contain */
    uint32_t id;
    struct lr_str text;
    bool strips_left, strips_right; /* adjacent blanks belong to it */
    bool is_loose; /* libllama finds it in every text: it calls the token user defined */
};

struct llamacpp_vocabulary {
    const struct llamacpp_library *lib;
    const struct llama_vocab *vocab; /* borrowed from the model */
    uint32_t count;
    uint32_t longest;  /* bytes of the longest token */
    uint32_t *offsets; /* owned, count + 1: offset of a token's bytes in text */
    struct lr_buf text;
    uint8_t *flags;                    /* owned: LR_VOCAB_ */
    uint32_t *usable;                  /* owned, a bit per token: may be sampled */
    struct llamacpp_control *controls; /* owned, by first byte, the longest first */
    bool has_loose;                    /* one of them is loose */
    uint32_t first[257]; /* controls that begin with byte b: first[b]..first[b+1] */
    int32_t bos;         /* -1: a prompt needs none */
    int32_t eos, sep;    /* that end and part the texts of a vector; -1: none */
};

/* path: the GGUF, or its first part.  The file decides which tokens are control tokens:
 * libllama makes user-defined ones of those that begin and part Harmony's messages. */
LR_MUST_USE lr_code llamacpp_vocabulary_open(const struct llamacpp_library *lib,
                                             const struct llama_model *model, const char *path,
                                             struct llamacpp_vocabulary *out,
                                             struct lr_error *err);
void llamacpp_vocabulary_close(struct llamacpp_vocabulary *v);

static inline struct lr_str llamacpp_vocabulary_bytes(const struct llamacpp_vocabulary *v,
                                                      uint32_t id)
{
    return lr_str(v->text.data + v->offsets[id], v->offsets[id + 1] - v->offsets[id]);
}

/* ---- tokenize.c ---- */

struct llamacpp_ids {
    uint32_t *items; /* owned by the caller: free() */
    size_t count;
    size_t capacity;
};

/* The rule of struct lr_segment.  A vocabulary with a begin token gets it at the start of every
 * prompt, unless the text begins with it.  INVALID_ARGUMENT: more than max_bytes of text. */
LR_MUST_USE lr_code llamacpp_tokenize(const struct llamacpp_vocabulary *v,
                                      const struct lr_segment *segments, size_t count,
                                      size_t max_bytes, struct llamacpp_ids *out,
                                      struct lr_error *err);

#endif
