/* router/relay/logged.h - what the request log (journal.h) has of a call.  Observers of facts
 * (fact.h). */
#ifndef ROUTER_RELAY_LOGGED_H
#define ROUTER_RELAY_LOGGED_H

#include "router/relay/fact.h"
#include "router/relay/journal.h"
#include "router/relay/texts.h"

void router_log_arrived(const struct router_fact *fact);
void router_log_named(const struct router_fact *fact);
void router_log_valid(const struct router_fact *fact);
void router_log_queued(const struct router_fact *fact);
void router_log_sent(const struct router_fact *fact);
void router_log_heard(const struct router_fact *fact);
void router_log_first_token(const struct router_fact *fact);
void router_log_left(const struct router_fact *fact);
void router_log_ended(const struct router_fact *fact);
void router_log_counted(const struct router_fact *fact);

/* Text of the answer, where the key has keep_texts; for the turn's sink: owner is the call. */
void router_log_text(void *owner, uint32_t choice, const struct chat_delta *delta);

#endif
