/* bench/tokenizer/bench_tokenizer.c - how fast a tokenizer opens and encodes.
 *
 * Usage: bench_tokenizer TOKENIZER.json TEXT [REPEAT [PART]]
 * With PART only the prose, in calls of so many bytes.
 * TEXT is a file of prose, repeated or cut to 10 MB.  It also measures texts that are hard
 * for a tokenizer: one letter, blanks, combining marks, random bytes, random letters.  Each
 * figure is the median of REPEAT runs (5) in CPU time of one thread, so that a busy machine
 * does not count; the ratio is to the prose.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

enum { TEXT_BYTES = 10 * 1000 * 1000, REPEAT_MAX = 99 };

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), by_value);
    return times[count / 2];
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t part = TEXT_BYTES;

static double measure(const struct tokenizer *t, const char *name, const char *text, int repeat,
                      double prose)
{
    double times[REPEAT_MAX];
    struct lr_error err;
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, TOKENIZER_MAX_TEXT);
    for (int i = 0; i < repeat; i++) {
        ids.count = 0;
        double start = now();
        for (size_t at = 0; at < TEXT_BYTES; at += part) {
            size_t len = TEXT_BYTES - at < part ? TEXT_BYTES - at : part;
            if (tokenizer_encode(t, lr_str(text + at, len), false, &ids, &err) != LR_OK) {
                fprintf(stderr, "%s: %s\n", name, err.text);
                exit(1);
            }
        }
        times[i] = now() - start;
    }
    double seconds = median(times, repeat);
    printf("%-16s %8.1f ms %8.1f MB/s %9zu tokens %8.2f x\n", name, seconds * 1e3,
           TEXT_BYTES / 1e6 / seconds, ids.count, prose > 0 ? seconds / prose : 1.0);
    tokenizer_ids_free(&ids);
    return seconds;
}

static void fill(char *text, int kind)
{
    static const char pair[] = "ab";
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        uint64_t r = next_random(&state) >> 24;
        switch (kind) {
        case 0:
            text[i] = 'a';
            break;
        case 1:
            text[i] = ' ';
            break;
        case 2:
            text[i] = (char)r;
            break;
        case 3:
            text[i] = (char)('a' + r % 26);
            break;
        case 4: /* U+0301 and U+0316, whose canonical order is the other one */
            text[i] = "\xCC\x81\xCC\x96"[i % 4];
            break;
        default:
            text[i] = pair[i % 2];
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"one letter",     "blanks", "random bytes",
                                        "random letters", "marks",  "two letters"};
    int repeat = argc > 3 ? atoi(argv[3]) : 5;
    int bytes = argc > 4 ? atoi(argv[4]) : TEXT_BYTES;
    part = bytes > 0 ? (size_t)bytes : TEXT_BYTES;
    if (argc < 3 || repeat < 1 || repeat > REPEAT_MAX) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER.json TEXT [REPEAT [PART]]\n");
        return 2;
    }
    struct lr_error err;
    struct lr_buf prose;
    struct tokenizer *t = NULL;
    double times[REPEAT_MAX];
    lr_buf_init(&prose, (size_t)1 << 30);
    if (lr_file_read_buf(argv[2], &prose, &err) != LR_OK || prose.len == 0) {
        fprintf(stderr, "%s: %s\n", argv[2], prose.len == 0 ? "empty" : err.text);
        return 1;
    }
    for (int i = 0; i < repeat; i++) {
        double start = now();
        tokenizer_free(t);
        if (tokenizer_open_file(argv[1], &t, &err) != LR_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        times[i] = now() - start;
    }
    printf("%-16s %8.1f ms, %.1f MB held\n", "open", median(times, repeat) * 1e3,
           (double)tokenizer_memory(t) / 1e6);
    char *text = malloc(TEXT_BYTES);
    if (text == NULL)
        return 1;
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = prose.data[i % prose.len];
    double seconds = measure(t, "prose", text, repeat, 0);
    for (int kind = 0; kind < 6 && part == TEXT_BYTES; kind++) {
        fill(text, kind);
        (void)measure(t, names[kind], text, repeat, seconds);
    }
    free(text);
    tokenizer_free(t);
    lr_buf_free(&prose);
    return 0;
}
