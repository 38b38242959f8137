/* LINK: wire base */
/* Frames from a hostile process: every decoder, and decoded messages encode again.  The first
 * byte selects the decoder; a whole stream of frames is tried too. */
#include <stdint.h>
#include <stdlib.h>

#include "wire/event.h"
#include "wire/generate.h"
#include "wire/open.h"
#include "wire/reader.h"
#include "wire/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_any(struct lr_str body, uint8_t which)
{
    struct lr_arena arena;
    struct lr_buf out, again;
    struct wire_generate g;
    struct wire_open open;
    struct wire_vector vector;
    struct wire_token token;
    struct wire_done done;
    struct wire_error error;
    struct wire_log log;
    struct wire_submit head;
    struct wire_accepted accepted;
    struct wire_lost lost;
    struct lr_engine_stats stats;
    struct lr_engine_need need;
    lr_arena_init(&arena, 16 << 20);
    lr_buf_init(&out, 16 << 20);
    lr_buf_init(&again, 16 << 20);
    switch (which % 12) {
    case 0:
        if (wire_submit_decode(&arena, body, &g, NULL) != LR_OK)
            break;
        wire_submit_encode(&out, &g);
        if (wire_submit_head_decode(body, &head, NULL) != LR_OK ||
            head.generated_count != g.generated_count)
            abort(); /* a frame that a worker accepts was accepted by its node */
        wire_submit_continue(&again, lr_buf_str(&out), head.generated_count, g.generated,
                             g.generated_count);
        if (!out.failed && !again.failed &&
            !lr_str_eq(lr_str_sub(lr_buf_str(&out), WIRE_HEADER_LEN, out.len),
                       lr_str_sub(lr_buf_str(&again), WIRE_HEADER_LEN, again.len)))
            abort();
        break;
    case 1:
        if (wire_generate_parse_json(&arena, body, &g, NULL) == LR_OK)
            wire_submit_encode(&out, &g);
        break;
    case 2:
        if (wire_open_decode(&arena, body, &open, NULL) == LR_OK)
            wire_open_encode(&out, WIRE_OPEN, &open);
        break;
    case 3:
        if (wire_token_decode(body, &token, NULL) == LR_OK)
            wire_token_encode(&out, &token);
        break;
    case 4:
        if (wire_done_decode(body, &done, NULL) == LR_OK)
            wire_done_encode(&out, &done);
        break;
    case 5:
        if (wire_error_decode(body, &error, NULL) == LR_OK)
            wire_error_encode(&out, WIRE_ERROR, &error);
        break;
    case 11:
        if (wire_vector_decode(body, &vector, NULL) == LR_OK)
            for (uint32_t i = 0; i < vector.count; i++)
                (void)wire_vector_value(&vector, i);
        break;
    case 10:
        if (wire_lost_decode(body, &lost, NULL) == LR_OK)
            wire_lost_encode(&out, &lost);
        for (size_t i = 0; i < wire_enter_count(body); i++)
            (void)wire_enter_id(body, i);
        break;
    case 6:
        if (wire_log_decode(body, &log, NULL) == LR_OK)
            wire_log_encode(&out, &log);
        break;
    case 7:
        if (wire_tick_decode(body, &stats, NULL) == LR_OK)
            wire_tick_encode(&out, &stats);
        break;
    case 9:
        if (wire_accepted_decode(body, &accepted, NULL) == LR_OK)
            wire_accepted_encode(&out, &accepted);
        break;
    default:
        if (wire_need_decode(body, &need, NULL) == LR_OK)
            wire_need_encode(&out, WIRE_OPENED, &need);
        break;
    }
    if (out.failed && body.len < (1 << 20))
        abort();
    lr_buf_free(&out);
    lr_buf_free(&again);
    lr_arena_free(&arena);
}

/* The stream in pieces of `step` bytes gives the same frames as the whole stream. */
static void read_in_pieces(struct lr_str all, size_t step)
{
    struct wire_reader reader;
    struct wire_frame frame, whole;
    struct lr_buf line;
    struct lr_str rest = all;
    bool has, has_whole;
    lr_code code = LR_OK;
    lr_buf_init(&line, 16 << 20);
    wire_reader_init(&reader, WIRE_BODY_MAX);
    for (size_t at = 0; code == LR_OK && at < all.len; at += step) {
        wire_reader_give(&reader, lr_str_sub(all, at, at + step));
        has = true;
        while (has && (code = wire_reader_next(&reader, &frame, &has, NULL)) == LR_OK && has) {
            if (wire_frame_next(&rest, &whole, &has_whole, NULL) != LR_OK || !has_whole ||
                !lr_str_eq(frame.bytes, whole.bytes))
                abort();
            lr_buf_clear(&line);
            (void)wire_event_json(&line, &frame);
        }
    }
    if (code == LR_OK && wire_frame_next(&rest, &whole, &has_whole, NULL) == LR_OK && has_whole)
        abort();
    wire_reader_free(&reader);
    lr_buf_free(&line);
}

/* A peer that seals whatever it sends, and one that sends no seals where they are due. */
static void read_sealed(struct lr_str all, size_t step)
{
    struct lr_buf sealed;
    struct lr_str rest = all;
    struct wire_frame frame;
    bool has = true;
    lr_buf_init(&sealed, 16 << 20);
    while (wire_frame_next(&rest, &frame, &has, NULL) == LR_OK && has)
        wire_seal(&sealed, frame.bytes);
    lr_buf_add_str(&sealed, rest);
    struct lr_str sent[] = {lr_buf_str(&sealed), all};
    for (int i = 0; i < 2; i++) {
        struct wire_reader reader;
        lr_code code = LR_OK;
        wire_reader_init(&reader, WIRE_BODY_MAX);
        wire_reader_expect_seals(&reader);
        for (size_t at = 0; code == LR_OK && at < sent[i].len; at += step) {
            wire_reader_give(&reader, lr_str_sub(sent[i], at, at + step));
            for (has = true; has && code == LR_OK;)
                code = wire_reader_next(&reader, &frame, &has, NULL);
        }
        wire_reader_free(&reader);
    }
    lr_buf_free(&sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct lr_str rest = lr_str((const char *)data + 1, size - 1);
    decode_any(rest, data[0]);
    read_in_pieces(rest, 1 + (size_t)data[0] / 8);
    read_sealed(rest, 1 + (size_t)data[0] / 8);
    return 0;
}
