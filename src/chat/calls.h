/* chat/calls.h - reads the answers of models that do not speak Harmony: reasoning between
 * marks, calls in the form of the model's template (grammar/calls.h), and text, which is
 * content.  Has the same functions as chat/harmony/parser.h.
 *
 *               begin of a call             {, a tag, a name
 *     LOOKING ------------------> BETWEEN --------------------> inside a call
 *        ^   \                      | ^ ^                         |  |  |
 *        |    +-- the form has no --+ | +------- its end ---------+  |  |
 *        |        name or section     |                              |  |
 *        |<-- other text -------------+        not the form's text --+  +-- arguments, already
 *        |<----------------------------------------------------------+      sent, that are no
 *        |                                                                  JSON: BROKEN
 *
 * Incremental and tolerant: no input is an error, and no text is lost.  Text that begins like a
 * call, but is none of the form, or names no declared tool, is content.  The result does not
 * depend on how the bytes are split, because every byte is one step.
 *
 * Text is held back only where a mark may begin, and blanks beside marks, which are neither
 * content nor reasoning.  A call is held back until it is complete or has CHAT_CALLS_WHOLE_MAX
 * bytes; a longer call is sent while it arrives.  What turns out to be no JSON then stays
 * arguments up to the end of the call, because the client already has their beginning.
 *
 * A call inside reasoning ends the reasoning if nothing but calls follows it; followed by more
 * thoughts it was quoted and stays reasoning.  Control tokens of the form count as its text,
 * all others are dropped.
 */
#ifndef CHAT_CALLS_H
#define CHAT_CALLS_H

#include "base/buf.h"
#include "chat/dialect/types.h"
#include "chat/events.h"
#include "chat/json_scan.h"
#include "chat/text.h"
#include "grammar/calls.h"

enum {
    /* Most calls are shorter, and come whole or as content.  Longer ones are worth sending in
     * pieces. */
    CHAT_CALLS_WHOLE_MAX = 256,
    /* Of a call whose name comes after its arguments, of blanks, and of calls in reasoning. */
    CHAT_CALLS_HELD_MAX = 64 << 10,
    CHAT_CALLS_MARK_MAX = 64,    /* bytes of a mark */
    CHAT_CALLS_MARKS_MAX = 20,   /* that are looked for at once */
    CHAT_CALLS_HEADER_MAX = 512, /* of a name with what is around it */
};

enum chat_calls_state {
    CHAT_CALLS_LOOKING,
    CHAT_CALLS_BETWEEN,   /* in a section, before or after a call */
    CHAT_CALLS_HEADER,    /* the name of a call, up to its arguments */
    CHAT_CALLS_NAME_REST, /* attributes after the name */
    CHAT_CALLS_BODY,      /* between the parameters of a tagged call */
    CHAT_CALLS_KEY,
    CHAT_CALLS_KEY_REST,
    CHAT_CALLS_VALUE_MARK, /* up to the mark before a value */
    CHAT_CALLS_VALUE,
    CHAT_CALLS_OBJECT,  /* inside the JSON of a call */
    CHAT_CALLS_PYTHON,  /* inside the arguments of a Python call */
    CHAT_CALLS_TEXT,    /* arguments that are read as a whole: Gemma 4, MiniMax M3 */
    CHAT_CALLS_BROKEN,  /* inside arguments that are not JSON */
    CHAT_CALLS_HEADING, /* before content or calls: a recipient, which means nothing */
    CHAT_CALLS_SKIP,    /* inside a call without a name, which is left out */
};

/* What a reader put right, for metrics. */
enum chat_repair_kind {
    CHAT_REPAIR_NEWLINE,   /* a raw control character in a JSON string */
    CHAT_REPAIR_STRING,    /* arguments as a string that has JSON in it */
    CHAT_REPAIR_END,       /* the end of a call or its section is missing */
    CHAT_REPAIR_BEGIN,     /* a call without the section it belongs to */
    CHAT_REPAIR_REASONING, /* a call that ended reasoning */
    CHAT_REPAIR_SKIPPED,   /* a call without a usable name */
    CHAT_REPAIR_REJECTED,  /* looked like a call, and became content */
    CHAT_REPAIR_COUNT,
};
const char *chat_repair_kind_name(enum chat_repair_kind kind);

