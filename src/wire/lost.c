#include "wire/lost.h"

#include "base/errors.h"
#include "wire/bytes.h"
#include "wire/error.h"
#include "wire/event.h"

const char *wire_entry_name(enum wire_entry entry)
{
    static const char *const names[] = {
#define X(name, text) [WIRE_ENTRY_##name] = text,
        WIRE_ENTRIES(X)
#undef X
    };
    return names[entry];
}

bool wire_entry_parse(struct lr_str text, enum wire_entry *out)
{
    for (int i = WIRE_ENTRY_NEW; i <= WIRE_ENTRY_COHORT; i++)
        if (lr_str_eq_z(text, wire_entry_name((enum wire_entry)i))) {
            *out = (enum wire_entry)i;
            return true;
        }
    return false;
}

void wire_lost_encode(struct lr_buf *buf, const struct wire_lost *m)
{
    size_t start = wire_event_begin(buf, WIRE_LOST, 0);
    wire_put_u8(buf, m->has_strike);
    wire_put_u8(buf, (uint8_t)m->entry);
    wire_put_u16(buf, 0);
    wire_put_u32(buf, m->cohort);
    wire_put_error(buf, &m->error);
    wire_frame_end(buf, start);
}

lr_code wire_lost_decode(struct lr_str body, struct wire_lost *out, struct lr_error *err)
{
    struct wire_cursor c = wire_cursor(body);
    (void)wire_take(&c, WIRE_EVENT_HEAD_LEN);
    *out = (struct wire_lost){.has_strike = wire_get_u8(&c) != 0};
    uint8_t entry = wire_get_u8(&c);
    (void)wire_get_u16(&c);
    out->cohort = wire_get_u32(&c);
    wire_get_error(&c, &out->error);
    if (!wire_cursor_done(&c) || entry > WIRE_ENTRY_COHORT)
        return wire_malformed(err, "lost");
    out->entry = (enum wire_entry)entry;
    return LR_OK;
}

void wire_enter_encode(struct lr_buf *buf, const uint64_t *ids, size_t count)
{
    size_t start = wire_frame_begin(buf, WIRE_ENTER);
    for (size_t i = 0; i < count && i < WIRE_ENTER_MAX; i++)
        wire_put_u64(buf, ids[i]);
    wire_frame_end(buf, start);
}

size_t wire_enter_count(struct lr_str body)
{
    size_t count = body.len / sizeof(uint64_t);
    return body.len % sizeof(uint64_t) == 0 && count <= WIRE_ENTER_MAX ? count : 0;
}

uint64_t wire_enter_id(struct lr_str body, size_t index)
{
    struct wire_cursor c =
        wire_cursor(lr_str_sub(body, index * sizeof(uint64_t), (index + 1) * sizeof(uint64_t)));
    return wire_get_u64(&c);
}

lr_code wire_lost_fail(struct lr_error *err, const struct lr_error *how)
{
    (void)lr_fail_as(err, died_twice, how);
    if (how->code == LR_TIMEOUT)
        err->code = LR_TIMEOUT;
    return err->code;
}
