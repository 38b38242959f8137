/* worker/compiler.h - constraints are compiled on a thread of their own.
 *
 * Compiling takes up to milliseconds, preparing the vocabulary for the first constraint takes
 * 200: on the worker's loop both would delay every stream (docs/promises.md: short-masks).  A
 * request with a constraint becomes a job.  The loop goes on, and submits the request to the
 * engine once the job is done.
 *
 *   begin -> waiting -> compiling -> done -> taken by the loop
 *
 * The engine is called by one thread only, so the loop itself reads the vocabulary from the
 * engine, a part at a time.  Thread: all functions main.
 */
#ifndef WORKER_COMPILER_H
#define WORKER_COMPILER_H

#include <pthread.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/os/wake.h"
#include "grammar/grammar.h"
#include "wire/generate.h"

struct worker_job {
    struct worker_job *next; /* in the list of its stage */
    char *body;              /* owned: of the SUBMIT frame */
    struct lr_arena arena;
    struct wire_generate g;          /* points into body and arena */
    struct grammar_program *program; /* owned, as the matcher; both NULL unless code is OK */
    struct grammar_matcher *matcher; /* behind the tokens that the client already has */
    lr_code code;
    struct lr_error err;
    bool is_cancelled;
};

struct worker_compiler {
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* for the members up to stopping */
    pthread_cond_t changed;
    struct worker_job *waiting, **waiting_end; /* owned, as the next two */
    struct worker_job *compiling;
    struct worker_job *done, **done_end;
    bool has_tokens; /* the vocabulary was read */
    bool stopping;
    uint32_t pending;     /* jobs that were begun and not taken */
    struct lr_waker wake; /* rings when a job is done */
    /* The tokens of the engine, until the vocabulary is made of them. */
    struct lr_buf token_bytes, token_ends, token_flags;
    uint32_t token_count;
    struct grammar_vocab *vocab; /* owned; the thread makes it with the first job */
};

void worker_compiler_init(struct worker_compiler *c);
/* Ends the thread.  The matchers of all jobs that were taken must be gone. */
void worker_compiler_free(struct worker_compiler *c);

/* Begins a job for the body of a SUBMIT frame with a constraint.  UNSUPPORTED: the engine does
 * not expose its vocabulary. */
LR_MUST_USE lr_code worker_compiler_begin(struct worker_compiler *c,
                                          const struct lr_engine_api *api, struct lr_str body,
                                          struct lr_error *err);
/* True while the loop has to call worker_compiler_read. */
bool worker_compiler_reads(const struct worker_compiler *c);
/* Reads the next part of the vocabulary. */
void worker_compiler_read(struct worker_compiler *c, const struct lr_engine_api *api,
                          const struct lr_engine_model *model);
/* A job that is done, or NULL.  The caller owns it. */
struct worker_job *worker_compiler_take(struct worker_compiler *c);
/* True: the request has a job, which will never be taken. */
bool worker_compiler_cancel(struct worker_compiler *c, uint64_t request);

void worker_job_destroy(struct worker_job *job); /* NULL is fine */

#endif
