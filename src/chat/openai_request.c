/* chat/openai_request.c - see chat/openai_request.h.
 *
 * Walks the members of the body through the table of chat/openai_fields.c, then checks
 * what only combinations can show.
 */
#include "chat/openai_request.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "chat/openai_parse.h"
#include "grammar/grammar.h"

/* What OpenAI generates for a raw prompt when nobody says how much. */
enum { COMPLETIONS_MAX_TOKENS = 16 };

lr_code chat_parse_fail(struct chat_parse *p, const char *param, const char *code,
                        lr_code status, const char *fmt, ...)
{
    struct chat_error *e = p->e;
    va_list args;

    e->error.code = status;
    va_start(args, fmt);
    vsnprintf(e->error.text, sizeof(e->error.text), fmt, args);
    va_end(args);
    snprintf(e->param, sizeof(e->param), "%s", param != NULL ? param : "");
    e->code = code;
    return status;
}

lr_code chat_parse_type(struct chat_parse *p, const char *param, const char *wanted,
                        const struct lr_json *value)
{
    return chat_parse_fail(p, param, "invalid_type", LR_INVALID_ARGUMENT,
                           "Invalid type for '%s': expected %s, got %s.", param, wanted,
                           value != NULL ? lr_json_type_name(value->type) : "nothing");
}

lr_code chat_parse_bool(struct chat_parse *p, const char *param, const struct lr_json *value,
                        bool *out)
{
    if (!lr_json_bool(value, out))
        return chat_parse_type(p, param, "a boolean", value);
    return LR_OK;
}

/* A number as the client wrote it, cut to a length fit for a message. */
static int shown(const struct lr_json *value)
{
    return value->text.len < 40 ? (int)value->text.len : 40;
}

lr_code chat_parse_u32(struct chat_parse *p, const char *param, const struct lr_json *value,
                       uint32_t min, uint32_t max, uint32_t *out)
{
    int64_t n;
    if (!lr_json_is(value, LR_JSON_NUMBER))
        return chat_parse_type(p, param, "an integer", value);
    if (!lr_json_i64(value, &n) || n < (int64_t)min || n > (int64_t)max)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for '%s': expected an integer from %u to %u, "
                               "got %.*s.",
                               param, min, max, shown(value), value->text.ptr);
    *out = (uint32_t)n;
    return LR_OK;
}

lr_code chat_parse_float(struct chat_parse *p, const char *param, const struct lr_json *value,
                         double min, double max, float *out)
{
    double n;
    if (!lr_json_is(value, LR_JSON_NUMBER))
        return chat_parse_type(p, param, "a number", value);
    if (!lr_json_double(value, &n) || n < min || n > max)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for '%s': expected a number from %g to %g, "
                               "got %.*s.",
                               param, min, max, shown(value), value->text.ptr);
    *out = (float)n;
    return LR_OK;
}

static lr_code missing(struct chat_parse *p, const char *name)
{
    return chat_parse_fail(p, name, "missing_required_parameter", LR_INVALID_ARGUMENT,
                           "Missing required parameter: '%s'.", name);
}

static lr_code parse_member(struct chat_parse *p, const struct lr_json_member *m)
{
    const struct chat_field *field = chat_field_find(p->req->api, m->key);
    char name[64];
    int len = m->key.len < sizeof(name) - 1 ? (int)m->key.len : (int)sizeof(name) - 1;

    snprintf(name, sizeof(name), "%.*s", len, m->key.ptr);
    if (field == NULL)
        return chat_parse_fail(
            p, name, "unknown_parameter", LR_INVALID_ARGUMENT,
            "Unrecognized request argument supplied: %s. "
            "docs/%s lists what is understood.",
            name, p->req->api == CHAT_API_RESPONSES ? "responses.md" : "api-fields.md");
    /* null is how many clients write "not set". */
    if (m->value.type == LR_JSON_NULL)
        return LR_OK;
    if (field->parse != NULL)
        return field->parse(p, field->row.name, &m->value);
    if (field->row.list == CHAT_FIELD_REFUSED)
        return chat_parse_fail(p, name, "unsupported_parameter", LR_UNSUPPORTED,
                               "Unsupported parameter: '%s'. %s", name, field->row.note);
    return LR_OK;
}

/* ---- what several fields say together ---- */

static lr_code check_lengths(struct chat_parse *p)
{
    struct chat_request *req = p->req;
    if (p->max_tokens != 0 && p->max_completion_tokens != 0 &&
        p->max_tokens != p->max_completion_tokens)
        return chat_parse_fail(p, "max_tokens", "invalid_value", LR_INVALID_ARGUMENT,
                               "'max_tokens' (%u) and 'max_completion_tokens' (%u) say "
                               "different things; send only 'max_completion_tokens'.",
                               p->max_tokens, p->max_completion_tokens);
    req->max_tokens = p->max_completion_tokens != 0 ? p->max_completion_tokens : p->max_tokens;
    if (req->api == CHAT_API_COMPLETIONS && req->max_tokens == 0)
        req->max_tokens = COMPLETIONS_MAX_TOKENS;
    return LR_OK;
}

