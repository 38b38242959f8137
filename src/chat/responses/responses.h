/* chat/responses/responses.h - the Responses API of OpenAI (internal).
 *
 *   codec.c      the codec, and checks that involve several fields
 *   fields.c     the table of fields, and the simple fields
 *   input.c      input items become messages; assistant.c does so for an assistant's turn
 *   tools.c      all tools; function.c converts one of them
 *   stored.c     stored responses
 *   items.c      the answer as items, events.c as a stream, object.c in one piece
 */
#ifndef CHAT_RESPONSES_RESPONSES_H
#define CHAT_RESPONSES_RESPONSES_H

#include "chat/parse.h"

/* A body while it is parsed. */
struct chat_responses_parse {
    struct chat_parse p; /* first: fields get a pointer to it */
    const struct lr_json *input;
    uint32_t earlier; /* items at the beginning of the input that are stored ones */
    const struct lr_json *tools;
    struct lr_str instructions;
};
static inline struct chat_responses_parse *chat_responses_parse_of(struct chat_parse *p)
{
    return (struct chat_responses_parse *)(void *)p;
}

extern const struct chat_fields chat_responses_fields; /* fields.c */
/* The lists of fields in docs/responses.md. */
void chat_responses_fields_markdown(struct lr_buf *out);

/* input.c: the input and the instructions become the request's messages. */
lr_code chat_responses_messages(struct chat_parse *p);
/* tools.c: the tools become the request's tools. */
lr_code chat_responses_tools(struct chat_parse *p);
/* The model's name for a tool in a namespace; ptr is NULL without memory. */
struct lr_str chat_responses_tool_name(struct lr_arena *arena, struct lr_str space,
                                       struct lr_str name);
lr_code chat_responses_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value);

#endif
