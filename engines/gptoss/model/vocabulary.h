/* gptoss/model/vocabulary.h - what the engine knows about token ids: bytes, stop tokens,
 * unused.
 *
 * Combines the tokenizer with the model's two configs.  A snapshot may have no tokenizer; then
 * only ids can be used and tokens have no bytes.  Stop tokens are the union of
 * generation_config.json, config.json and <|return|>, <|call|>, <|endoftext|>, found by name,
 * never by number, because other vocabularies number them differently.  Read-only once opened.
 * Thread: any.
 */
#ifndef GPTOSS_MODEL_VOCABULARY_H
#define GPTOSS_MODEL_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

struct gptoss_vocabulary {
    uint32_t rows;               /* ids the model has logits for */
    struct tokenizer *tokenizer; /* owned; NULL: the snapshot has none */
    uint32_t *usable;            /* bit per row: may be sampled */
    uint32_t *stop;              /* bit per row */
};

/* The tokenizer of a model's folder; NULL with OK: there is none. */
LR_MUST_USE lr_code gptoss_tokenizer_open(const char *dir, struct tokenizer **out,
                                          struct lr_error *err);
LR_MUST_USE lr_code gptoss_vocabulary_open(const char *dir, const struct model_config *config,
                                           uint32_t rows, struct gptoss_vocabulary *out,
                                           struct lr_error *err);
void gptoss_vocabulary_close(struct gptoss_vocabulary *v);

bool gptoss_vocabulary_is_stop(const struct gptoss_vocabulary *v, uint32_t id);

/* Bytes (borrowed, never NULL) and LR_VOCAB_ flags of an id below rows. */
struct lr_str gptoss_vocabulary_bytes(const struct gptoss_vocabulary *v, uint32_t id,
                                      uint32_t *flags);

#endif
