/* serving/backend.h - what the serving part asks of an engine: a loader of models, and devices.
 *
 * The serving part of an engine (this folder) knows which sequences are computed when, with
 * which tokens and which memory.  It knows no architecture, no format of weights and no device.
 * An engine brings
 *   - struct serving_model_api: a model's folder becomes an opaque model, and facts about it,
 *   - struct serving_backend_api for each of its devices: one call computes one step, for every
 *     sequence of a batch, from embedding to sampled token.
 * engine.h puts them together.
 *
 * Ownership: the scheduler hands out page numbers and decides which tokens go into a step; the
 * backend owns the memory behind the pages, the weights on the device and the workspace.
 * Sampling is defined once, in sampler/sampler.h: a backend may sample on its device or call
 * sampler_sample() on a row of host logits, but for equal logits it must give the same token.
 *
 * KV memory has up to SERVING_KINDS_MAX kinds of pages, each with page_tokens consecutive
 * positions of one sequence: K and V (or what the model keeps instead) of all layers of that
 * kind.  A kind either covers all earlier positions, or a window.  Position p lies in table
 * entry p / page_tokens, slot p % page_tokens, for every kind.  Entries that have left the
 * window of their kind are SERVING_NO_PAGE: with a query at position p a layer reads only
 * p - window + 1 .. p.  A model may have any number of kinds, also none.
 *
 * Recurrent state is memory of a fixed size for each slot, whatever the number of tokens.  It
 * cannot go back to an earlier position, so the scheduler keeps copies of it, snapshots, at the
 * ends of pages.  Snapshots are one more kind of memory, SERVING_SNAPSHOTS: resize() and move()
 * treat a snapshot as a page.  A step whose position is 0 and that loads no snapshot begins
 * with the state of an empty sequence; every other step without snapshot_load continues with
 * the state that the last step of its slot left.  Therefore a model with state computes every
 * token exactly once, in order: no step of it is begun ahead (begin), and its masks are ready
 * before forward() (late_masks).
 *
 * The number of pages changes while the model is open: resize() makes the pages 0 .. n - 1 of a
 * kind usable and gives the memory of the others back.  Their addresses never change.
 *
 * Thread: the engine's caller.  A backend may have its own threads or streams, but does not
 * read the batch after forward() or begin() has returned.  Includable from C, C++ and CUDA.
 */
#ifndef ENGINES_SERVING_BACKEND_H
#define ENGINES_SERVING_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "engines/sampler/sampler.h"
#include "llm-router/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SERVING_NONE      UINT32_MAX /* no page, no snapshot */
#define SERVING_NO_PAGE   SERVING_NONE
#define SERVING_DIPS      2 /* most places where more rows are slower */
#define SERVING_DIP_WIDTH 4 /* rows from there on that are slower, at most */

enum {
    SERVING_KINDS_MAX = 4,
    SERVING_SNAPSHOTS = SERVING_KINDS_MAX, /* as a kind, for resize() and move() */
    SERVING_POOLS,                         /* kinds, and the snapshots */
    SERVING_STOPS_MAX = 32,
};

struct serving_backend; /* opaque, one per open model */

