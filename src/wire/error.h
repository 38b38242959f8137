/* wire/error.h - an error in a frame: u32 code, text, and since WIRE_SINCE_ERRORS its identity
 * as another text (base/errors.h), which is left out where it has none.  It is always the last
 * of its frame, so that it can be cut off for a neighbour that does not know it.
 */
#ifndef WIRE_ERROR_H
#define WIRE_ERROR_H

#include "base/errors.h"
#include "wire/bytes.h"
#include "wire/frame.h"

void wire_put_error(struct lr_buf *buf, const struct lr_error *e);
void wire_get_error(struct wire_cursor *c, struct lr_error *e);
/* Takes the identity out of the frame at `start`, the last one of the buffer. */
void wire_error_cut(struct lr_buf *buf, size_t start);

/* An error as it came in another way; identity: empty where none came. */
void wire_error_heard(struct lr_error *out, lr_code code, struct lr_str text,
                      struct lr_str identity);

#endif
