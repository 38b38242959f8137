/* chat/prompt.h - renders a chat_request to the prompt segments that an engine tokenizes
 * (docs/promises.md: trusted-text).
 *
 * Repairs the messages (chat/template/repair.h), chooses the model's own template or a default,
 * and renders.  A raw prompt is one segment in which control tokens are recognised, because its
 * caller writes the format.
 */
#ifndef CHAT_PROMPT_H
#define CHAT_PROMPT_H

#include "base/fail.h"
#include "chat/dialect/dialect.h"
#include "chat/request.h"
#include "chat/template/lost.h"
#include "chat/template/manners.h"
#include "jinja/jinja.h"

/* What the router knows about a model's prompt format.  Borrowed for the call. */
struct chat_model {
    const struct jinja_template *chat_template; /* compiled; NULL: the default */
    struct chat_dialect dialect;                /* what it reads and writes */
    struct lr_str source;                       /* the template's text; empty: the default */
    bool
        lacks_template; /* the vocabulary has no form of turns: it can only go on with a text */
    uint32_t manners;   /* of the template (chat/template/manners.h) */
    struct lr_str bos_token; /* texts of the tokens; empty: none */
    struct lr_str eos_token;
    struct lr_str unk_token;
    struct lr_str pad_token;
    struct lr_sampling_defaults sampling;
};

/* Learns the manners of the model's template; the other members are set. */
void chat_model_learn(struct chat_model *model);

/* The control token that the template writes behind an answer (chat_manners_ending). */
struct lr_str chat_model_ending(const struct chat_model *model, char out[CHAT_ENDING_MAX]);

/* Has either segments or ids.  Owns its memory, so the request may be freed first; but what
 * becomes a vector is borrowed from the request. */
struct chat_prompt {
    const struct lr_segment *segments; /* NULL where ids are given */
    size_t segment_count;
    const uint32_t *ids; /* NULL where segments are given */
    size_t id_count;
    size_t bytes;             /* of text */
    bool opens_thought;       /* the answer begins inside reasoning */
    char lost[CHAT_LOST_MAX]; /* parts of the request that the template has no place for */
    /* private */
    struct jinja_output rendered;
    void *owned;
};

/* Renders prompt `index` (0 for chat). now: seconds since 1970, for the date in the prompt, as
 * local time.  Always initialises *out; the caller frees it.
 *   INVALID_ARGUMENT  the template refused these messages
 *   TOO_LARGE, TIMEOUT, OUT_OF_RAM  limits of the template engine */
LR_MUST_USE lr_code chat_prompt_render(const struct chat_request *req,
                                       const struct chat_model *model, uint32_t index,
                                       int64_t now, struct chat_prompt *out,
                                       struct lr_error *err);
void chat_prompt_free(struct chat_prompt *prompt);

#endif
