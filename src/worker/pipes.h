/* worker/pipes.h - the worker's end of its two pipes: whole frames in, whole frames out.
 *
 * Writing blocks until the node has taken the bytes; the node always drains.  When the node is
 * gone the worker process ends.  Thread: reading main, writing any.
 */
#ifndef WORKER_PIPES_H
#define WORKER_PIPES_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/os/wake.h"
#include "wire/reader.h"

enum { WORKER_READ_BYTES = 64 << 10 };

struct worker_pipes {
    struct wire_reader in;
    char chunk[WORKER_READ_BYTES]; /* bytes of the last read */
    bool is_drained; /* the last read took everything: a look for more would cost a system call
                      */
    pthread_mutex_t out_lock;
};

void worker_pipes_init(struct worker_pipes *pipes);
void worker_pipes_free(struct worker_pipes *pipes);

/* Reads what the node has sent; with `wait` blocks until bytes arrive.  False at the end of the
 * stream. */
bool worker_pipes_fill(struct worker_pipes *pipes, bool wait);

/* Reads on before the next step.  A long prompt does not fit into the pipe: the node writes the
 * rest while this reads, so a frame that has begun to arrive is waited for, a millisecond at
 * most.  False: there is nothing more for now. */
bool worker_pipes_more(struct worker_pipes *pipes);

/* Blocks until bytes arrive or `wake` rings. */
void worker_pipes_await(const struct lr_waker *wake);

/* The next whole frame, borrowed until the next call of fill.  Bytes that are not frames are a
 * defect of the node and end this process. */
bool worker_pipes_next(struct worker_pipes *pipes, struct wire_frame *out);

/* Sends and clears buf. */
void worker_pipes_send(struct worker_pipes *pipes, struct lr_buf *buf);

#endif
