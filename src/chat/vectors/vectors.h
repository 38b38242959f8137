/* chat/vectors/vectors.h - APIs whose answers are vectors (internal to src/chat).
 *
 *   embeddings.c  POST /v1/embeddings, OpenAI's form
 *   rerank.c      POST /v1/rerank, in the form of Jina and Cohere
 *   text.c        what they share, also for another API's codec
 *
 * A request has many texts, and each is a generation of its own (chat/turn.h): it is scheduled,
 * limited, tried again and counted as any other.
 */
#ifndef CHAT_VECTORS_VECTORS_H
#define CHAT_VECTORS_VECTORS_H

#include "chat/parse.h"
#include "chat/response_internal.h"

enum { CHAT_VECTORS_BYTES_MAX = 64 << 20 }; /* of an answer */

/* The texts of a request: a string, token ids, or up to CHAT_INPUTS_MAX of either. */
lr_code chat_vectors_input(struct chat_parse *p, const char *name, const struct lr_json *value);
/* INVALID_ARGUMENT: a text has more than CHAT_INPUT_BYTES_MAX bytes. */
lr_code chat_vectors_check_text(struct chat_parse *p, const char *param, struct lr_str text);
lr_code chat_vectors_dimensions(struct chat_parse *p, const char *name,
                                const struct lr_json *value);

/* "[0.25,-1]", with the digits that a float32 needs. */
void chat_vectors_numbers(struct lr_buf *out, const struct wire_vector *v);
void chat_vectors_number(struct lr_buf *out, float value);

/* For writers: a vector has no text and no calls. */
void chat_vectors_no_text(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                          struct lr_str text);
void chat_vectors_no_call(struct chat_choice *c, uint32_t tool, struct lr_str name);
/* False: a generation ended without its vector; the error is written. */
bool chat_vectors_are_whole(struct chat_response *r);
/* "usage":{"prompt_tokens":...,"total_tokens":...} */
void chat_vectors_usage(const struct chat_response *r, struct lr_buf *out);

/* The lists of fields for the API's page in docs/. */
void chat_vectors_fields_markdown(const struct chat_fields *fields, struct lr_buf *out);
extern const struct chat_fields chat_embeddings_fields, chat_rerank_fields;

#endif
