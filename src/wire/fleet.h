/* wire/fleet.h - how a node joins a router and stays in touch with it.
 *
 *   POST /v0/nodes/join          struct wire_join, JSON: who it is and all it has
 *   POST /v0/nodes/{id}/beat     struct wire_beat, JSON: load and memory, each second
 *
 * Decoded texts point into the text that was parsed or into the arena.  Members nobody
 * knows are ignored, so that the two sides may be one release apart; the protocol number
 * (wire/link.h) changes when that is not enough.
 */
#ifndef WIRE_FLEET_H
#define WIRE_FLEET_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "wire/link.h"

enum {
    WIRE_FLEET_MODELS_MAX = 4096,
    WIRE_FLEET_SLOTS_MAX = 1 << 20,
    WIRE_FLEET_POOLS_MAX = 64,
    WIRE_FLEET_EVENTS_MAX = 64,
    WIRE_FLEET_DOWNLOADS_MAX = 64,
    WIRE_FLEET_FILES_MAX = 64, /* of one download */
};

/* A model on a node.  What stands behind `chat_template` is sent on joining only. */
struct wire_fleet_model {
    struct lr_str id;
    struct lr_str state;  /* as node/models/model.h names it */
    struct lr_str reason; /* why it cannot run, or could not be loaded; empty: neither */
    bool can_run;         /* files complete, an engine found */
    bool is_loaded, is_pinned;
    uint32_t slots; /* sequences its engine takes at once; 0: not known */
    uint32_t live;
    uint32_t queued;
    uint64_t failures;    /* to load it or to serve with it, in a row */
    uint64_t next_try_ms; /* "waiting": until it is tried again by itself; 0: not by time */
    /* Measured by the node, so that a router that has just begun need not guess: how long
     * it took to load, and moving averages per token.  0: never. */
    uint64_t load_ms, prefill_us, step_us;
    struct lr_str chat_template; /* text; empty: the default */
    bool is_harmony;
    struct lr_str bos_token, eos_token, unk_token, pad_token;
    struct lr_str engine, runtime, architecture, format;
    uint64_t context_tokens;
    uint64_t weight_bytes;
    uint64_t kv_bytes; /* of one whole context; 0: not known */
};

struct wire_fleet_pool {
    struct lr_str name;
    struct lr_str title;
    uint64_t total, used;
};

/* A file of a model that is being fetched. */
struct wire_fleet_file {
    struct lr_str name;
    struct lr_str state;  /* as hub/download.h names it */
    struct lr_str reason; /* of the last failure; empty: none */
    uint64_t size, done;
};

struct wire_fleet_download {
    struct lr_str id; /* the model */
    uint64_t done_bytes, total_bytes;
    uint64_t rate;         /* bytes a second */
    uint64_t remaining_ms; /* UINT64_MAX: not known */
    uint32_t files_done, files;
    const struct wire_fleet_file *file; /* all, or of very many those under way */
    size_t file_count;
};

/* What happened on the node and was not told yet is told with a beat, never on joining:
 * texts when writing, trees when reading.  An epoch is one process of the node: a join says it,
 * and every beat repeats it, so that two processes with one identity are told apart.  Events
 * are counted within it, so that one that is told twice is known again. */
struct wire_beat {
    bool is_draining;
    const struct wire_fleet_model *models;
    size_t model_count;
    const struct wire_fleet_pool *pools;
    size_t pool_count;
    uint64_t epoch;     /* 0: of a release that has none */
    uint64_t event_end; /* the number after the last one's */
    const char *const *event_texts;
    const struct lr_json *const *events;
    size_t event_count;
    const struct wire_fleet_download *downloads;
    size_t download_count;
    /* When reading: the first member that was left out, since it was not what it should be;
     * static text.  NULL: none. */
    const char *ignored;
};

struct wire_join {
    uint32_t protocol;
    struct lr_str version; /* of llm-router */
    struct lr_str node_id; /* chosen by the node, kept over restarts */
    struct lr_str name;    /* for people */
    struct lr_str url;     /* where the router reaches it; empty: its address and `port` */
    uint16_t port;
    bool has_tls;         /* on that port; `url` says it itself */
    struct lr_str device; /* "cuda", "metal", "cpu" */
    struct lr_str secret; /* used in both directions from now on */
    struct wire_beat state;
};

/* Members of one download, into an object that is open; without the model's id. */
void wire_fleet_download_put(struct lr_json_writer *w, const struct wire_fleet_download *d);

void wire_join_write(struct lr_buf *out, const struct wire_join *m);
void wire_beat_write(struct lr_buf *out, const struct wire_beat *m);

/* Refused for what is no JSON object, for memory, and a join for who it is or which protocol it
 * speaks: INVALID_ARGUMENT names the member.  Other members that are wrong are left out. */
LR_MUST_USE lr_code wire_join_parse(struct lr_arena *arena, struct lr_str text,
                                    struct wire_join *out, struct lr_error *err);
LR_MUST_USE lr_code wire_beat_parse(struct lr_arena *arena, struct lr_str text,
                                    struct wire_beat *out, struct lr_error *err);

#endif
