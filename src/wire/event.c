#include "wire/event.h"

#include "wire/bytes.h"
#include "wire/error.h"

enum { FLAG_SPECIAL = 1, FLAG_LOGPROB = 2 };

/* ---- heads ----
 *
 *   u64 request   u32 index   u8 1: more follows   3 bytes zero
 */

enum { AT_MORE = 12 };

size_t wire_event_begin(struct lr_buf *buf, enum wire_type type, uint64_t request)
{
    size_t start = wire_frame_begin(buf, type);
    wire_put_u64(buf, request);
    wire_put_u64(buf, 0);
    return start;
}

bool wire_event_head_decode(struct lr_str body, struct wire_event_head *out)
{
    struct wire_cursor c = wire_cursor(body);
    out->request = wire_get_u64(&c);
    out->index = wire_get_u32(&c);
    out->has_more = (wire_get_u32(&c) & 1) != 0;
    return !c.failed;
}

uint64_t wire_event_request(struct lr_str body)
{
    struct wire_cursor c = wire_cursor(body);
    return wire_get_u64(&c);
}

bool wire_token_id(struct lr_str body, uint32_t *out)
{
    struct wire_cursor c = wire_cursor(body);
    (void)wire_take(&c, WIRE_EVENT_HEAD_LEN);
    *out = wire_get_u32(&c);
    return !c.failed;
}

size_t wire_event_relay(struct lr_buf *buf, const struct wire_frame *event, uint64_t request,
                        uint32_t index)
{
    size_t start = wire_frame_begin(buf, event->type);
    wire_put_u64(buf, request);
    wire_put_u32(buf, index);
    wire_put_u32(buf, 0);
    lr_buf_add_str(buf, lr_str_sub(event->body, WIRE_EVENT_HEAD_LEN, event->body.len));
    wire_frame_end(buf, start);
    return start;
}

void wire_event_has_more(struct lr_buf *buf, size_t start)
{
    buf->data[start + WIRE_HEADER_LEN + AT_MORE] = 1;
}

/* Begins to read an event's body behind its head. */
static struct wire_cursor event_cursor(struct lr_str body, uint64_t *request)
{
    struct wire_cursor c = wire_cursor(body);
    uint64_t number = wire_get_u64(&c);
    if (request != NULL)
        *request = number;
    (void)wire_get_u64(&c);
    return c;
}

/* ---- events ---- */

void wire_token_encode(struct lr_buf *buf, const struct wire_token *m)
{
    size_t start = wire_event_begin(buf, WIRE_TOKEN, m->request);
    uint32_t top = m->top_count < WIRE_TOP_MAX ? m->top_count : WIRE_TOP_MAX;
    uint64_t flags =
        (m->special ? FLAG_SPECIAL : 0U) | (m->has_logprob ? (unsigned)FLAG_LOGPROB : 0U);
    /* u32 id, u8 flags, u8 alternatives, u16 zero: one append, for this is done for each token
     */
    wire_put_u64(buf, m->id | flags << 32 | (uint64_t)top << 40);
    wire_put_f32(buf, m->logprob);
    wire_put_str(buf, m->bytes);
    for (uint32_t i = 0; i < top; i++) {
        wire_put_u32(buf, m->top[i].id);
        wire_put_f32(buf, m->top[i].logprob);
        wire_put_str(buf, m->top[i].bytes);
    }
    wire_frame_end(buf, start);
}

lr_code wire_token_decode(struct lr_str body, struct wire_token *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, &out->request);
    out->id = wire_get_u32(&c);
    uint8_t flags = wire_get_u8(&c);
    out->special = (flags & FLAG_SPECIAL) != 0;
    out->has_logprob = (flags & FLAG_LOGPROB) != 0;
    out->top_count = wire_get_u8(&c);
    (void)wire_get_u16(&c);
    out->logprob = wire_get_f32(&c);
    out->bytes = wire_get_str(&c);
    if (out->top_count > WIRE_TOP_MAX || out->bytes.len > WIRE_TOKEN_BYTES_MAX)
        return wire_malformed(err, "token");
    for (uint32_t i = 0; i < out->top_count; i++) {
        out->top[i].id = wire_get_u32(&c);
        out->top[i].logprob = wire_get_f32(&c);
        out->top[i].bytes = wire_get_str(&c);
    }
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "token");
}

void wire_vector_encode(struct lr_buf *buf, uint64_t request, const float *values,
                        uint32_t count)
{
    size_t start = wire_event_begin(buf, WIRE_VECTOR, request);
    wire_put_u32(buf, count);
    for (uint32_t i = 0; i < count; i++)
        wire_put_f32(buf, values[i]);
    wire_frame_end(buf, start);
}

