/* node/models/model.h - a model on this node: one state machine, one function that moves it.
 *
 * The usual way:
 *
 *   absent --> present --> starting --> loading --> ready --> draining --> present
 *
 * Moves of a model:
 *   absent -> fetching, verifying, present, failed
 *   fetching -> absent, verifying, failed
 *   verifying -> absent, fetching, present, failed
 *   present -> absent, starting, failed
 *   starting -> loading, present, waiting, failed
 *   loading -> ready, draining, present, waiting, failed
 *   ready -> loading, draining, present, waiting, failed
 *   draining -> present
 *   waiting -> absent, present, starting, failed
 *   failed -> absent, present
 *
 * fetching and verifying belong to node/fetch/fetch.c.  A model that is described anew is
 * absent in between (node/fetch/storage.c).  From starting, loading and ready trouble leads to
 * one of three states (recovery.c): present, where a worker died by chance and the next try is
 * at once; waiting, where the circuit breaker is open; failed, where the files were judged.  A
 * failed model is tried again when somebody acts: `load`, other files, another engine.  A
 * waiting model is tried again by itself, and at any sign that the cause has gone.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_MODEL_H
#define NODE_MODELS_MODEL_H

#include "chat/prompt.h"
#include "jinja/jinja.h"
#include "model/fingerprint.h"
#include "node/models/breaker.h"
#include "node/models/generation.h"
#include "node/models/ledger.h"
#include "node/models/replica.h"
#include "node/models/scale.h"
#include "node/workers/engines.h"
#include "node/workers/proc.h"

enum node_model_state {
    NODE_MODEL_ABSENT, /* known by name, no usable files; reason says why */
    NODE_MODEL_FETCHING,
    NODE_MODEL_VERIFYING,
    NODE_MODEL_PRESENT,  /* files are complete, no worker */
    NODE_MODEL_STARTING, /* being probed, or waiting for room */
    NODE_MODEL_LOADING,  /* this and the next two follow from its replicas: one loads, */
    NODE_MODEL_READY,    /* one serves, */
    NODE_MODEL_DRAINING, /* all are leaving while queued requests wait */
    NODE_MODEL_WAITING,  /* it could not be loaded; tried again by itself */
    NODE_MODEL_FAILED,   /* its files were judged; not tried before somebody acts */
};

struct node_model {
    struct node_model *next;
    struct node_models *models; /* whose list the model is in */
    char *id;                   /* owned */
    enum node_model_state state;
    struct lr_error reason; /* why it is in this state; its text "": none is needed */
    struct model_descriptor *descriptor;     /* owned; NULL for an engine without a model */
    uint64_t described;                      /* how often it was: routers are told anew */
    char weights[MODEL_FINGERPRINT_LEN + 1]; /* of the described files; "": not known */
    struct node_engine *engine;              /* borrowed from the registry; NULL: none fits */
    bool is_by_vulkan; /* on a node of NVIDIA GPUs: the engine has no CUDA, but Vulkan */
    struct jinja_template *chat_template; /* owned; NULL: the default */
    struct chat_model chat;
    const struct model_control *stop; /* of the template, in the descriptor; NULL: none */
    int64_t created;                  /* seconds since 1970 */
    char *folder;                     /* owned: where its files are looked for; NULL: nowhere */
    bool is_downloaded;               /* by this node, or into the Hugging Face cache */
    char *blobs; /* owned; the folder that links of a model in that cache lead to; NULL */
    uint64_t signature; /* of that folder when the model came to rest */
    uint64_t seen_signature, described_signature; /* at the last look; when it was described */

    struct node_replica replicas[NODE_REPLICAS];
    struct node_worker *workers; /* every process, of whichever replica; owned until it ends */
    struct node_generation *queue, **queue_end; /* those that were computed before come first;
                                                 * queue_end is valid while there is one */
    uint32_t queue_count;
    struct node_blame blame; /* of its workers' deaths */
    bool wants_extra;        /* a replica waits for KV memory that others give back */
    uint32_t extra_pool;     /* where it waits */
    struct node_scale scale; /* how many replicas the traffic asks for */
    bool has_own_replicas;   /* an operator asked for own_replicas; else the node's setting */
    uint32_t own_replicas;
    char replicas_reason[NODE_REASON_MAX]; /* why there are fewer than wanted; "": there are as
                                            * many, or they are on their way */
    char lost_reason[NODE_REASON_MAX];     /* what a replica failed with that waits */
    bool is_caching; /* its engine has found a prefix that was computed before */

    struct node_proc *probe;      /* asks what it needs */
    struct node_counter *counter; /* owned; counts the tokens of prompts; NULL: none did */
    bool has_need;
    struct lr_engine_need need;        /* for need_library */
    struct node_library *need_library; /* reference */
    bool is_tight; /* the need within the pool's limit did not fit beside other programs and
                    * pinned models: each load asks for the need within what is free */
    uint64_t
        short_pools; /* in this try: GPUs that its engine cannot plan for (node_pool_bit) */
    uint64_t refused_pools; /* GPUs that its engine cannot use, whatever memory they have: too
                             * old, for instance (node_pool_bit) */
    struct node_library *refused_by; /* reference: the version that said so; NULL: none */
    bool awaits_refresh;             /* STARTING: for Vulkan's list (device_refresh.h) */
    bool wants_probe; /* the need is of an earlier load, and the free memory may have changed */

