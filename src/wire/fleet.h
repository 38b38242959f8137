/* wire/fleet.h - messages with which a node joins a router and stays in touch with it.
 *
 *   POST /v0/nodes/join             struct wire_join, JSON: the node's identity and all its
 * models POST /v0/nodes/{id}/heartbeat   struct wire_heartbeat, JSON: load and memory, each
 * second
 *
 * Decoded texts point into the parsed text or into the arena.  Unknown members are ignored, so
 * that the two sides may be one release apart.  A change that needs more than that raises the
 * protocol number (wire/link.h).
 */
#ifndef WIRE_FLEET_H
#define WIRE_FLEET_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sampling.h"
#include "base/str.h"
#include "wire/link.h"

enum {
    WIRE_FLEET_MODELS_MAX = 4096,
    WIRE_FLEET_SLOTS_MAX = 1 << 20,
    WIRE_FLEET_POOLS_MAX = 65, /* RAM and 64 GPUs */
    WIRE_FLEET_EVENTS_MAX = 64,
    WIRE_FLEET_DOWNLOADS_MAX = 64,
    WIRE_FLEET_FILES_MAX = 64, /* of one download */
    WIRE_FLEET_STOPS_MAX = 17,
};

/* In place of a dialect's name: the model has no form of chats. */
#define WIRE_DIALECT_NONE "none"

/* A model on a node.  The members from `chat_template` on are sent in a join only. */
struct wire_fleet_model {
    struct lr_str id;
    struct lr_str state;     /* as node/models/model.h names it */
    struct lr_str reason;    /* why the model cannot run or could not be loaded; empty: no
                                problem */
    struct lr_str reason_id; /* its identity (base/errors.h); in heartbeats only, since
                                WIRE_SINCE_ERRORS */
    bool can_run;            /* files complete, an engine available */
    bool is_loaded, is_pinned;
    uint32_t slots;       /* sequences that the engine computes at once; 0: not known */
    uint32_t replicas;    /* workers that serve it there; 0: none, or an older node */
    uint64_t max_context; /* tokens of one sequence, as the engine states; 0: not known */
    uint32_t requests;    /* kinds of requests it takes, bit 1 << LR_REQUEST_...; 0: only its
                             engine knows, so each kind may be tried.  A node of a release that
                             does not tell takes GENERATE alone */
    uint32_t live;
    uint32_t queued;
    uint64_t kv_used, kv_total; /* bytes of KV memory that requests hold, and that there are */
    uint64_t failures;          /* failures in a row, of loading or of serving */
    uint64_t next_try_ms; /* in state "waiting": time until the next try; 0: not by time */
    /* Measured by the node, so that a router that has just started need not guess: time to
     * load, and moving averages per token.  0: never measured. */
    uint64_t load_ms, prefill_us, step_us;
    struct lr_str weights;       /* fingerprint (model/fingerprint.h); in heartbeats only, since
                                    WIRE_SINCE_WEIGHTS.  Empty: not known */
    struct lr_str chat_template; /* text; empty: the default */
    struct lr_str dialect;       /* its name; empty: the router goes by the template */
    /* texts of the tokens that end an answer; none: not known */
    struct lr_str stops[WIRE_FLEET_STOPS_MAX];
    size_t stop_count;
    struct lr_str bos_token, eos_token, unk_token, pad_token;
    struct lr_sampling_defaults sampling;
    struct lr_str engine, runtime, architecture, format;
    uint64_t context_tokens;
    uint64_t weight_bytes;
    uint64_t kv_bytes; /* KV memory of one whole context; 0: not known */
};

/* Sampling defaults as members of an open object. */
void wire_sampling_write(struct lr_json_writer *w, const struct lr_sampling_defaults *sampling);

/* The words for `requests`: "chat", "completion", "embed", "rerank", as a list in JSON (nothing
 * where they are not known) or with commas between them. */
void wire_abilities_write(struct lr_json_writer *w, uint32_t requests);
enum { WIRE_ABILITIES_MAX = 48 };
const char *wire_abilities_text(uint32_t requests, char out[WIRE_ABILITIES_MAX]);
/* UNSUPPORTED, with the model's name and its abilities, where it does not take this kind.
 * `requests` as in struct wire_fleet_model. */
LR_MUST_USE lr_code wire_abilities_check(uint32_t requests, uint32_t kind, const char *model,
                                         struct lr_error *err);

/* What a GPU says about itself.  A figure that the GPU or its driver does not report is left
 * out; the names are members of "gpu" in JSON and the ends of metrics' names. */
