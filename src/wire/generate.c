#include "wire/generate.h"

#include "wire/bytes.h"
#include "wire/event.h"

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

/* ---- SUBMIT ----
 *
 *   u64 request   u64 deadline_ms   u32 generated   u32 cohort   u8 entry   u8 flags   u16 zero
 *   request_id   model   trace   leaves
 *   with FLAG_WEIGHTS: weights                    a node reads up to here
 *   sampling   ...   constraint
 *   with FLAG_VECTOR: u8 kind   u32 dimensions   the segments of the document
 *   the generated tokens, last, so that a continuation changes only the frame's end
 */

enum { AT_REQUEST = 0, AT_GENERATED = 16 };
enum {
    FLAG_NO_QUEUE = 1,
    FLAG_IGNORE_STOP = 2,
    FLAG_HAS_IDS = 4,
    FLAG_VECTOR = 8,
    FLAG_WEIGHTS = 16,
};

static void put_node_part(struct lr_buf *buf, const struct wire_generate *g)
{
    wire_put_u64(buf, g->id);
    wire_put_u64(buf, g->deadline_ms);
    wire_put_u32(buf, (uint32_t)g->generated_count);
    wire_put_u32(buf, g->cohort);
    wire_put_u8(buf, (uint8_t)g->entry);
    wire_put_u8(buf, (uint8_t)((g->no_queue ? FLAG_NO_QUEUE : 0) |
                               (g->ignore_stop ? FLAG_IGNORE_STOP : 0) |
                               (g->prompt_ids != NULL ? FLAG_HAS_IDS : 0) |
                               (g->kind != LR_REQUEST_GENERATE ? FLAG_VECTOR : 0) |
                               (g->weights.len != 0 ? FLAG_WEIGHTS : 0)));
    wire_put_u16(buf, 0);
    wire_put_str(buf, lr_str_sub(g->request_id, 0, WIRE_REQUEST_ID_MAX));
    wire_put_str(buf, g->model);
    wire_put_str(buf, g->trace);
    wire_put_str(buf, lr_str_sub(g->leaves, 0, WIRE_REQUEST_ID_MAX));
    if (g->weights.len != 0)
        wire_put_str(buf, lr_str_sub(g->weights, 0, WIRE_WEIGHTS_MAX));
}

static void put_segments(struct lr_buf *buf, const struct lr_segment *segments, size_t count)
{
    wire_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        wire_put_u8(buf, segments[i].control != 0);
        wire_put_str(buf, lr_str(segments[i].text, segments[i].len));
    }
}

void wire_submit_encode(struct lr_buf *buf, const struct wire_generate *g)
{
    size_t start = wire_frame_begin(buf, g->leaves.len != 0 ? WIRE_SWAP : WIRE_SUBMIT);
    put_node_part(buf, g);
    put_sampling(buf, &g->sampling);
    wire_put_u32(buf, g->max_tokens);
    wire_put_u32(buf, (uint32_t)g->priority);
    wire_put_str(buf, g->cache_scope);
    put_segments(buf, g->segments, g->segment_count);
    wire_put_u32s(buf, g->prompt_ids, g->prompt_id_count);
    wire_put_u32s(buf, g->stop_ids, g->stop_id_count);
    wire_put_str(buf, g->constraint);
    if (g->kind != LR_REQUEST_GENERATE) {
        wire_put_u8(buf, (uint8_t)g->kind);
        wire_put_u32(buf, g->dimensions);
        put_segments(buf, g->document, g->document_count);
    }
    for (size_t i = 0; i < g->generated_count; i++)
        wire_put_u32(buf, g->generated[i]);
    wire_frame_end(buf, start);
}

static void put_at(char *at, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(unsigned char)(value >> (8 * i));
}

void wire_submit_address(char *frame, uint64_t request)
{
    frame[WIRE_TYPE_AT] = (char)WIRE_SUBMIT;
    put_at(frame + WIRE_HEADER_LEN + AT_REQUEST, request, sizeof(request));
}

