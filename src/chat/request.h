/* chat/request.h - one generation request, independent of the API.
 *
 * A codec (chat/codec.h) fills it; the router and the node use only this.  Strings and JSON
 * values are borrowed from the arena and the body of the codec: both must outlive the request.
 * Values that must live as long as the answer (id, stop strings, flags) are copied by
 * chat_response_create, so the body of a long conversation can be freed once its prompt is
 * rendered.  Thread: one at a time.
 */
#ifndef CHAT_REQUEST_H
#define CHAT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/sampling.h"
#include "base/str.h"
#include "grammar/constraint.h"
#include "llm-router/engine.h"

struct chat_codec;

/* Under which name reasoning is in the answer: a set of bits. */
enum {
    CHAT_REASONING_HIDDEN = 0,
    CHAT_REASONING_CONTENT = 1, /* "reasoning_content" */
    CHAT_REASONING_PLAIN = 2,   /* "reasoning" */
    CHAT_REASONING_RAW = 4,     /* in the content, with its marks, as the model wrote it */
};

enum {
    CHAT_STOP_MAX = 16,        /* stop strings of one request */
    CHAT_STOP_BYTES_MAX = 512, /* of one stop string; the most bytes that a stream holds back */
    CHAT_CHOICES_MAX = 128,    /* prompts x n */
    CHAT_TOP_LOGPROBS_MAX = 20,
    CHAT_IGNORED_MAX = 512,          /* bytes of the list of ignored fields */
    CHAT_INPUTS_MAX = 2048,          /* texts of one request for vectors */
    CHAT_INPUT_BYTES_MAX = 1 << 20,  /* of one of these texts */
    CHAT_QUERY_BYTES_MAX = 64 << 10, /* of the query of a reranking */
};

/* Whether the client wants the model to think first, for templates that can turn it off. */
enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_ON, CHAT_THINKING_OFF };

/* A prompt without messages: text, or ids when `ids` is not NULL. */
struct chat_raw_prompt {
    struct lr_str text;
    const uint32_t *ids;
    size_t id_count;
};

/* The origin of a tool, for an API that does not have them in `tools`. */
enum { CHAT_TOOL_AT_MAX = 32 };
struct chat_tool_origin {
    char at[CHAT_TOOL_AT_MAX]; /* "tools[4].tools[1]" */
    struct lr_str name;        /* as the model sees it: "name" or "namespace.name" */
    uint32_t space_len;        /* length of the namespace; 0: none */
    bool is_custom;
};

struct chat_request {
    const struct chat_codec *codec; /* codec of its API */
    struct lr_str model;

    /* for APIs with messages, which a template renders */
    const struct lr_json *messages;         /* a non-empty array, every message checked */
    const struct lr_json *tools;            /* NULL: none, or tool_choice "none" */
    const struct chat_tool_origin *origins; /* one for each of `tools`; or NULL */
    const struct lr_json *template_kwargs;  /* an object, or NULL */
    struct lr_str reasoning_effort;         /* empty: the template's default */
    enum chat_thinking thinking;
    bool forbids_tool_calls;     /* tool_choice is "none" */
    bool requires_tool_call;     /* tool_choice is "required" or names a tool */
    struct lr_str required_tool; /* the named tool; empty: any tool */
    struct lr_str schema_name;   /* of format_value, if it is a schema */
    struct lr_str schema_about;  /* its description; empty: none */
    bool parallel_tool_calls;
    uint32_t reasoning; /* CHAT_REASONING_ bits */
    bool wants_sealed;  /* reasoning items have the member with which clients send them back */
    bool wants_summary; /* reasoning is told as a summary, where the API has both */
    uint32_t thinking_budget; /* tokens of reasoning; 0: no limit */

    /* for APIs with raw prompts */
    const struct chat_raw_prompt *prompts; /* NULL: messages */
    uint32_t prompt_count;                 /* 1 for all other APIs */

    /* for APIs that ask for vectors, one for each of `prompts` (chat/vectors/vectors.h) */
    uint32_t dimensions;  /* of an embedding; 0: all */
    bool wants_base64;    /* instead of a list of numbers */
    struct lr_str query;  /* that documents are ranked by */
    uint32_t top_n;       /* documents in the answer; 0: all */
    bool wants_documents; /* their texts are in the answer, too */

    /* The answer's content, under whatever name the client constrains it. */
    enum grammar_answer format;         /* GRAMMAR_ANSWER_TEXT: it is free */
    const struct lr_json *format_value; /* the schema, regular expression, ... */
    bool schema_strict; /* objects are closed unless the schema says otherwise */

    /* Generation.  Choice i answers prompt i / n; its seed is derived from i. */
    struct lr_sampling sampling; /* .seed is meaningful only where has_seed */
    uint32_t given;              /* LR_GIVEN_ bits: values that the client has set */
    bool has_seed;
    bool ignore_stop; /* continue past the model's stop tokens, up to max_tokens */
    uint32_t n;
    uint32_t max_tokens; /* 0: to the end of the context */
    struct lr_str stop[CHAT_STOP_MAX];
    uint32_t stop_count;

    /* Answer */
    bool loads_only; /* the client wants the model to be loaded, and no text */
    bool stream;
    bool include_usage;

    bool keeps;      /* the answer is to be stored */
    bool background; /* the client does not wait for it; `keeps` is true */

    const struct lr_json *body;  /* for a writer that repeats parts of it; or NULL */
    const struct lr_json *input; /* what is stored of it with the answer; or NULL */
    struct lr_str previous;      /* the stored answer whose conversation goes on; or empty */

    struct lr_str user; /* only for logs and limits */
    /* "num_ctx, provider": fields of the request that have no effect, safe in a header */
    char ignored[CHAT_IGNORED_MAX];
};

static inline uint32_t chat_request_choices(const struct chat_request *req)
{
    return req->prompt_count * req->n;
}

/* The seed of one choice: choice 0 has the request's seed, so that n = 1 is the plain case; the
 * seeds of the others are derived from it. */
uint64_t chat_request_seed(uint64_t seed, uint32_t choice);

#endif
