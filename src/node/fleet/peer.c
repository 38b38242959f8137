#include "node/fleet/peer.h"

#include "base/machine.h"

#define TO(name) LR_STATE(NODE_PEER_##name)
static const struct lr_machine machine = {
    "router",
    {
        [NODE_PEER_STRANGER] = {"stranger", TO(TOKEN) | TO(JOINED)},
        [NODE_PEER_TOKEN] = {"token", TO(STRANGER) | TO(JOINED)},
        [NODE_PEER_JOINED] = {"joined", TO(OUTDATED) | TO(REFUSED) | TO(SILENT) | TO(STRANGER)},
        [NODE_PEER_OUTDATED] = {"outdated", TO(JOINED) | TO(REFUSED) | TO(SILENT)},
        [NODE_PEER_REFUSED] = {"refused", TO(JOINED) | TO(SILENT) | TO(STRANGER)},
        [NODE_PEER_SILENT] = {"silent", TO(JOINED) | TO(REFUSED) | TO(STRANGER)},
    },
};

void node_peer_move(struct node_peer *peer, enum node_peer_state state)
{
    if (state != peer->state)
        peer->state = lr_machine_allows(&machine, peer->router, peer->state, state)
                          ? state
                          : NODE_PEER_STRANGER;
}

enum node_peer_word node_peer_next(const struct node_peer *peer, bool has_news)
{
    bool describes = has_news || peer->state == NODE_PEER_OUTDATED;
    bool joins = !node_peer_is_joined(peer) || (describes && peer->state != NODE_PEER_REFUSED);
    return joins ? NODE_PEER_JOIN : NODE_PEER_HEARTBEAT;
}
