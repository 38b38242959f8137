/* chat/parse_fields.c - fields that several APIs share: see chat/parse.h. */
#include <stddef.h>
#include <stdio.h>

#include "chat/parse.h"

enum { OPENAI_STOPS = 4 }; /* OpenAI's limit, for strict requests */

lr_code chat_parse_model(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (!lr_json_str(value, &p->req->model))
        return chat_parse_type(p, name, "a string", value);
    return LR_OK;
}

lr_code chat_parse_flag(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } flags[] = {
        {"stream", offsetof(struct chat_request, stream)},
        {"parallel_tool_calls", offsetof(struct chat_request, parallel_tool_calls)},
        {"ignore_eos", offsetof(struct chat_request, ignore_stop)},
    };
    bool flag;
    lr_code code = chat_parse_bool(p, name, value, &flag);
    for (size_t i = 0; code == LR_OK && i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(name, flags[i].name) == 0)
            memcpy((char *)p->req + flags[i].offset, &flag, sizeof(flag));
    return code;
}

lr_code chat_parse_any_bool(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    bool ignored;
    return chat_parse_bool(p, name, value, &ignored);
}

static lr_code parse_only(struct chat_parse *p, const char *name, const struct lr_json *value,
                          bool only)
{
    bool flag;
    lr_code code = chat_parse_bool(p, name, value, &flag);
    if (code == LR_OK && flag != only)
        return chat_parse_fail(p, name, "unsupported_value", LR_UNSUPPORTED,
                               "'%s': %s is not supported; leave it out.", name,
                               flag ? "true" : "false");
    return code;
}

lr_code chat_parse_must_be_false(struct chat_parse *p, const char *name,
                                 const struct lr_json *value)
{
    return parse_only(p, name, value, false);
}

lr_code chat_parse_must_be_true(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    return parse_only(p, name, value, true);
}

lr_code chat_parse_max_tokens(struct chat_parse *p, const char *name,
                              const struct lr_json *value, uint32_t *out)
{
    int64_t n;
    if (!p->is_strict && lr_json_i64(value, &n) && n == -1) {
        *out = INT32_MAX;
        return LR_OK;
    }
    return chat_parse_u32(p, name, value, 1, INT32_MAX, out);
}

lr_code chat_parse_top_logprobs(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    uint32_t count;
    lr_code code = chat_parse_u32(p, name, value, 0, CHAT_TOP_LOGPROBS_MAX, &count);
    if (code == LR_OK)
        p->top_logprobs_given = 1 + (uint64_t)count;
    return code;
}

lr_code chat_parse_budget(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    lr_code code = chat_parse_u32(p, name, value, 0, UINT32_MAX, &p->req->thinking_budget);
    if (code == LR_OK && p->req->thinking_budget == 0)
        p->req->thinking = CHAT_THINKING_OFF;
    return code;
}

lr_code chat_parse_effort(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    /* Models know the three in the middle; the others map to the nearest of them. */
    static const char *const words[] = {"none", "minimal", "low", "medium",
                                        "high", "xhigh",   "max", NULL};
    static const char *const known[] = {"low", "low", "low", "medium", "high", "high", "high"};
    uint32_t index;
    lr_code code = chat_parse_word(p, name, value, words, LR_UNSUPPORTED, &index);
    if (code != LR_OK)
        return code;
    p->req->reasoning_effort = lr_str_z(known[index]);
    if (index == 0)
        p->req->thinking = CHAT_THINKING_OFF;
    return LR_OK;
}

lr_code chat_parse_user(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (!lr_json_str(value, &p->req->user))
        return chat_parse_type(p, name, "a string", value);
    return LR_OK;
}

lr_code chat_parse_service_tier(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    static const char *const words[] = {"auto", "default", NULL};
    uint32_t index;
    if (!p->is_strict && value->type == LR_JSON_STRING)
        return LR_OK;
    return chat_parse_word(p, name, value, words, LR_UNSUPPORTED, &index);
}

lr_code chat_parse_verbosity(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    static const char *const words[] = {"low", "medium", "high", NULL};
    uint32_t index;
    return chat_parse_word(p, name, value, words, LR_UNSUPPORTED, &index);
}

/* ---- sampling ---- */