/* Lent to the two open(). */
struct serving_host {
    void *ctx;
    /* A non-zero return asks to stop: open returns CANCELLED.  NULL: nobody asks. */
    int32_t (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void (*log)(void *ctx, int32_t level, const char *event, const char *text); /* or NULL */
};

/* The operator's options; zero means "the engine chooses".  Strings are borrowed for the call
 * that gets them. */
struct serving_options {
    const char *device;     /* "cpu", "cuda:0", "GPU-<uuid>", "vulkan:0", "metal" */
    uint64_t memory_limit;  /* bytes on the device (of host memory for "cpu"); 0: none */
    uint64_t kv_tokens;     /* positions of the KV memory, over all sequences */
    uint32_t max_sequences; /* sequences with pages at one time */
    uint32_t max_context;   /* tokens of one sequence */
    uint32_t prefill_chunk; /* prompt tokens per step */
    uint32_t threads;       /* host threads */
    const char *artifact;   /* a file that was made of the weights; NULL: none */
    const char *extra_json; /* options of this engine, a JSON object; NULL: none */
};

/* ---- models ---- */

/* Models whose keys depend on the length of the prompt (rope scaling by length): prompts of up
 * to `limit` tokens have equal keys; beyond it all have, or with `exact` those of the same
 * length. limit 0: keys do not depend on it. */
struct serving_lengths {
    uint32_t limit;
    bool exact;
};

/* How a model that ranks wants a query and a document: a prompt around them, of trusted text.
 * NULL: as the tokenizer writes two texts. */
struct serving_pair {
    const char *before, *between, *after; /* until close */
};

/* What the serving part must know of a model. */
struct serving_facts {
    uint32_t vocab_rows; /* ids that have logits */
    uint32_t context;    /* positions that the model was made for */
    /* Ids that end an answer, from the model's configs; those at vocab_rows or above are
     * ignored. */
    uint32_t stops[SERVING_STOPS_MAX];
    uint32_t stop_count;
    const char *const *stop_names; /* control tokens that end an answer, too; NULL at the end;
                                      NULL: none; borrowed until close */
    /* The depth at which attention over the keys of a sequence takes as long as everything else
     * of a token; 0: attention costs nothing (pace.h). */
    uint32_t depth_unit;
    struct serving_lengths lengths;
    const char *source;  /* for the log: which files the weights come from; until close */
    uint32_t dimensions; /* of the vector of a text; 0: the model generates text */
    bool ranks;          /* the vector is one number: how well a document answers a query */
    struct serving_pair pair;
};

/* Static and const in each engine. */
struct serving_model_api {
    /* Opens the folder of a model: reads its configs and maps its weights, without reading them
     * through; so probing opens a model, too.  host is NULL there.  *model is NULL on failure.
     * UNSUPPORTED: a model or an option that the engine has no code for, by name.
     * MODEL_CORRUPT: names the file and what is wrong. */
    lr_code (*open)(const struct serving_host *host, const char *dir,
                    const struct serving_options *options, void **model, struct lr_error *err);
    void (*facts)(const void *model, struct serving_facts *out);
    void (*close)(void *model); /* NULL is fine */
};

/* ---- plans ---- */

/* A kind of KV memory. */
struct serving_kind {
    uint32_t window;     /* positions that a query sees, its own included; 0: all */
    uint64_t page_bytes; /* 0: the layers of this kind are somewhere else */
    uint32_t pages;      /* at open: numbers 0 .. pages - 1 are valid */
    uint32_t least;      /* that always stay: one whole context; the windows of all sequences */
    uint32_t most;       /* for resize(); 0: pages */
};

/* A step of more than `rows` and fewer than `enough` single tokens gives fewer tokens a second
 * than one of `rows`; 0: no such place. */
struct serving_dip {
    uint32_t rows, enough;
};

/* What a model needs on this device with those options.  plan() computes it from the configs
 * alone; open() allocates exactly this. */
struct serving_plan {
    uint32_t on_device; /* 1: the bytes are device memory, 0: host memory */
    uint32_t page_tokens;
    uint32_t kind_count; /* 0 .. SERVING_KINDS_MAX */
    struct serving_kind kinds[SERVING_KINDS_MAX];
    uint64_t state_bytes;    /* of a slot, and of a snapshot; 0: the model has no state */
    uint32_t snapshots;      /* at open; serving_snapshots() */
    uint32_t most_snapshots; /* for resize(); 0: snapshots */
    uint32_t max_sequences;
    uint32_t max_context;
    uint32_t prefill_chunk; /* most prompt tokens of a step */
    uint32_t step_tokens; /* most tokens of one batch: at least prefill_chunk + max_sequences */
    uint32_t threads;     /* host threads; 1 where they are not used */
    uint32_t least_chunk; /* least prompt tokens of a step; 0: every chunk is prefill_chunk */
    uint32_t first_chunk; /* prompt tokens of the first steps without streams: more than
                           * least_chunk only where every such device is fast; 0: least_chunk */
    uint32_t whole_texts; /* 1: every text is computed in one step, so that prefill_chunk is at
                           * least max_context, and no prefix of a text is kept for another */
    uint32_t late_masks;  /* 1: forward() computes beside the host, so masks are made meanwhile;
                           * 0 where the model has state */
    struct serving_dip dips[SERVING_DIPS];
    uint64_t host; /* bytes in host memory beside on_device memory, else 0; not in total */
    uint64_t weights;
    uint64_t workspace; /* with the state of the slots: max_sequences * state_bytes */
    uint64_t fixed;     /* contexts, code */
    uint64_t kv;        /* sum of pages * page_bytes, and snapshots * state_bytes */
    uint64_t total;
};

/* Bytes of a page of a kind, or of a snapshot; 0: the device has no such memory. */
static inline uint64_t serving_plan_bytes(const struct serving_plan *plan, uint32_t kind)
{
    if (kind == SERVING_SNAPSHOTS)
        return plan->state_bytes;
    return kind < plan->kind_count ? plan->kinds[kind].page_bytes : 0;
}

/* Snapshots beside this number of bytes of KV pages: they take at most a quarter of the KV
 * memory.  A model without pages (kv_bytes 0) has `sequences` * 4. */
static inline uint32_t serving_snapshots(uint64_t kv_bytes, uint64_t state_bytes,
                                         uint32_t sequences)
{
    if (state_bytes == 0)
        return 0;
    uint64_t count = kv_bytes != 0 ? kv_bytes / 3 / state_bytes : 4ull * sequences;
    return count < UINT32_MAX / 2 ? (uint32_t)count : UINT32_MAX / 2;
}

/* ---- steps ---- */

/* The content of a page, or of a snapshot, goes to another one of its kind. */
struct serving_move {
    uint32_t from, to;
};

/* One sequence's part of a step. */
struct serving_step {
    uint32_t slot;          /* 0 .. max_sequences - 1, constant while the sequence lives */
    uint32_t position;      /* of tokens[0]; all earlier positions are in the cache */
    uint32_t count;         /* tokens, at least 1 */
    uint32_t page_count;    /* entries of every table; they cover position + count */
    uint32_t prompt;        /* tokens of the sequence's prompt: the same in all its steps */
    uint32_t second;        /* position of the second text of a pair; 0: there is none */
    const uint32_t *tokens; /* ids below vocab_rows */
    const uint32_t *pages[SERVING_KINDS_MAX]; /* tables by kind */
    /* Before the first token the slot's state becomes that of this snapshot; after the last
     * token the state is kept in that snapshot.  SERVING_NONE: neither.  A snapshot that a step
     * of a batch saves is not loaded by another step of the batch. */
    uint32_t snapshot_load, snapshot_save;
    float *logits; /* NULL: not needed; else host memory for count * vocab_rows floats */
    float *vector; /* NULL: not needed; else host memory for the vector of the text, of which
                      these are the last tokens */
    const struct sampler_input *sample; /* for the last token's row; NULL: do not sample */
    struct sampler_result *sampled;     /* filled when sample is given */
};

struct serving_batch {
    struct serving_step *steps;
    uint32_t count;  /* sequences; each slot occurs once */
    uint32_t tokens; /* sum over the steps, at most step_tokens */
    /* NULL, or called once in forward(), before the first row is sampled and, where the device
     * computes beside the host, while the device computes.  It completes the masks of the
     * steps.  It sets `sample` of a step whose mask is not complete to NULL: such a step is
     * computed, but not sampled. */
    void (*fill_masks)(void *ctx);
    void *ctx;
    /* For begin(): 1: each step whose `tokens` is NULL is the next one of the step at the same
     * place of the batch that was begun last, and its only token is the one sampled there. */
    uint32_t follows;
};

/* ---- devices ---- */

/* Static and const in each backend.  `model` is what the engine's serving_model_api opened. */
struct serving_backend_api {
    const char *name; /* "cpu", "cuda", "vulkan", "metal" */

