/* chat/calls.h - parses the output of models that do not speak Harmony: text is content, and
 * calls in the form of the model's template (grammar/calls.h) are calls.  Has the same
 * functions as chat/harmony/parser.h.
 *
 *                 begin               {                }
 *     LOOKING ------------> BEGUN ---------> OBJECT ---------> CLOSING
 *        ^                    |                | |                |
 *        |                    +--- no call ----+ | not JSON       | end, or other text
 *        |<-------------------------------------+v               |
 *        |                        end           BROKEN            |
 *        |<---------------------------------------+               |
 *        +--------------------------------------------------------+
 *
 * Incremental and tolerant: no input is an error, and no text is lost.  Text that begins like a
 * call, but is not JSON or names no declared tool, is content.  The result does not depend on
 * how the bytes are split.
 *
 * LOOKING holds back only text that may begin a call, and blanks at the beginning of the answer
 * and after a call; blanks beside calls are no content.  OBJECT holds a call back until its
 * arguments are complete.  A longer call is sent while it arrives.  Then arguments that turn
 * out not to be JSON stay arguments up to the end of the call (BROKEN), because the client
 * already has their beginning.  Control tokens of the form count as its text, all others are
 * dropped.
 */
#ifndef CHAT_CALLS_H
#define CHAT_CALLS_H

#include "base/buf.h"
#include "chat/events.h"
#include "chat/json_scan.h"
#include "chat/text.h"
#include "grammar/calls.h"

enum {
    /* Most calls are shorter, and come whole or as content.  Longer ones are worth sending in
     * pieces. */
    CHAT_CALLS_WHOLE_MAX = 256,
    /* Of a call whose name comes after its arguments, and of blanks. */
    CHAT_CALLS_HELD_MAX = 64 << 10,
};

enum chat_calls_state {
    CHAT_CALLS_LOOKING,
    CHAT_CALLS_BEGUN,   /* after the form's `begin` or `lead` */
    CHAT_CALLS_OBJECT,  /* inside the JSON of a call */
    CHAT_CALLS_CLOSING, /* after the call, up to the form's `end` */
    CHAT_CALLS_BROKEN,  /* inside arguments that are not JSON */
};

struct chat_calls_options {
    enum grammar_format format;
    const struct lr_str *tools; /* declared names; borrowed while the parser lives */
    uint32_t tool_count;        /* 0: all text is content */
};

enum chat_calls_member { CHAT_CALLS_OTHER, CHAT_CALLS_NAME, CHAT_CALLS_ARGUMENTS };

/* A range of the held text; to 0: not known yet. */
struct chat_calls_part {
    uint32_t from, to;
};

struct chat_calls {
    chat_delta_fn fn; /* borrowed */
    void *ctx;
    struct chat_calls_options options;
    const struct grammar_form *form; /* NULL: all text is content */
    enum chat_calls_state state;
    uint32_t count; /* calls so far */
    uint32_t scan;  /* LOOKING: grammar_form_scan's state */
    bool is_blank;  /* LOOKING: only blanks since the beginning or the last call */
    /* OBJECT */
    struct chat_json_scan json;
    enum chat_calls_member member; /* whose value comes or is there */
    struct chat_calls_part key, name, arguments;
    bool is_sent;       /* the client has the call's name */
    uint32_t end_seen;  /* CLOSING, BROKEN: bytes of `end` that the text ends with */
    struct lr_buf held; /* owned: text whose meaning is open, or that is about to be sent */
    struct chat_utf8 utf8;
};

void chat_calls_init(struct chat_calls *p, const struct chat_calls_options *options,
                     chat_delta_fn fn, void *ctx);
void chat_calls_free(struct chat_calls *p);

/* One token event.  `special`: bytes is the name of a control token. */
void chat_calls_token(struct chat_calls *p, struct lr_str bytes, bool special);

/* The stream is over: emits text that was held back and closes an open call.  is_cut: the
 * answer was truncated, so an incomplete call is a call. */
void chat_calls_end(struct chat_calls *p, bool is_cut);

/* True when text that arrives now cannot become content: it belongs to a call that was sent. */
static inline bool chat_calls_in_call(const struct chat_calls *p)
{
    return p->is_sent || p->state == CHAT_CALLS_CLOSING;
}

#endif
