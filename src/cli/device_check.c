/* cli/device_check.c - does a device compute what the processor computes? */
#include "cli/device_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/os/fd.h"
#include "base/subprocess.h"
#include "cli/demo.h"

enum {
    IDS = 40, /* the path for prompts and, in pieces of 4, the path for single tokens */
    LOGITS_BYTES = 64 << 20,
    WORDS_BYTES = 64 << 10,
    WORDS_MS = 1000,
};
static const double ERROR_MOST = 1e-3;

struct question {
    char self[LR_PATH_MAX], model[LR_PATH_MAX];
    const char *engines_dir; /* NULL: the installed one */
    char ids[8 * IDS];
    int limit_ms;   /* for each answer */
    char name[200]; /* what the engine calls the device; "": it did not say */
};

/* True: the child has closed its output, and `out` holds all of it. */
static bool device_check_read_all(int fd, struct lr_buf *out, uint64_t until_ms)
{
    char piece[16 << 10];
    for (uint64_t now; (now = lr_clock_ms(NULL)) < until_ms;) {
        int can = lr_fd_wait(fd, LR_FD_READABLE, (int)(until_ms - now));
        ssize_t n = can == 1 ? read(fd, piece, sizeof(piece)) : 0;
        if (n > 0)
            lr_buf_add(out, piece, (size_t)n);
        else if (can != 0)
            return true;
    }
    return false;
}

/* Lines of the engine name the device; the first other line is the complaint. */
static void read_words(const struct lr_buf *words, char *name, size_t name_size,
                       char *complaint, size_t size)
{
    static const char device[] = "device=\"";
    struct lr_str rest = lr_buf_str(words), line;
    complaint[0] = '\0';
    while (lr_str_split(&rest, '\n', &line)) {
        char text[1000];
        (void)snprintf(text, sizeof(text), LR_STR_FMT, LR_STR_ARG(line));
        bool is_log = strstr(text, ".open ") != NULL;
        const char *title = is_log ? strstr(text, device) : NULL;
        if (title != NULL) {
            title += sizeof(device) - 1;
            (void)snprintf(name, name_size, "%.*s", (int)strcspn(title, "\""), title);
        } else if (!is_log && complaint[0] == '\0') {
            (void)snprintf(complaint, size, "%s", text);
        }
    }
}

static lr_code device_check_await(struct lr_subprocess *child, struct question *q,
                                  const char *device, struct lr_buf *out, struct lr_error *err)
{
    uint64_t began = lr_clock_ms(NULL), until_ms = began + (uint64_t)q->limit_ms;
    char complaint[1000], how[LR_EXIT_TEXT_LEN];
    struct lr_buf words;
    bool is_done = device_check_read_all(child->out, out, until_ms);
    uint64_t now = lr_clock_ms(NULL);

    is_done = is_done && lr_subprocess_wait(child, now < until_ms ? (int)(until_ms - now) : 0);
    if (!is_done)
        return lr_fail(err, LR_UNAVAILABLE,
                       "%.100s gave no result within %d s: the GPU or its driver hangs, or it "
                       "needs more time (--device-timeout)",
                       device, q->limit_ms / 1000);
    lr_buf_init(&words, WORDS_BYTES);
    (void)device_check_read_all(child->err, &words, now + WORDS_MS);
    read_words(&words, q->name, sizeof(q->name), complaint, sizeof(complaint));
    lr_buf_free(&words);
    if (child->status == 0 && !out->failed)
        return LR_OK;
    return lr_fail(err, LR_UNAVAILABLE, "%s",
                   complaint[0] != '\0' ? complaint : lr_exit_text(child->status, how));
}

static lr_code device_check_ask(struct question *q, const char *device, const char *chunk,
                                struct lr_buf *out, struct lr_error *err)
{
    const char *argv[] = {q->self,  "debug",         "logits",       "--model",
                          q->model, "--device",      device,         "--chunk",
                          chunk,    "--engines-dir", q->engines_dir, NULL};
    const struct lr_spawn spawn = {.argv = argv,
                                   .in = LR_STDIO_PIPE,
                                   .out = LR_STDIO_PIPE,
                                   .err = LR_STDIO_PIPE,
                                   .dies_with_parent = true};
    struct lr_subprocess child = {0};

