/* chat/codec.h - the client APIs of /v1 and /api: one codec for each, and the table of all
 * codecs.
 *
 * A codec parses a client's JSON body into a chat_request and writes the events of a generation
 * as the API's answer.  The router, the node and the rest of this folder do not know any API. A
 * new API is a folder beside chat/openai and chat/responses, and one line of CHAT_CODECS.
 *
 * Every field of a request is honoured, ignored or refused.  The codec's table of fields says
 * which, and the API's page in docs/ is generated from that table.  An unknown field is
 * ignored. The answer names ignored fields in the header X-LLM-Router-Ignored; a strict request
 * is refused instead if a field is unknown (docs/adr/0049).
 */
#ifndef CHAT_CODEC_H
#define CHAT_CODEC_H

#include "base/arena.h"
#include "base/buf.h"
#include "chat/error.h"
#include "chat/request.h"

struct chat_field;
struct chat_parse;
struct chat_writer;

/* The stored answers that a body refers to. */
struct chat_wanted {
    struct lr_str previous; /* id of the answer whose conversation goes on; empty: none */
    struct lr_str *answers; /* arena: ids of the answers whose items the body names */
    uint32_t answer_count;
};

/* What the server's store has of them: JSON items with commas between them, which live as long
 * as the arena. */
struct chat_stored {
    struct lr_str earlier; /* the conversation up to wanted.previous, which is included */
    struct lr_str
        missing;         /* id of an answer of that conversation that is not stored; or empty */
    struct lr_str items; /* items of wanted.answers */
};

/* How the server treats a request. */
struct chat_terms {
    bool is_strict; /* a field that would be ignored is refused */
    bool can_keep;  /* the answer can be stored now */
    /* What the body refers to; NULL: this server stores nothing, now or later.  Lives as long
     * as the arena. */
    const struct chat_stored *stored;
};

/* The fields of a request.  Two APIs may share one table: `in` is the API's bit in it. */
struct chat_fields {
    const struct chat_field *rows;
    size_t count;
    unsigned in;
    const char *page; /* page of docs/ that the error for an unknown field names */
};

struct chat_codec {
    const char *name;
    const char *operation;    /* what a trace calls its requests (gen_ai.operation.name) */
    uint32_t kind;            /* LR_REQUEST_...: what its requests ask of a model */
    const char *id_prefix;    /* prefix of the ids of its answers */
    const char *id_header;    /* second name of the header X-Request-Id; NULL: none */
    const char *count_path;   /* below its path: counts a prompt's tokens; NULL: nothing does */
    const char *count_object; /* "object" of that answer; NULL: none */
    const char *beside;       /* the errors of paths that begin so have its form; NULL: none */
    const char *prompt_field; /* field with the conversation; the error for a too long prompt
                                 names it */
    const struct chat_fields *fields;
    /* Parses the body, a JSON value of any type, into p->req (chat/parse.h). */
    lr_code (*parse)(struct chat_parse *p, const struct lr_json *root);
    /* Finds the stored answers that a body refers to; NULL: the API has no stored answers. */
    lr_code (*find_stored)(struct lr_arena *arena, const struct lr_json *root,
                           struct chat_wanted *out, struct chat_error *e);
    const struct chat_writer *body;   /* writes an answer in one piece */
    const struct chat_writer *stream; /* writes an answer as a stream */
    const char *stream_type;          /* content type of a stream; NULL: text/event-stream */
    const char *keep_alive; /* bytes that clients skip in a stream; NULL: a comment of SSE */
    /* Appends an error body in the API's form. */
    void (*error)(struct lr_buf *out, const struct chat_codec *codec,
                  const struct chat_error *e);
};

/* clang-format off */
/* The table: the path of POST requests, and the codec. */
#define CHAT_CODECS(X)                           \
    X("v1/chat/completions", chat_openai_chat)   \
    X("v1/completions", chat_openai_completions) \
    X("v1/responses", chat_responses)            \
    X("v1/messages", chat_anthropic)             \
    X("v1/embeddings", chat_embeddings)          \
    X("v1/rerank", chat_rerank)                  \
    X("v2/rerank", chat_rerank)                  \
    X("rerank", chat_rerank)                     \
    X("api/chat", chat_ollama_chat)              \
    X("api/generate", chat_ollama_generate)      \
    X("api/embed", chat_ollama_embed)            \
    X("api/embeddings", chat_ollama_embeddings)
/* clang-format on */

#define X(path, codec) extern const struct chat_codec codec;
CHAT_CODECS(X)
#undef X

size_t chat_codec_count(void);
const struct chat_codec *chat_codec_at(size_t index);

/* The codec of a request's path ("/v1/responses"); NULL: none. */
const struct chat_codec *chat_codec_of(struct lr_str path);
/* The codec of the API that a path belongs to, also where the request is for no model: its
 * errors have the API's form. */
const struct chat_codec *chat_codec_near(struct lr_str path);

static inline const char *chat_codec_stream_type(const struct chat_codec *codec)
{
    return codec->stream_type != NULL ? codec->stream_type : "text/event-stream";
}

/* Clients of Ollama write "name:latest" and "hf.co/org/name" for "name" and "org/name".  The
 * shorter name; false: `name` has neither. */
bool chat_model_plain(struct lr_str name, struct lr_str *out);

/* Parses and validates.  *out lies in `arena` and borrows from `body`, so both must outlive it;
 * NULL on failure.  The request is not strict.  An arena limit of sixteen times the body plus
 * 64 KB is always enough.
 *
 *   INVALID_ARGUMENT, UNSUPPORTED   a 400: e->param names the field
 *   TOO_LARGE, OUT_OF_RAM           a limit of the JSON parser or the arena
 *
 * e is filled on failure and must not be NULL.
 */
LR_MUST_USE lr_code chat_request_parse(struct lr_arena *arena, const struct chat_codec *codec,
                                       struct lr_str body, const struct chat_request **out,
                                       struct chat_error *e);

/* The same in two steps, so that a caller can check the model's name before the fields are
 * processed: first the JSON is parsed, then its fields.  The name is empty if the body has
 * none. */
LR_MUST_USE lr_code chat_request_read(struct lr_arena *arena, struct lr_str body,
                                      const struct lr_json **out, struct lr_str *model,
                                      struct chat_error *e);
LR_MUST_USE lr_code chat_request_check(struct lr_arena *arena, const struct chat_codec *codec,
                                       const struct lr_json *root,
                                       const struct chat_terms *terms,
                                       const struct chat_request **out, struct chat_error *e);

enum chat_field_list { CHAT_FIELD_HONOURED, CHAT_FIELD_NO_EFFECT, CHAT_FIELD_REFUSED };

/* One row of a table of fields, as documentation shows it. */
struct chat_field_row {
    const char *name;
    enum chat_field_list list;
    unsigned in;      /* bits of the APIs that have the field */
    const char *note; /* accepted values and meaning, or why the field is refused */
};
struct chat_field_row chat_field_row(const struct chat_fields *fields, size_t index);

#endif
