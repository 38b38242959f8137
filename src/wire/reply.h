/* wire/reply.h - JSON answers between routers and nodes, outside of generating.
 *
 *   struct wire_fleet_reply   to a join and to a heartbeat
 *   struct wire_registry      GET /v0/models/registry: the models that nodes should have
 *   refusals                  {"error":{"message":...}}, from either side
 *
 * Decoded texts and arrays point into the parsed text or into the arena.  A wrong member is
 * dropped alone; unknown members are ignored.
 */
#ifndef WIRE_REPLY_H
#define WIRE_REPLY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum { WIRE_REPLY_ROUTERS_MAX = 16, WIRE_REGISTRY_MAX = 1 << 16 };

struct wire_fleet_reply {
    struct lr_str node_id; /* in a join's reply only, like the next three; empty: the reply to a
                              heartbeat */
    uint32_t protocol;
    struct lr_str version;
    uint32_t heartbeat_ms;
    bool has_registry;
    uint64_t registry_version; /* with has_registry */
    bool must_join;            /* the node has models that it has not described */
    bool names_routers;        /* a list of the fleet's router URLs follows */
    struct lr_str routers[WIRE_REPLY_ROUTERS_MAX];
    size_t router_count;
};

void wire_fleet_reply_write(struct lr_buf *out, const struct wire_fleet_reply *m);
/* INVALID_ARGUMENT: no JSON object.  OUT_OF_RAM. */
LR_MUST_USE lr_code wire_fleet_reply_parse(struct lr_arena *arena, struct lr_str text,
                                           struct wire_fleet_reply *out, struct lr_error *err);

/* A registered model. */
struct wire_registered {
    struct lr_str id, source, format;
    struct lr_str manifest_sha256, path; /* empty: none */
    uint64_t generation; /* 0: sent by a release that does not count generations */
};

struct wire_registry {
    uint64_t version;
    const struct wire_registered *models;
    size_t count;
};

void wire_registry_write(struct lr_buf *out, const struct wire_registry *m);
/* Also refused without a version or a list of models. */
LR_MUST_USE lr_code wire_registry_parse(struct lr_arena *arena, struct lr_str text,
                                        struct wire_registry *out, struct lr_error *err);

/* The message of a refusal; empty: none. */
struct lr_str wire_refusal_message(struct lr_arena *arena, struct lr_str text);
/* The refusal as an error: its code by the status of the answer, and the identity. */
void wire_refusal(struct lr_arena *arena, int status, struct lr_str text, struct lr_error *out);

/* The epoch of the node that answers GET /health; 0: the answer has none. */
uint64_t wire_health_epoch(struct lr_arena *arena, struct lr_str text);

#endif
