/* wire/fleet.h - how a node joins a router and stays in touch with it.
 *
 *   POST /v0/nodes/join          struct wire_join, JSON: who it is and all it has
 *   POST /v0/nodes/{id}/beat     struct wire_beat, JSON: load and memory, each second
 *
 * Decoded texts point into the text that was parsed or into the arena.  Members nobody
 * knows are ignored, so that the two sides may be one release apart; the protocol number
 * changes when that is not enough.
 */
#ifndef WIRE_FLEET_H
#define WIRE_FLEET_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum {
    WIRE_FLEET_PROTOCOL = 1,
    WIRE_FLEET_MODELS_MAX = 4096,
    WIRE_FLEET_POOLS_MAX = 64,
};

/* A model on a node.  What stands behind `chat_template` is sent on joining only. */
struct wire_fleet_model {
    struct lr_str id;
    struct lr_str state;  /* as node/model.h names it */
    struct lr_str reason; /* why it cannot run; empty: it can */
    bool can_run;         /* files complete, an engine found */
    bool is_loaded;
    uint32_t slots; /* sequences its engine takes at once; 0: not known */
    uint32_t live;
    uint32_t queued;
    struct lr_str chat_template; /* text; empty: the default */
    bool is_harmony;
    struct lr_str bos_token, eos_token, unk_token, pad_token;
    struct lr_str engine, runtime, architecture, format;
    uint64_t context_tokens;
    uint64_t weight_bytes;
};

struct wire_fleet_pool {
    struct lr_str name;
    struct lr_str title;
    uint64_t total, used;
};

struct wire_beat {
    bool is_draining;
    const struct wire_fleet_model *models;
    size_t model_count;
    const struct wire_fleet_pool *pools;
    size_t pool_count;
};

struct wire_join {
    uint32_t protocol;
    struct lr_str version; /* of llm-router */
    struct lr_str node_id; /* chosen by the node, kept over restarts */
    struct lr_str name;    /* for people */
    struct lr_str url;     /* where the router reaches it; empty: its address and `port` */
    uint16_t port;
    struct lr_str device; /* "cuda", "metal", "cpu" */
    struct lr_str secret; /* used in both directions from now on */
    struct wire_beat state;
};

void wire_join_write(struct lr_buf *out, const struct wire_join *m);
void wire_beat_write(struct lr_buf *out, const struct wire_beat *m);

/* INVALID_ARGUMENT names the member. */
LR_MUST_USE lr_code wire_join_parse(struct lr_arena *arena, struct lr_str text,
                                    struct wire_join *out, struct lr_error *err);
LR_MUST_USE lr_code wire_beat_parse(struct lr_arena *arena, struct lr_str text,
                                    struct wire_beat *out, struct lr_error *err);

#endif