    if (q->engines_dir == NULL)
        argv[9] = NULL;
    lr_buf_clear(out);
    lr_code code = lr_subprocess_start(&spawn, &child, err);
    if (code != LR_OK)
        return code;
    (void)!write(child.in, q->ids, strlen(q->ids)); /* less than a pipe holds */
    (void)close(child.in);
    child.in = -1;
    code = device_check_await(&child, q, device, out, err);
    lr_subprocess_close(&child);
    return code;
}

static double difference(const struct lr_buf *a, const struct lr_buf *b)
{
    double sum = 0, norm = 0;
    for (size_t i = 0; i + sizeof(float) <= a->len; i += sizeof(float)) {
        float x, y;
        memcpy(&x, a->data + i, sizeof(x));
        memcpy(&y, b->data + i, sizeof(y));
        sum += ((double)x - (double)y) * ((double)x - (double)y);
        norm += (double)y * (double)y;
    }
    return sqrt(sum / norm);
}

static lr_code device_check_compare(struct question *q, const char *device, double *worst,
                                    struct lr_error *err)
{
    static const char *const chunks[] = {"0", "4"};
    struct lr_buf expected, got;
    *worst = 0;
    lr_buf_init(&expected, LOGITS_BYTES);
    lr_buf_init(&got, LOGITS_BYTES);
    lr_code code = device_check_ask(q, "cpu", "0", &expected, err);
    for (size_t i = 0; i < 2 && code == LR_OK; i++) {
        code = device_check_ask(q, device, chunks[i], &got, err);
        if (code == LR_OK && (got.len != expected.len || got.len == 0))
            code = lr_fail(err, LR_UNAVAILABLE, "%zu bytes of logits instead of %zu", got.len,
                           expected.len);
        double d = code == LR_OK ? difference(&got, &expected) : 0;
        *worst = d > *worst || isnan(d) ? d : *worst;
    }
    lr_buf_free(&expected);
    lr_buf_free(&got);
    return code;
}

void cli_check_device(struct cli_checks *c, const char *device, const char *engines_dir,
                      int limit_ms)
{
    struct question q = {.engines_dir = engines_dir, .ids = "[1", .limit_ms = limit_ms};
    struct lr_error err = {0};
    char text[600], advice[800];
    double worst = 0;
    uint64_t began = lr_clock_ms(NULL);

    for (int i = 2; i <= IDS; i++)
        (void)snprintf(q.ids + strlen(q.ids), sizeof(q.ids) - strlen(q.ids), ", %d", i);
    (void)snprintf(q.ids + strlen(q.ids), sizeof(q.ids) - strlen(q.ids), "]");
    lr_code code = lr_self_path(q.self, sizeof(q.self), &err);
    if (code == LR_OK && !cli_find_demo(q.self, q.model))
        code = lr_fail(&err, LR_NOT_FOUND, "the demo model is not installed");
    if (code == LR_OK)
        code = device_check_compare(&q, device, &worst, &err);
    int n = snprintf(text, sizeof(text),
                     "%.100s%s%s%s computes the demo model as the processor does", device,
                     q.name[0] != '\0' ? " (" : "", q.name, q.name[0] != '\0' ? ")" : "");
    if (code == LR_OK && n > 0)
        (void)snprintf(text + n, sizeof(text) - (size_t)n, " (relative error %.1e, %.1f s)",
                       worst, (double)(lr_clock_ms(NULL) - began) / 1000);
    if (code != LR_OK)
        (void)snprintf(advice, sizeof(advice), "%.500s", err.text);
    else
        (void)snprintf(advice, sizeof(advice),
                       "the error must be below %.0e: do not use this device; please report "
                       "this line with the GPU's name and the version of system and driver",
                       ERROR_MOST);
    cli_check(c, code == LR_OK && worst <= ERROR_MOST, text, advice);
}