    bool is_pinned;
    bool is_wanted;          /* somebody asked for it to be loaded, beside requests */
    bool skip_artifact;      /* it was broken: the safetensors are run */
    bool is_purging;         /* its files are about to be deleted: takes no work */
    char registered_as[16];  /* format it is to be described anew in at its next load; "" */
    bool wants_room;         /* waits for others to be evicted */
    uint64_t wants_room_seq; /* arrival of the request that needs it */
    uint32_t room_pool;      /* where others are evicted for it */
    uint64_t last_used_ms;
    struct node_breaker breaker;
    uint64_t room_wanted; /* WAITING for memory: bytes that would be enough; 0: not for that */
    lr_code judged;       /* what the engine said of its files at the last try; OK: nothing */
    uint32_t deaths;      /* of its workers, since one last served */
    /* Measured, for routers; 0: never.  Moving averages, microseconds per token. */
    uint64_t load_ms, prefill_us, step_us;
    uint64_t tokens_out, requests_done, requests_failed; /* for metrics */
};

const char *node_model_state_name(enum node_model_state state);

/* The only place that changes a state: checks the move, keeps the reason, logs it and
 * tells subscribers.  reason may be NULL.  An illegal move ends the workers, whose ends lead on
 * from the state that the model has; without a worker the model has failed. */
void node_model_move(struct node_model *model, enum node_model_state state,
                     const struct lr_error *reason);
/* A replica has moved: the model's state follows, unless all replicas are empty. */
void node_model_follow(struct node_model *model, const struct lr_error *reason);

/* Does whatever the state allows: submits queued requests, begins to load, lets go. */
void node_model_pump(struct node_model *model);

/* Leases: requests that wait for it or run on it. */
uint32_t node_model_leases(const struct node_model *model);
/* Of them, those that run. */
uint32_t node_model_live(const struct node_model *model);
/* Bytes of KV memory that requests hold, and that its workers may use. */
void node_model_kv(const struct node_model *model, uint64_t *used, uint64_t *total);
/* A worker that serves the model, else one that loads or drains it; NULL: none. */
struct node_worker *node_model_worker(const struct node_model *model);
/* Tokens of one sequence: as the engine states, else as the files say; 0: not known. */
uint64_t node_model_max_context(const struct node_model *model);

/* Kinds of requests that it takes, as in wire_fleet_model; 0: not known before it is probed. */
uint32_t node_model_requests(const struct node_model *model);

/* Loads it without a request.  `because` names the cause for the log. */
void node_model_load(struct node_model *model);
/* Lets its worker finish and go; queued requests wait for the next one. */
void node_model_unload(struct node_model *model, const char *because);

/* Requests wait for it, or somebody wants it loaded. */
bool node_model_has_demand(const struct node_model *model);

/* Fails everything that waits; another node may succeed. */
void node_model_fail_waiting(struct node_model *model, const struct lr_error *err);

/* ---- trouble (recovery.c) ---- */

enum node_trouble {
    NODE_TROUBLE_DEATH,  /* a worker or a probe ended without a word: may be chance */
    NODE_TROUBLE_TOLD,   /* the engine or the system said why it does not work */
    NODE_TROUBLE_ROOM,   /* the plan leaves no memory for it; nothing was started */
    NODE_TROUBLE_TIGHT,  /* the engine cannot plan with the memory that is free */
    NODE_TROUBLE_JUDGED, /* no try can end otherwise */
};
/* The only way out of a try that did not work: decides between "again at once" (PRESENT; the
 * caller pumps), WAITING and FAILED, and what those who wait are told. */
void node_model_trouble(struct node_model *model, enum node_trouble kind,
                        const struct lr_error *why);
/* Tries a WAITING model if its time has come or a request may cause it; tells requests that
 * come too early why and when. */
void node_model_pump_waiting(struct node_model *model);
/* A sign that the cause has gone.  Nothing for a model that is neither WAITING nor FAILED. */
void node_model_retry(struct node_model *model);
/* A worker of it gave a token, or ended an answer well. */
void node_model_served(struct node_model *model);

/* ---- admission (admission.c) ---- */

/* Begins to load: probes, makes room, starts a worker.  State PRESENT, WAITING or STARTING. */
void node_admit(struct node_model *model);
/* The most memory that it could get now; others may have to be evicted for that. */
uint64_t node_available(struct node_model *model);
/* What its engine said it needs is no longer true. */
void node_forget_need(struct node_model *model);
/* Fills what an engine is to be told about a model; strings are borrowed. */
struct wire_open;
void node_describe_open(const struct node_model *model, const struct node_library *library,
                        uint32_t pool, uint64_t limit, struct wire_open *out);
/* The publisher's encoding of the weights to run instead of the safetensors, or
 * NULL. */
const char *node_artifact_of(const struct node_model *model);
/* An artifact is a second encoding of the same model: where the engine refuses it (`why`), the
 * original is still there.  True: the artifact is not tried again. */
bool node_artifact_refused(struct node_model *model, const struct lr_error *why);

#endif