lr_code wire_vector_decode(struct lr_str body, struct wire_vector *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, &out->request);
    out->count = wire_get_u32(&c);
    bool is_sane = out->count != 0 && out->count <= WIRE_VECTOR_MAX;
    out->values = wire_take(&c, is_sane ? out->count * sizeof(uint32_t) : 0);
    return is_sane && wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "vector");
}

float wire_vector_value(const struct wire_vector *m, uint32_t index)
{
    struct wire_cursor c =
        wire_cursor(lr_str((const char *)m->values + index * sizeof(uint32_t), 4));
    return wire_get_f32(&c);
}

void wire_done_encode(struct lr_buf *buf, const struct wire_done *m)
{
    size_t start = wire_event_begin(buf, WIRE_DONE, m->request);
    wire_put_u32(buf, (uint32_t)m->reason);
    wire_put_u32(buf, m->prompt_tokens);
    wire_put_u32(buf, m->completion_tokens);
    wire_put_u32(buf, m->cached_tokens);
    wire_put_error(buf, &m->error);
    wire_frame_end(buf, start);
}

lr_code wire_done_decode(struct lr_str body, struct wire_done *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, &out->request);
    uint32_t reason = wire_get_u32(&c);
    out->prompt_tokens = wire_get_u32(&c);
    out->completion_tokens = wire_get_u32(&c);
    out->cached_tokens = wire_get_u32(&c);
    wire_get_error(&c, &out->error);
    if (!wire_cursor_done(&c) || reason > LR_FINISH_ERROR)
        return wire_malformed(err, "done");
    out->reason = (enum lr_finish)reason;
    return LR_OK;
}

void wire_prefill_encode(struct lr_buf *buf, const struct wire_prefill *m)
{
    size_t start = wire_event_begin(buf, WIRE_PREFILL, m->request);
    wire_put_u32(buf, m->done);
    wire_put_u32(buf, m->total);
    wire_frame_end(buf, start);
}

lr_code wire_prefill_decode(struct lr_str body, struct wire_prefill *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, &out->request);
    out->done = wire_get_u32(&c);
    out->total = wire_get_u32(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "prefill");
}

void wire_loading_encode(struct lr_buf *buf, const struct wire_loading *m)
{
    size_t start = wire_event_begin(buf, WIRE_LOADING, 0);
    wire_put_u64(buf, m->done);
    wire_put_u64(buf, m->total);
    wire_put_str(buf, m->phase);
    wire_frame_end(buf, start);
}

lr_code wire_loading_decode(struct lr_str body, struct wire_loading *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, NULL);
    out->done = wire_get_u64(&c);
    out->total = wire_get_u64(&c);
    out->phase = wire_get_str(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "loading");
}

void wire_accepted_encode(struct lr_buf *buf, const struct wire_accepted *m)
{
    size_t start = wire_event_begin(buf, WIRE_ACCEPTED, 0);
    wire_put_str(buf, m->request_id);
    wire_put_str(buf, m->engine);
    wire_put_u8(buf, m->has_swapped);
    wire_frame_end(buf, start);
}

lr_code wire_accepted_decode(struct lr_str body, struct wire_accepted *out,
                             struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, NULL);
    out->request_id = wire_get_str(&c);
    out->engine = wire_get_str(&c);
    out->has_swapped = wire_get_u8(&c) != 0;
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "accepted");
}

void wire_weights_encode(struct lr_buf *buf, const struct wire_weights *m)
{
    size_t start = wire_event_begin(buf, WIRE_WEIGHTS, 0);
    wire_put_str(buf, m->fingerprint);
    wire_frame_end(buf, start);
}

lr_code wire_weights_decode(struct lr_str body, struct wire_weights *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, NULL);
    out->fingerprint = wire_get_str(&c);
    return wire_cursor_done(&c) && out->fingerprint.len <= WIRE_WEIGHTS_MAX
               ? LR_OK
               : wire_malformed(err, "weights");
}

void wire_error_encode(struct lr_buf *buf, enum wire_type type, const struct wire_error *m)
{
    size_t start = wire_event_begin(buf, type, 0);
    wire_put_u8(buf, m->retryable);
    wire_put_error(buf, &m->error);
    wire_frame_end(buf, start);
}

void wire_refused_encode(struct lr_buf *buf, uint64_t request, const struct lr_error *why)
{
    size_t start = wire_event_begin(buf, WIRE_REFUSED, request);
    wire_put_u8(buf, false);
    wire_put_error(buf, why);
    wire_frame_end(buf, start);
}

lr_code wire_error_decode(struct lr_str body, struct wire_error *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, NULL);
    out->retryable = wire_get_u8(&c) != 0;
    wire_get_error(&c, &out->error);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "error");
}

