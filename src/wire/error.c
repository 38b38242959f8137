#include "wire/error.h"

#include "wire/event.h"
#include "wire/sentences.h"

void wire_put_error(struct lr_buf *buf, const struct lr_error *e)
{
    struct lr_str identity = lr_error_identity_of(e);
    wire_put_u32(buf, (uint32_t)e->code);
    wire_put_str(buf, e->code != LR_OK ? lr_str_z(e->text) : lr_str("", 0));
    if (e->code != LR_OK && identity.len != 0)
        wire_put_str(buf, identity);
}

void wire_error_heard(struct lr_error *out, lr_code code, struct lr_str text,
                      struct lr_str identity)
{
    lr_error_restore(out, code, text, identity);
    wire_sentence_know(out);
}

void wire_get_error(struct wire_cursor *c, struct lr_error *e)
{
    lr_code code = (lr_code)wire_get_u32(c);
    struct lr_str text = wire_get_str(c), identity = {0};
    if (!c->failed && c->at != c->end)
        identity = wire_get_str(c);
    wire_error_heard(e, code, text, identity);
}

/* Bytes of a frame's body before its error; 0: it has none. */
static size_t error_at(enum wire_type type)
{
    switch (type) {
    case WIRE_DONE:
        return WIRE_EVENT_HEAD_LEN + 4 * sizeof(uint32_t);
    case WIRE_LOST:
        return WIRE_EVENT_HEAD_LEN + 2 * sizeof(uint32_t);
    case WIRE_ERROR:
    case WIRE_REFUSED:
        return WIRE_EVENT_HEAD_LEN + 1;
    default:
        return 0;
    }
}

void wire_error_cut(struct lr_buf *buf, size_t start)
{
    if (buf->failed)
        return;
    struct lr_str body =
        lr_str_sub(lr_str(buf->data, buf->len), start + WIRE_HEADER_LEN, buf->len);
    size_t at = error_at((enum wire_type)(unsigned char)buf->data[start + WIRE_TYPE_AT]);
    struct wire_cursor c = wire_cursor(lr_str_sub(body, at, body.len));
    (void)wire_get_u32(&c);
    (void)wire_get_str(&c);
    if (at == 0 || c.failed || c.at == c.end)
        return;
    buf->len -= (size_t)(c.end - c.at);
    wire_frame_end(buf, start);
}
