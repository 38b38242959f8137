/* router/handover/message.h - the texts of a handover.  Unknown members are ignored. */
#ifndef ROUTER_HANDOVER_MESSAGE_H
#define ROUTER_HANDOVER_MESSAGE_H

#include "base/passing.h"
#include "net/listen.h"

/* A change that an older router cannot ignore raises the number. */
enum { ROUTER_HANDOVER_PROTOCOL = 1 };
#define ROUTER_HANDOVER_NAME "router.sock"

struct router_handover_message {
    uint64_t protocol; /* 0: not said */
    char version[32];
    char secret[64]; /* of a new router (secret.h); "": it shows none */
    bool is_ready, is_go;
    bool only_left; /* the new router takes over only a router that was left */
    bool was_left;  /* the running router had given its place to one that was killed */
    bool says_bye;  /* the new router will say "bye" before it ends */
    bool is_bye;
    uint64_t locks;                 /* that follow the listeners' descriptors */
    struct net_listeners listeners; /* without descriptors */
};

/* UNAVAILABLE with the text of "error" where the other router refuses.  INVALID_ARGUMENT: no
 * object. */
LR_MUST_USE lr_code router_handover_message_read(const struct lr_passed *message,
                                                 struct router_handover_message *out,
                                                 struct lr_error *err);

#endif
