#include "wire/generate.h"

#include "wire/bytes.h"

void wire_generate_defaults(struct wire_generate *g)
{
    *g = (struct wire_generate){
        .sampling = {.size = sizeof(g->sampling),
                     .temperature = 1.0f,
                     .top_p = 1.0f,
                     .repetition_penalty = 1.0f},
    };
}

static void put_sampling(struct lr_buf *buf, const struct lr_sampling *s)
{
    const float floats[] = {
        s->temperature,      s->top_p, s->min_p, s->repetition_penalty, s->presence_penalty,
        s->frequency_penalty};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        wire_put_f32(buf, floats[i]);
    wire_put_u32(buf, s->top_k);
    wire_put_u64(buf, s->seed);
    wire_put_u32(buf, s->top_logprobs);
    wire_put_u32(buf, s->logprobs);
    wire_put_u32(buf, s->logit_bias_count);
    for (uint32_t i = 0; i < s->logit_bias_count; i++) {
        wire_put_u32(buf, s->logit_bias[i].token);
        wire_put_f32(buf, s->logit_bias[i].bias);
    }
}

void wire_submit_encode(struct lr_buf *buf, const struct wire_generate *g)
{
    size_t start = wire_frame_begin(buf, WIRE_SUBMIT);
    wire_put_u64(buf, g->id);
    put_sampling(buf, &g->sampling);
    wire_put_u32(buf, g->max_tokens);
    wire_put_u32(buf, (uint32_t)g->priority);
    wire_put_u8(buf, g->ignore_stop);
    wire_put_u8(buf, g->prompt_ids != NULL);
    wire_put_str(buf, g->cache_scope);
    wire_put_u32(buf, (uint32_t)g->segment_count);
    for (size_t i = 0; i < g->segment_count; i++) {
        wire_put_u8(buf, g->segments[i].control != 0);
        wire_put_str(buf, lr_str(g->segments[i].text, g->segments[i].len));
    }
    wire_put_u32s(buf, g->prompt_ids, g->prompt_id_count);
    wire_put_u32s(buf, g->generated, g->generated_count);
    wire_put_u32s(buf, g->stop_ids, g->stop_id_count);
    wire_put_str(buf, g->constraint);
    wire_frame_end(buf, start);
}

/* Memory for `count` items of `size`, once it is sure that the body can hold them. */
static void *get_array(struct lr_arena *arena, struct wire_cursor *c, size_t count,
                       size_t wire_size, size_t size, size_t max)
{
    if (c->failed || count > max || count > (size_t)(c->end - c->at) / wire_size) {
        c->failed = true;
        return NULL;
    }
    void *array = lr_arena_array(arena, count != 0 ? count : 1, size);
    if (array == NULL)
        c->failed = true;
    return array;
}

static const uint32_t *get_u32s(struct lr_arena *arena, struct wire_cursor *c, size_t max,
                                size_t *count)
{
    size_t n = wire_get_u32(c);
    *count = 0;
    uint32_t *ids = get_array(arena, c, n, 4, sizeof(*ids), max);
    for (size_t i = 0; ids != NULL && i < n; i++)
        ids[i] = wire_get_u32(c);
    *count = ids != NULL ? n : 0;
    return ids;
}

static void get_sampling(struct lr_arena *arena, struct wire_cursor *c, struct lr_sampling *s)
{
    float *const floats[] = {&s->temperature,
                             &s->top_p,
                             &s->min_p,
                             &s->repetition_penalty,
                             &s->presence_penalty,
                             &s->frequency_penalty};
    s->size = sizeof(*s);
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        *floats[i] = wire_get_f32(c);
    s->top_k = wire_get_u32(c);
    s->seed = wire_get_u64(c);
    s->top_logprobs = wire_get_u32(c);
    s->logprobs = wire_get_u32(c);
    uint32_t count = wire_get_u32(c);
    struct lr_logit_bias *bias = get_array(arena, c, count, 8, sizeof(*bias), WIRE_BIAS_MAX);
    for (uint32_t i = 0; bias != NULL && i < count; i++) {
        bias[i].token = wire_get_u32(c);
        bias[i].bias = wire_get_f32(c);
    }
    s->logit_bias = bias;
    s->logit_bias_count = bias != NULL ? count : 0;
}

lr_code wire_submit_decode(struct lr_arena *arena, struct lr_str body,
                           struct wire_generate *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    *out = (struct wire_generate){.id = wire_get_u64(&c)};
    get_sampling(arena, &c, &out->sampling);
    out->max_tokens = wire_get_u32(&c);
    out->priority = (int32_t)wire_get_u32(&c);
    out->ignore_stop = wire_get_u8(&c) != 0;
    bool has_ids = wire_get_u8(&c) != 0;
    out->cache_scope = wire_get_str(&c);
    size_t count = wire_get_u32(&c);
    struct lr_segment *segments =
        get_array(arena, &c, count, 5, sizeof(*segments), WIRE_SEGMENTS_MAX);
    for (size_t i = 0; segments != NULL && i < count; i++) {
        uint8_t control = wire_get_u8(&c);
        struct lr_str text = wire_get_str(&c);
        segments[i] =
            (struct lr_segment){.text = text.ptr, .len = text.len, .control = control};
    }
    out->segments = segments;
    out->segment_count = segments != NULL ? count : 0;
    out->prompt_ids = get_u32s(arena, &c, WIRE_IDS_MAX, &out->prompt_id_count);
    if (!has_ids)
        out->prompt_ids = NULL;
    out->generated = get_u32s(arena, &c, WIRE_IDS_MAX, &out->generated_count);
    out->stop_ids = get_u32s(arena, &c, WIRE_STOP_IDS_MAX, &out->stop_id_count);
    out->constraint = wire_get_str(&c);
    if (!wire_cursor_done(&c) || (!has_ids && out->prompt_id_count != 0) ||
        out->constraint.len > WIRE_CONSTRAINT_MAX)
        return wire_malformed(err, "submit");
    return LR_OK;
}
