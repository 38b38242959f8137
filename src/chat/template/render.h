/* chat/template/render.h - renders a model's own chat template with repaired messages
 * (chat/template/repair.h), and makes the repairs that only a rendering shows to be needed.
 *
 * The content of an assistant's message that only calls tools is null; so our own answers say
 * it. Most templates expect that null, and some write another prompt for "".  Others fail on
 * the null or print it as None or null.  Likewise most templates expect the arguments of a call
 * as an object, and some fail on everything but text.  So the template is rendered with null
 * and objects first:
 *
 *   - where it fails, it is rendered with the arguments as JSON text
 *   - where it still fails, or printed the null, it is rendered with the content ""
 *
 * Thread: any.
 */
#ifndef CHAT_TEMPLATE_RENDER_H
#define CHAT_TEMPLATE_RENDER_H

#include "jinja/jinja.h"

/* Like jinja_render.  `arena` gets the changed messages. */
LR_MUST_USE lr_code chat_template_render(const struct jinja_template *tmpl,
                                         const struct jinja_input *input,
                                         struct lr_arena *arena, struct jinja_output *out,
                                         struct lr_error *err);

#endif
