/* base/base64.h - bytes as text (RFC 4648): with padding, and as URLs and JSON Web Tokens have
 * it. Thread: any. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

void lr_base64_add(struct lr_buf *out, const unsigned char *bytes, size_t count);

/* The letters - and _ instead of + and /, no padding. */
void lr_base64url_add(struct lr_buf *out, const unsigned char *bytes, size_t count);
/* The most bytes that lr_base64url_read writes for a text of this length. */
static inline size_t lr_base64url_room(size_t letters)
{
    return letters / 4 * 3 + 2;
}
/* False: a letter is not in the alphabet, or the text is cut.  `out` has
 * lr_base64url_room(text.len) bytes. */
bool lr_base64url_read(struct lr_str text, unsigned char *out, size_t *len);

#endif