void wire_submit_continue(struct lr_buf *buf, struct lr_str frame, uint32_t generated_count,
                          const uint32_t *generated, size_t count)
{
    size_t body = frame.len - WIRE_HEADER_LEN - 4 * (size_t)generated_count;
    size_t start = wire_frame_begin(buf, WIRE_SUBMIT);
    lr_buf_add(buf, frame.ptr + WIRE_HEADER_LEN, body);
    if (!buf->failed)
        put_at(buf->data + start + WIRE_HEADER_LEN + AT_GENERATED, count, sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        wire_put_u32(buf, generated[i]);
    wire_frame_end(buf, start);
}

static uint8_t get_node_part(struct wire_cursor *c, struct wire_submit *out)
{
    *out = (struct wire_submit){.request = wire_get_u64(c)};
    out->deadline_ms = wire_get_u64(c);
    out->generated_count = wire_get_u32(c);
    out->cohort = wire_get_u32(c);
    uint8_t entry = wire_get_u8(c);
    uint8_t flags = wire_get_u8(c);
    (void)wire_get_u16(c);
    out->request_id = wire_get_str(c);
    out->model = wire_get_str(c);
    out->trace = wire_get_str(c);
    out->leaves = wire_get_str(c);
    if ((flags & FLAG_WEIGHTS) != 0)
        out->weights = wire_get_str(c);
    out->entry = (enum wire_entry)entry;
    out->no_queue = (flags & FLAG_NO_QUEUE) != 0;
    c->failed = c->failed || entry > WIRE_ENTRY_COHORT ||
                out->request_id.len > WIRE_REQUEST_ID_MAX ||
                out->model.len > WIRE_MODEL_ID_MAX || out->trace.len > WIRE_TRACE_MAX ||
                out->leaves.len > WIRE_REQUEST_ID_MAX || out->weights.len > WIRE_WEIGHTS_MAX ||
                out->generated_count > WIRE_IDS_MAX ||
                out->generated_count > (size_t)(c->end - c->at) / 4;
    return flags;
}

lr_code wire_submit_head_decode(struct lr_str body, struct wire_submit *out,
                                struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    (void)get_node_part(&c, out);
    return c.failed ? wire_malformed(err, "submit") : LR_OK;
}

/* Allocates `count` items of `size` after checking that the body can hold `count` items. */
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

static const uint32_t *get_ids(struct lr_arena *arena, struct wire_cursor *c, size_t count,
                               size_t max)
{
    uint32_t *ids = get_array(arena, c, count, 4, sizeof(*ids), max);
    for (size_t i = 0; ids != NULL && i < count; i++)
        ids[i] = wire_get_u32(c);
    return ids;
}

static const uint32_t *get_u32s(struct lr_arena *arena, struct wire_cursor *c, size_t max,
                                size_t *count)
{
    size_t n = wire_get_u32(c);
    const uint32_t *ids = get_ids(arena, c, n, max);
    *count = ids != NULL ? n : 0;
    return ids;
}

static const struct lr_segment *get_segments(struct lr_arena *arena, struct wire_cursor *c,
                                             size_t *count)
{
    size_t n = wire_get_u32(c);
    struct lr_segment *segments =
        get_array(arena, c, n, 5, sizeof(*segments), WIRE_SEGMENTS_MAX);
    for (size_t i = 0; segments != NULL && i < n; i++) {
        uint8_t control = wire_get_u8(c);
        struct lr_str text = wire_get_str(c);
        segments[i] =
            (struct lr_segment){.text = text.ptr, .len = text.len, .control = control};
    }
    *count = segments != NULL ? n : 0;
    return segments;
}

/* Rejects sampling values that no client may ask for (wire/generate_json.c). */
static bool is_sane(const struct lr_sampling *s)
{
    const float floats[] = {
        s->temperature,      s->top_p, s->min_p, s->repetition_penalty, s->presence_penalty,
        s->frequency_penalty};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        if (!(floats[i] >= -1e6f && floats[i] <= 1e6f))
            return false;
    return s->top_logprobs <= 20;
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
    struct wire_submit head;
    uint8_t flags = get_node_part(&c, &head);
    *out = (struct wire_generate){
        .id = head.request,
        .request_id = head.request_id,
        .model = head.model,
        .trace = head.trace,
        .leaves = head.leaves,
        .weights = head.weights,
        .deadline_ms = head.deadline_ms,
        .entry = head.entry,
        .cohort = head.cohort,
        .no_queue = head.no_queue,
        .ignore_stop = (flags & FLAG_IGNORE_STOP) != 0,
    };
    bool has_ids = (flags & FLAG_HAS_IDS) != 0;
    get_sampling(arena, &c, &out->sampling);
    out->max_tokens = wire_get_u32(&c);
    out->priority = (int32_t)wire_get_u32(&c);
    out->cache_scope = wire_get_str(&c);
    out->segments = get_segments(arena, &c, &out->segment_count);
    out->prompt_ids = get_u32s(arena, &c, WIRE_IDS_MAX, &out->prompt_id_count);
    if (!has_ids)
        out->prompt_ids = NULL;
    out->stop_ids = get_u32s(arena, &c, WIRE_STOP_IDS_MAX, &out->stop_id_count);
    out->constraint = wire_get_str(&c);
    if ((flags & FLAG_VECTOR) != 0) {
        out->kind = wire_get_u8(&c);
        out->dimensions = wire_get_u32(&c);
        out->document = get_segments(arena, &c, &out->document_count);
        c.failed = c.failed || out->kind == LR_REQUEST_GENERATE;
    }
    out->generated = get_ids(arena, &c, head.generated_count, WIRE_IDS_MAX);
    out->generated_count = out->generated != NULL ? head.generated_count : 0;
    if (!wire_cursor_done(&c) || (!has_ids && out->prompt_id_count != 0) ||
        out->constraint.len > WIRE_CONSTRAINT_MAX || !is_sane(&out->sampling))
        return wire_malformed(err, "submit");
    return LR_OK;
}
