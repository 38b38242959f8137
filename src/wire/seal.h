/* wire/seal.h - frames with checksums, for links without TLS.
 *
 *   u32 CRC-32C of the header   header   body   u32 CRC-32C of header and body
 *
 * TCP's own checksum lets one of 65,536 damaged packets pass, and a bit that is flipped in a
 * token would become a word of the answer.  The first sum guards the length: without it the
 * reader would wait for a frame that never ends.  Whether the frames of a link are sealed is
 * agreed at its Upgrade (wire/link.h).  A worker's pipe has no seals.
 */
#ifndef WIRE_SEAL_H
#define WIRE_SEAL_H

#include "wire/frame.h"

enum { WIRE_SEAL_LEAD = 4, WIRE_SEAL_TAIL = 4 };

/* Appends the frames, each with its sums.  `frames` are whole frames of this process. */
void wire_seal(struct lr_buf *out, struct lr_str frames);

/* Takes the next sealed frame off the front of *bytes, as wire_frame_next does.  A longer frame
 * than frame_max is refused.
 *   INVALID_ARGUMENT  also for a wrong sum: bits have changed on the way */
LR_MUST_USE lr_code wire_seal_next(struct lr_str *bytes, size_t frame_max,
                                   struct wire_frame *out, bool *has, struct lr_error *err);

#endif
