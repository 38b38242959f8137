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
    LIMIT_MS = 120000,
};
static const double ERROR_MOST = 1e-3;

struct question {
    char self[LR_PATH_MAX], model[LR_PATH_MAX];
    const char *engines_dir; /* NULL: the installed one */
    char ids[8 * IDS];
};

static lr_code ask(const struct question *q, const char *device, const char *chunk,
                   struct lr_buf *out, struct lr_error *err)
{
    const char *argv[] = {q->self,  "debug",         "logits",       "--model",
                          q->model, "--device",      device,         "--chunk",
                          chunk,    "--engines-dir", q->engines_dir, NULL};
    char words[1000] = "", how[LR_EXIT_TEXT_LEN];
    const struct lr_spawn spawn = {.argv = argv,
                                   .in = LR_STDIO_PIPE,
                                   .out = LR_STDIO_PIPE,
                                   .err = LR_STDIO_PIPE,
                                   .dies_with_parent = true};
    struct lr_subprocess child = {0};
    char piece[16 << 10];
    ssize_t n;

    if (q->engines_dir == NULL)
        argv[9] = NULL;
    lr_buf_clear(out);
    lr_code code = lr_subprocess_start(&spawn, &child, err);
    if (code != LR_OK)
        return code;
    (void)!write(child.in, q->ids, strlen(q->ids)); /* less than a pipe holds */
    (void)close(child.in);
    child.in = -1;
    while ((n = read(child.out, piece, sizeof(piece))) > 0)
        lr_buf_add(out, piece, (size_t)n);
    n = read(child.err, words, sizeof(words) - 1);
    words[n > 0 ? n : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (!lr_subprocess_wait(&child, LIMIT_MS) || child.status != 0 || out->failed)
        code = lr_fail(err, LR_UNAVAILABLE, "%s",
                       words[0] != '\0' ? words : lr_exit_text(child.status, how));
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

static lr_code compare(const struct question *q, const char *device, double *worst,
                       struct lr_error *err)
{
    static const char *const chunks[] = {"0", "4"};
    struct lr_buf expected, got;
    *worst = 0;
    lr_buf_init(&expected, LOGITS_BYTES);
    lr_buf_init(&got, LOGITS_BYTES);
    lr_code code = ask(q, "cpu", "0", &expected, err);
    for (size_t i = 0; i < 2 && code == LR_OK; i++) {
        code = ask(q, device, chunks[i], &got, err);
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

void cli_check_device(struct cli_checks *c, const char *device, const char *engines_dir)
{
    struct question q = {.engines_dir = engines_dir, .ids = "[1"};
    struct lr_error err = {0};
    char text[300], advice[800];
    double worst = 0;
    uint64_t began = lr_clock_ms(NULL);

    for (int i = 2; i <= IDS; i++)
        (void)snprintf(q.ids + strlen(q.ids), sizeof(q.ids) - strlen(q.ids), ", %d", i);
    (void)snprintf(q.ids + strlen(q.ids), sizeof(q.ids) - strlen(q.ids), "]");
    lr_code code = lr_self_path(q.self, sizeof(q.self), &err);
    if (code == LR_OK && !cli_find_demo(q.self, q.model))
        code = lr_fail(&err, LR_NOT_FOUND, "the demo model is not installed");
    if (code == LR_OK)
        code = compare(&q, device, &worst, &err);
    int n = snprintf(text, sizeof(text), "%.100s computes the demo model as the processor does",
                     device);
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
