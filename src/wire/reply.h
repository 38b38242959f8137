/* wire/reply.h - what routers and nodes answer each other in JSON, outside of generating.
 *
 *   struct wire_fleet_reply   to a join and to a heartbeat
 *   struct wire_registry      GET /v0/models/registry: what nodes should have
 *   refusals                  {"error":{"message":...}}, of either side
 *
 * Decoded texts and arrays point into the text that was parsed or into the arena.  A member
 * that is not what it should be is left out alone; what nobody knows is ignored.
 */
#ifndef WIRE_REPLY_H
#define WIRE_REPLY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum { WIRE_REPLY_ROUTERS_MAX = 16, WIRE_REGISTRY_MAX = 1 << 16 };

struct wire_fleet_reply {
    struct lr_str node_id; /* to a join; empty: to a heartbeat, which has not the next three */
    uint32_t protocol;
    struct lr_str version;
    uint32_t beat_ms;
    bool has_registry;
    uint64_t registry_version; /* with has_registry */
    bool must_join;            /* the node has models that it has not described */
    bool names_routers;        /* the fleet's URLs follow */
    struct lr_str routers[WIRE_REPLY_ROUTERS_MAX];
    size_t router_count;
};

void wire_fleet_reply_write(struct lr_buf *out, const struct wire_fleet_reply *m);
/* Refused for what is no JSON object, and for memory. */
LR_MUST_USE lr_code wire_fleet_reply_parse(struct lr_arena *arena, struct lr_str text,
                                           struct wire_fleet_reply *out, struct lr_error *err);

/* A registered model. */
struct wire_registered {
    struct lr_str id, source, format;
    struct lr_str manifest_sha256, path; /* empty: none */
    uint64_t generation;                 /* 0: of a release that does not count */
};

struct wire_registry {
    uint64_t version;
    const struct wire_registered *models;
    size_t count;
};

void wire_registry_write(struct lr_buf *out, const struct wire_registry *m);
/* Also refused without a version and a list of models. */
LR_MUST_USE lr_code wire_registry_parse(struct lr_arena *arena, struct lr_str text,
                                        struct wire_registry *out, struct lr_error *err);

/* The message of a refusal; empty: it has none. */
struct lr_str wire_refusal_message(struct lr_arena *arena, struct lr_str text);

/* Which process of a node answers GET /health; 0: it does not say. */
uint64_t wire_health_epoch(struct lr_arena *arena, struct lr_str text);

#endif
