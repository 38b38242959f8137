/* chat/template/families.h - prompts of models whose files have no chat template.
 *
 * A base model has none because it was not trained to chat; a chat model may have lost it.  The
 * vocabulary tells: control tokens of a form of turns are there for that form only.
 */
#ifndef CHAT_TEMPLATE_FAMILIES_H
#define CHAT_TEMPLATE_FAMILIES_H

#include <stdbool.h>

#include "base/str.h"

struct chat_vocabulary {
    bool (*has)(const void *ctx, struct lr_str token);
    const void *ctx;
};

enum chat_family {
    CHAT_FAMILY_NONE,   /* the vocabulary has marks of no form */
    CHAT_FAMILY_CHATML, /* chat/template/chatml.h writes the prompts */
    CHAT_FAMILY_OWN,    /* *chat_template, in static memory */
};

enum chat_family chat_family_of(const struct chat_vocabulary *vocabulary,
                                struct lr_str *chat_template);

#endif
