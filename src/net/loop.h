/* net/loop.h - event loops: one thread each, on libuv.
 *
 * A loop owns its timers, its posted calls and its graveyard.  Everything made on a
 * loop (timers, requests, client calls) is used on that loop's thread only; the one
 * way in from another thread is net_loop_post.  A callback never runs inside the
 * call that armed it, and never after the call that cancelled it returned.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct net_loop;
struct net_loops;
struct net_timer;
struct net_signal;
struct uv_loop_s;

typedef void (*net_loop_fn)(void *arg);

/* Makes the process ignore SIGPIPE. */
LR_MUST_USE lr_code net_loop_create(struct net_loop **out, struct lr_error *err);

/* Closes every timer and signal that is left, runs what was posted, and frees the
 * loop.  Servers and clients on it are stopped and destroyed before.  Not while
 * another thread is in net_loop_run.  NULL is fine. */
void net_loop_destroy(struct net_loop *loop);

/* Runs on the calling thread until net_loop_stop.  May be called again afterwards. */
void net_loop_run(struct net_loop *loop);

/* Makes net_loop_run return at the end of the present turn, or at once when it is
 * called next.  Thread: any. */
void net_loop_stop(struct net_loop *loop);

/* Runs fn(arg) on the loop's thread, soon, once, in the order of posting; also when
 * it is called from that thread (then never inside this call).  What was posted
 * before net_loop_destroy always runs, at the latest inside it.  Thread: any. */
void net_loop_post(struct net_loop *loop, net_loop_fn fn, void *arg);

/* Zeroed, freed with free().  For what cannot be refused (timers, posted calls, starting up):
 * falls back on a reserve, and aborts when that is used up.  What a peer asks for uses calloc
 * and refuses.  Thread: any. */
void *net_alloc(size_t size);

/* The graveyard: calls fn(arg), typically free(arg), at the end of the present turn,
 * when no frame of a callback can hold the object any more.  Thread: loop. */
void net_loop_bury(struct net_loop *loop, net_loop_fn fn, void *arg);

/* Milliseconds of a monotonic clock, read once a turn.  Thread: loop. */
uint64_t net_loop_now_ms(const struct net_loop *loop);

/* From now on, between _burst_begin and _burst_end, writes to plain connections are shared with
 * a thread of the loop's own (net/burst.h).  Both calls lie within one callback; without
 * net_loop_share_sends, or where there is one processor only, they do nothing.  Thread: loop.
 */
LR_MUST_USE lr_code net_loop_share_sends(struct net_loop *loop, struct lr_error *err);
void net_loop_burst_begin(struct net_loop *loop, int source); /* see net_burst_begin */
void net_loop_burst_end(struct net_loop *loop);

/* For what libuv does and this header does not: pipes and child processes of the
 * node.  Handles put on it are closed by whoever put them there, before
 * net_loop_destroy.  Thread: loop. */
struct uv_loop_s *net_loop_uv(struct net_loop *loop);

/* fn(arg) after after_ms, then every repeat_ms (0: once).  The caller owns the timer,
 * also after it has fired, until net_timer_stop.  Thread: loop. */
struct net_timer *net_timer_start(struct net_loop *loop, uint64_t after_ms, uint64_t repeat_ms,
                                  net_loop_fn fn, void *arg);
/* Frees the timer; its callback does not run after this.  NULL is fine; may be called
 * inside the callback. */
void net_timer_stop(struct net_timer *timer);

/* fn(arg) on the loop each time the process gets `number` (SIGTERM, SIGHUP, ...). */
LR_MUST_USE lr_code net_signal_start(struct net_loop *loop, int number, net_loop_fn fn,
                                     void *arg, struct net_signal **out, struct lr_error *err);
void net_signal_stop(struct net_signal *signal); /* NULL is fine */

/* ---- a group of loops ---- */

/* count 0: one for each processor this process may use. */
LR_MUST_USE lr_code net_loops_create(unsigned count, struct net_loops **out,
                                     struct lr_error *err);
void net_loops_destroy(
    struct net_loops *loops); /* after net_loops_run returned; NULL is fine */

/* Runs loop 0 on the calling thread and the others on threads of their own; returns
 * when all have ended. */
LR_MUST_USE lr_code net_loops_run(struct net_loops *loops, struct lr_error *err);
void net_loops_stop(struct net_loops *loops); /* Thread: any */

unsigned net_loops_count(const struct net_loops *loops);
struct net_loop *net_loops_get(struct net_loops *loops, unsigned index);

#endif