void wire_log_encode(struct lr_buf *buf, const struct wire_log *m)
{
    size_t start = wire_frame_begin(buf, WIRE_LOG);
    wire_put_u32(buf, (uint32_t)m->level);
    wire_put_str(buf, m->event);
    wire_put_str(buf, m->text);
    wire_frame_end(buf, start);
}

lr_code wire_log_decode(struct lr_str body, struct wire_log *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    out->level = (int32_t)wire_get_u32(&c);
    out->event = wire_get_str(&c);
    out->text = wire_get_str(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "log");
}

void wire_hello_encode(struct lr_buf *buf, const struct wire_hello *m)
{
    size_t start = wire_frame_begin(buf, WIRE_HELLO);
    wire_put_u32(buf, m->pid);
    wire_put_u32(buf, m->abi);
    wire_frame_end(buf, start);
}

lr_code wire_hello_decode(struct lr_str body, struct wire_hello *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    out->pid = wire_get_u32(&c);
    out->abi = wire_get_u32(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "hello");
}

void wire_tick_encode(struct lr_buf *buf, const struct lr_engine_stats *m)
{
    size_t start = wire_event_begin(buf, WIRE_TICK, 0);
    if (m != NULL) {
        wire_put_u32(buf, m->sequences);
        const uint64_t values[] = {
            m->weights_bytes, m->kv_bytes,         m->kv_bytes_in_use,      m->workspace_bytes,
            m->fixed_bytes,   m->pages_total,      m->pages_in_use,         m->steps,
            m->prompt_tokens, m->generated_tokens, m->kv_bytes_reclaimable, m->kv_bytes_cached};
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
            wire_put_u64(buf, values[i]);
    }
    wire_frame_end(buf, start);
}

lr_code wire_tick_decode(struct lr_str body, struct lr_engine_stats *out, struct lr_error *err)
{
    struct wire_cursor c = event_cursor(body, NULL);
    *out = (struct lr_engine_stats){.size = sizeof(*out)};
    if (wire_cursor_done(&c))
        return LR_OK;
    out->sequences = wire_get_u32(&c);
    uint64_t *const values[] = {&out->weights_bytes,        &out->kv_bytes,
                                &out->kv_bytes_in_use,      &out->workspace_bytes,
                                &out->fixed_bytes,          &out->pages_total,
                                &out->pages_in_use,         &out->steps,
                                &out->prompt_tokens,        &out->generated_tokens,
                                &out->kv_bytes_reclaimable, &out->kv_bytes_cached};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        *values[i] = wire_get_u64(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "tick");
}

void wire_need_encode(struct lr_buf *buf, enum wire_type type, const struct lr_engine_need *m)
{
    size_t start = wire_frame_begin(buf, type);
    const uint64_t values[] = {m->weights,   m->kv_per_token, m->kv_per_sequence,
                               m->workspace, m->fixed,        m->kv,
                               m->total,     m->kv_most,      m->ram};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        wire_put_u64(buf, values[i]);
    wire_put_u32(buf, m->on_device);
    wire_put_u32(buf, m->max_context);
    wire_put_u32(buf, m->max_sequences);
    wire_put_u32(buf, m->vocab_size);
    wire_put_u32(buf, m->requests);
    wire_put_u32(buf, m->dimensions);
    wire_frame_end(buf, start);
}

lr_code wire_need_decode(struct lr_str body, struct lr_engine_need *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    *out = (struct lr_engine_need){.size = sizeof(*out)};
    uint64_t *const values[] = {&out->weights,   &out->kv_per_token, &out->kv_per_sequence,
                                &out->workspace, &out->fixed,        &out->kv,
                                &out->total,     &out->kv_most,      &out->ram};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        *values[i] = wire_get_u64(&c);
    out->on_device = wire_get_u32(&c);
    out->max_context = wire_get_u32(&c);
    out->max_sequences = wire_get_u32(&c);
    out->vocab_size = wire_get_u32(&c);
    out->requests = wire_get_u32(&c);
    out->dimensions = wire_get_u32(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "need");
}

void wire_u64_encode(struct lr_buf *buf, enum wire_type type, uint64_t value)
{
    size_t start = wire_frame_begin(buf, type);
    wire_put_u64(buf, value);
    wire_frame_end(buf, start);
}

lr_code wire_u64_decode(struct lr_str body, uint64_t *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    *out = wire_get_u64(&c);
    return wire_cursor_done(&c) ? LR_OK : wire_malformed(err, "number");
}

void wire_empty_encode(struct lr_buf *buf, enum wire_type type)
{
    wire_frame_end(buf, wire_frame_begin(buf, type));
}
