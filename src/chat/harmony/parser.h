/* chat/harmony/parser.h - parses gpt-oss output: Harmony token events -> deltas.
 *
 * Incremental and tolerant: no input is an error.  Control tokens are tokens flagged special,
 * recognised by their text; text that only spells a control token is text.
 *
 *   analysis                          -> reasoning
 *   final, commentary, no channel     -> content
 *   to=functions.NAME, to=NAME        -> a tool call, in any channel
 *   to=python, browser.*, container.* -> reasoning (a built-in tool that was not offered),
 *                                        unless the request declares a tool of that name
 *   another role than assistant       -> reasoning
 *
 * A header that never becomes a message is text of the class that it names.  The result does
 * not depend on how the bytes are split: parse(any split) == parse(whole).  Memory is fixed:
 * only the struct below.
 */
#ifndef CHAT_HARMONY_PARSER_H
#define CHAT_HARMONY_PARSER_H

#include "chat/events.h"
#include "chat/text.h"

enum {
    /* A longer text is no header: the longest legal one is a role, a recipient of 128 letters,
     * a channel and a type. */
    CHAT_HARMONY_HEADER_MAX = 384,
    CHAT_HARMONY_NO_CONSTRAIN = CHAT_HARMONY_HEADER_MAX + 1,
};

enum chat_harmony_state {
    CHAT_HARMONY_HEADER,  /* between <|start|> and <|message|> */
    CHAT_HARMONY_BODY,    /* after <|message|> */
    CHAT_HARMONY_BETWEEN, /* after <|end|>, <|call|> or <|return|> */
};

enum chat_harmony_class {
    CHAT_CLASS_REASONING,
    CHAT_CLASS_CONTENT,
    CHAT_CLASS_TOOL,
};

struct chat_harmony_options {
    bool no_tool_calls; /* tool_choice "none": calls become reasoning */
    /* Declared tool names that look like built-in tools; borrowed while the parser lives. */
    const struct lr_str *builtin_tools;
    uint32_t builtin_tool_count;
};

struct chat_harmony {
    chat_delta_fn fn; /* borrowed */
    void *ctx;
    struct chat_harmony_options options;
    enum chat_harmony_state state;
    enum chat_harmony_class body_class;
    uint32_t tool_count;
    bool has_start;    /* this header began with <|start|>, so a role comes first */
    bool has_channel;  /* <|channel|> was seen in this header */
    bool after_call;   /* BETWEEN follows <|call|> */
    bool body_started; /* this message has given text or arguments */
    bool in_arguments; /* in the JSON of a tool body; text before the JSON is over */
    bool gave_any;     /* something was emitted in this stream */
    bool joint_due[2]; /* reasoning, content: a separator before the next message */
    struct chat_utf8 utf8;
    uint32_t channel_at;   /* where the text after the last <|channel|> begins */
    uint32_t constrain_at; /* where the text after <|constrain|> begins */
    uint32_t word_at;      /* where the last word of the header begins */
    uint32_t header_len;
    uint32_t lost_len; /* text outside of messages, emitted if nothing else came */
    /* HEADER: the header's text.  BODY of a tool: text before its JSON. BETWEEN: text outside
     * of messages. */
    char header[CHAT_HARMONY_HEADER_MAX];
    char lost[CHAT_HARMONY_HEADER_MAX];
};

void chat_harmony_init(struct chat_harmony *h, const struct chat_harmony_options *options,
                       chat_delta_fn fn, void *ctx);

/* One token event.  `special`: bytes is the name of a control token. */
void chat_harmony_token(struct chat_harmony *h, struct lr_str bytes, bool special);

/* The stream is over: emits text that was held back and closes an open tool call. */
void chat_harmony_end(struct chat_harmony *h);

/* python, browser.*, container.*: built-in tools of the model's training. */
bool chat_harmony_is_builtin(struct lr_str name);

/* True when text that arrives now belongs to a message of that class; used for counting
 * tokens. */
static inline bool chat_harmony_in(const struct chat_harmony *h, enum chat_harmony_class c)
{
    return h->state == CHAT_HARMONY_BODY && h->body_class == c;
}

#endif
