/* router/handover/handover.h - a new router takes the place of a running router, without a gap
 * for clients (docs/adr/0061).
 *
 * Both use the same data folder.  The old router listens on router.sock there.  Only a process
 * of the same user is served that shows the secret of the folder (secret.h), or that the old
 * router has started itself: it may be of the release before, which knows no secret.  Messages
 * are JSON, with descriptors beside them:
 *
 *   new router                                   old router
 *   {"protocol":1,"version":"...",
 *    "secret":"..."}                      -->
 *                                        <--     {"protocol":1,"listeners":[...],...} and the
 *                                                listening sockets and the locks
 *   opens the database, loads it, makes
 *   everything that can fail
 *   {"ready":true,"says_bye":true}       -->
 *                                        <--     {"go":true} and its nodes
 *   accepts clients                              accepts no more, finishes what it has, ends
 *   {"bye":true}                         -->     needs its sockets and locks no more
 *
 * The old router goes on as before whenever the new router ends or is too late.  While it
 * finishes what it has, it keeps its sockets and locks: a new router that ends without "bye"
 * was killed, and the old router takes its place back (docs/adr/0092).  "bye" is said by a
 * router that stops, or that gives way to the next one.
 *
 *   ALONE --a connection--> ASKED --its message--> OFFERED --"ready"--> GIVEN --"bye"--> OVER
 *     ^                       |                     |                   |
 *     +-------- an end -------+---------------------+---- an end -------+
 *
 * Moves of a handover:
 *   alone -> asked
 *   asked -> offered, alone
 *   offered -> given, alone
 *   given -> over, alone
 *   over -> nothing
 *
 * The new router ends with the reason if it fails:
 *
 *   NOBODY --connected--> ASKING --offer--> PREPARING --"go"--> TAKEN --old one ends--> DONE
 *     ^                    |   |                |
 *     +-- closed unheard --+   +--> FAILED <----+
 *
 * A router that has given its place away closes the connections of further new routers unheard:
 * its successor is about to offer the place under the same name, and they connect anew.
 *
 * Moves of a takeover:
 *   nobody -> asking
 *   asking -> nobody, preparing, failed
 *   preparing -> taken, failed
 *   taken -> done
 *   done -> nothing
 *   failed -> nothing
 *
 * Thread: loop 0, or before the loops run.
 */
#ifndef ROUTER_HANDOVER_HANDOVER_H
#define ROUTER_HANDOVER_HANDOVER_H

#include <pthread.h>

#include "base/file.h"
#include "net/server.h"
#include "router/handover/known_nodes.h"
#include "router/handover/secret.h"

/* ---- the old router ---- */

enum router_handover_state {
    ROUTER_HANDOVER_ALONE,
    ROUTER_HANDOVER_ASKED,
    ROUTER_HANDOVER_OFFERED,
    ROUTER_HANDOVER_GIVEN,
    ROUTER_HANDOVER_OVER,
};

struct router_handover {
    /* Borrowed; set once. */
    struct router_known_nodes memory;
    pthread_mutex_t *lock; /* the router's: it guards the memory */
    const struct net_server *server;
    const char *folder, *version;
    int data_lock;             /* descriptor, as the next one */
    int database_lock;         /* -1: none */
    net_loop_fn on_giving;     /* before the new router has everything */
    net_loop_fn on_given;      /* it has */
    net_loop_fn on_over;       /* sockets and locks are needed no more */
    bool (*take_back)(void *); /* the new router was killed; false: it cannot be replaced */
    void *arg;                 /* of these functions */

    pid_t own; /* of a new router that this one has started (SIGUSR2); 0: none */
    char secret[ROUTER_HANDOVER_SECRET + 1];
    enum router_handover_state state;
    int listener, peer; /* owned; -1: none */
    pid_t pid;          /* of the new router */
    pid_t given;        /* of the last one that got everything */
    bool says_bye;      /* the new router does */
    bool was_left;      /* by a new router that was killed: anybody may take over */
    uint64_t since_ms;  /* of the state */
};

/* The caller has set the borrowed members. */
LR_MUST_USE lr_code router_handover_start(struct router_handover *handover,
                                          struct lr_error *err);
/* The router stops, and a service manager starts the next one: leaves the memory with the
 * manager.  One that was not started leaves nothing. */
void router_handover_leave(struct router_handover *handover);
/* Several times a second. */
void router_handover_look(struct router_handover *handover, uint64_t now_ms);
/* The place is not taken back any more. */
void router_handover_forget(struct router_handover *handover);
/* A zeroed struct is fine, and one that was not started. */
void router_handover_stop(struct router_handover *handover);

/* ---- the new router ---- */

enum router_takeover_state {
    ROUTER_TAKEOVER_NOBODY,
    ROUTER_TAKEOVER_ASKING,
    ROUTER_TAKEOVER_PREPARING,
    ROUTER_TAKEOVER_TAKEN,
    ROUTER_TAKEOVER_DONE,
    ROUTER_TAKEOVER_FAILED,
};

struct router_takeover {
    enum router_takeover_state state;
    int peer;  /* owned; -1: none */
    pid_t pid; /* of the old router */
    char version[32];
    struct net_listeners listeners; /* that nobody has taken yet */
    bool is_shared;                 /* a service manager has the sockets, too */
    struct lr_file_lock data_lock, database_lock;
};

/* Nobody to take over from. */
void router_takeover_init(struct router_takeover *takeover);
/* Asks the router that runs in the folder.  The state stays NOBODY where none runs, and where
 * the router that runs has given its place away.  only_left: it gives way only if it gave way
 * before, and the router after it was killed. */
LR_MUST_USE lr_code router_takeover_ask(struct router_takeover *takeover, const char *folder,
                                        const char *version, bool only_left,
                                        struct lr_error *err);
/* Gives each wanted listener the old router's socket for that address, if there is one. Sockets
 * of a service manager replace all that is wanted. */
void router_takeover_sockets(struct router_takeover *takeover, struct net_listeners *wanted);
/* Everything is made: the old router gives way, and what it remembers is put into *memory.  An
 * error: the old router goes on. */
static inline bool router_takeover_is_preparing(const struct router_takeover *takeover)
{
    return takeover->state == ROUTER_TAKEOVER_PREPARING;
}
LR_MUST_USE lr_code router_takeover_finish(struct router_takeover *takeover,
                                           const struct router_known_nodes *memory,
                                           struct lr_error *err);
/* Without a running router: what the router before has left with the service manager. */
void router_takeover_recall(const struct router_known_nodes *memory);
/* This router stops or gives way: the old router, if it still runs, is not needed any more. */
void router_takeover_bye(struct router_takeover *takeover);
/* Several times a second.  True, once: the old router has ended. */
bool router_takeover_look(struct router_takeover *takeover);
void router_takeover_free(struct router_takeover *takeover);

#endif