/* clang-format off */
#define WIRE_GPU_FIGURES(X)                                                                    \
    X(UTILIZATION,     "utilization_percent",        "gauge",                                  \
      "Time in which the GPU computed")                                                        \
    X(MEMORY_BUSY,     "memory_busy_percent",        "gauge",                                  \
      "Time in which the GPU's memory was read or written")                                    \
    X(TEMPERATURE,     "temperature_celsius",        "gauge",   "Temperature of the GPU")      \
    X(POWER,           "power_milliwatts",           "gauge",   "Power that the GPU draws")    \
    X(POWER_LIMIT,     "power_limit_milliwatts",     "gauge",   "Power that it may draw")      \
    X(CLOCK,           "clock_mhz",                  "gauge",   "Clock of the processors")     \
    X(MEMORY_CLOCK,    "memory_clock_mhz",           "gauge",   "Clock of the memory")         \
    X(THROTTLE,        "throttle_reasons",           "gauge",                                  \
      "Why the clock is lowered, as bits (4 power cap, 8 hardware slowdown, 32 and 64 heat, "  \
      "128 power brake)")                                                                      \
    X(ECC_CORRECTED,   "ecc_corrected_total",        "counter",                                \
      "Memory errors that were corrected, since the driver was loaded")                        \
    X(ECC_UNCORRECTED, "ecc_uncorrected_total",      "counter",                                \
      "Memory errors that could not be corrected, since the driver was loaded")                \
    X(XIDS,            "xid_errors_total",           "counter",                                \
      "Xid errors of the driver, since the node was started")                                  \
    X(LAST_XID,        "last_xid",                   "gauge",   "Number of the last Xid error")
/* clang-format on */

enum wire_gpu_figure {
#define X(name, text, type, help) WIRE_GPU_##name,
    WIRE_GPU_FIGURES(X)
#undef X
        WIRE_GPU_FIGURE_COUNT
};

struct wire_gpu {
    uint32_t reported; /* bit 1 << figure */
    uint64_t figures[WIRE_GPU_FIGURE_COUNT];
    bool is_faulty; /* the node uses the GPU no more */
};

extern const struct wire_gpu_row {
    const char *name, *type, *help;
} wire_gpu_rows[WIRE_GPU_FIGURE_COUNT];

void wire_gpu_set(struct wire_gpu *gpu, enum wire_gpu_figure figure, uint64_t value);
/* The figures and "faulty" as members of an open object. */
void wire_gpu_write(struct lr_json_writer *w, const struct wire_gpu *gpu);

struct wire_fleet_pool {
    struct lr_str name;
    struct lr_str title;
    uint64_t total, used;
    struct wire_gpu gpu; /* of RAM, and of a GPU that says nothing: all zero */
    struct lr_str fault; /* why the GPU is faulty; empty: it is sound, or nobody said why */
};

/* A file of a model that is being downloaded. */
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
    const struct wire_fleet_file
        *file; /* all files, or with very many files only the active ones */
    size_t file_count;
};

/* The error of an event, as its members "reason" and, where it has an identity, "error_id". */
#define WIRE_EVENT_ERROR_ID "error_id"
void wire_event_put_error(struct lr_json_writer *w, const struct lr_error *why);

/* A heartbeat also carries the events since the last one, never a join; they are texts when
 * writing and trees when reading.  An epoch identifies one process of the node: a join states
 * it and every heartbeat repeats it, so that two processes with the same identity are told
 * apart.  Events are numbered within an epoch, so that a repeated event is recognised. */
struct wire_heartbeat {
    uint32_t protocol; /* common with the receiver, when writing: what it may be sent
                          (enum wire_since).  Is not sent itself */
    uint64_t clock_ms; /* the sender's time of day, in ms since 1970, since WIRE_SINCE_CLOCK; 0:
                          not sent */
    bool is_draining;
    const struct wire_fleet_model *models;
    size_t model_count;
    const struct wire_fleet_pool *pools;
    size_t pool_count;
    uint64_t epoch;     /* 0: sent by a release without epochs */
    uint64_t event_end; /* number of the last event, plus 1 */
    const char *const *event_texts;
    const struct lr_json *const *events;
    size_t event_count;
    const struct wire_fleet_download *downloads;
    size_t download_count;
    /* When reading: name of the first wrong member, which was dropped; static text.  NULL:
     * none. */
    const char *ignored;
};

struct wire_join {
    uint32_t protocol;
    struct lr_str version; /* of llm-router */
    struct lr_str node_id; /* chosen by the node, kept over restarts */
    struct lr_str name;    /* for display */
    struct lr_str url;     /* where the router reaches it; empty: its address and `port` */
    uint16_t port;
    bool has_tls;         /* TLS on that port; `url` states it itself */
    struct lr_str device; /* "cuda", "vulkan", "metal", "cpu" */
    struct lr_str secret; /* used in both directions from the join on */
    struct wire_heartbeat state;
};

/* Writes the members of one download, without the model's id, into an open object. */
void wire_fleet_download_put(struct lr_json_writer *w, const struct wire_fleet_download *d);

void wire_join_write(struct lr_buf *out, const struct wire_join *m);
void wire_heartbeat_write(struct lr_buf *out, const struct wire_heartbeat *m);

/* INVALID_ARGUMENT: no JSON object, or a join without a valid identity or protocol; names the
 * member.  Other wrong members are dropped. */
LR_MUST_USE lr_code wire_join_parse(struct lr_arena *arena, struct lr_str text,
                                    struct wire_join *out, struct lr_error *err);
LR_MUST_USE lr_code wire_heartbeat_parse(struct lr_arena *arena, struct lr_str text,
                                         struct wire_heartbeat *out, struct lr_error *err);

#endif
