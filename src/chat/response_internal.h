/* chat/response_internal.h - the parts of a chat_response (internal).
 *
 * response_create.c makes and frees it, response.c runs the choices, logprobs.c keeps and
 * writes log probabilities.  How the answer is written is the codec's: struct chat_writer.
 */
#ifndef CHAT_RESPONSE_INTERNAL_H
#define CHAT_RESPONSE_INTERNAL_H

#include "chat/harmony/parser.h"
#include "chat/plain.h"
#include "chat/response.h"
#include "chat/stop.h"

struct chat_choice {
    struct chat_response *response; /* borrowed: the owner */
    uint32_t index;
    bool began;     /* the writer has begun it */
    bool cut;       /* a stop string matched, or a call too many began */
    bool closed;    /* its finish_reason has been written or settled */
    bool done;      /* on_done was called */
    bool truncated; /* max_tokens or the context ended it */
    uint32_t calls; /* tool calls begun */
    uint32_t reasoning_tokens;
    struct chat_usage usage;
    uint64_t content_in;  /* bytes of content the model gave */
    uint64_t content_out; /* bytes that passed the stop strings */
    uint64_t chars_in;    /* the same in characters */
    union {
        struct chat_harmony harmony;
        struct chat_plain plain;
    };
    struct chat_stop stop;
    struct lr_buf logprobs; /* records of tokens whose text is not out yet */
    /* collecting only */
    struct lr_buf content;
    struct lr_buf reasoning;
    struct lr_buf calls_json; /* the members of "tool_calls", with commas */
};

struct chat_writer;

struct chat_response {
    const struct chat_writer *writer;
    const struct chat_codec *codec; /* whose writer it is */
    void *own;                      /* what the writer keeps */
    bool stream;
    bool include_usage;
    bool is_raw; /* the prompts had no message format, so the answer has none */
    bool is_harmony;
    bool logprobs;
    bool parallel_calls;
    bool complete;
    bool lost;          /* text of the model found no memory */
    uint32_t reasoning; /* CHAT_REASONING_ bits */
    uint32_t n;
    uint32_t choice_count;
    uint32_t done_count;
    lr_code status;
    uint64_t id_hash;   /* ids of tool calls come from it */
    struct lr_str head; /* the members every chunk and body begin with */
    struct lr_str stop[CHAT_STOP_MAX];
    uint32_t stop_count;
    struct lr_str *builtin_tools;
    uint32_t builtin_tool_count;
    /* While a call runs: where its bytes go, and text of one kind not written yet. */
    struct lr_buf *out;
    struct lr_buf pending;
    struct chat_choice *pending_choice; /* NULL: nothing pends */
    enum chat_delta_kind pending_kind;
    uint32_t pending_tool;
    struct chat_choice *choices;
};

/* How an API writes an answer, to r->out.  All but head, text, call, complete and fail may be
 * NULL: nothing to do. */
struct chat_writer {
    /* r->head: the members every piece of the answer begins with, "{...,". */
    void (*head)(const struct chat_response_options *options, struct lr_buf *out);
    /* Makes r->own, which copies what it needs of the request. */
    lr_code (*open)(struct chat_response *r, const struct chat_response_options *options,
                    struct lr_error *err);
    void (*close)(struct chat_response *r);
    void (*begin)(struct chat_choice *c); /* once, before the choice's first text */
    void (*text)(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                 struct lr_str text);
    void (*call)(struct chat_choice *c, uint32_t tool, struct lr_str name);
    void (*call_end)(struct chat_choice *c);
    void (*finish)(struct chat_choice *c);     /* the client's side of a choice is over */
    void (*complete)(struct chat_response *r); /* every choice is done */
    void (*fail)(struct chat_response *r, const struct lr_error *error);
};

/* response.c: what the parser of a choice, which is ctx, gives. */
void chat_choice_delta(void *ctx, const struct chat_delta *delta);

/* "call_" and 24 letters, the same for the same answer; not terminated. */
enum { CHAT_CALL_ID_LEN = 29 };
void chat_call_id(const struct chat_choice *c, uint32_t tool, char out[CHAT_CALL_ID_LEN]);
/* Letters of the n-th such id of an answer. */
enum { CHAT_ID_LETTERS = 24 };
void chat_id_letters(const struct chat_response *r, uint32_t n, char out[CHAT_ID_LETTERS]);

/* logprobs.c */
void chat_logprobs_add(struct chat_choice *c, const struct wire_token *token);
/* Writes those whose text is out, and forgets them; "null" where there are none.  Raw answers
 * have them in columns. */
void chat_logprobs_write(struct chat_choice *c, struct lr_buf *out);
/* The same as entries with commas between them; nothing where there are none. */
void chat_logprobs_entries(struct chat_choice *c, struct lr_buf *out);

#endif
