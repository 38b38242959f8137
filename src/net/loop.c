/* net/loop.c - one event loop: posted calls, deferred tasks, delayed freeing, timers, signals.
 *
 * A turn of libuv runs timers, idle (our tasks), prepare (freeing), poll (sockets, posted
 * calls), check (freeing), close callbacks.  Buried objects are freed from prepare and check
 * only, where none of our callbacks is on the stack.
 */
#include "net/loop.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/os/process.h"
#include "net/burst.h"
#include "net/internal.h"

struct posted {
    struct posted *next;
    net_loop_fn fn;
    void *arg;
};

struct net_timer {
    uv_timer_t uv;
    struct net_loop *loop;
    net_loop_fn fn;
    void *arg;
    struct net_timer *prev;
    struct net_timer *next;
};

struct net_signal {
    uv_signal_t uv;
    struct net_loop *loop;
    net_loop_fn fn;
    void *arg;
    struct net_signal *prev;
    struct net_signal *next;
};

/* ---- memory that cannot be refused ---- */

/* A reserve that is freed when malloc fails: the few bytes that a timer or a posted call needs
 * are then available while requests are refused. */
static void *_Atomic reserve;
enum { RESERVE_BYTES = 256 << 10 };

static void fill_reserve(void)
{
    void *none = NULL;
    if (atomic_load_explicit(&reserve, memory_order_relaxed) != NULL)
        return;
    void *fresh = malloc(RESERVE_BYTES);
    if (!atomic_compare_exchange_strong(&reserve, &none, fresh))
        free(fresh);
}

/* realloc; if that fails, frees the reserve and tries again. */
static void *loop_grow(void *old, size_t size)
{
    void *memory = realloc(old, size);
    if (memory == NULL && size != 0) {
        free(atomic_exchange(&reserve, NULL));
        return realloc(old, size);
    }
    fill_reserve();
    return memory;
}

static void *grow_new(size_t size)
{
    return loop_grow(NULL, size);
}

static void *grow_zeroed(size_t count, size_t size)
{
    void *memory = size == 0 || count <= SIZE_MAX / size ? loop_grow(NULL, count * size) : NULL;
    if (memory != NULL)
        memset(memory, 0, count * size);
    return memory;
}

void *net_alloc(size_t size)
{
    void *memory = grow_zeroed(1, size);
    if (memory == NULL) {
        (void)fputs("net: no memory, and the reserve is used up\n", stderr);
        abort();
    }
    return memory;
}

/* libuv ends the process when its table of descriptors cannot grow, so it uses the reserve
 * too. */
static void share_reserve(void)
{
    (void)uv_replace_allocator(grow_new, loop_grow, grow_zeroed, free);
}

/* ---- posted calls ---- */

void net_loop_post(struct net_loop *loop, net_loop_fn fn, void *arg)
{
    struct posted *call = net_alloc(sizeof(*call));
    call->fn = fn;
    call->arg = arg;
    uv_mutex_lock(&loop->mutex);
    *loop->last = call;
    loop->last = &call->next;
    uv_mutex_unlock(&loop->mutex);
    (void)uv_async_send(&loop->wakeup);
}

/* Runs the calls posted before this began.  Calls that these post wait for the next turn, so
 * that two calls that post each other do not starve the sockets. */
static void run_posted(struct net_loop *loop)
{
    uv_mutex_lock(&loop->mutex);
    struct posted *call = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    uv_mutex_unlock(&loop->mutex);
    while (call != NULL) {
        struct posted *next = call->next;
        call->fn(call->arg);
        free(call);
        call = next;
    }
}

static void on_wakeup(uv_async_t *handle)
{
    struct net_loop *loop = handle->data;
    run_posted(loop);
    if (atomic_load(&loop->is_stopping))
        uv_stop(&loop->uv);
}

/* ---- delayed freeing ---- */

void net_loop_bury(struct net_loop *loop, net_loop_fn fn, void *arg)
{
    struct posted *grave = net_alloc(sizeof(*grave));
    grave->fn = fn;
    grave->arg = arg;
    grave->next = loop->graveyard;
    loop->graveyard = grave;
}

static void empty_graveyard(struct net_loop *loop)
{
    while (loop->graveyard != NULL) {
        struct posted *grave = loop->graveyard;
        loop->graveyard = grave->next;
        grave->fn(grave->arg);
        free(grave);
    }
}

static void on_prepare(uv_prepare_t *handle)
{
    empty_graveyard(handle->data);
}

static void on_check(uv_check_t *handle)
{
    empty_graveyard(handle->data);
}

/* ---- tasks ---- */

void net_task_init(struct net_task *task, net_loop_fn fn, void *arg)
{
    *task = (struct net_task){.fn = fn, .arg = arg};
}

