/* gptoss/backend/backend.h - the interface of a device that runs gpt-oss.
 *
 * One call computes one step: every sequence of a batch, from embedding to sampled token.  Each
 * device splits a step into operations (embed, norm + qkv + rope, attention with sink and
 * window, route, experts, logits, sample) in its own way.  The CPU backend has one file for
 * each operation, and these are the reference for all other devices.
 *
 * Ownership: the scheduler hands out page numbers and decides which tokens go into a step; the
 * backend owns the memory behind the pages, the weights on the device and the workspace.
 * Sampling is defined once, in sampler/sampler.h: a backend may sample on its device or call
 * sampler_sample() on a row of host logits, but for equal logits it must give the same token.
 *
 * KV cache: there are two kinds of pages, each with page_tokens consecutive positions of one
 * sequence.  A full page holds K and V of all full-attention layers, a window page those of all
 * sliding layers.  Position p lies in table entry p / page_tokens, slot p % page_tokens, for
 * both kinds.  Entries of the window table that have left the window are GPTOSS_NO_PAGE: with a
 * query at position p a sliding layer reads only p - window + 1 .. p.
 *
 * The number of pages changes while the model is open: resize() makes the pages 0 .. n - 1 of a
 * kind usable and gives the memory of the others back.  Their addresses never change.
 *
 * Thread: the engine's caller.  A backend may have its own threads or streams, but does not
 * read the batch after forward() or begin() has returned.  Includable from C, C++ and CUDA.
 */
#ifndef GPTOSS_BACKEND_BACKEND_H
#define GPTOSS_BACKEND_BACKEND_H

#include <stdint.h>

#include "engines/sampler/sampler.h"
#include "llm-router/status.h"
#include "model/gptoss.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GPTOSS_NO_PAGE   UINT32_MAX
#define GPTOSS_DIPS      2 /* most places where more rows are slower */
#define GPTOSS_DIP_WIDTH 4 /* rows from there on that are slower, at most */

struct gptoss_backend; /* opaque, one per open model */

enum gptoss_kind { GPTOSS_FULL, GPTOSS_WINDOW, GPTOSS_KINDS }; /* of pages */

/* The content of a page goes to another page of its kind. */
struct gptoss_move {
    uint32_t from, to;
};

/* For tests: gets the input and the choice of each layer's router, in the order of the device's
 * rows (for a single sequence: in order).  Slow: the device stops after every layer. */
struct gptoss_trace {
    void *ctx;
    void (*routed)(void *ctx, uint32_t layer, uint32_t rows,
                   const float *residual,   /* [rows][hidden], before the norm */
                   const uint32_t *choice); /* [rows][experts_per_token], most likely first */
};

/* The operator's options; zero means "the backend chooses". */
struct gptoss_backend_options {
    const char *device;      /* "cpu", "cuda:0", "GPU-<uuid>", "vulkan:0", "metal" */
    uint64_t memory_limit;   /* bytes on the device (of host memory for "cpu"); 0: none */
    uint64_t kv_tokens;      /* positions of the full layers' cache, over all sequences */
    uint32_t max_sequences;  /* sequences with pages at one time */
    uint32_t max_context;    /* tokens of one sequence */
    uint32_t prefill_chunk;  /* prompt tokens per step */
    uint32_t threads;        /* host threads */
    const char *extra_json;  /* engine-specific options, NULL: none */
    uint32_t measure_memory; /* 1: log how fast the device reads its memory */
    uint32_t embed_on_host; /* 1: a GPU reads the embedding table in host memory; 0: only if the
                             * memory is short */
    const struct gptoss_trace *trace; /* NULL: none; borrowed until close */
};

/* A step of more than `rows` and fewer than `enough` single tokens gives fewer tokens a second
 * than one of `rows`; 0: no such place. */
struct gptoss_dip {
    uint32_t rows, enough;
};

/* What a model needs on this device with those options. plan() computes it from the config
 * alone; open() allocates exactly this. */
struct gptoss_plan {
    uint32_t on_device; /* 1: the bytes are device memory, 0: host memory */
    uint32_t page_tokens;
    uint32_t full_pages; /* at open: page numbers 0 .. full_pages - 1 are valid */
    uint32_t window_pages;
    uint32_t least_pages[GPTOSS_KINDS]; /* that always stay: one whole context; all windows */
    uint32_t most_pages[GPTOSS_KINDS];  /* for resize(); 0: full_pages, window_pages */
    uint64_t full_page_bytes;
    uint64_t window_page_bytes;
    uint32_t max_sequences;
    uint32_t max_context;
    uint32_t prefill_chunk; /* most prompt tokens of a step */
    uint32_t step_tokens; /* most tokens of one batch: at least prefill_chunk + max_sequences */
    uint32_t threads;     /* host threads; 1 where they are not used */
    uint32_t least_chunk; /* least prompt tokens of a step; 0: every chunk is prefill_chunk */
    uint32_t first_chunk; /* prompt tokens of the first steps without streams: more than
                           * least_chunk only where every such device is fast; 0: least_chunk */
    uint32_t
        late_masks; /* 1: forward() computes beside the host, so masks are made meanwhile */
    struct gptoss_dip dips[GPTOSS_DIPS];
    uint32_t
        embed_on_host; /* 1: the embedding table lies in host memory, not among `weights` */
    uint64_t host;     /* bytes of that table in host memory, else 0; not in `total` */
    uint64_t weights;
    uint64_t workspace;
    uint64_t fixed; /* contexts, code */
    uint64_t kv;    /* full_pages * full_page_bytes + window_pages * window_page_bytes */
    uint64_t total;
};

