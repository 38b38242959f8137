/* chat/openai_parse.h - what the files of the request codec share (internal). */
#ifndef CHAT_OPENAI_PARSE_H
#define CHAT_OPENAI_PARSE_H

#include "chat/openai_request.h"

/* One body on its way to a request. */
struct chat_parse {
    struct lr_arena *arena;
    struct chat_request *req;
    struct chat_error *e;
    uint32_t schema_work; /* what the request's schemas may still cost to check */
    /* what the checks between fields need */
    bool has_messages;
    const struct lr_json *input; /* of the Responses API, as are the next two */
    const struct lr_json *tools;
    struct lr_str instructions;
    bool has_prompt;
    bool has_stream_options;
    uint32_t max_tokens; /* the two spellings; 0: not given */
    uint32_t max_completion_tokens;
    uint32_t best_of;
    bool tool_choice_none;
    bool hide_reasoning;
    uint64_t top_logprobs_given; /* 1 + value; 0: not given */
    bool logprobs;
};

typedef lr_code (*chat_field_fn)(struct chat_parse *p, const char *name,
                                 const struct lr_json *value);

struct chat_field {
    struct chat_field_row row;
    chat_field_fn parse; /* NULL: any value (NO_EFFECT) or none (REFUSED) */
};

/* The row of that name, or NULL. */
const struct chat_field *chat_field_find(enum chat_api api, struct lr_str name);
const struct chat_field *chat_responses_field_find(struct lr_str name);

/* Fails with a param.  `code` is OpenAI's word, static. */
lr_code chat_parse_fail(struct chat_parse *p, const char *param, const char *code,
                        lr_code status, const char *fmt, ...) LR_PRINTF(5, 6);

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

/* chat/openai_fields.c: fields that several APIs have. */
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

/* chat/openai_messages.c */
enum {
    CHAT_MESSAGES_MAX = 100000,
    CHAT_TOOLS_MAX = 256,
    CHAT_TOOL_NAME_MAX = 64, /* of a namespace, too */
};
bool chat_is_tool_name(struct lr_str name);
lr_code chat_parse_messages(struct chat_parse *p, const char *name,
                            const struct lr_json *value);
lr_code chat_parse_tools(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_format(struct chat_parse *p, const char *name, const struct lr_json *value);
/* Which of the formats an object at `at` asks for. */
lr_code chat_parse_format_type(struct chat_parse *p, const char *at,
                               const struct lr_json *value);
/* name, description, strict and schema, which stand in `about`; `at` is where that is. */
lr_code chat_parse_schema(struct chat_parse *p, const char *at, const struct lr_json *about);
/* What tools, tool_choice and response_format ask of the output together. */
lr_code chat_check_format(struct chat_parse *p);
lr_code chat_parse_tool_choice(struct chat_parse *p, const char *name,
                               const struct lr_json *value);
/* chat/openai_values.c */
lr_code chat_parse_sampling(struct chat_parse *p, const char *name,
                            const struct lr_json *value);
lr_code chat_parse_logit_bias(struct chat_parse *p, const char *name,
                              const struct lr_json *value);
lr_code chat_parse_stop(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_prompt(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_seed(struct chat_parse *p, const char *name, const struct lr_json *value);

/* chat/responses_input.c: p->input and p->instructions become the request's messages. */
lr_code chat_responses_messages(struct chat_parse *p);
/* chat/responses_tools.c: p->tools become the request's tools. */
lr_code chat_responses_tools(struct chat_parse *p);
/* The name a model knows a tool of a namespace by; without memory its ptr is NULL. */
struct lr_str chat_responses_tool_name(struct lr_arena *arena, struct lr_str space,
                                       struct lr_str name);
lr_code chat_responses_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value);

#endif
