/* chat/turn.h - a client's request over its generations, for the router and the node.
 *
 * A turn parses the client's body, renders its prompts, starts a generation for each choice of
 * the answer, builds the answer from their tokens, and ends once.  A turn does no I/O. A
 * generator starts and stops the generations: the router's generator is the fleet, the node's
 * its own models.  A sink takes the answer's bytes: the client's HTTP request.
 *
 *         read        parse         prepare       start          first bytes of a stream
 *    NEW ------> READ ------> PARSED ------> READY ------> RUNNING ------> STREAMING
 *     |           |             |              |              | |              | |
 *     +-----------+------ fail -+--------------+              | +-> KEEPING <--+ |
 *                        |                                    |        |         |
 *                        |                           complete, fail, gone        |
 *                        +----------------> ENDED <-----------+--------+---------+
 *
 * Before STREAMING a failure is an HTTP status, from then on an event in the stream.  In
 * KEEPING the answer is generated and is being stored; it cannot fail any more.  After ENDED
 * every call is ignored.
 *
 * Of the generations that ask for a vector only some run at once: one request may have
 * thousands, and the queue of the model belongs to all clients.
 *
 * A generation of a turn:
 *
 *    IDLE ---> RUNNING ---> OVER         its last event has come, or the turn has ended
 *                 |           ^
 *                 +-> STOPPED +          the client needs no more of it; its usage is to come
 *
 * Thread: one at a time.
 */
#ifndef CHAT_TURN_H
#define CHAT_TURN_H

#include "chat/codec.h"
#include "chat/prompt.h"
#include "chat/response.h"
#include "wire/event.h"
#include "wire/generate.h"

enum chat_turn_state {
    CHAT_TURN_NEW,
    CHAT_TURN_READ,      /* the body is JSON */
    CHAT_TURN_PARSED,    /* the body is a valid request */
    CHAT_TURN_READY,     /* the prompts are rendered */
    CHAT_TURN_RUNNING,   /* generations run; nothing was sent to the client */
    CHAT_TURN_STREAMING, /* the beginning of the answer was sent */
    CHAT_TURN_KEEPING,   /* the answer is being stored; its end was not sent */
    CHAT_TURN_ENDED,
};

enum chat_generation_state {
    CHAT_GENERATION_IDLE,
    CHAT_GENERATION_RUNNING,
    CHAT_GENERATION_STOPPED,
    CHAT_GENERATION_OVER,
};

/* `owner` is always chat_turn.owner. */
struct chat_generator {
    /* Starts a generation; chat_turn_ask says what to generate.  Events may come before this
     * returns.  A failure fails the turn. */
    lr_code (*start)(void *owner, uint32_t index, struct lr_error *err);
    /* The client needs no more of a generation.  True: *usage is final, and no more events
     * come.  False: chat_turn_done follows. usage NULL: the turn has ended. */
    bool (*stop)(void *owner, uint32_t index, struct chat_usage *usage);
};

/* finish or fail is the turn's last call: the owner may free the turn in it. */
struct chat_sink {
    /* Sends a piece of a streamed answer; the first piece begins the answer.  TOO_LARGE: the
     * client reads too slowly, and the turn ends with an error behind this piece. */
    lr_code (*write)(void *owner, struct lr_str bytes);
    /* Sends the rest of the answer, or all of it. status: LR_OK, or the code if it is an
     * error. */
    void (*finish)(void *owner, lr_code status, struct lr_str bytes);
    /* Ends the answer with an error, whose body or last event is in `bytes`. err NULL: the
     * client is gone; the connection is closed. */
    void (*fail)(void *owner, const struct lr_error *err, struct lr_str bytes);
    /* Removes details from an error that this client must not see; NULL: clients see
     * everything. */
    void (*tell)(void *owner, struct lr_error *err);
    /* Stores a record, whose buffers the owner takes and frees; chat_turn_kept follows, never
     * inside this call.  Also called for a background request that fails.  False: it is not
     * stored.  NULL: nothing is stored. */
    bool (*keep)(void *owner, struct chat_record *record);
    /* A tool call begins in the answer, with the name that the model gave.  NULL: nobody
     * asks. */
    void (*call)(void *owner, struct lr_str name);
    /* Text of the answer, and a tool call's name, as the client gets it; asked for by
     * chat_turn.tells_text. */
    void (*text)(void *owner, uint32_t choice, const struct chat_delta *delta);
};

