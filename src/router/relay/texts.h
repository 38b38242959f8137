/* router/relay/texts.h - the prompt and the answer of a request, for the request log
 * (journal.h), where the request's key has keep_texts (docs/adr/0078).
 *
 * The prompt is what the model gets: the rendered template.  The answer is what the client
 * gets.  Of a longer prompt the beginning and the end are kept, of a longer answer the
 * beginning; both say how many bytes were left out.  A call of a key without keep_texts has
 * none of this.  Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_TEXTS_H
#define ROUTER_RELAY_TEXTS_H

#include "chat/turn.h"

enum {
    ROUTER_TEXT_MAX =
        64 << 10,           /* bytes of a prompt, and of the choices of an answer together */
    ROUTER_TEXT_PARTS = 32, /* of one choice */
    ROUTER_TEXT_JSON = 8 * ROUTER_TEXT_MAX, /* a byte may take six: \u0001 */
};

/* A choice of the answer, as it grows. */
struct router_kept_choice {
    struct lr_buf text; /* owned */
    uint32_t part_count;
    struct router_kept_part {
        enum chat_delta_kind kind; /* reasoning, content, or tool begin: the call's name */
        size_t begin, name_len;    /* in text; name_len: of a tool call, before its arguments */
    } parts[ROUTER_TEXT_PARTS];
    uint64_t left_out; /* bytes */
};

struct router_kept_answer {
    size_t room; /* bytes that may still be added */
    uint32_t count;
    struct router_kept_choice choices[];
};

/* {"begin": ..., "left_out": N, "end": ...} of all prompts of a turn that is READY. */
void router_texts_prompt(const struct chat_turn *turn, struct lr_buf *json);

/* NULL: no memory, and no answer is kept. */
struct router_kept_answer *router_kept_answer_new(uint32_t choices);
void router_kept_answer_add(struct router_kept_answer *answer, uint32_t choice,
                            const struct chat_delta *delta);
/* [{"parts": [{"kind": "content", "text": ...}], "left_out": N}], one object per choice. */
void router_kept_answer_write(const struct router_kept_answer *answer, struct lr_buf *json);
void router_kept_answer_free(struct router_kept_answer *answer); /* NULL is fine */

#endif
