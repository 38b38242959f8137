#include "base/failpoint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/os/fd.h"
#include "base/os/process.h"
#include "base/str.h"

enum action { ACT_ERROR, ACT_KILL, ACT_STOP };
enum { MOST_POINTS = 16 };

struct point {
    struct lr_str name; /* borrowed from the environment */
    enum action action;
    uint64_t turn; /* acts on this pass only; 0: on every pass */
    _Atomic uint64_t passes;
};

static struct point points[MOST_POINTS];
static size_t point_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void failpoint_refuse(struct lr_str spec)
{
    static const char text[] = "LR_FAILPOINT: expected name=kill|stop|error[:n], got ";
    (void)!write(2, text, sizeof(text) - 1);
    (void)!write(2, spec.ptr, spec.len);
    (void)!write(2, "\n", 1);
    abort(); /* a misspelt failpoint must not let a test pass */
}

static void read_environment(void)
{
    struct lr_str rest = lr_str_z(getenv("LR_FAILPOINT")), spec;
    while (lr_str_split(&rest, ',', &spec)) {
        struct point *point = &points[point_count];
        struct lr_str action = spec, turn;
        if (spec.len == 0)
            continue;
        if (point_count == MOST_POINTS || !lr_str_split(&action, '=', &point->name))
            failpoint_refuse(spec);
        turn = action;
        if (!lr_str_split(&turn, ':', &action))
            failpoint_refuse(spec);
        if (turn.ptr != NULL && (!lr_str_u64(turn, &point->turn) || point->turn == 0))
            failpoint_refuse(spec);
        if (lr_str_eq_z(action, "kill"))
            point->action = ACT_KILL;
        else if (lr_str_eq_z(action, "stop"))
            point->action = ACT_STOP;
        else if (!lr_str_eq_z(action, "error"))
            failpoint_refuse(spec);
        point_count++;
    }
}

bool lr_failpoint_hit(const char *name)
{
    (void)pthread_once(&once, read_environment);
    for (size_t i = 0; i < point_count; i++) {
        struct point *point = &points[i];
        if (!lr_str_eq_z(point->name, name))
            continue;
        uint64_t pass = atomic_fetch_add(&point->passes, 1) + 1;
        if (point->turn != 0 && pass != point->turn)
            continue;
        if (point->action == ACT_KILL)
            lr_process_kill_self();
        else if (point->action == ACT_STOP)
            lr_process_stop_self();
        else
            return true;
    }
    return false;
}
