/* chat/template/repair.h - makes messages and tools fit the expectations of templates.
 *
 * Clients send what the OpenAI API allows; templates fail on much of it.  Repairing changes the
 * JSON before a template sees it, and never changes the text:
 *
 *   - content as a list of parts becomes one string, parts joined by newlines; images, audio
 *     and files become a note, thinking becomes `reasoning_content`
 *   - null content of a tool's result becomes ""; for an assistant's see chat/template/render.h
 *   - arguments of a tool call that are a string of JSON become the value
 *   - `reasoning` is also found under `reasoning_content`
 *
 * for Llama 3, whose templates refuse several calls in a message:
 *
 *   - several tool calls become one message each, followed by its own result
 *
 * and for gpt-oss, whose official template is stricter:
 *
 *   - null or missing content becomes "", a missing tool description too
 *   - `reasoning_content` becomes `thinking`; with tool calls, content is joined to it
 *   - several tool calls as for Llama 3
 *   - a null reasoning_effort is removed; a default that is no string, next to enum or
 *     oneOf, becomes its JSON text
 *
 * Thread: any.
 */
#ifndef CHAT_TEMPLATE_REPAIR_H
#define CHAT_TEMPLATE_REPAIR_H

#include "base/json.h"
#include "grammar/calls.h"

/* The note that replaces an attachment of this type (image, audio, file) in a prompt; empty:
 * the type is unknown.  *what: "images" and the like. */
struct lr_str chat_part_note(struct lr_str type, const char **what);

/* context: the variables of a template (messages, tools, ...).  *out is a new object in the
 * arena that shares unchanged parts with context.  OUT_OF_RAM is the only failure. */
LR_MUST_USE lr_code chat_repair(struct lr_arena *arena, const struct lr_json *context,
                                enum grammar_format format, const struct lr_json **out,
                                struct lr_error *err);

#endif
