/* wire/generate_json.c - reads the JSON form of struct wire_generate. */
#include <math.h>

#include "base/json.h"
#include "wire/generate.h"

struct reading {
    struct lr_arena *arena;
    struct wire_generate *g;
    bool has_seed;
    bool has_protocol;
};

static bool get_u32(const struct lr_json *v, uint32_t *out)
{
    uint64_t n;
    if (!lr_json_u64(v, &n) || n > UINT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool get_float(const struct lr_json *v, float *out)
{
    double d;
    if (!lr_json_double(v, &d) || fabs(d) > 1e6)
        return false;
    *out = (float)d;
    return true;
}

static bool get_ids(struct reading *r, const struct lr_json *v, size_t max,
                    const uint32_t **out, size_t *count)
{
    if (v->type != LR_JSON_ARRAY || v->count > max)
        return false;
    uint32_t *ids = lr_arena_array(r->arena, v->count != 0 ? v->count : 1, sizeof(*ids));
    if (ids == NULL)
        return false;
    for (uint32_t i = 0; i < v->count; i++)
        if (!get_u32(&v->items[i], &ids[i]))
            return false;
    *out = ids;
    *count = v->count;
    return true;
}

static bool get_segments(struct reading *r, const struct lr_json *v)
{
    if (v->type != LR_JSON_ARRAY || v->count > WIRE_SEGMENTS_MAX)
        return false;
    struct lr_segment *list =
        lr_arena_array(r->arena, v->count != 0 ? v->count : 1, sizeof(*list));
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        struct lr_str text;
        bool control = false;
        const struct lr_json *flag = lr_json_get(&v->items[i], "control");
        if (!lr_json_str(lr_json_get(&v->items[i], "text"), &text) ||
            (flag != NULL && !lr_json_bool(flag, &control)))
            return false;
        list[i] = (struct lr_segment){.text = text.ptr, .len = text.len, .control = control};
    }
    r->g->segments = list;
    r->g->segment_count = v->count;
    return true;
}

static bool get_bias(struct reading *r, const struct lr_json *v)
{
    if (v->type != LR_JSON_ARRAY || v->count > WIRE_BIAS_MAX)
        return false;
    struct lr_logit_bias *list =
        lr_arena_array(r->arena, v->count != 0 ? v->count : 1, sizeof(*list));
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct lr_json *pair = &v->items[i];
        if (pair->type != LR_JSON_ARRAY || pair->count != 2 ||
            !get_u32(&pair->items[0], &list[i].token) ||
            !get_float(&pair->items[1], &list[i].bias))
            return false;
    }
    r->g->sampling.logit_bias = list;
    r->g->sampling.logit_bias_count = v->count;
    return true;
}

static bool get_flag(const struct lr_json *v, uint32_t *out)
{
    bool b;
    if (!lr_json_bool(v, &b))
        return false;
    *out = b;
    return true;
}

static bool get_protocol(struct reading *r, const struct lr_json *v)
{
    uint64_t n;
    r->has_protocol = lr_json_u64(v, &n) && n == WIRE_GENERATE_PROTOCOL;
    return r->has_protocol;
}

static bool get_priority(struct wire_generate *g, const struct lr_json *v)
{
    int64_t n;
    if (!lr_json_i64(v, &n) || n < -1000 || n > 1000)
        return false;
    g->priority = (int32_t)n;
    return true;
}

static bool get_sampling_member(struct reading *r, struct lr_str key, const struct lr_json *v,
                                bool *known)
{
    struct lr_sampling *s = &r->g->sampling;
    const struct {
        const char *name;
        float *value;
    } floats[] = {
        {"temperature", &s->temperature},
        {"top_p", &s->top_p},
        {"min_p", &s->min_p},
        {"repetition_penalty", &s->repetition_penalty},
        {"presence_penalty", &s->presence_penalty},
        {"frequency_penalty", &s->frequency_penalty},
    };
    *known = true;
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        if (lr_str_eq_z(key, floats[i].name))
            return get_float(v, floats[i].value);
    if (lr_str_eq_z(key, "top_k"))
        return get_u32(v, &s->top_k);
    if (lr_str_eq_z(key, "logprobs"))
        return get_flag(v, &s->logprobs);
    if (lr_str_eq_z(key, "top_logprobs"))
        return get_u32(v, &s->top_logprobs);
    if (lr_str_eq_z(key, "logit_bias"))
        return get_bias(r, v);
    if (lr_str_eq_z(key, "seed"))
        return r->has_seed = lr_json_u64(v, &s->seed);
    *known = false;
    return false;
}

