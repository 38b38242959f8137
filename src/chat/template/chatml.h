/* chat/template/chatml.h - the default prompt format of models without a template.
 *
 * ChatML: <|im_start|>role, newline, text, <|im_end|>, newline.  Tools are described in the
 * system message; calls and results are written between tags, like Qwen and Hermes.  Thread:
 * any.
 */
#ifndef CHAT_TEMPLATE_CHATML_H
#define CHAT_TEMPLATE_CHATML_H

#include "jinja/jinja.h"

/* context: messages, tools, add_generation_prompt.  Always initialises *out. */
LR_MUST_USE lr_code chat_chatml_render(const struct lr_json *context, struct jinja_output *out,
                                       struct lr_error *err);

#endif
