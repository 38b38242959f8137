/* chat/response_internal.h - the parts of a chat_response (internal).
 *
 * response_create.c creates and frees it, response.c runs the choices, logprobs.c keeps and
 * writes log probabilities.  The codec's struct chat_writer writes the answer.
 */
#ifndef CHAT_RESPONSE_INTERNAL_H
#define CHAT_RESPONSE_INTERNAL_H

#include "base/arena.h"
#include "chat/dialect/dialect.h"
#include "chat/response.h"
#include "chat/stop.h"

struct chat_choice {
    struct chat_response *response; /* borrowed: the owner */
    uint32_t index;
    bool began;     /* the writer's begin was called */
    bool cut;       /* a stop string matched, or a tool call too many began */
    bool closed;    /* finish_reason was written or decided */
    bool done;      /* on_done was called */
    bool truncated; /* ended by max_tokens or the context */
    uint32_t calls; /* tool calls begun */
    uint32_t reasoning_tokens;
    struct chat_usage usage;
    uint64_t content_in;  /* bytes of content from the model */
    uint64_t content_out; /* bytes after the stop strings */
    uint64_t chars_in;    /* the same in characters */
    struct chat_reader reader;
    struct lr_buf call_id; /* owned: the id that the model gave the last call; empty: none */
    uint32_t call_tool;    /* the index of that call */
    struct chat_stop stop;
    struct lr_buf logprobs; /* records of tokens whose text was not sent yet */
    /* only for a collected answer */
    struct lr_buf content;
    struct lr_buf reasoning;
    struct lr_buf calls_json; /* the members of "tool_calls", with commas */
};

struct chat_writer;

struct chat_response {
    const struct chat_writer *writer;
    const struct chat_codec *codec; /* whose writer it is */
    void *own;                      /* the writer's own data */
    bool stream;
    bool include_usage;
    bool is_raw; /* the prompts had no message format, so the answer has none */
    bool logprobs;
    bool parallel_calls;
    bool complete;
    bool keeps;         /* it is to be stored, and, once it is complete, was */
    bool lost;          /* text of the model was lost for lack of memory */
    uint32_t reasoning; /* CHAT_REASONING_ bits */
    uint32_t n;
    uint32_t choice_count;
    uint32_t done_count;
    lr_code status;
    uint64_t id_hash;   /* ids of tool calls are derived from it */
    struct lr_str head; /* the members that begin every chunk and body */
    struct lr_str stop[CHAT_STOP_MAX];
    uint32_t stop_count;
    void (*on_call)(void *owner, struct lr_str name); /* NULL: nobody asks */
    void (*on_text)(void *owner, uint32_t choice, const struct chat_delta *delta); /* same */
    void *owner;
    struct chat_dialect dialect;
    struct lr_arena arena; /* what the readers need of the request */
    const struct chat_declared *tools;
    const struct lr_str *builtin_tools;
    uint32_t tool_count, builtin_count;
    /* During a call: the output buffer, and text of one kind that is not written yet. */
    struct lr_buf *out;
    struct lr_buf pending;
    struct chat_choice *pending_choice; /* NULL: no text is pending */
    enum chat_delta_kind pending_kind;
    uint32_t pending_tool;
    struct chat_choice *choices;
};

/* Writes an answer in an API's form to r->out.  All functions except head, text, call, complete
 * and fail may be NULL. */
struct chat_writer {
    /* Writes r->head: the members that begin every piece of the answer, "{...,". */
    void (*head)(const struct chat_response_options *options, struct lr_buf *out);
    /* Creates r->own and copies what it needs of the request. */
    lr_code (*open)(struct chat_response *r, const struct chat_response_options *options,
                    struct lr_error *err);
    void (*close)(struct chat_response *r);
    void (*begin)(struct chat_choice *c); /* once, before the choice's first text */
    void (*text)(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                 struct lr_str text);
    void (*call)(struct chat_choice *c, uint32_t tool, struct lr_str name);
    void (*call_end)(struct chat_choice *c);
    void (*finish)(struct chat_choice *c); /* the client has the whole choice */
    /* The choice is a vector: writes it to c->content, which is empty. */
    lr_code (*vector)(struct chat_choice *c, const struct wire_vector *v, struct lr_error *err);
    void (*complete)(struct chat_response *r); /* every choice is done */
    void (*fail)(struct chat_response *r, const struct lr_error *error);
    /* Only of an API whose answers are stored: fills the record, whose buffers have their
     * limits. */
    void (*record)(const struct chat_response *r, const struct chat_request *req,
                   const char *status, const struct lr_error *error, struct chat_record *out);
};

/* response.c: receives the deltas of a choice's parser; ctx is the choice. */
void chat_choice_delta(void *ctx, const struct chat_delta *delta);

/* The id that the model gave the call, in dialects whose ids are unique; else "call_" and 24
 * letters, derived from the answer's id, in `room`. */
enum { CHAT_CALL_ID_LEN = 29, CHAT_MODEL_ID_MIN = 9, CHAT_MODEL_ID_MAX = 128 };
struct lr_str chat_call_id(const struct chat_choice *c, uint32_t tool,
                           char room[CHAT_CALL_ID_LEN]);
/* Letters of an id that this server makes for an item of an answer. */
enum { CHAT_ID_LETTERS = 24 };
void chat_id_letters(const struct chat_response *r, uint32_t n, char out[CHAT_ID_LETTERS]);

/* Appends the arguments of a call as a JSON object.  Text that is no object (a call that was
 * cut) is given in the member that Anthropic's documentation names for it, INVALID_JSON. */
void chat_arguments_object(struct lr_str text, struct lr_buf *out);

/* logprobs.c */
void chat_logprobs_add(struct chat_choice *c, const struct wire_token *token);
/* Writes and drops the records whose text was sent; "null" if there are none.  Raw answers have
 * them in columns. */
void chat_logprobs_write(struct chat_choice *c, struct lr_buf *out);
/* The same as entries with commas between them; nothing if there are none. */
void chat_logprobs_entries(struct chat_choice *c, struct lr_buf *out);
/* Drops the records of text that turned out to be a call. */
void chat_logprobs_forget(struct chat_choice *c);

#endif
