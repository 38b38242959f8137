/* base/machine.h - state machines: which state may follow which.
 *
 * An object with a state has an enum, a list of its moves in the header, and one function that
 * moves the object and calls lr_machine_allows first.  The table stands beside that function:
 *
 *   #define TO(name) LR_STATE(DOOR_##name)
 *   static const struct lr_machine machine = {"door", {
 *       [DOOR_OPEN] = {"open", TO(SHUT)},
 *       [DOOR_SHUT] = {"shut", TO(OPEN) | TO(LOCKED)},
 *       [DOOR_LOCKED] = {"locked", TO(SHUT)},
 *   }};
 *
 * tools/check-machines compares it with the list, each line of which may end with the reason:
 *
 *   Moves of a door:
 *     open -> shut
 *     shut -> open, locked: the key was turned
 *     locked -> shut
 *
 * An illegal move is a defect of the program: a debug build aborts; a release build logs
 * "state.bad_move" and counts the defect, and the calling function fails the object, so that it
 * never goes on in an unplanned state.  Thread: any.
 */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { LR_STATES_MAX = 16 };

#define LR_STATE(state) (1u << (state))

struct lr_machine {
    const char *what; /* "model" */
    struct {
        const char *name;
        uint32_t next; /* LR_STATE of each state that may follow */
    } states[LR_STATES_MAX];
};

/* `object` names the object for the log. */
bool lr_machine_allows(const struct lr_machine *machine, const char *object, unsigned from,
                       unsigned to);

/* Illegal moves since the process began. */
uint64_t lr_machine_bad_moves(void);

/* For tests: illegal moves do not abort a debug build. */
void lr_machine_tolerate(bool is_tolerated);

#endif
