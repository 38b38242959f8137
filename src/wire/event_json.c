/* wire/event_json.c - events as lines of JSON, for people: one object a line, no tree. */
#include "base/json.h"
#include "base/utf8.h"
#include "wire/event.h"
#include "wire/lost.h"

static const char *const finish_names[] = {"stop", "length", "cancelled", "error"};

/* Bytes that are no UTF-8 by themselves are also given as numbers, so that nothing is
 * lost to U+FFFD. */
static void put_bytes(struct lr_json_writer *w, struct lr_str bytes)
{
    lr_json_member_str(w, "text", bytes);
    if (lr_utf8_valid(bytes))
        return;
    lr_json_member_array(w, "bytes");
    for (size_t i = 0; i < bytes.len; i++)
        lr_json_put_u64(w, (unsigned char)bytes.ptr[i]);
    lr_json_end_array(w);
}

static bool put_token(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_token m;
    if (wire_token_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_u64(w, "id", m.id);
    put_bytes(w, m.bytes);
    if (m.special)
        lr_json_member_bool(w, "special", true);
    if (m.has_logprob) {
        lr_json_member_double(w, "logprob", (double)m.logprob);
        lr_json_member_array(w, "top");
        for (uint32_t i = 0; i < m.top_count; i++) {
            lr_json_begin_object(w);
            lr_json_member_u64(w, "id", m.top[i].id);
            put_bytes(w, m.top[i].bytes);
            lr_json_member_double(w, "logprob", (double)m.top[i].logprob);
            lr_json_end_object(w);
        }
        lr_json_end_array(w);
    }
    return true;
}

static bool put_done(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_done m;
    if (wire_done_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_z(w, "reason", finish_names[m.reason]);
    lr_json_member_object(w, "usage");
    lr_json_member_u64(w, "prompt_tokens", m.prompt_tokens);
    lr_json_member_u64(w, "completion_tokens", m.completion_tokens);
    lr_json_member_u64(w, "cached_tokens", m.cached_tokens);
    lr_json_end_object(w);
    return true;
}

static bool put_error(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_error m;
    if (wire_error_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_z(w, "code", lr_code_name(m.error.code));
    lr_json_member_i64(w, "number", m.error.code);
    lr_json_member_z(w, "message", m.error.text);
    lr_json_member_bool(w, "retryable", m.retryable);
    return true;
}

static bool put_lost(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_lost m;
    if (wire_lost_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_z(w, "message", m.error.text);
    lr_json_member_bool(w, "strike", m.has_strike);
    lr_json_member_z(w, "entry", wire_entry_name(m.entry));
    return true;
}

static bool put_prefill(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_prefill m;
    if (wire_prefill_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_u64(w, "done", m.done);
    lr_json_member_u64(w, "total", m.total);
    return true;
}

static bool put_loading(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_loading m;
    if (wire_loading_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_str(w, "phase", m.phase);
    lr_json_member_u64(w, "done", m.done);
    lr_json_member_u64(w, "total", m.total);
    return true;
}

static bool put_accepted(struct lr_json_writer *w, struct lr_str body)
{
    struct wire_accepted m;
    if (wire_accepted_decode(body, &m, NULL) != LR_OK)
        return false;
    lr_json_member_str(w, "request_id", m.request_id);
    lr_json_member_str(w, "engine", m.engine);
    return true;
}

static bool put_nothing(struct lr_json_writer *w, struct lr_str body)
{
    (void)w;
    (void)body;
    return true;
}

bool wire_event_json(struct lr_buf *out, const struct wire_frame *frame)
{
    static const struct {
        enum wire_type type;
        const char *name;
        bool (*put)(struct lr_json_writer *w, struct lr_str body);
    } kinds[] = {
        {WIRE_TOKEN, "token", put_token},       {WIRE_DONE, "done", put_done},
        {WIRE_PREFILL, "prefill", put_prefill}, {WIRE_TICK, "tick", put_nothing},
        {WIRE_LOADING, "loading", put_loading}, {WIRE_ACCEPTED, "accepted", put_accepted},
        {WIRE_ERROR, "error", put_error},       {WIRE_LOST, "lost", put_lost},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].type != frame->type)
            continue;
        size_t start = out->len;
        struct lr_json_writer w;
        lr_json_writer_init(&w, out);
        lr_json_begin_object(&w);
        lr_json_member_z(&w, "event", kinds[i].name);
        if (!kinds[i].put(&w, frame->body)) {
            out->len = start;
            return false;
        }
        lr_json_end_object(&w);
        lr_buf_add_char(out, '\n');
        return !out->failed;
    }
    return false;
}