struct chat_turn {
    enum chat_turn_state state;
    struct chat_terms terms; /* set by the owner before chat_turn_parse */
    bool tells_text;         /* likewise, before chat_turn_prepare: sink.text is called */
    const struct chat_codec *codec;
    const struct chat_generator *generator;
    const struct chat_sink *sink;
    void *owner;
    struct lr_arena *arena; /* borrowed, with everything in it, until the end */
    const struct lr_json *root;
    const struct chat_request *request;      /* in the arena */
    struct lr_sampling sampling;             /* of the request, else of the model */
    struct chat_prompt *prompts;             /* in the arena */
    enum chat_generation_state *generations; /* in the arena */
    uint32_t prompt_count, generation_count;
    uint32_t started, over;   /* of the generations */
    struct lr_segment query;  /* of a reranking; borrowed from the request */
    struct lr_str constraint; /* of the output, in the arena; empty: none */
    uint32_t since; /* the first protocol whose nodes know this constraint (wire/link.h) */
    uint64_t seed;
    enum grammar_format format;          /* of the dialect, from READY on */
    uint32_t repairs[CHAT_REPAIR_COUNT]; /* of what the model wrote, once it has ENDED */
    char id[CHAT_ANSWER_ID_MAX];
    struct chat_response *response; /* owned */
    struct lr_buf out;              /* owned: bytes to be sent */
};

/* codec, generator, sink, owner and arena must live until the turn has ended. */
void chat_turn_init(struct chat_turn *t, const struct chat_codec *codec, struct lr_arena *arena,
                    const struct chat_generator *generator, const struct chat_sink *sink,
                    void *owner);

/* The four steps that start a turn; false: the turn has failed.  *model: the name in the body,
 * empty if there is none.  `body` is borrowed until the end. */
bool chat_turn_read(struct chat_turn *t, struct lr_str body, struct lr_str *model);
/* Between the first two: finds the stored answers that the body refers to, for terms.stored. */
bool chat_turn_find_stored(struct chat_turn *t, struct chat_wanted *out);
bool chat_turn_parse(struct chat_turn *t);
/* name: the model's name in the answer. */
bool chat_turn_prepare(struct chat_turn *t, const struct chat_model *model, struct lr_str name);
/* What the first prompt lacks of the request (chat/template/lost.h), once it is READY. */
static inline const char *chat_turn_lost(const struct chat_turn *t)
{
    return t->prompt_count != 0 ? t->prompts[0].lost : "";
}
bool chat_turn_start(struct chat_turn *t);

/* Of a background request that is READY: its record while it waits. False: no memory. */
bool chat_turn_queued(const struct chat_turn *t, struct chat_record *out);

/* Fills the generation's part of *out; the caller fills the rest. */
void chat_turn_ask(const struct chat_turn *t, uint32_t index, struct wire_generate *out);
static inline const struct chat_prompt *chat_turn_prompt(const struct chat_turn *t,
                                                         uint32_t index)
{
    return &t->prompts[index / t->request->n];
}

/* ---- events of generations; chat_turn_flush sends the result ---- */
/* The engine has counted the prompt.  Comes before the first token, or not at all. */
void chat_turn_prompt_tokens(struct chat_turn *t, uint32_t index, uint32_t tokens);
void chat_turn_token(struct chat_turn *t, uint32_t index, const struct wire_token *token);
/* The result of a generation that asked for a vector; chat_turn_done follows. */
void chat_turn_vector(struct chat_turn *t, uint32_t index, const struct wire_vector *v);
/* The last event of a generation. */
void chat_turn_done(struct chat_turn *t, uint32_t index, enum lr_finish reason,
                    const struct chat_usage *usage);

/* Sends pending bytes, starts generations that wait for others to end, and ends a turn whose
 * answer is complete.  An owner that expects more
 * events at once may call this after them. */
void chat_turn_flush(struct chat_turn *t);
bool chat_turn_is_complete(const struct chat_turn *t);

/* Sends a comment in a streamed answer, so that the client sees activity; begins the stream. */
void chat_turn_keep_alive(struct chat_turn *t);

/* Sends a comment of one line where the stream has comments; begins the stream. */
void chat_turn_comment(struct chat_turn *t, const char *text);

/* The answer of sink.keep; ends the turn. */
void chat_turn_kept(struct chat_turn *t, bool is_kept);

/* ---- ends ---- */
void chat_turn_fail(struct chat_turn *t, const struct lr_error *err);
/* The same for a failure of one generation: of several texts the wrong one is named. */
void chat_turn_fail_at(struct chat_turn *t, uint32_t index, const struct lr_error *err);
/* The client has left. */
void chat_turn_gone(struct chat_turn *t);

static inline bool chat_turn_is_over(const struct chat_turn *t)
{
    return t->state == CHAT_TURN_ENDED;
}

#endif
