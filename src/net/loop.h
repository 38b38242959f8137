/* net/loop.h - event loops: one thread each, on libuv.
 *
 * A loop owns its timers, its posted calls and its buried objects.  Everything created on a
 * loop (timers, requests, client calls) is used on that loop's thread only; other threads use
 * net_loop_post.  A callback never runs inside the call that armed it, and never after the call
 * that cancelled it has returned.
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

/* Closes all remaining timers and signals, runs posted calls, and frees the loop.  Stop and
 * destroy the loop's servers and clients before.  Not while another thread is in net_loop_run.
 * NULL is fine. */
void net_loop_destroy(struct net_loop *loop);
/* Makes the calls that were posted, also those that they post.  Not while a thread is in
 * net_loop_run. */
void net_loop_settle(struct net_loop *loop);

/* Runs on the calling thread until net_loop_stop.  May be called again afterwards. */
void net_loop_run(struct net_loop *loop);

/* Makes net_loop_run return at the end of the current turn, or at once when it is called next.
 * Thread: any. */
void net_loop_stop(struct net_loop *loop);

/* Runs fn(arg) once on the loop's thread, soon and in the order of posting; never inside this
 * call.  Calls posted before net_loop_destroy always run, at the latest inside it.  Thread:
 * any. */
void net_loop_post(struct net_loop *loop, net_loop_fn fn, void *arg);

/* Returns zeroed memory to be freed with free().  For allocations that cannot be refused
 * (timers, posted calls, startup): uses a reserve when malloc fails, and aborts when that is
 * used up.  Code that serves a peer uses calloc and refuses the peer instead.  Thread: any. */
void *net_alloc(size_t size);

/* Delayed freeing: calls fn(arg), typically free(arg), at the end of the current turn, when no
 * callback on the stack can use the object any more.  Thread: loop. */
void net_loop_bury(struct net_loop *loop, net_loop_fn fn, void *arg);

/* Milliseconds of a monotonic clock that is read once a turn.  Thread: loop. */
uint64_t net_loop_now_ms(const struct net_loop *loop);

/* From now on writes to plain connections between _burst_begin and _burst_end are shared with a
 * second thread of this loop (net/burst.h).  Both calls must be in one callback.  They do
 * nothing without net_loop_share_sends or on a single processor.  Thread: loop. */
LR_MUST_USE lr_code net_loop_share_sends(struct net_loop *loop, struct lr_error *err);
void net_loop_burst_begin(struct net_loop *loop, int source); /* see net_burst_begin */
void net_loop_burst_end(struct net_loop *loop);

/* libuv's loop, for what this header does not offer: pipes and child processes of the node.
 * The owner of a handle closes it before net_loop_destroy.  Thread: loop. */
struct uv_loop_s *net_loop_uv(struct net_loop *loop);

/* Calls fn(arg) after after_ms, then every repeat_ms (0: once).  The caller owns the timer
 * until net_timer_stop, also after it has fired.  Thread: loop. */
struct net_timer *net_timer_start(struct net_loop *loop, uint64_t after_ms, uint64_t repeat_ms,
                                  net_loop_fn fn, void *arg);
/* Frees the timer; its callback does not run after this.  NULL is fine; may be called
 * inside the callback. */
void net_timer_stop(struct net_timer *timer);

/* Calls fn(arg) on the loop each time the process receives the signal `number`. */
LR_MUST_USE lr_code net_signal_start(struct net_loop *loop, int number, net_loop_fn fn,
                                     void *arg, struct net_signal **out, struct lr_error *err);
void net_signal_stop(struct net_signal *signal); /* NULL is fine */

/* The signals that every server handles.  Zeroed: none. */
struct net_signals {
    struct net_signal *term, *interrupt, *hang_up;
};
/* SIGTERM and SIGINT call on_stop, SIGHUP calls on_reload. */
LR_MUST_USE lr_code net_signals_start(struct net_loop *loop, net_loop_fn on_stop,
                                      net_loop_fn on_reload, void *arg, struct net_signals *out,
                                      struct lr_error *err);
void net_signals_stop(struct net_signals *signals);

/* ---- a group of loops ---- */

/* count 0: one for each processor this process may use. */
LR_MUST_USE lr_code net_loops_create(unsigned count, struct net_loops **out,
                                     struct lr_error *err);
void net_loops_destroy(
    struct net_loops *loops); /* after net_loops_run returned; NULL is fine */
/* Makes the calls that were posted, while what they use is still there.  After net_loops_run
 * returned, by the thread that called it. */
void net_loops_settle(struct net_loops *loops);

/* Runs loop 0 on the calling thread and the others on their own threads; returns when all have
 * ended. */
LR_MUST_USE lr_code net_loops_run(struct net_loops *loops, struct lr_error *err);
void net_loops_stop(struct net_loops *loops); /* Thread: any */

unsigned net_loops_count(const struct net_loops *loops);
struct net_loop *net_loops_get(struct net_loops *loops, unsigned index);

#endif