struct chat_calls_options {
    enum grammar_format format;
    const struct chat_declared *tools; /* the declared ones; borrowed while the parser lives */
    uint32_t tool_count;               /* 0: no text is a call */
    struct grammar_thought thought;    /* the marks of reasoning; empty: it has none */
    bool is_opened;                    /* the prompt ended inside reasoning */
};

enum chat_calls_member {
    CHAT_CALLS_OTHER,
    CHAT_CALLS_NAME,
    CHAT_CALLS_ID,
    CHAT_CALLS_ARGUMENTS
};

/* What a mark means where it is found. */
enum chat_calls_mark {
    CHAT_MARK_THOUGHT,
    CHAT_MARK_THOUGHT_END,
    CHAT_MARK_SECTION,
    CHAT_MARK_SECTION_END,
    CHAT_MARK_BEGIN,
    CHAT_MARK_END,
    CHAT_MARK_DROP,
    CHAT_MARK_SKIPPED,
    CHAT_MARK_HEADING,
    CHAT_MARK_KEY,
    CHAT_MARK_KEY_END,
    CHAT_MARK_CLOSE,
    CHAT_MARK_VALUE,
    CHAT_MARK_VALUE_END,
};

struct chat_calls {
    chat_delta_fn fn; /* borrowed */
    void *ctx;
    struct chat_calls_options options;
    const struct grammar_form *form;
    enum chat_calls_state state;
    bool in_thought;
    bool is_blank;     /* only blanks since the beginning, a mark or the last call */
    bool drops_blanks; /* they mean nothing, because a mark or a call is before them */
    bool has_said;     /* there was content: calls without `begin` cannot begin any more */
    bool has_leading;  /* calls without `begin` have begun: their separators are expected */
    bool in_array;
    bool after_call; /* BETWEEN: a call of this section was there */
    uint32_t count;  /* calls so far */
    uint32_t queued; /* of these, calls of the current section that wait in `queue` */
    uint32_t repairs[CHAT_REPAIR_COUNT];
    /* what may be the beginning of a mark */
    char mark[CHAT_CALLS_MARK_MAX];
    uint32_t mark_len;
    struct lr_buf blanks; /* owned: held back, because a mark may follow */
    struct lr_buf raw;    /* owned: the text of the calls that were not sent yet */
    size_t raw_from;      /* of these, where the last call begins */
    struct lr_buf queue;  /* owned: deltas of calls inside reasoning */
    struct lr_buf out;    /* owned: text that is about to be sent */
    enum chat_delta_kind out_kind;
    /* the call */
    struct lr_buf name, id, args, text; /* owned */
    const struct chat_types *types;     /* of its arguments; NULL: not declared */
    const struct chat_types *value_types;
    bool is_begun; /* its name was given */
    bool has_args; /* its arguments have begun */
    bool has_keys; /* of a tagged call */
    /* OBJECT, PYTHON */
    struct chat_json_scan json;
    enum chat_calls_member member; /* whose value comes or is there */
    bool is_text;                  /* the arguments are a string */
    bool in_args;
    char quote; /* of the string in a Python call; '\0': none */
    bool is_escape;
    uint32_t depth;
    /* VALUE */
    bool is_first;    /* no byte of the value was read */
    bool is_streamed; /* a string, which is sent while it arrives */
    bool is_string, has_type, has_newline;
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

/* True when text that arrives now cannot become content: it belongs to a call that was sent, or
 * to reasoning. */
static inline bool chat_calls_in_call(const struct chat_calls *p)
{
    return p->is_begun || (p->state == CHAT_CALLS_BETWEEN && p->count != 0) || p->in_thought;
}

/* Bytes whose meaning is open. */
static inline size_t chat_calls_held(const struct chat_calls *p)
{
    return p->state == CHAT_CALLS_LOOKING ? p->blanks.len + p->mark_len : p->raw.len;
}

/* No memory: text was lost. */
static inline bool chat_calls_failed(const struct chat_calls *p)
{
    return p->blanks.failed || p->raw.failed || p->queue.failed || p->out.failed ||
           p->name.failed || p->id.failed || p->args.failed || p->text.failed;
}

#endif
