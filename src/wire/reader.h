/* wire/reader.h - frames out of a stream of bytes: the only place where a frame that arrives in
 * pieces is put together.
 *
 * The owner gives each read to wire_reader_give and then takes frames with wire_reader_next
 * until there is none.  A frame that lies whole in the read is handed out where it lies; only a
 * frame that was cut is copied, each of its bytes once.  Memory grows with the bytes that have
 * arrived, never with the length that a header promises.
 */
#ifndef WIRE_READER_H
#define WIRE_READER_H

#include "wire/frame.h"

struct wire_reader {
    struct lr_buf kept; /* a frame that was cut: its first bytes, or, with is_whole, all */
    struct lr_str rest; /* borrowed from the last read: not handed out yet */
    bool is_whole;
    bool is_sealed;   /* the frames have checksums (wire/seal.h) */
    size_t frame_max; /* bytes of one frame */
};

/* A longer body than body_max (at most WIRE_BODY_MAX) ends the stream. */
void wire_reader_init(struct wire_reader *reader, size_t body_max);
void wire_reader_free(struct wire_reader *reader);
/* From now on: frames with checksums.  Before the first bytes. */
void wire_reader_expect_seals(struct wire_reader *reader);

/* The next bytes of the stream, borrowed until the next call.  All frames of the read before
 * were taken. */
void wire_reader_give(struct wire_reader *reader, struct lr_str bytes);

/* The next frame, borrowed until the next call of _next or _give.  OK with *has false: all
 * whole frames were taken.
 *   INVALID_ARGUMENT  another version, a body over the limit, or a wrong checksum
 *   OUT_OF_RAM        no memory for a frame that was cut
 * After a failure the stream cannot be read on. */
LR_MUST_USE lr_code wire_reader_next(struct wire_reader *reader, struct wire_frame *out,
                                     bool *has, struct lr_error *err);

/* Looks at the frames that wire_reader_next will hand out, without taking them.  *at is 0 for
 * the first.  False: there is no more. */
bool wire_reader_look(const struct wire_reader *reader, size_t *at, struct wire_frame *out);

#endif
