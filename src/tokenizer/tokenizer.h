/* tokenizer/tokenizer.h - text to token ids and back, from a Hugging Face tokenizer.json.
 *
 * The ids are those of the Hugging Face tokenizer (without add_special_tokens: the chat
 * template writes the control tokens; tokenizer_add_wrapping is for other texts).  A file that
 * needs anything else is refused by name.
 *
 * An open tokenizer does not change: any thread may use it, and every call has its own working
 * memory.
 */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"
#include "llm-router/engine.h"

struct tokenizer;

/* Limits.  The largest vocabulary known to us has 262144 tokens and a file of 33 MB. */
enum {
    TOKENIZER_MAX_FILE = 256 << 20,
    TOKENIZER_MAX_VOCAB = (1 << 20) - 1,  /* ids fit in 20 bits */
    TOKENIZER_MAX_MERGES = (1 << 24) - 1, /* ranks fit in 24 bits */
    TOKENIZER_MAX_TOKEN = 0xFFFF,         /* bytes of one token */
    TOKENIZER_MAX_TEXT = 1 << 30,         /* bytes of one call, after repair */
};

/* A list of ids that grows up to a limit.  `failed` stays set, as in struct lr_buf. */
struct tokenizer_ids {
    uint32_t *items; /* owned */
    size_t count;
    size_t capacity;
    size_t limit; /* most ids */
    bool failed;
};

void tokenizer_ids_init(struct tokenizer_ids *ids, size_t limit);
bool tokenizer_ids_append(struct tokenizer_ids *ids, uint32_t id); /* false: it failed */
void tokenizer_ids_free(struct tokenizer_ids *ids);                /* leaves an empty list */

/* MODEL_CORRUPT: the file is inconsistent or no JSON; UNSUPPORTED: it needs an unsupported
 * feature, with the field's name; IO; OUT_OF_RAM. *out is NULL on failure. open_text borrows
 * the JSON for the call only. */
LR_MUST_USE lr_code tokenizer_open_file(const char *path, struct tokenizer **out,
                                        struct lr_error *err);
LR_MUST_USE lr_code tokenizer_open_text(struct lr_str json, struct tokenizer **out,
                                        struct lr_error *err);
/* The tokenizer of a model's folder, from the first of these that it has: tokenizer.json,
 * tokenizer.model (SentencePiece), tekken.json, vocab.json with merges.txt, vocab.txt.  Added
 * tokens, add_bos_token and add_eos_token of tokenizer_config.json count, too. */
LR_MUST_USE lr_code tokenizer_open_dir(const char *dir, struct tokenizer **out,
                                       struct lr_error *err);
bool tokenizer_dir_has_one(const char *dir);
void tokenizer_free(struct tokenizer *t); /* NULL is fine */

/* Appends the ids of `text`.  Control tokens ("special": true) are recognised only if `control`
 * is true; other added tokens always.  Bytes that are not UTF-8 become U+FFFD. INVALID_ARGUMENT
 * over TOKENIZER_MAX_TEXT or ids->limit; OUT_OF_RAM. After a failure the appended ids are
 * meaningless. */
LR_MUST_USE lr_code tokenizer_encode(const struct tokenizer *t, struct lr_str text,
                                     bool control, struct tokenizer_ids *ids,
                                     struct lr_error *err);

/* Appends the ids of all segments by the rule of struct lr_segment (docs/promises.md:
 * trusted-text): a control token is recognised only if all its bytes are in segments with
 * control != 0; the text between is encoded as one run across segment borders. */
LR_MUST_USE lr_code tokenizer_encode_segments(const struct tokenizer *t,
                                              const struct lr_segment *segments, size_t count,
                                              struct tokenizer_ids *ids, struct lr_error *err);

/* The ids of a prompt: as above, and with the ids of the post-processor around a text that no
 * chat template wrote, which is one without any trusted segment.  Where a template wrote the
 * text, it wrote BOS, too. */
LR_MUST_USE lr_code tokenizer_encode_prompt(const struct tokenizer *t,
                                            const struct lr_segment *segments, size_t count,
                                            struct tokenizer_ids *ids, struct lr_error *err);

/* Appends the ids that the file's post_processor puts before (or after) a text that no chat
 * template wrote: BOS, for example. */
void tokenizer_add_wrapping(const struct tokenizer *t, bool before, struct tokenizer_ids *ids);
/* The ids between the two texts of a pair; a file that says nothing of pairs has those behind a
 * text there. */
void tokenizer_add_between(const struct tokenizer *t, struct tokenizer_ids *ids);

/* Highest id + 1. */
uint32_t tokenizer_vocab_size(const struct tokenizer *t);

/* The bytes that a token adds to a text in which it is not the first token (a special token
 * gives its name), borrowed until free, and its LR_VOCAB_SPECIAL and LR_VOCAB_UNUSED flags.
 * False beyond the vocabulary. */
bool tokenizer_token(const struct tokenizer *t, uint32_t id, const char **bytes, uint32_t *len,
                     uint32_t *flags);

/* The id of a control token by its name; false: unknown. */
bool tokenizer_find_special(const struct tokenizer *t, const char *name, uint32_t *id);

/* Appends the bytes of the ids; control tokens as their names, or not at all with skip_control.
 * INVALID_ARGUMENT for an id beyond the vocabulary; an unused id below it has no bytes. */
LR_MUST_USE lr_code tokenizer_decode(const struct tokenizer *t, const uint32_t *ids,
                                     size_t count, bool skip_control, struct lr_buf *out,
                                     struct lr_error *err);

/* Decodes while tokens come: what is appended is never taken back, and all of it is what
 * tokenizer_decode gives.  A part of a character, and what a later token may still change,
 * waits. One thread at a time; t outlives the stream. */
struct tokenizer_stream;
struct tokenizer_stream *tokenizer_stream_new(const struct tokenizer *t, bool skip_control,
                                              struct lr_buf *out); /* NULL: no memory */
LR_MUST_USE lr_code tokenizer_stream_add(struct tokenizer_stream *s, uint32_t id,
                                         struct lr_error *err);
LR_MUST_USE lr_code tokenizer_stream_end(struct tokenizer_stream *s, struct lr_error *err);
void tokenizer_stream_free(struct tokenizer_stream *s);

/* Bytes of memory that the tokenizer holds. */
size_t tokenizer_memory(const struct tokenizer *t);

#endif
