/* base/base64.h - bytes as text (RFC 4648, with padding).  Thread: any. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

void lr_base64_add(struct lr_buf *out, const unsigned char *bytes, size_t count);

#endif
