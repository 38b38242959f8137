/* router/fleet/reasons.h - what a reason says, as a code and parameters, for pages in other
 * languages: the id of an error and what stands in its holes (base/errors.h).  The identity of
 * a hole {cause} stands beside it: cause_code and cause_params.  A reason without an identity
 * has no code, and is shown as it is.  Thread: any.
 */
#ifndef ROUTER_FLEET_REASONS_H
#define ROUTER_FLEET_REASONS_H

#include "base/errors.h"
#include "base/json.h"

/* Members `prefix`_code and `prefix`_params, into an open object; nothing where the text has no
 * identity.  size: of the whole array that holds the text. */
void router_reason_put_text(struct lr_json_writer *w, const char *prefix, const char *text,
                            size_t size);
/* The same; NULL: nothing. */
void router_reason_put(struct lr_json_writer *w, const char *prefix,
                       const struct lr_error *reason);

#endif
