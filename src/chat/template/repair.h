/* chat/template/repair.h - messages and tools as templates expect them.
 *
 * Clients send what the OpenAI API allows; templates crash on half of it.  Repairing
 * happens on the JSON, before any template sees it, and changes no word of the text:
 *   - content as a list of text parts becomes one string, parts joined by newlines
 *   - arguments of a tool call that are a string of JSON become the value
 *   - `reasoning` is also found under `reasoning_content`
 * and for gpt-oss, whose official template is stricter (facts of its format):
 *   - null or missing content becomes "", a missing tool description too
 *   - `reasoning_content` becomes `thinking`; with tool calls, content joins it
 *   - several tool calls become one message each, followed by its own result
 *   - a null reasoning_effort goes; a default that is no string, next to enum or oneOf,
 *     becomes its JSON text
 * Thread: any.
 */
#ifndef CHAT_TEMPLATE_REPAIR_H
#define CHAT_TEMPLATE_REPAIR_H

#include "base/json.h"

/* context: the variables of a template (messages, tools, ...).  *out is a new object that
 * shares what needed no repair; it lives in the arena and borrows from context.
 * OUT_OF_RAM is the only failure. */
LR_MUST_USE lr_code chat_repair(struct lr_arena *arena, const struct lr_json *context,
                                bool is_harmony, const struct lr_json **out,
                                struct lr_error *err);

#endif
