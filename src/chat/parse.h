/* chat/parse.h - request parsing shared by all codecs (internal to src/chat).
 *
 * parse.c walks a body through the codec's table of fields and reads simple values,
 * parse_fields.c has the fields that several APIs share, parse_options.c Ollama's `options`,
 * parse_format.c the fields that define the output format, parse_constraint.c the same under
 * other servers' names, parse_prompts.c raw prompts.
 */
#ifndef CHAT_PARSE_H
#define CHAT_PARSE_H

#include "chat/codec.h"

/* A body while it is parsed.  A codec that needs more members embeds this struct as the first
 * member of its own. */
struct chat_parse {
    struct lr_arena *arena;
    struct chat_request *req;
    struct chat_error *e;
    bool is_strict;                   /* fields and values that would be ignored are refused */
    bool can_keep;                    /* the answer can be stored */
    const struct chat_stored *stored; /* NULL: this server stores nothing */
    uint32_t schema_work;             /* remaining budget for checking the request's schemas */
    /* for checks that involve several fields */
    bool has_stream_options;
    bool tool_choice_none;
    bool logprobs;
    uint32_t max_tokens;         /* also as options.num_predict; 0: not given */
    uint64_t top_logprobs_given; /* 1 + value; 0: not given */
    char constrained_by[64];     /* the field that constrains the answer; empty: none */
};

typedef lr_code (*chat_field_fn)(struct chat_parse *p, const char *name,
                                 const struct lr_json *value);

struct chat_field {
    struct chat_field_row row;
    chat_field_fn parse; /* NULL: any value is accepted (NO_EFFECT) or none (REFUSED) */
};

/* A member of an object inside the body. */
struct chat_member {
    const char *name;
    chat_field_fn parse; /* gets "object.member" as its name; NULL: ignored */
};

/* ---- parse.c ---- */
/* Parses every member of the body by the table of p->req->codec; then checks that a model is
 * given. */
lr_code chat_parse_members(struct chat_parse *p, const struct lr_json *root);

/* Fails with a param.  `code` is the API's error code, static text. */
lr_code chat_parse_fail(struct chat_parse *p, const char *param, const char *code,
                        lr_code status, const char *fmt, ...) LR_PRINTF(5, 6);
lr_code chat_parse_missing(struct chat_parse *p, const char *name);

/* Adds `param` to the list of ignored fields, which the answer's header X-LLM-Router-Ignored
 * shows. */
void chat_parse_note(struct chat_parse *p, const char *param);
/* Ignores and notes `param`; a strict request fails instead, as by chat_parse_fail. */
lr_code chat_parse_ignore(struct chat_parse *p, const char *param, const char *code,
                          lr_code status, const char *fmt, ...) LR_PRINTF(5, 6);

/* Parses the members of an object by a list, whose last row has no name.  Members that are not
 * in the list are ignored. */
lr_code chat_parse_object(struct chat_parse *p, const char *name, const struct lr_json *value,
                          const struct chat_member *rows);

/* Fails with "expected <wanted>, got <type>". */
lr_code chat_parse_type(struct chat_parse *p, const char *param, const char *wanted,
                        const struct lr_json *value);

/* Typed values with ranges, both ends included. */
lr_code chat_parse_bool(struct chat_parse *p, const char *param, const struct lr_json *value,
                        bool *out);
lr_code chat_parse_u32(struct chat_parse *p, const char *param, const struct lr_json *value,
                       uint32_t min, uint32_t max, uint32_t *out);
lr_code chat_parse_float(struct chat_parse *p, const char *param, const struct lr_json *value,
                         double min, double max, float *out);

/* One of `words`, which ends with NULL; *out is its index. status: code of the failure. */
lr_code chat_parse_word(struct chat_parse *p, const char *name, const struct lr_json *value,
                        const char *const *words, lr_code status, uint32_t *out);

/* ---- parse_fields.c: fields that several APIs share ---- */
lr_code chat_parse_model(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_flag(struct chat_parse *p, const char *name, const struct lr_json *value);
lr_code chat_parse_any_bool(struct chat_parse *p, const char *name,
                            const struct lr_json *value);
/* `false` and `true` for fields that have no other value here. */
lr_code chat_parse_must_be_false(struct chat_parse *p, const char *name,
                                 const struct lr_json *value);
lr_code chat_parse_must_be_true(struct chat_parse *p, const char *name,
                                const struct lr_json *value);
/* A number of tokens, at least 1.  -1, as some clients write, is no limit. */
lr_code chat_parse_max_tokens(struct chat_parse *p, const char *name,
                              const struct lr_json *value, uint32_t *out);
lr_code chat_parse_budget(struct chat_parse *p, const char *name, const struct lr_json *value);
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

/* Checks stream options and log probabilities together. logprobs_by: the field that asks for
 * log probabilities. */
lr_code chat_check_answer(struct chat_parse *p, const char *logprobs_by);

/* ---- parse_prompts.c ---- */
/* A string, token ids, or up to `max` of either: p->req->prompts. */
lr_code chat_parse_prompts(struct chat_parse *p, const char *name, const struct lr_json *value,
                           uint32_t max);

/* ---- parse_options.c: Ollama's `options`, which other APIs take, too ---- */
lr_code chat_parse_repeat_penalty(struct chat_parse *p, const char *name,
                                  const struct lr_json *value);
lr_code chat_parse_options(struct chat_parse *p, const char *name, const struct lr_json *value);
/* The same with every name that Ollama knows: names without an effect here are ignored, also in
 * a strict request. */
lr_code chat_parse_runner_options(struct chat_parse *p, const char *name,
                                  const struct lr_json *value);

/* ---- parse_format.c ---- */
enum {
    CHAT_MESSAGES_MAX = 100000,
    CHAT_TOOLS_MAX = 256,
    CHAT_TOOL_NAME_MAX = 128, /* also for a namespace */
    CHAT_TOOL_NAME_STRICT = 64,
};
bool chat_is_tool_name(struct lr_str name);
/* The format that the object at `at` asks for.  wants_schema: a schema, which the caller reads.
 */
lr_code chat_parse_format_type(struct chat_parse *p, const char *at,
                               const struct lr_json *value, bool *wants_schema);
/* name, description, strict and schema, which are members of `about` at the position `at`. */
lr_code chat_parse_schema(struct chat_parse *p, const char *at, const struct lr_json *about);
/* Checks tools, tool choice and output format together. tool_param: the field that names a
 * required tool. */
lr_code chat_check_format(struct chat_parse *p, const char *tool_param);

/* ---- parse_constraint.c ---- */
/* The parser refuses a constraint that cannot be enforced, before the request is queued. */
lr_code chat_check_constraint(struct chat_parse *p, const char *param,
                              enum grammar_answer answer, const struct lr_json *value);
/* Sets the one constraint on the answer; a second one is refused. */
lr_code chat_set_constraint(struct chat_parse *p, const char *param, enum grammar_answer answer,
                            const struct lr_json *value);
/* guided_json, guided_regex, guided_choice, guided_grammar, grammar, json_schema. */
lr_code chat_parse_constraint(struct chat_parse *p, const char *name,
                              const struct lr_json *value);
lr_code chat_parse_structured_outputs(struct chat_parse *p, const char *name,
                                      const struct lr_json *value);

#endif