/* One sequence's part of a step. */
struct gptoss_step {
    uint32_t slot;          /* 0 .. max_sequences - 1, constant while the sequence lives */
    uint32_t position;      /* of tokens[0]; all earlier positions are in the cache */
    uint32_t count;         /* tokens, at least 1 */
    uint32_t page_count;    /* entries of both tables; they cover position + count */
    const uint32_t *tokens; /* ids below vocab_rows */
    const uint32_t *full_pages;
    const uint32_t *window_pages;
    float *logits; /* NULL: not needed; else host memory for count * vocab_rows floats */
    const struct sampler_input *sample; /* for the last token's row; NULL: do not sample */
    struct sampler_result *sampled;     /* filled when sample is given */
};

struct gptoss_batch {
    struct gptoss_step *steps;
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

/* Lent to open(). */
struct gptoss_backend_host {
    void *ctx;
    /* A non-zero return asks to stop: open returns CANCELLED. */
    int32_t (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void (*log)(void *ctx, int32_t level, const char *event, const char *text);
};

/* Static and const in each backend. */
struct gptoss_backend_api {
    const char *name; /* "cpu", "cuda", "vulkan", "metal" */

    /* UNSUPPORTED: no such device, or an unsupported shape.  OUT_OF_VRAM or OUT_OF_RAM: the
     * limit is too small for the weights and one sequence; both numbers. */
    lr_code (*plan)(const struct model_config *config,
                    const struct gptoss_backend_options *options, struct gptoss_plan *out,
                    struct lr_error *err);

    /* The weights are borrowed until close, the rest for the call.  `usable` has one bit per id
     * below vocab_rows: ids without their bit are never sampled (also borrowed until close).
     * *out is NULL on failure. */
    lr_code (*open)(const struct gptoss_backend_host *host, const struct model_gptoss *weights,
                    const uint32_t *usable, const struct gptoss_backend_options *options,
                    const struct gptoss_plan *plan, struct gptoss_backend **out,
                    struct lr_error *err);

    void (*close)(struct gptoss_backend *backend); /* NULL is fine */

    /* Computes every step of the batch: writes K and V of its tokens to its pages, and fills
     * logits and sampled where requested.  All results are complete on return.  After a failure
     * the model is dead. */
    lr_code (*forward)(struct gptoss_backend *backend, const struct gptoss_batch *batch,
                       struct lr_error *err);

    /* So many pages of a kind, least_pages to most_pages.  New pages hold no NaN.  OUT_OF_VRAM
     * or OUT_OF_RAM: nothing has changed.  Any other failure: the model is dead. */
    lr_code (*resize)(struct gptoss_backend *backend, enum gptoss_kind kind, uint32_t pages,
                      struct lr_error *err);

    /* Copies pages; no page occurs twice.  After a failure the model is dead. */
    lr_code (*move)(struct gptoss_backend *backend, enum gptoss_kind kind,
                    const struct gptoss_move *moves, uint32_t count, struct lr_error *err);

    /* NULL, or: forward() in two parts.  begin() starts a batch of single tokens and returns;
     * finish() waits for the batch that was begun first and fills `sampled`, in steps that the
     * caller keeps until then.  A step that only forward() can sample has `sample` NULL
     * afterwards.  At most two batches are begun at a time; forward(), resize() and move() may
     * be called between, and see the batches complete.  UNSUPPORTED: not these steps; nothing
     * has happened.  After any other failure the model is dead. */
    lr_code (*begin)(struct gptoss_backend *backend, const struct gptoss_batch *batch,
                     struct lr_error *err);
    lr_code (*finish)(struct gptoss_backend *backend, struct lr_error *err);
};

const struct gptoss_backend_api *gptoss_backend_cpu(void);
#ifdef GPTOSS_CUDA
const struct gptoss_backend_api *gptoss_backend_cuda(void);
#endif
#ifdef GPTOSS_VULKAN
const struct gptoss_backend_api *gptoss_backend_vulkan(void);
#endif
#ifdef GPTOSS_METAL
const struct gptoss_backend_api *gptoss_backend_metal(void);
#endif

#ifdef __cplusplus
}
#endif

#endif
