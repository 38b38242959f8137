/* net/loops.c - a group of loops, one thread each; the caller's thread runs loop 0. */

#include "base/os/cpu.h"
#include "net/internal.h"
#include "net/loop.h"

struct net_loops {
    unsigned count;
    struct net_loop **items; /* owned */
};

lr_code net_loops_create(unsigned count, struct net_loops **out, struct lr_error *err)
{
    *out = NULL;
    if (count == 0)
        count = lr_cpu_allowed();
    struct net_loops *loops = net_alloc(sizeof(*loops));
    loops->items = net_alloc(count * sizeof(struct net_loop *));
    for (; loops->count < count; loops->count++) {
        lr_code code = net_loop_create(&loops->items[loops->count], err);
        if (code != LR_OK) {
            net_loops_destroy(loops);
            return code;
        }
    }
    *out = loops;
    return LR_OK;
}

void net_loops_destroy(struct net_loops *loops)
{
    if (loops == NULL)
        return;
    for (unsigned i = 0; i < loops->count; i++)
        net_loop_destroy(loops->items[i]);
    free(loops->items);
    free(loops);
}

void net_loops_settle(struct net_loops *loops)
{
    for (unsigned i = 0; i < loops->count; i++)
        net_loop_settle(loops->items[i]);
}

static void thread_main(void *arg)
{
    net_loop_run(arg);
}

lr_code net_loops_run(struct net_loops *loops, struct lr_error *err)
{
    lr_code code = LR_OK;
    uv_thread_t *threads = net_alloc(loops->count * sizeof(*threads));
    unsigned started = 1;
    for (; started < loops->count; started++) {
        int rc = uv_thread_create(&threads[started], thread_main, loops->items[started]);
        if (rc != 0) {
            code = lr_fail(err, LR_IO, "cannot start the thread of loop %u: %s", started,
                           uv_strerror(rc));
            for (unsigned i = 1; i < started; i++)
                net_loop_stop(loops->items[i]);
            break;
        }
    }
    if (code == LR_OK)
        net_loop_run(loops->items[0]);
    for (unsigned i = 1; i < started; i++)
        (void)uv_thread_join(&threads[i]);
    free(threads);
    return code;
}

void net_loops_stop(struct net_loops *loops)
{
    for (unsigned i = 0; i < loops->count; i++)
        net_loop_stop(loops->items[i]);
}

unsigned net_loops_count(const struct net_loops *loops)
{
    return loops->count;
}

struct net_loop *net_loops_get(struct net_loops *loops, unsigned index)
{
    return loops->items[index];
}
