/* router/handover/secret.h - what a router must show that wants to take over: letters that only
 * the user of the router can read, in a file of the data folder.
 *
 * A process of the same user alone is not enough: workers, a user bus, or whatever else runs as
 * that user may reach the socket, and a worker cannot open the data folder (base/sandbox.h).
 * Thread: any.
 */
#ifndef ROUTER_HANDOVER_SECRET_H
#define ROUTER_HANDOVER_SECRET_H

#include "base/fail.h"

#define ROUTER_HANDOVER_SECRET_NAME "handover.secret"
enum { ROUTER_HANDOVER_SECRET = 43 }; /* letters: more than 256 bits */

/* "": there is none, or it cannot be read. */
void router_handover_secret_read(const char *folder, char out[ROUTER_HANDOVER_SECRET + 1]);
/* The same, and writes one where there is none. */
LR_MUST_USE lr_code router_handover_secret_make(const char *folder,
                                                char out[ROUTER_HANDOVER_SECRET + 1],
                                                struct lr_error *err);

#endif