static lr_code check_choices(struct chat_parse *p)
{
    struct chat_request *req = p->req;
    if (req->n > CHAT_CHOICES_MAX / req->prompt_count)
        return chat_parse_fail(p, "n", "invalid_value", LR_INVALID_ARGUMENT,
                               "%u prompts with n = %u make more than %d answers; send "
                               "fewer in one request.",
                               req->prompt_count, req->n, CHAT_CHOICES_MAX);
    if (p->best_of != 0 && p->best_of != req->n)
        return chat_parse_fail(p, "best_of", "unsupported_value", LR_UNSUPPORTED,
                               "'best_of' other than 'n' is not offered; send n = %u and "
                               "choose.",
                               p->best_of);
    return LR_OK;
}

static lr_code check_answer(struct chat_parse *p)
{
    struct chat_request *req = p->req;
    if (p->has_stream_options && !req->stream)
        return chat_parse_fail(p, "stream_options", "invalid_value", LR_INVALID_ARGUMENT,
                               "'stream_options' is only allowed when 'stream' is true.");
    if (p->top_logprobs_given > 1 && !p->logprobs)
        return chat_parse_fail(
            p, "top_logprobs", "invalid_value", LR_INVALID_ARGUMENT, "'top_logprobs' needs %s.",
            req->api == CHAT_API_RESPONSES ? "'include': [\"message.output_text.logprobs\"]"
                                           : "'logprobs': true");
    if (req->api != CHAT_API_COMPLETIONS) {
        req->sampling.logprobs = p->logprobs;
        req->sampling.top_logprobs =
            p->top_logprobs_given > 1 ? (uint32_t)(p->top_logprobs_given - 1) : 0;
    }
    if (p->hide_reasoning)
        req->reasoning = CHAT_REASONING_HIDDEN;
    return LR_OK;
}

static lr_code check(struct chat_parse *p)
{
    struct chat_request *req = p->req;
    lr_code code = LR_OK;

    if (req->model.len == 0)
        return missing(p, "model");
    if (req->api == CHAT_API_CHAT && !p->has_messages)
        return missing(p, "messages");
    if (req->api == CHAT_API_COMPLETIONS && !p->has_prompt)
        return missing(p, "prompt");
    if (req->api == CHAT_API_RESPONSES && p->input == NULL)
        return missing(p, "input");
    if (req->api == CHAT_API_RESPONSES && ((code = chat_responses_tools(p)) != LR_OK ||
                                           (code = chat_responses_messages(p)) != LR_OK))
        return code;
    if ((code = check_lengths(p)) != LR_OK || (code = check_choices(p)) != LR_OK ||
        (code = check_answer(p)) != LR_OK)
        return code;
    if (p->tool_choice_none)
        req->tools = NULL;
    req->forbids_tool_calls = p->tool_choice_none;
    return chat_check_format(p);
}

static lr_code parse_root(struct chat_parse *p, const struct lr_json *root)
{
    if (root->type != LR_JSON_OBJECT)
        return chat_parse_fail(p, NULL, "invalid_type", LR_INVALID_ARGUMENT,
                               "The body must be a JSON object, not %s.",
                               lr_json_type_name(root->type));
    for (uint32_t i = 0; i < root->count; i++) {
        lr_code code = parse_member(p, &root->members[i]);
        if (code != LR_OK)
            return code;
    }
    return check(p);
}

lr_code chat_openai_read(struct lr_arena *arena, struct lr_str body, const struct lr_json **out,
                         struct lr_str *model, struct chat_error *e)
{
    *model = lr_str(NULL, 0);
    *e = (struct chat_error){0};
    lr_code code = lr_json_parse(arena, body, NULL, out, &e->error);
    if (code != LR_OK) {
        e->code = code == LR_INVALID_ARGUMENT ? "invalid_json" : NULL;
        lr_fail_prefix(&e->error, "The body is not a JSON object we can read");
        return code;
    }
    (void)lr_json_str(lr_json_get(*out, "model"), model);
    return LR_OK;
}

lr_code chat_openai_check(struct lr_arena *arena, enum chat_api api, const struct lr_json *root,
                          const struct chat_request **out, struct chat_error *e)
{
    struct chat_parse p = {.arena = arena, .e = e, .schema_work = GRAMMAR_WORK_MAX};

    *out = NULL;
    *e = (struct chat_error){0};
    p.req = lr_arena_zalloc(arena, sizeof(*p.req));
    if (p.req == NULL)
        return chat_parse_fail(&p, NULL, NULL, LR_OUT_OF_RAM,
                               "no memory for the request (limit %zu bytes)", arena->limit);
    *p.req = (struct chat_request){
        .api = api,
        .prompt_count = 1,
        .n = 1,
        .parallel_tool_calls = true,
        .reasoning = CHAT_REASONING_CONTENT,
        .sampling = {.size = sizeof(struct lr_sampling),
                     .temperature = 1,
                     .top_p = 1,
                     .repetition_penalty = 1},
        .body = api == CHAT_API_RESPONSES ? root : NULL,
    };
    lr_code code = parse_root(&p, root);
    if (code == LR_OK)
        *out = p.req;
    return code;
}

lr_code chat_openai_parse(struct lr_arena *arena, enum chat_api api, struct lr_str body,
                          const struct chat_request **out, struct chat_error *e)
{
    const struct lr_json *root;
    struct lr_str model;
    *out = NULL;
    lr_code code = chat_openai_read(arena, body, &root, &model, e);
    return code == LR_OK ? chat_openai_check(arena, api, root, out, e) : code;
}