    /* UNSUPPORTED: no such device, or an unsupported shape.  OUT_OF_VRAM or OUT_OF_RAM: the
     * limit is too small for the weights and one sequence; both numbers. */
    lr_code (*plan)(const void *model, const struct serving_options *options,
                    struct serving_plan *out, struct lr_error *err);

    /* The model is borrowed until close, the rest for the call.  `usable` has one bit per id
     * below vocab_rows: ids without their bit are never sampled (also borrowed until close).
     * *out is NULL on failure. */
    lr_code (*open)(const struct serving_host *host, const void *model, const uint32_t *usable,
                    const struct serving_options *options, const struct serving_plan *plan,
                    struct serving_backend **out, struct lr_error *err);

    void (*close)(struct serving_backend *backend); /* NULL is fine */

    /* Computes every step of the batch: writes K and V of its tokens to its pages, and fills
     * logits, sampled and snapshots where requested.  All results are complete on return.
     * After a failure the model is dead. */
    lr_code (*forward)(struct serving_backend *backend, const struct serving_batch *batch,
                       struct lr_error *err);

    /* A number of pages of a kind, its least to its most; or of snapshots, 0 to
     * most_snapshots.  New pages hold no NaN.  OUT_OF_VRAM or OUT_OF_RAM: nothing has changed.
     * Any other failure: the model is dead. */
    lr_code (*resize)(struct serving_backend *backend, uint32_t kind, uint32_t pages,
                      struct lr_error *err);

    /* Copies pages, or snapshots; none occurs twice.  After a failure the model is dead. */
    lr_code (*move)(struct serving_backend *backend, uint32_t kind,
                    const struct serving_move *moves, uint32_t count, struct lr_error *err);

    /* NULL, or: forward() in two parts.  begin() starts a batch of single tokens and returns;
     * finish() waits for the batch that was begun first and fills `sampled`, in steps that the
     * caller keeps until then.  A step that only forward() can sample has `sample` NULL
     * afterwards.  At most two batches are begun at a time; forward(), resize() and move() may
     * be called between, and see the batches complete.  UNSUPPORTED: not these steps; nothing
     * has happened.  After any other failure the model is dead.  Not called for a model with
     * state. */
    lr_code (*begin)(struct serving_backend *backend, const struct serving_batch *batch,
                     struct lr_error *err);
    lr_code (*finish)(struct serving_backend *backend, struct lr_error *err);
};

#ifdef __cplusplus
}
#endif

#endif