static bool get_member(struct reading *r, struct lr_str key, const struct lr_json *v)
{
    struct wire_generate *g = r->g;
    struct lr_str entry;
    bool known;
    if (lr_str_eq_z(key, "protocol"))
        return get_protocol(r, v);
    if (lr_str_eq_z(key, "request_id"))
        return lr_json_str(v, &g->request_id) && g->request_id.len <= WIRE_REQUEST_ID_MAX;
    if (lr_str_eq_z(key, "model"))
        return lr_json_str(v, &g->model) && g->model.len <= WIRE_MODEL_ID_MAX;
    if (lr_str_eq_z(key, "deadline_ms"))
        return lr_json_u64(v, &g->deadline_ms);
    if (lr_str_eq_z(key, "cache_scope"))
        return lr_json_str(v, &g->cache_scope) && g->cache_scope.len <= 256;
    if (lr_str_eq_z(key, "segments"))
        return get_segments(r, v);
    if (lr_str_eq_z(key, "prompt_ids"))
        return get_ids(r, v, WIRE_IDS_MAX, &g->prompt_ids, &g->prompt_id_count);
    if (lr_str_eq_z(key, "generated"))
        return get_ids(r, v, WIRE_IDS_MAX, &g->generated, &g->generated_count);
    if (lr_str_eq_z(key, "stop_ids"))
        return get_ids(r, v, WIRE_STOP_IDS_MAX, &g->stop_ids, &g->stop_id_count);
    if (lr_str_eq_z(key, "max_tokens"))
        return get_u32(v, &g->max_tokens);
    if (lr_str_eq_z(key, "constraint"))
        return lr_json_str(v, &g->constraint) && g->constraint.len <= WIRE_CONSTRAINT_MAX;
    if (lr_str_eq_z(key, "priority"))
        return get_priority(g, v);
    if (lr_str_eq_z(key, "ignore_stop"))
        return lr_json_bool(v, &g->ignore_stop);
    if (lr_str_eq_z(key, "no_queue"))
        return lr_json_bool(v, &g->no_queue);
    if (lr_str_eq_z(key, "entry"))
        return lr_json_str(v, &entry) && wire_entry_parse(entry, &g->entry);
    if (lr_str_eq_z(key, "cohort"))
        return get_u32(v, &g->cohort);
    return get_sampling_member(r, key, v, &known) && known;
}

lr_code wire_generate_parse_json(struct lr_arena *arena, struct lr_str text,
                                 struct wire_generate *out, struct lr_error *err)
{
    struct lr_json_limits limits = {.max_depth = 8, .max_bytes = WIRE_BODY_MAX};
    struct reading r = {.arena = arena, .g = out};
    const struct lr_json *root;

    wire_generate_defaults(out);
    lr_code code = lr_json_parse(arena, text, &limits, &root, err);
    if (code != LR_OK)
        return code;
    if (root->type != LR_JSON_OBJECT)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the body must be a JSON object");
    for (uint32_t i = 0; i < root->count; i++)
        if (!get_member(&r, root->members[i].key, &root->members[i].value))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "member \"" LR_STR_FMT "\" is unknown or has a wrong value",
                           LR_STR_ARG(lr_str_sub(root->members[i].key, 0, 64)));
    if (!r.has_protocol)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"protocol\" must be %d",
                       WIRE_GENERATE_PROTOCOL);
    if (out->segments == NULL && out->prompt_ids == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"segments\" or \"prompt_ids\" is missing");
    if (!r.has_seed)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"seed\" is missing");
    if (out->sampling.top_logprobs > 20)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"top_logprobs\" is at most 20");
    return LR_OK;
}
