/* node/models/breaker.h - a circuit breaker: when to try again what has failed.
 *
 *   closed --a death below the limit--> closed: the next try is at once
 *   closed --a failure, or the death that reaches the limit--> open, due in 1 s
 *   open   --its time, a sign that the cause has gone, or a request--> a try
 *   a try  --failure--> open, due in 2 s, 4 s, ... 5 min
 *   a try  --success--> closed
 *
 * A pure object: the caller brings the time, in milliseconds of one clock.
 */
#ifndef NODE_MODELS_BREAKER_H
#define NODE_MODELS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NODE_BREAKER_FIRST_MS = 1000,
    NODE_BREAKER_MOST_MS = 5 * 60 * 1000,
    /* A request that arrives so long after the last failure causes a try. */
    NODE_BREAKER_REQUEST_MS = 5000,
};

/* All zero: closed, nothing has failed. */
struct node_breaker {
    uint32_t failures;  /* in a row, since the last success */
    uint32_t opened;    /* how often it opened in that row */
    uint64_t failed_ms; /* the last failure */
    uint64_t due_ms;    /* the next try by itself; 0: closed, or a try is under way */
};

/* Something failed and said why: the breaker opens. */
void node_breaker_failed(struct node_breaker *breaker, uint64_t now_ms);

/* Something died, which may be chance.  The death that is the `limit`th failure in a row opens
 * the breaker, and so does each one after it: true.  False: the next try is at once. */
bool node_breaker_died(struct node_breaker *breaker, uint32_t limit, uint64_t now_ms);

/* A try begins: nothing is due until it has ended. */
void node_breaker_try(struct node_breaker *breaker);

/* It works again. */
void node_breaker_succeeded(struct node_breaker *breaker);

/* Open, and the time of the next try has come. */
bool node_breaker_is_due(const struct node_breaker *breaker, uint64_t now_ms);

/* Whether a request that arrives now causes a try. */
bool node_breaker_takes_request(const struct node_breaker *breaker, uint64_t now_ms);

/* Until the next try by itself; 0: it is due, or the breaker is closed. */
uint64_t node_breaker_wait_ms(const struct node_breaker *breaker, uint64_t now_ms);

#endif