static void on_idle(uv_idle_t *handle)
{
    struct net_loop *loop = handle->data;
    /* Marks the end of the ring: tasks queued from here on run in the next turn. */
    struct net_task mark = {.prev = loop->tasks.prev, .next = &loop->tasks};
    mark.prev->next = &mark;
    loop->tasks.prev = &mark;
    while (loop->tasks.next != &mark) {
        struct net_task *task = loop->tasks.next;
        net_task_cancel(loop, task);
        task->fn(task->arg);
    }
    mark.prev->next = mark.next;
    mark.next->prev = mark.prev;
    if (loop->tasks.next == &loop->tasks)
        (void)uv_idle_stop(&loop->idle);
}

void net_task_queue(struct net_loop *loop, struct net_task *task)
{
    if (task->next != NULL)
        return;
    task->prev = loop->tasks.prev;
    task->next = &loop->tasks;
    task->prev->next = task;
    loop->tasks.prev = task;
    (void)uv_idle_start(&loop->idle, on_idle);
}

void net_task_cancel(struct net_loop *loop, struct net_task *task)
{
    (void)loop;
    if (task->next == NULL)
        return;
    task->prev->next = task->next;
    task->next->prev = task->prev;
    task->next = NULL;
    task->prev = NULL;
}

/* ---- life ---- */

lr_code net_loop_create(struct net_loop **out, struct lr_error *err)
{
    *out = NULL;
    /* Writing to a connection whose peer has gone must give an error, not kill the process. */
    lr_ignore_broken_pipes();
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, share_reserve);
    struct net_loop *loop = net_alloc(sizeof(*loop));
    int rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        free(loop);
        return lr_fail(err, LR_IO, "cannot create an event loop: %s", uv_strerror(rc));
    }
    loop->uv.data = loop;
    rc = uv_async_init(&loop->uv, &loop->wakeup, on_wakeup);
    if (rc != 0) {
        (void)uv_loop_close(&loop->uv);
        free(loop);
        return lr_fail(err, LR_IO, "cannot create an event loop: %s", uv_strerror(rc));
    }
    (void)uv_mutex_init(&loop->mutex);
    (void)uv_prepare_init(&loop->uv, &loop->prepare);
    (void)uv_check_init(&loop->uv, &loop->check);
    (void)uv_idle_init(&loop->uv, &loop->idle);
    (void)uv_timer_init(&loop->uv, &loop->peek);
    loop->wakeup.data = loop->prepare.data = loop->check.data = loop->idle.data = loop;
    loop->peek.data = loop;
    (void)uv_prepare_start(&loop->prepare, on_prepare);
    (void)uv_check_start(&loop->check, on_check);
    loop->last = &loop->first;
    loop->tasks.prev = loop->tasks.next = &loop->tasks;
    lr_buf_init(&loop->scratch, (size_t)1 << 20);
    *out = loop;
    return LR_OK;
}

void net_loop_run(struct net_loop *loop)
{
    while (!atomic_load(&loop->is_stopping))
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store(&loop->is_stopping, false);
}

void net_loop_stop(struct net_loop *loop)
{
    atomic_store(&loop->is_stopping, true);
    (void)uv_async_send(&loop->wakeup);
}

/* A server, client or pipe that its owner did not close: waiting for it would hang. */
static void refuse_open_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (uv_is_closing(handle))
        return;
    (void)fprintf(stderr, "net_loop_destroy: a %s handle is still open\n",
                  uv_handle_type_name(handle->type));
    abort();
}

void net_loop_settle(struct net_loop *loop)
{
    while (loop->first != NULL) /* a call may post another one */
        run_posted(loop);
}

void net_loop_destroy(struct net_loop *loop)
{
    if (loop == NULL)
        return;
    atomic_store(&loop->is_stopping, false);
    /* Posted calls and tasks may post or queue more; these run too. */
    run_posted(loop);
    while (uv_run(&loop->uv, UV_RUN_NOWAIT) != 0 &&
           (loop->first != NULL || loop->tasks.next != &loop->tasks))
        ;
    while (loop->timers != NULL)
        net_timer_stop(loop->timers);
    while (loop->signals != NULL)
        net_signal_stop(loop->signals);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->peek, NULL);
    uv_close((uv_handle_t *)&loop->wakeup, NULL);
    uv_walk(&loop->uv, refuse_open_handle, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ;
    empty_graveyard(loop);
    run_posted(loop);
    if (uv_loop_close(&loop->uv) != 0)
        abort(); /* all handles were closing above */
    net_burst_destroy(loop->burst);
    uv_mutex_destroy(&loop->mutex);
    lr_buf_free(&loop->scratch);
    free(loop);
}

uint64_t net_loop_now_ms(const struct net_loop *loop)
{
    return uv_now(&loop->uv);
}

struct uv_loop_s *net_loop_uv(struct net_loop *loop)
{
    return &loop->uv;
}

