/* engines/testing/testing.h - one small engine, built three times: `echo`, `faulty`, `hostile`.
 *
 * The engine answers with the prompt, one byte a token, and implements all of engine.h:
 * segments, continuation, cancel, pages, statistics.  `faulty` is the same code with faults
 * that options switch on, so that a test breaks exactly one behaviour of a correct engine.
 * `hostile` attacks the system it runs on (hostile.h).
 *
 * The embedding of a text counts how often tokens of each sixteenth of the vocabulary occur.
 * The score of a document is the cosine of the counts of query and document.
 *
 * Vocabulary: ids 0..255 are bytes, TESTING_SPECIAL_BASE + n the control tokens of
 * testing_specials[].  The answer is the last segment without control rights, or all text if
 * every segment has them, and then the stop token <|end|>.  Thread: the worker's loop.
 */
#ifndef ENGINES_TESTING_H
#define ENGINES_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm-router/engine.h"

enum {
    TESTING_SPECIAL_BASE = 256,
    TESTING_SPECIAL_END = 0, /* index of the stop token in testing_specials[] */
    TESTING_SPECIAL_COUNT = 8,
    TESTING_CONTROL_BYTE = 0xF8, /* in an answer: the first of these tokens */
    TESTING_VOCAB = TESTING_SPECIAL_BASE + TESTING_SPECIAL_COUNT,
    TESTING_PAGE = 16,     /* tokens of one KV page */
    TESTING_KV_BYTES = 64, /* counted bytes of one KV token */
    TESTING_DIMENSIONS = 16,
};

extern const char *const testing_specials[TESTING_SPECIAL_COUNT];

/* When a fault happens. */
enum testing_stage {
    TESTING_NOWHERE,
    TESTING_LOAD,
    TESTING_SUBMIT,
    TESTING_STEP,
    TESTING_CLOSE,
    TESTING_PROBE,
};

/* From config.json ("testing") and then from extra_json, which has precedence. */
struct testing_options {
    uint64_t weights_bytes; /* stated need */
    bool fill; /* the stated need is all that the limit allows, and more than weights_bytes */
    uint64_t use_bytes;      /* really allocated and touched, whatever need was stated */
    uint64_t leak_bytes;     /* leaked with every request */
    uint64_t load_ms;        /* in steps of 10 ms, each reported as progress */
    uint64_t load_silent_ms; /* in one piece, without progress */
    uint64_t step_ms;
    uint64_t prefill_ms; /* per chunk, beside step_ms */
    uint64_t
        after_tokens;  /* a fault of a step happens once a request has this number of tokens */
    bool on_device;    /* the stated need is device memory */
    bool invalid_utf8; /* 0xFF before every byte */
    bool say_time;     /* each token is its creation time, monotonic, in ns */
    bool spread; /* sequences get their tokens one by one over step_ms instead of all at once */
    bool say_prompt;   /* the answer is the prompt's text, its bytes in hexadecimal digits */
    bool say_controls; /* the texts of control tokens in the answer are such tokens */
    bool say_version;  /* the answer is the library's version */
    bool say_weights;  /* the answer is "artifact" or "safetensors": what was loaded */
    bool shout;        /* the answer is in capital letters: other weights than without */
    bool noise;        /* writes to stdout and stderr */
    enum testing_stage hang;
    enum testing_stage crash;
    enum testing_stage fail;
    char poison[64]; /* a prompt with this text crashes a step: the first, or with poison_after
                      */
    uint64_t poison_after; /* the step after this number of tokens */
    uint64_t ram_bytes;    /* of host memory, beside those of a device */
    char gate[512];        /* token i is sent once this file holds more than i bytes */
    char refuses[64];      /* a device on which nothing runs: UNSUPPORTED */
    char once[512];        /* the fault happens only if this file could be created */
};

struct testing_sequence {
    struct testing_sequence *next;
    uint64_t id;
    uint32_t kind;         /* LR_REQUEST_... */
    uint32_t vector_count; /* the result of EMBED and RERANK, reported after the prompt */
    float vector[TESTING_DIMENSIONS];
    char *answer; /* owned */
    size_t answer_len;
    bool has_controls;   /* bytes from TESTING_CONTROL_BYTE on are tokens */
    uint32_t *generated; /* owned; ids that the client already has */
    uint32_t generated_count;
    uint32_t prompt_tokens;
    uint32_t prefilled;
    uint32_t emitted; /* generated[] included */
    uint32_t max_tokens;
    uint32_t ignore_stop;
    uint32_t logprobs;
    uint32_t *stop_ids; /* owned */
    size_t stop_id_count;
    uint64_t pages; /* held */
    bool admitted;  /* has a slot and pages */
    bool poisoned;
};

struct lr_engine_model {
    const struct lr_engine_host *host; /* lent, outlives the model */
    struct testing_options options;
    struct testing_sequence *first, **last; /* in order of arrival */
    char *memory;                           /* use_bytes, owned */
    bool has_artifact;                      /* the weights come from an artifact */
    uint32_t max_sequences;
    uint32_t max_context;
    uint32_t prefill_chunk;
    uint64_t pages_limit; /* what the host allows */
    uint64_t pages_total; /* counted as allotted; more than the limit while they are in use */
    uint64_t pages_in_use;
    uint32_t live;
    uint32_t admitted;
    uint64_t steps;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
};

/* INVALID_ARGUMENT for an unknown option, UNSUPPORTED for a model of another
 * architecture, MODEL_CORRUPT for a config.json that is not JSON. */
lr_code testing_options_read(struct testing_options *out, const char *model_dir,
                             const char *extra_json, struct lr_error *err);

/* An artifact of this engine begins with "ARTIFACT"; a probe reads only the first three
 * letters.  MODEL_CORRUPT otherwise.  NULL is fine. */
lr_code testing_artifact_check(const char *path, bool whole, struct lr_error *err);

/* Hangs, crashes or fails, as the options say for this stage. */
lr_code testing_fault(const struct testing_options *options, enum testing_stage stage,
                      struct lr_error *err);
/* What `hostile` answers instead of the prompt (hostile_engine.c). */
#ifdef LR_TESTING_HOSTILE
const char *testing_report(void);
#else
static inline const char *testing_report(void)
{
    return NULL;
}
#endif
bool testing_gate_open(const struct testing_options *options, uint32_t index);
void testing_sleep_ms(uint64_t ms);
void testing_sleep_until(uint64_t monotonic_ns);

lr_code testing_submit(struct lr_engine_model *model, const struct lr_engine_request *request,
                       struct lr_error *err);
void testing_cancel(struct lr_engine_model *model, uint64_t request_id);
lr_code testing_step(struct lr_engine_model *model, int32_t *busy, struct lr_error *err);
void testing_sequences_free(struct lr_engine_model *model);
/* Frees counted pages down to the limit, as far as no request holds them. */
void testing_pages_settle(struct lr_engine_model *model);

/* ---- vector.c ---- */

/* Counts the tokens of an EMBED or RERANK request and fills s->vector. */
lr_code testing_vector(const struct lr_engine_model *model,
                       const struct lr_engine_request *request, struct testing_sequence *s,
                       struct lr_error *err);

lr_code testing_tokenize(const struct lr_engine_model *model, const struct lr_segment *segments,
                         size_t segment_count, uint32_t *ids, size_t capacity, size_t *count,
                         struct lr_error *err);
lr_code testing_vocab(const struct lr_engine_model *model, uint32_t id, const char **bytes,
                      uint32_t *len, uint32_t *flags);

#endif
