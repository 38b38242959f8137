/* chat/anthropic/anthropic.h - the Messages API of Anthropic (internal).
 *
 *   codec.c     the codec, and checks that involve several fields
 *   fields.c    the table of fields, and the simple fields
 *   messages.c  system texts and messages become the request's messages
 *   content.c   the text of blocks: text, documents, results, and notes for images
 *   tools.c     tools and tool_choice
 *   answer.c    the answer as content blocks, in one piece or as named events
 *   error.c     {"type":"error","error":{"type":...,"message":...}}
 *
 * Clients of this API send fields of many versions and do not leave out a field that was
 * refused.
 */
#ifndef CHAT_ANTHROPIC_ANTHROPIC_H
#define CHAT_ANTHROPIC_ANTHROPIC_H

#include "chat/parse.h"
#include "chat/response_internal.h"

/* A body while it is parsed. */
struct chat_anthropic_parse {
    struct chat_parse p; /* first: fields get a pointer to it */
    const struct lr_json *system;
    const struct lr_json *messages;
    bool has_effort; /* output_config.effort decides, not `thinking` */
};
static inline struct chat_anthropic_parse *chat_anthropic_parse_of(struct chat_parse *p)
{
    return (struct chat_anthropic_parse *)(void *)p;
}

/* fields.c */
extern const struct chat_fields chat_anthropic_fields;
/* The lists of fields in docs/messages.md. */
void chat_anthropic_fields_markdown(struct lr_buf *out);

/* messages.c: `system` and `messages` become the request's messages. */
lr_code chat_anthropic_messages(struct chat_parse *p);

/* content.c */
/* Appends the text of one block; a block without text gives a note or nothing. */
void chat_anthropic_block_text(const struct lr_json *block, struct lr_buf *out);
/* Appends the text of a string, or of blocks, separated by newlines.  False: neither. */
bool chat_anthropic_text(const struct lr_json *content, struct lr_buf *out);
/* The block, or a block in its content, is an image or a document without text: the model gets
 * a note instead. */
bool chat_anthropic_has_note(const struct lr_json *block);
bool chat_anthropic_is(const struct lr_json *block, const char *type);

/* tools.c */
lr_code chat_anthropic_tools(struct chat_parse *p, const char *name,
                             const struct lr_json *value);
lr_code chat_anthropic_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value);

extern const struct chat_writer chat_anthropic_writer; /* answer.c */

/* error.c */
void chat_anthropic_error(struct lr_buf *out, const struct chat_codec *codec,
                          const struct chat_error *e);

#endif
