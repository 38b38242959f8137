#include "base/machine.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"

static _Atomic uint64_t bad_moves;
#ifdef NDEBUG
static _Atomic bool tolerates = true;
#else
static _Atomic bool tolerates;
#endif

bool lr_machine_allows(const struct lr_machine *machine, const char *object, unsigned from,
                       unsigned to)
{
    if ((machine->states[from].next & LR_STATE(to)) != 0)
        return true;
    atomic_fetch_add(&bad_moves, 1);
    lr_log_error(NULL, "state.bad_move what=%s object=%s from=%s to=%s", machine->what, object,
                 machine->states[from].name, machine->states[to].name);
    if (!atomic_load(&tolerates))
        abort();
    return false;
}

uint64_t lr_machine_bad_moves(void)
{
    return atomic_load(&bad_moves);
}

void lr_machine_tolerate(bool is_tolerated)
{
    atomic_store(&tolerates, is_tolerated);
}
