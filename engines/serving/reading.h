/* serving/reading.h - long prompts are tokenized on a thread of their own.
 *
 * A prompt of 30,000 words takes tens of milliseconds.  On the caller's thread every stream and
 * every short prompt would wait for it.  Short texts are tokenized at once by the caller.
 *
 *   begin --> waiting --> current --> done --> taken
 *
 * The thread takes the shortest text first; every fourth time it takes the oldest, so that a
 * long text is tokenized no matter how many shorter ones arrive.
 * Thread: the caller of the ABI calls all functions.
 */
#ifndef ENGINES_SERVING_READING_H
#define ENGINES_SERVING_READING_H

#include <pthread.h>

#include "tokenizer/tokenizer.h"

enum { SERVING_READING_LEAST = 16 << 10 }; /* bytes: one to three milliseconds */

struct serving_text {
    struct serving_text *next;   /* in the list of its stage */
    uint64_t number;             /* chosen by the caller; rises with every text */
    size_t bytes;                /* of the text */
    struct lr_segment *segments; /* in this allocation, as their bytes */
    size_t segment_count;
    struct tokenizer_ids ids; /* owned; empty unless code is OK */
    lr_code code;
    struct lr_error err;
    bool is_dropped;
};

/* Tokenizes segments.  A test may have its own. */
typedef lr_code serving_encode_fn(const struct tokenizer *tokenizer,
                                  const struct lr_segment *segments, size_t count,
                                  struct tokenizer_ids *ids, struct lr_error *err);

struct serving_reading {
    serving_encode_fn *encode;
    const struct tokenizer *tokenizer; /* borrowed until deinit */
    bool has_locks;
    bool is_running; /* the thread was started */
    pthread_t thread;
    pthread_mutex_t lock; /* for the members below */
    pthread_cond_t changed, finished;
    struct serving_text *waiting, *current, *done; /* owned */
    uint32_t taken;                                /* by the thread */
    bool stopping;
    uint32_t pending; /* begun, neither taken nor dropped; the caller's alone */
};

void serving_reading_init(struct serving_reading *r, const struct tokenizer *tokenizer,
                          serving_encode_fn *encode);
/* Waits for the text that is being tokenized.  Zero bytes are fine. */
void serving_reading_deinit(struct serving_reading *r);

/* Copies the text.  False: no memory or no thread; the caller tokenizes by itself. */
bool serving_reading_begin(struct serving_reading *r, uint64_t number,
                           const struct lr_segment *segments, size_t count);
/* The text will never be taken. */
void serving_reading_drop(struct serving_reading *r, uint64_t number);
/* A text that is done, or NULL.  The caller owns it. */
struct serving_text *serving_reading_take(struct serving_reading *r);
void serving_text_destroy(struct serving_text *text); /* NULL is fine */
/* Waits until a text is done, at most so long. */
void serving_reading_await(struct serving_reading *r, uint32_t microseconds);

#endif
