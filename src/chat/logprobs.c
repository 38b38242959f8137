/* chat/logprobs.c - log probabilities in the two forms of OpenAI's APIs.
 *
 * A token's entry is sent with its text.  The text may come later than the token (an incomplete
 * character, the beginning of a stop string) or never (a stop string cut it).  Until then the
 * entry waits as a record in c->logprobs.
 */
#include "chat/response_internal.h"

#include "base/json.h"

/* A record: this struct, the token's bytes, then `top_count` times (alternative, bytes). */
struct record {
    uint64_t offset; /* position of the text in the content, in bytes */
    uint64_t chars;  /* the same in characters */
    float logprob;
    uint32_t len;
    uint32_t top_count;
    uint32_t size; /* of the whole record */
};

struct alternative {
    float logprob;
    uint32_t len;
};

void chat_logprobs_add(struct chat_choice *c, const struct wire_token *token)
{
    /* Text that the parser holds back comes first, if it is content. */
    size_t held = c->response->dialect.reading->held(&c->reader);
    struct record rec = {.offset = c->content_in + held,
                         .chars = c->chars_in,
                         .logprob = token->logprob,
                         .len = (uint32_t)token->bytes.len,
                         .top_count = token->top_count};
    size_t at = c->logprobs.len;

    lr_buf_add(&c->logprobs, &rec, sizeof(rec));
    lr_buf_add_str(&c->logprobs, token->bytes);
    for (uint32_t i = 0; i < token->top_count; i++) {
        struct alternative alt = {token->top[i].logprob, (uint32_t)token->top[i].bytes.len};
        lr_buf_add(&c->logprobs, &alt, sizeof(alt));
        lr_buf_add_str(&c->logprobs, token->top[i].bytes);
    }
    if (c->logprobs.failed)
        return;
    rec.size = (uint32_t)(c->logprobs.len - at);
    memcpy(c->logprobs.data + at, &rec, sizeof(rec));
}

/* Reads the record at `at`; false at the end, or if the record's text was not sent yet. */
static bool next_record(const struct chat_choice *c, size_t at, struct record *rec)
{
    if (at + sizeof(*rec) > c->logprobs.len)
        return false;
    memcpy(rec, c->logprobs.data + at, sizeof(*rec));
    return rec->offset < c->content_out;
}

/* ---- chat ---- */

static void put_entry(struct lr_json_writer *w, struct lr_str bytes, float logprob)
{
    lr_json_member_str(w, "token", bytes);
    lr_json_member_double(w, "logprob", (double)logprob);
    lr_json_member_array(w, "bytes");
    for (size_t i = 0; i < bytes.len; i++)
        lr_json_put_u64(w, (unsigned char)bytes.ptr[i]);
    lr_json_end_array(w);
}

static void put_chat_record(struct lr_json_writer *w, const char *data,
                            const struct record *rec)
{
    const char *p = data + sizeof(*rec);
    lr_json_begin_object(w);
    put_entry(w, lr_str(p, rec->len), rec->logprob);
    p += rec->len;
    lr_json_member_array(w, "top_logprobs");
    for (uint32_t i = 0; i < rec->top_count; i++) {
        struct alternative alt;
        memcpy(&alt, p, sizeof(alt));
        p += sizeof(alt);
        lr_json_begin_object(w);
        put_entry(w, lr_str(p, alt.len), alt.logprob);
        lr_json_end_object(w);
        p += alt.len;
    }
    lr_json_end_array(w);
    lr_json_end_object(w);
}

static size_t write_chat(struct chat_choice *c, struct lr_json_writer *w)
{
    struct record rec;
    size_t at = 0;
    lr_json_begin_object(w);
    lr_json_member_array(w, "content");
    for (; next_record(c, at, &rec); at += rec.size)
        put_chat_record(w, c->logprobs.data + at, &rec);
    lr_json_end_array(w);
    lr_json_member_null(w, "refusal");
    lr_json_end_object(w);
    return at;
}

void chat_logprobs_entries(struct chat_choice *c, struct lr_buf *out)
{
    struct record rec;
    size_t at = 0;
    for (; next_record(c, at, &rec); at += rec.size) {
        struct lr_json_writer w;
        if (at > 0)
            lr_buf_add_char(out, ',');
        lr_json_writer_init(&w, out);
        put_chat_record(&w, c->logprobs.data + at, &rec);
    }
    lr_buf_consume(&c->logprobs, at);
}

void chat_logprobs_forget(struct chat_choice *c)
{
    struct record rec;
    size_t at = 0;
    for (; at + sizeof(rec) <= c->logprobs.len; at += rec.size) {
        memcpy(&rec, c->logprobs.data + at, sizeof(rec));
        if (rec.offset >= c->content_in)
            break;
    }
    if (!c->logprobs.failed)
        c->logprobs.len = at;
}

/* ---- completions: parallel arrays ---- */

/* With the token itself, whether it is among the alternatives or not. */
static void put_top_object(struct lr_json_writer *w, const char *p, const struct record *rec)
{
    struct lr_str token = lr_str(p, rec->len);
    bool has_token = false;
    p += rec->len;
    if (rec->top_count == 0) {
        lr_json_put_null(w);
        return;
    }
    lr_json_begin_object(w);
    for (uint32_t i = 0; i < rec->top_count; i++) {
        struct alternative alt;
        memcpy(&alt, p, sizeof(alt));
        p += sizeof(alt);
        has_token = has_token || lr_str_eq(token, lr_str(p, alt.len));
        lr_json_key_str(w, lr_str(p, alt.len));
        lr_json_put_double(w, (double)alt.logprob);
        p += alt.len;
    }
    if (!has_token) {
        lr_json_key_str(w, token);
        lr_json_put_double(w, (double)rec->logprob);
    }
    lr_json_end_object(w);
}

static size_t write_legacy(struct chat_choice *c, struct lr_json_writer *w)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs",
                                        "text_offset"};
    struct record rec;
    size_t at = 0;
    lr_json_begin_object(w);
    for (size_t column = 0; column < 4; column++) {
        lr_json_member_array(w, names[column]);
        for (at = 0; next_record(c, at, &rec); at += rec.size) {
            const char *bytes = c->logprobs.data + at + sizeof(rec);
            if (column == 0)
                lr_json_put_str(w, lr_str(bytes, rec.len));
            else if (column == 1)
                lr_json_put_double(w, (double)rec.logprob);
            else if (column == 2)
                put_top_object(w, bytes, &rec);
            else
                lr_json_put_u64(w, rec.chars);
        }
        lr_json_end_array(w);
    }
    lr_json_end_object(w);
    return at;
}

void chat_logprobs_write(struct chat_choice *c, struct lr_buf *out)
{
    struct record rec;
    struct lr_json_writer w;

    if (!next_record(c, 0, &rec)) {
        lr_buf_add_z(out, "null");
        return;
    }
    lr_json_writer_init(&w, out);
    size_t used = c->response->is_raw ? write_legacy(c, &w) : write_chat(c, &w);
    lr_buf_consume(&c->logprobs, used);
}
