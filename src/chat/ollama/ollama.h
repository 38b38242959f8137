/* chat/ollama/ollama.h - the chat, generate and embed APIs of Ollama (internal).
 *
 *   codec.c     the two codecs, checks that involve several fields, requests that only load
 *   fields.c    the table of fields, and the simple fields
 *   messages.c  messages and prompts become the request's messages
 *   answer.c    the answer as one object, or as lines of JSON
 *   embed.c     the codecs of embeddings
 *   error.c     {"error": "text"}
 *
 * A request without messages or without a prompt only loads the model.
 */
#ifndef CHAT_OLLAMA_OLLAMA_H
#define CHAT_OLLAMA_OLLAMA_H

#include "chat/parse.h"
#include "chat/response_internal.h"

/* A body while it is parsed. */
struct chat_ollama_parse {
    struct chat_parse p;            /* first: fields get a pointer to it */
    const struct lr_json *messages; /* NULL: none */
    struct lr_str prompt, system;
    bool is_raw;     /* the prompt is used without a template */
    bool has_images; /* beside `prompt` */
    bool unloads;    /* keep_alive is 0 */
};
static inline struct chat_ollama_parse *chat_ollama_parse_of(struct chat_parse *p)
{
    return (struct chat_ollama_parse *)(void *)p;
}

/* fields.c: bits of chat_field_row.in */
enum { CHAT_OLLAMA_CHAT = 1, CHAT_OLLAMA_GENERATE = 2 };
extern const struct chat_fields chat_ollama_chat_fields, chat_ollama_generate_fields;
/* The lists of fields in docs/ollama.md, of two APIs that share a table. */
void chat_ollama_print_fields(struct lr_buf *out, const struct chat_fields *table,
                              const char *first, const char *second);
void chat_ollama_fields_markdown(struct lr_buf *out);
void chat_ollama_embed_markdown(struct lr_buf *out); /* embed.c */

/* messages.c */
lr_code chat_ollama_messages(struct chat_parse *p);
/* `system` and `prompt`, or with `raw` only the prompt. */
lr_code chat_ollama_prompt(struct chat_parse *p);

extern const struct chat_writer chat_ollama_writer; /* answer.c */

/* error.c */
void chat_ollama_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e);

#endif
