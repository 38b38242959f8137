/* chat/parse.h - what codecs share to read a request (internal to src/chat).
 *
 * parse.c walks a body through the codec's table of fields and reads plain values,
 * parse_fields.c has the fields that several APIs have, parse_format.c what says how the output
 * has to look.
 */
#ifndef CHAT_PARSE_H
#define CHAT_PARSE_H

#include "chat/codec.h"

/* One body on its way to a request.  A codec that needs more puts it first into a struct of its
 * own. */
struct chat_parse {
    struct lr_arena *arena;
    struct chat_request *req;
    struct chat_error *e;
    uint32_t schema_work; /* what the request's schemas may still cost to check */
    /* what the checks between fields need */
    bool has_stream_options;
    bool tool_choice_none;
    bool logprobs;
    uint64_t top_logprobs_given; /* 1 + value; 0: not given */
};

typedef lr_code (*chat_field_fn)(struct chat_parse *p, const char *name,
                                 const struct lr_json *value);

struct chat_field {
    struct chat_field_row row;
    chat_field_fn parse; /* NULL: any value (NO_EFFECT) or none (REFUSED) */
};

/* ---- parse.c ---- */
/* Every member of the body by the table of p->req->codec; then the model has to be there. */
lr_code chat_parse_members(struct chat_parse *p, const struct lr_json *root);

/* Fails with a param.  `code` is the API's word, static. */
lr_code chat_parse_fail(struct chat_parse *p, const char *param, const char *code,
                        lr_code status, const char *fmt, ...) LR_PRINTF(5, 6);
lr_code chat_parse_missing(struct chat_parse *p, const char *name);

/* "expected <wanted>, got <what it is>". */
lr_code chat_parse_type(struct chat_parse *p, const char *param, const char *wanted,
                        const struct lr_json *value);

/* Typed values with ranges, both ends included. */
lr_code chat_parse_bool(struct chat_parse *p, const char *param, const struct lr_json *value,
                        bool *out);
lr_code chat_parse_u32(struct chat_parse *p, const char *param, const struct lr_json *value,
                       uint32_t min, uint32_t max, uint32_t *out);
lr_code chat_parse_float(struct chat_parse *p, const char *param, const struct lr_json *value,
                         double min, double max, float *out);

/* One of `words`, which ends with NULL; its index goes to *out.  status: of the failure. */
lr_code chat_parse_word(struct chat_parse *p, const char *name, const struct lr_json *value,
                        const char *const *words, lr_code status, uint32_t *out);

/* ---- parse_fields.c: fields that several APIs have ---- */
lr_code chat_parse_model(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_flag(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_effort(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_user(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_service_tier(struct chat_parse *p, const char *name,
                                const struct lr_json *value);
lr_code chat_parse_verbosity(struct chat_parse *p, const char *name,
                             const struct lr_json *value);
lr_code chat_parse_top_logprobs(struct chat_parse *p, const char *name,
                                const struct lr_json *value);
lr_code chat_parse_sampling(struct chat_parse *p, const char *name,
                            const struct lr_json *value);
lr_code chat_parse_seed(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_stop(struct chat_parse *p, const char *name, const struct lr_json *value);

/* What stream options and log probabilities say together.  logprobs_by: what asks for them. */
lr_code chat_check_answer(struct chat_parse *p, const char *logprobs_by);

/* ---- parse_format.c ---- */
enum {
    CHAT_MESSAGES_MAX = 100000,
    CHAT_TOOLS_MAX = 256,
    CHAT_TOOL_NAME_MAX = 64, /* of a namespace, too */
};
bool chat_is_tool_name(struct lr_str name);
/* Which of the formats an object at `at` asks for. */
lr_code chat_parse_format_type(struct chat_parse *p, const char *at,
                               const struct lr_json *value);
/* name, description, strict and schema, which stand in `about`; `at` is where that is. */
lr_code chat_parse_schema(struct chat_parse *p, const char *at, const struct lr_json *about);
/* What tools, the choice of a tool and the format ask of the output together.  tool_param:
 * where a tool is named that has to be called. */
lr_code chat_check_format(struct chat_parse *p, const char *tool_param);

#endif
