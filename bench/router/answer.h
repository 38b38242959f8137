/* bench/router/answer.h - reads one HTTP answer to a chat request, whole or streamed, and
 * checks it: a wrong answer must never count as a fast one.  It understands Content-Length and
 * chunks, and only the JSON that our servers write.
 */
#ifndef BENCH_ROUTER_ANSWER_H
#define BENCH_ROUTER_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANSWER_HEAD_MAX = 2048, ANSWER_LINE_MAX = 2048, ANSWER_TEXT_MAX = 512 };

/* The expected answer. */
struct answer_expected {
    const char *text; /* the whole content; NULL: tokens that say their time */
    uint64_t tokens;  /* that say their time; 0: any number */
    bool is_stream;
};

struct answer {
    const struct answer_expected *expected;
    /* Called for each content event that says a time; may be NULL. */
    void (*on_time)(void *arg, uint64_t said_ns);
    void (*on_first)(void *arg); /* the first content event */
    void *arg;
    char head[ANSWER_HEAD_MAX];
    size_t head_len;
    bool head_done;
    bool is_chunked;
    bool keeps_alive;
    int status;
    bool has_retry_after;
    size_t left; /* of the body, or of the chunk */
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER } chunk;
    unsigned chunk_line;        /* bytes of the present size or trailer line */
    char line[ANSWER_LINE_MAX]; /* of an event stream, or the whole body */
    size_t line_len;
    char text[ANSWER_TEXT_MAX];
    size_t text_len;
    uint64_t times;     /* events that said one */
    uint64_t last_said; /* ns */
    bool has_finish, has_done, is_wrong;
};

void answer_begin(struct answer *a, const struct answer_expected *expected);

/* Takes a piece; true when the answer is complete.  Bytes beyond it are an error. */
bool answer_take(struct answer *a, const char *bytes, size_t len);

/* After the end: 200 and exactly what was expected. */
bool answer_is_right(const struct answer *a);

#endif
