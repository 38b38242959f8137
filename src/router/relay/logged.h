/* router/relay/logged.h - what the request log (journal.h) is told of a call.
 *
 * Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_LOGGED_H
#define ROUTER_RELAY_LOGGED_H

#include "router/relay/journal.h"
#include "router/relay/texts.h"

struct router_call;
struct router_generation;

/* The request has arrived; call->access and call->relay are set. */
void router_log_arrival(struct router_call *call);
/* The model is found, or what the client called it.  The router's lock is held. */
void router_log_model(struct router_call *call, struct lr_str name);
/* The request is valid: how many answers it wants, and how. */
void router_log_valid(struct router_call *call);
/* Text of the answer, where the key has keep_texts. */
void router_log_text(struct router_call *call, uint32_t choice, const struct chat_delta *delta);
/* A step on the way; why NULL: the step needs no reason. */
void router_log_step(const struct router_generation *g, enum router_step_kind kind,
                     uint64_t at_ns, const struct lr_error *why);
/* A node was chosen for the first choice. */
void router_log_node(const struct router_generation *g);
/* The client's answer ends; err NULL: it succeeded, or the client left. */
void router_log_end(struct router_call *call, int status, const struct lr_error *err);
/* The tokens, as the engines counted them. */
void router_log_usage(struct router_call *call);

#endif
