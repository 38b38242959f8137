/* chat/prompt.h - chat_request -> the prompt segments an engine tokenizes.
 *
 * Repairs the messages (chat/repair.h), picks the model's own template or the default
 * one, and renders.  For completions the prompt is one untrusted segment per prompt:
 * there control tokens are allowed, since that API is the raw one.
 */
#ifndef CHAT_PROMPT_H
#define CHAT_PROMPT_H

#include <time.h>

#include "base/arena.h"
#include "base/fail.h"
#include "chat/request.h"

struct jinja_template;

/* What the router knows about a model's prompts. */
struct chat_model {
    const struct jinja_template *chat_template; /* compiled; NULL: the default */
    bool is_gptoss;                             /* speaks Harmony */
    struct lr_str bos_token;                    /* texts; empty: none */
    struct lr_str eos_token;
};

struct chat_prompt {
    const struct lr_segment *segments; /* NULL where ids are given */
    size_t segment_count;
    const uint32_t *ids;
    size_t id_count;
};

/* Renders prompt `index` (0 for chat) into `arena`; text that was not changed stays
 * where the request has it.  now: seconds since 1970, for the date in the prompt.
 *   INVALID_ARGUMENT  the template raised an error over these messages
 *   UNSUPPORTED       the template uses something we do not have
 *   OUT_OF_RAM        limits of the template engine or the arena */
LR_MUST_USE lr_code chat_prompt_render(const struct chat_request *req,
                                       const struct chat_model *model, uint32_t index,
                                       int64_t now, struct lr_arena *arena,
                                       struct chat_prompt *out, struct lr_error *err);

#endif
