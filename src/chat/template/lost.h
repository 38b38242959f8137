/* chat/template/lost.h - parts of a conversation that a rendered prompt lacks.
 *
 * Templates drop what they have no place for without an error.  Each text of the request is
 * looked for in the prompt by a short sample of it, so the cost grows with the prompt only.
 */
#ifndef CHAT_TEMPLATE_LOST_H
#define CHAT_TEMPLATE_LOST_H

#include "base/json.h"

/* All names at once fit. */
enum { CHAT_LOST_MAX = 160 };

/* Writes the names of the parts that are not in the prompt, with commas: "tools",
 * "messages.system", "messages.developer", "messages.user", "messages.assistant",
 * "messages.tool", "messages.tool_calls", "messages.reasoning_content".  Reasoning before the
 * last user's message is not looked for, because most templates leave it out on purpose.
 * tools NULL: none. */
void chat_lost_find(const struct lr_json *messages, const struct lr_json *tools,
                    struct lr_str prompt, char out[CHAT_LOST_MAX]);

#endif