struct range {
    const char *name;
    double min;
    double max;
    uint32_t given;
    size_t offset; /* of a float in struct lr_sampling */
};

/* temperature and the penalties: OpenAI's own ranges.  A repetition penalty of 0 would be a
 * division by zero. */
static const struct range ranges[] = {
    {"temperature", 0, 2, LR_GIVEN_TEMPERATURE, offsetof(struct lr_sampling, temperature)},
    {"top_p", 0, 1, LR_GIVEN_TOP_P, offsetof(struct lr_sampling, top_p)},
    {"min_p", 0, 1, LR_GIVEN_MIN_P, offsetof(struct lr_sampling, min_p)},
    {"presence_penalty", -2, 2, 0, offsetof(struct lr_sampling, presence_penalty)},
    {"frequency_penalty", -2, 2, 0, offsetof(struct lr_sampling, frequency_penalty)},
    {"repetition_penalty", 0.01, 10, LR_GIVEN_REPETITION_PENALTY,
     offsetof(struct lr_sampling, repetition_penalty)},
};

lr_code chat_parse_sampling(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (strcmp(name, ranges[i].name) != 0)
            continue;
        float n;
        lr_code code = chat_parse_float(p, name, value, ranges[i].min, ranges[i].max, &n);
        if (code != LR_OK)
            return code;
        memcpy((char *)&p->req->sampling + ranges[i].offset, &n, sizeof(n));
        p->req->given |= ranges[i].given;
        return LR_OK;
    }
    /* top_k: 0 and -1 both mean "off" in other servers. */
    int64_t k;
    if (!lr_json_i64(value, &k) || k < -1 || k > INT32_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for '%s': expected an integer from -1 to %d.",
                               name, INT32_MAX);
    p->req->sampling.top_k = k > 0 ? (uint32_t)k : 0;
    p->req->given |= LR_GIVEN_TOP_K;
    return LR_OK;
}

lr_code chat_parse_seed(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    int64_t seed;
    if (!lr_json_i64(value, &seed))
        return chat_parse_type(p, name, "an integer of 64 bits", value);
    p->req->sampling.seed = (uint64_t)seed;
    p->req->has_seed = true;
    return LR_OK;
}

static lr_code add_stop(struct chat_parse *p, const char *param, const struct lr_json *value)
{
    struct lr_str s;
    if (!lr_json_str(value, &s))
        return chat_parse_type(p, param, "a string", value);
    if (s.len == 0 || s.len > CHAT_STOP_BYTES_MAX)
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s': a stop string has 1 to %d bytes, this one %zu.", param,
                               CHAT_STOP_BYTES_MAX, s.len);
    p->req->stop[p->req->stop_count++] = s;
    return LR_OK;
}

lr_code chat_parse_stop(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    uint32_t limit = p->is_strict ? OPENAI_STOPS : CHAT_STOP_MAX;
    p->req->stop_count = 0;
    if (value->type == LR_JSON_STRING)
        return add_stop(p, name, value);
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "a string or an array of strings", value);
    if (value->count > limit)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'stop' has %u strings, the limit is %u.", value->count, limit);
    for (uint32_t i = 0; i < value->count; i++) {
        char param[32];
        snprintf(param, sizeof(param), "%s[%u]", name, i);
        lr_code code = add_stop(p, param, &value->items[i]);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

/* ---- checks that involve several fields ---- */

lr_code chat_check_answer(struct chat_parse *p, const char *logprobs_by)
{
    struct chat_request *req = p->req;
    if (p->has_stream_options && !req->stream)
        return chat_parse_fail(p, "stream_options", "invalid_value", LR_INVALID_ARGUMENT,
                               "'stream_options' is only allowed when 'stream' is true.");
    if (p->top_logprobs_given > 1 && !p->logprobs)
        return chat_parse_fail(p, "top_logprobs", "invalid_value", LR_INVALID_ARGUMENT,
                               "'top_logprobs' needs %s.", logprobs_by);
    if (p->logprobs) {
        req->sampling.logprobs = 1;
        req->sampling.top_logprobs =
            p->top_logprobs_given > 1 ? (uint32_t)(p->top_logprobs_given - 1) : 0;
    }
    return LR_OK;
}
