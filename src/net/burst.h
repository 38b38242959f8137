/* net/burst.h - a second thread that sends while the loop still produces data to send.
 *
 * An engine gives the tokens of all its sequences at the same moment.  Each token is a send of
 * its own, and sending takes longer than producing, so the last tokens would wait for the
 * first.  Between net_burst_begin and net_burst_end, both inside one callback of the loop,
 * sends go through a short queue: the thread takes jobs from it, and the loop sends the oldest
 * job itself whenever enough jobs wait.
 *
 * Ownership: a socket belongs to its loop. net_burst_send lends the socket for one send of
 * bytes that are copied.  From then until `done` was called the loop does not use the socket;
 * code that needs it earlier calls net_burst_settle.  A job is taken once, by the thread or by
 * the loop, so only one thread at a time sends to a socket.  Nothing more is sent to a lent
 * socket, so its bytes keep their order.  `done` runs on the loop's thread, within
 * net_burst_send, _settle or _end.  When net_burst_end returns no socket is lent.  No lock is
 * held while sending.
 *
 * The thread sleeps between bursts and spins for a bounded time within a burst, because waking
 * up takes longer than a send.  Thread: the loop's, all functions.
 */
#ifndef NET_BURST_H
#define NET_BURST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "base/str.h"

enum { NET_BURST_BYTES = 2048 /* of one send; longer sends are not taken */ };

struct net_burst;

/* The send is over: how many of the bytes the socket took, or a negative errno.  The bytes
 * are borrowed for the call. */
typedef void (*net_burst_fn)(void *arg, ssize_t sent, struct lr_str bytes);

/* *out is NULL where this process may use only one processor: a second thread would only
 * alternate with the first.  All functions accept NULL and then do nothing. */
LR_MUST_USE lr_code net_burst_create(struct net_burst **out, struct lr_error *err);
void net_burst_destroy(struct net_burst *burst); /* not within a burst */

/* Announces several sends and wakes the thread; call it as early as possible.  The next burst
 * is expected when `source` becomes readable (a descriptor that is only polled; -1: none).
 * Then the thread wakes by itself while the loop still reads, until it has once done so in
 * vain. */
void net_burst_begin(struct net_burst *burst, int source);
bool net_burst_is_begun(const struct net_burst *burst);

/* True: the burst has copied the bytes, sends them to fd, and calls done(arg) later, not inside
 * this call.  False: no burst is active, or the bytes are too long; the caller sends them. */
bool net_burst_send(struct net_burst *burst, int fd, const struct lr_str *parts, unsigned count,
                    net_burst_fn done, void *arg);

/* Takes back every lent socket; jobs that the thread has not begun are sent here. */
void net_burst_settle(struct net_burst *burst);
/* Settles, and lets the thread sleep. */
void net_burst_end(struct net_burst *burst);

/* Number of sends done by the thread. */
uint64_t net_burst_shared(const struct net_burst *burst);

#endif