const char *net_loop_date(struct net_loop *loop)
{
    time_t now = time(NULL);
    if (now != loop->date_at) {
        static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        struct tm tm;
        (void)gmtime_r(&now, &tm);
        (void)snprintf(loop->date, sizeof(loop->date), "%s, %02u %s %04u %02u:%02u:%02u GMT",
                       days[tm.tm_wday % 7], (unsigned)tm.tm_mday % 100, months[tm.tm_mon % 12],
                       (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
                       (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
        loop->date_at = now;
    }
    return loop->date;
}

/* ---- a second thread that sends ---- */

lr_code net_loop_share_sends(struct net_loop *loop, struct lr_error *err)
{
    return loop->burst == NULL ? net_burst_create(&loop->burst, err) : LR_OK;
}

void net_loop_burst_begin(struct net_loop *loop, int source)
{
    net_burst_begin(loop->burst, source);
}

void net_loop_burst_end(struct net_loop *loop)
{
    net_burst_end(loop->burst);
}

/* ---- timers and signals ---- */

static void loop_on_timer(uv_timer_t *handle)
{
    struct net_timer *timer = handle->data;
    timer->fn(timer->arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

struct net_timer *net_timer_start(struct net_loop *loop, uint64_t after_ms, uint64_t repeat_ms,
                                  net_loop_fn fn, void *arg)
{
    struct net_timer *timer = net_alloc(sizeof(*timer));
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    (void)uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    timer->next = loop->timers;
    if (timer->next != NULL)
        timer->next->prev = timer;
    loop->timers = timer;
    /* The loop's clock stands still during a turn, so a long turn would shorten the timeout. */
    uv_update_time(&loop->uv);
    (void)uv_timer_start(&timer->uv, loop_on_timer, after_ms, repeat_ms);
    return timer;
}

void net_timer_stop(struct net_timer *timer)
{
    if (timer == NULL)
        return;
    if (timer->next != NULL)
        timer->next->prev = timer->prev;
    if (timer->prev != NULL)
        timer->prev->next = timer->next;
    else
        timer->loop->timers = timer->next;
    uv_close((uv_handle_t *)&timer->uv, on_handle_closed);
}

static void loop_on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    struct net_signal *sig = handle->data;
    sig->fn(sig->arg);
}

lr_code net_signal_start(struct net_loop *loop, int number, net_loop_fn fn, void *arg,
                         struct net_signal **out, struct lr_error *err)
{
    *out = NULL;
    struct net_signal *sig = net_alloc(sizeof(*sig));
    sig->loop = loop;
    sig->fn = fn;
    sig->arg = arg;
    int rc = uv_signal_init(&loop->uv, &sig->uv);
    if (rc != 0) {
        free(sig);
        return lr_fail(err, LR_IO, "cannot watch signal %d: %s", number, uv_strerror(rc));
    }
    sig->uv.data = sig;
    sig->next = loop->signals;
    if (sig->next != NULL)
        sig->next->prev = sig;
    loop->signals = sig;
    rc = uv_signal_start(&sig->uv, loop_on_signal, number);
    if (rc != 0) {
        net_signal_stop(sig);
        return lr_fail(err, LR_INVALID_ARGUMENT, "cannot watch signal %d: %s", number,
                       uv_strerror(rc));
    }
    *out = sig;
    return LR_OK;
}

void net_signal_stop(struct net_signal *sig)
{
    if (sig == NULL)
        return;
    if (sig->next != NULL)
        sig->next->prev = sig->prev;
    if (sig->prev != NULL)
        sig->prev->next = sig->next;
    else
        sig->loop->signals = sig->next;
    uv_close((uv_handle_t *)&sig->uv, on_handle_closed);
}

/* A stop that comes as no signal (Windows), on a thread of its own. */
static struct {
    struct net_loop *loop;
    net_loop_fn fn;
    void *arg;
} stop_from_outside;

static void pass_on_stop(void *unused)
{
    (void)unused;
    net_loop_post(stop_from_outside.loop, stop_from_outside.fn, stop_from_outside.arg);
}

lr_code net_signals_start(struct net_loop *loop, net_loop_fn on_stop, net_loop_fn on_reload,
                          void *arg, struct net_signals *out, struct lr_error *err)
{
    stop_from_outside.loop = loop;
    stop_from_outside.fn = on_stop;
    stop_from_outside.arg = arg;
    lr_process_on_stop(pass_on_stop, NULL);
    lr_code code = net_signal_start(loop, SIGTERM, on_stop, arg, &out->term, err);
    if (code == LR_OK)
        code = net_signal_start(loop, SIGINT, on_stop, arg, &out->interrupt, err);
    if (code == LR_OK)
        code = net_signal_start(loop, SIGHUP, on_reload, arg, &out->hang_up, err);
    return code;
}

void net_signals_stop(struct net_signals *signals)
{
    lr_process_on_stop(NULL, NULL);
    net_signal_stop(signals->term);
    net_signal_stop(signals->interrupt);
    net_signal_stop(signals->hang_up);
    *signals = (struct net_signals){0};
}
