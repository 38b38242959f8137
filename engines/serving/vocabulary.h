/* serving/vocabulary.h - what is known about token ids: bytes, stop tokens, unused.
 *
 * Combines the tokenizer with the facts about the model.  A model's folder may have no
 * tokenizer; then only ids can be used and tokens have no bytes.  Read-only once opened.
 * Thread: any.
 */
#ifndef ENGINES_SERVING_VOCABULARY_H
#define ENGINES_SERVING_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "engines/serving/backend.h"
#include "tokenizer/tokenizer.h"

struct serving_vocabulary {
    uint32_t rows;               /* ids the model has logits for */
    struct tokenizer *tokenizer; /* owned; NULL: the snapshot has none */
    uint32_t *usable;            /* bit per row: may be sampled */
    uint32_t *stop;              /* bit per row */
};

/* The tokenizer of a model's folder; NULL with OK: there is none. */
LR_MUST_USE lr_code serving_tokenizer_open(const char *dir, struct tokenizer **out,
                                           struct lr_error *err);
LR_MUST_USE lr_code serving_vocabulary_open(const char *dir, const struct serving_facts *facts,
                                            struct serving_vocabulary *out,
                                            struct lr_error *err);
void serving_vocabulary_close(struct serving_vocabulary *v);

bool serving_vocabulary_is_stop(const struct serving_vocabulary *v, uint32_t id);

/* Bytes (borrowed, never NULL) and LR_VOCAB_ flags of an id below rows. */
struct lr_str serving_vocabulary_bytes(const struct serving_vocabulary *v, uint32_t id,
                                       uint32_t *flags);

/* The ids of words that are one token each, by the tokenizer of a model's folder. */
lr_code serving_vocabulary_words(const char *dir, const struct lr_str *words, size_t count,
                                 uint32_t *ids, struct lr_error *err);

#endif
