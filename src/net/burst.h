/* net/burst.h - a second thread that sends, while the loop still makes what is to be sent.
 *
 * An engine gives the tokens of all its sequences in one moment.  Each is a send of its own,
 * and a send takes longer than all that comes before it, so the last of them wait for the
 * first.  Between net_burst_begin and net_burst_end, both inside one callback of the loop,
 * sends go through a short queue: the thread takes from it, and the loop, whenever enough
 * wait there, sends the oldest itself.
 *
 * Who owns what: a socket belongs to its loop.  net_burst_send lends it for one send of bytes
 * that are copied; from then until `done` was called the loop leaves the socket alone, and
 * whoever needs it before calls net_burst_settle.  A job is taken once, by the thread or by the
 * loop, so a socket is sent to by one thread at a time, and since nothing more is sent to a
 * lent socket, its bytes keep their order.  `done` runs on the loop's thread, within
 * net_burst_send, _settle or _end.  When net_burst_end returns nothing is lent: outside of a
 * burst everything belongs to the loop alone.  No lock is held while sending.
 *
 * The thread sleeps between bursts and spins, for a bounded time, within one: waking up takes
 * longer than what it is woken for.  Thread: the loop's, all functions.
 */
#ifndef NET_BURST_H
#define NET_BURST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "base/str.h"

enum { NET_BURST_BYTES = 2048 /* of one send; longer ones are not taken */ };

struct net_burst;

/* The send is over: how many of the bytes the socket took, or a negative errno.  The bytes
 * are borrowed for the call. */
typedef void (*net_burst_fn)(void *arg, ssize_t sent, struct lr_str bytes);

/* *out is NULL where this process may use one processor only: a second thread would take
 * turns with the first.  All functions take NULL and then do nothing. */
LR_MUST_USE lr_code net_burst_create(struct net_burst **out, struct lr_error *err);
void net_burst_destroy(struct net_burst *burst); /* not within a burst */

/* Several sends will come: wakes the thread, the sooner the better.  The next burst is expected
 * when `source` can be read, a descriptor that is only watched, or -1: the thread then wakes
 * by itself while the loop still reads, and no longer after it did so in vain. */
void net_burst_begin(struct net_burst *burst, int source);
bool net_burst_is_begun(const struct net_burst *burst);

/* True: the burst has a copy of the bytes, sends them to fd, and calls done(arg) in time; not
 * inside this call.  False: outside of a burst, or too long; the caller sends. */
bool net_burst_send(struct net_burst *burst, int fd, const struct lr_str *parts, unsigned count,
                    net_burst_fn done, void *arg);

/* Takes everything back that was lent; what the thread has not begun is sent here. */
void net_burst_settle(struct net_burst *burst);
/* The same, and lets the thread sleep. */
void net_burst_end(struct net_burst *burst);

/* Sends the thread has done. */
uint64_t net_burst_shared(const struct net_burst *burst);

#endif
