/* chat/harmony/template.h - the default prompt format of gpt-oss.
 *
 * Gives the same text as the template that OpenAI publishes with the model, for every input
 * that the template accepts after chat_repair.  Thread: any.
 */
#ifndef CHAT_HARMONY_TEMPLATE_H
#define CHAT_HARMONY_TEMPLATE_H

#include <time.h>

#include "jinja/jinja.h"

/* context: messages, tools, builtin_tools, model_identity, reasoning_effort,
 * add_generation_prompt.  Always initialises *out.  INVALID_ARGUMENT names the message that
 * cannot be rendered. */
LR_MUST_USE lr_code chat_harmony_render(const struct lr_json *context, const struct tm *now,
                                        struct jinja_output *out, struct lr_error *err);

#endif
