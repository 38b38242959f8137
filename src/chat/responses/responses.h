/* chat/responses/responses.h - the Responses API of OpenAI (internal).
 *
 *   codec.c      the codec, and what several fields of a request say together
 *   fields.c     the table of fields, and the plain ones among them
 *   input.c      items of the input become messages, assistant.c those of one assistant's turn
 *   tools.c      tools, function.c one of them as a model knows it
 *   items.c      the answer as items, events.c as a stream, object.c in one piece
 */
#ifndef CHAT_RESPONSES_RESPONSES_H
#define CHAT_RESPONSES_RESPONSES_H

#include "chat/parse.h"

/* One body on its way to a request. */
struct chat_responses_parse {
    struct chat_parse p; /* first: fields get a pointer to it */
    const struct lr_json *input;
    const struct lr_json *tools;
    struct lr_str instructions;
};
static inline struct chat_responses_parse *chat_responses_parse_of(struct chat_parse *p)
{
    return (struct chat_responses_parse *)(void *)p;
}

extern const struct chat_fields chat_responses_fields; /* fields.c */
/* The lists of fields as docs/responses.md holds them. */
void chat_responses_fields_markdown(struct lr_buf *out);

/* input.c: the input and the instructions become the request's messages. */
lr_code chat_responses_messages(struct chat_parse *p);
/* tools.c: the tools become the request's tools. */
lr_code chat_responses_tools(struct chat_parse *p);
/* The name a model knows a tool of a namespace by; without memory its ptr is NULL. */
struct lr_str chat_responses_tool_name(struct lr_arena *arena, struct lr_str space,
                                       struct lr_str name);
lr_code chat_responses_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value);

#endif
