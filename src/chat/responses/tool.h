/* chat/responses/tool.h - one tool of the Responses API while it is converted (internal).
 *
 * responses/tools.c parses tools, responses/function.c converts them to functions.
 */
#ifndef CHAT_RESPONSES_TOOL_H
#define CHAT_RESPONSES_TOOL_H

#include "chat/responses/responses.h"
#include "chat/template/object.h"

struct chat_tool {
    char at[CHAT_TOOL_AT_MAX];
    const struct lr_json *from;
    struct lr_str type, name;
    struct lr_json about;      /* description: a string, or null */
    struct lr_str space;       /* namespace; empty: none */
    struct lr_str space_about; /* description of the namespace, for its first tool */
};

/* Fails with the name of the member: "expected <wanted>". */
lr_code chat_tool_bad(struct chat_parse *p, const struct chat_tool *t, const char *member,
                      const char *wanted);
lr_code chat_tool_no_memory(struct chat_parse *p);

/* {"type":"function","function":{...}}; name: the model's name for it. */
lr_code chat_tool_make(struct chat_parse *p, const struct chat_tool *t, struct lr_str name,
                       struct lr_json *out);

#endif
