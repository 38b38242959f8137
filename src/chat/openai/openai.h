/* chat/openai/openai.h - the chat and the completions API of OpenAI (internal).
 *
 *   codec.c     the two codecs, and checks that involve several fields
 *   fields.c    the table of fields, and the simple fields
 *   foreign.c   fields that other servers' clients send: Ollama, OpenRouter, vLLM
 *   messages.c  messages and tools
 *   values.c    stop strings, biases and raw prompts
 *   chunk.c     an answer as a stream of chunks
 *   body.c      an answer in one piece
 *   error.c     {"error":{"message":...,"type":...,"param":...,"code":...}}: the type comes
 *               from the table of base/fail.h, `code` is OpenAI's own word where there is one,
 *               else the lower-case name of the lr_code
 */
#ifndef CHAT_OPENAI_OPENAI_H
#define CHAT_OPENAI_OPENAI_H

#include "chat/parse.h"
#include "chat/response_internal.h"

/* A body while it is parsed. */
struct chat_openai_parse {
    struct chat_parse p; /* first: fields get a pointer to it */
    bool has_messages;
    bool has_prompt;
    bool hide_reasoning;
    enum chat_thinking thinking; /* from a field other than reasoning_effort */
    uint32_t max_completion_tokens;
    uint32_t best_of;
};
static inline struct chat_openai_parse *chat_openai_parse_of(struct chat_parse *p)
{
    return (struct chat_openai_parse *)(void *)p;
}

/* fields.c: bits of chat_field_row.in */
enum { CHAT_OPENAI_CHAT = 1, CHAT_OPENAI_COMPLETIONS = 2 };
extern const struct chat_fields chat_openai_chat_fields, chat_openai_completions_fields;
/* The three lists of docs/api-fields.md. */
void chat_openai_fields_markdown(struct lr_buf *out);

/* foreign.c */
lr_code chat_openai_enable_thinking(struct chat_parse *p, const char *name,
                                    const struct lr_json *value);
lr_code chat_openai_think(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_openai_thinking(struct chat_parse *p, const char *name,
                             const struct lr_json *value);
lr_code chat_openai_reasoning(struct chat_parse *p, const char *name,
                              const struct lr_json *value);
lr_code chat_openai_usage_option(struct chat_parse *p, const char *name,
                                 const struct lr_json *value);
lr_code chat_openai_min_tokens(struct chat_parse *p, const char *name,
                               const struct lr_json *value);

/* messages.c */
lr_code chat_openai_messages(struct chat_parse *p, const char *name,
                             const struct lr_json *value);
lr_code chat_openai_tools(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_openai_tool_choice(struct chat_parse *p, const char *name,
                                const struct lr_json *value);

/* values.c */
lr_code chat_openai_logit_bias(struct chat_parse *p, const char *name,
                               const struct lr_json *value);
lr_code chat_openai_prompt(struct chat_parse *p, const char *name, const struct lr_json *value);

extern const struct chat_writer chat_chunk_writer; /* chunk.c */
extern const struct chat_writer chat_body_writer;  /* body.c */

/* body.c */
void chat_openai_head(const struct chat_response_options *o, const char *object,
                      struct lr_buf *out);
void chat_openai_usage(const struct chat_response *r, struct lr_buf *out);
/* "stop", "length" or "tool_calls". */
const char *chat_openai_finish_reason(const struct chat_choice *c);

/* error.c */
/* The text of an error in the words that clients of OpenAI look for. */
struct lr_error chat_openai_error_told(const struct lr_error *error);
void chat_openai_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e);

#endif
