/* wire/generate_json.c - the JSON form of struct wire_generate. */
#include <math.h>

#include "base/json.h"
#include "wire/generate.h"

static void put_ids(struct lr_json_writer *w, const char *key, const uint32_t *ids,
                    size_t count)
{
    lr_json_key(w, key);
    lr_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        lr_json_put_u64(w, ids[i]);
    lr_json_end_array(w);
}

static void put_float(struct lr_json_writer *w, const char *key, float value, float otherwise)
{
    if (value < otherwise || value > otherwise)
        lr_json_member_double(w, key, (double)value);
}

static void put_sampling(struct lr_json_writer *w, const struct lr_sampling *s)
{
    put_float(w, "temperature", s->temperature, 1.0f);
    put_float(w, "top_p", s->top_p, 1.0f);
    put_float(w, "min_p", s->min_p, 0.0f);
    put_float(w, "repetition_penalty", s->repetition_penalty, 1.0f);
    put_float(w, "presence_penalty", s->presence_penalty, 0.0f);
    put_float(w, "frequency_penalty", s->frequency_penalty, 0.0f);
    if (s->top_k != 0)
        lr_json_member_u64(w, "top_k", s->top_k);
    lr_json_member_u64(w, "seed", s->seed);
    if (s->logprobs != 0)
        lr_json_member_bool(w, "logprobs", true);
    if (s->top_logprobs != 0)
        lr_json_member_u64(w, "top_logprobs", s->top_logprobs);
    if (s->logit_bias_count == 0)
        return;
    lr_json_key(w, "logit_bias");
    lr_json_begin_array(w);
    for (uint32_t i = 0; i < s->logit_bias_count; i++) {
        lr_json_begin_array(w);
        lr_json_put_u64(w, s->logit_bias[i].token);
        lr_json_put_double(w, (double)s->logit_bias[i].bias);
        lr_json_end_array(w);
    }
    lr_json_end_array(w);
}

void wire_generate_write_json(struct lr_buf *out, const struct wire_generate *g)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "protocol", WIRE_GENERATE_PROTOCOL);
    lr_json_member_str(&w, "request_id", g->request_id);
    lr_json_member_str(&w, "model", g->model);
    if (g->deadline_ms != 0)
        lr_json_member_u64(&w, "deadline_ms", g->deadline_ms);
    if (g->cache_scope.len != 0)
        lr_json_member_str(&w, "cache_scope", g->cache_scope);
    if (g->prompt_ids != NULL) {
        put_ids(&w, "prompt_ids", g->prompt_ids, g->prompt_id_count);
    } else {
        lr_json_key(&w, "segments");
        lr_json_begin_array(&w);
        for (size_t i = 0; i < g->segment_count; i++) {
            lr_json_begin_object(&w);
            lr_json_member_str(&w, "text", lr_str(g->segments[i].text, g->segments[i].len));
            lr_json_member_bool(&w, "control", g->segments[i].control != 0);
            lr_json_end_object(&w);
        }
        lr_json_end_array(&w);
    }
    if (g->generated_count != 0)
        put_ids(&w, "generated", g->generated, g->generated_count);
    put_sampling(&w, &g->sampling);
    if (g->max_tokens != 0)
        lr_json_member_u64(&w, "max_tokens", g->max_tokens);
    if (g->stop_id_count != 0)
        put_ids(&w, "stop_ids", g->stop_ids, g->stop_id_count);
    if (g->constraint.len != 0)
        lr_json_member_str(&w, "constraint", g->constraint);
    if (g->priority != 0)
        lr_json_member_i64(&w, "priority", g->priority);
    if (g->ignore_stop)
        lr_json_member_bool(&w, "ignore_stop", true);
    if (g->no_queue)
        lr_json_member_bool(&w, "no_queue", true);
    if (g->entry != WIRE_ENTRY_NEW)
        lr_json_member_z(&w, "entry", wire_entry_name(g->entry));
    if (g->entry == WIRE_ENTRY_COHORT)
        lr_json_member_u64(&w, "cohort", g->cohort);
    lr_json_end_object(&w);
}

/* ---- reading ---- */

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
