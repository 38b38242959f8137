/* bench/base/bench_base.c - how fast base parses JSON and hashes.
 *
 * Usage: bench_base [FILE.json...]
 * Without files it generates two: a chat request of 20 KB and a vocabulary with
 * merges, indented, of about 27 MB.  Figures are CPU time, median of RUNS: other work on
 * the machine then changes them little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"

enum { RUNS = 15, SMALL = 1 << 20, SMALL_REPEATS = 200, HASHED_BYTES = 256 << 20 };

static double cpu_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times)
{
    qsort(times, RUNS, sizeof(*times), by_value);
    return times[RUNS / 2];
}

static const struct lr_json *parse(struct lr_arena *arena, struct lr_str text)
{
    const struct lr_json *value;
    struct lr_error err;
    lr_arena_init(arena, (size_t)1 << 31);
    if (lr_json_parse(arena, text, NULL, &value, &err) != LR_OK) {
        (void)fprintf(stderr, "bench_base: %s\n", err.text);
        exit(1);
    }
    return value;
}

static void measure_json(const char *name, struct lr_str text)
{
    int repeats = text.len < SMALL ? SMALL_REPEATS : 1;
    double parsing[RUNS], writing[RUNS];
    size_t used = 0;
    for (int run = 0; run < RUNS; run++) {
        struct lr_arena arena;
        double start = cpu_ms();
        for (int i = 0; i < repeats; i++) {
            (void)parse(&arena, text);
            used = arena.used;
            lr_arena_free(&arena);
        }
        parsing[run] = (cpu_ms() - start) / repeats;

        const struct lr_json *value = parse(&arena, text);
        start = cpu_ms();
        for (int i = 0; i < repeats; i++) {
            struct lr_buf buf;
            struct lr_json_writer w;
            lr_buf_init(&buf, text.len * 6);
            lr_json_writer_init(&w, &buf);
            lr_json_put_value(&w, value);
            lr_buf_free(&buf);
        }
        writing[run] = (cpu_ms() - start) / repeats;
        lr_arena_free(&arena);
    }
    double ms = median(parsing);
    printf("json %s: %zu bytes, parse %.4f ms (%.0f MB/s), arena %zu bytes, write %.4f ms\n",
           name, text.len, ms, (double)text.len / ms / 1e3, used, median(writing));
}

static void make_chat(struct lr_buf *out)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "model", "openai/gpt-oss-20b");
    lr_json_member_double(&w, "temperature", 0.7);
    lr_json_key(&w, "messages");
    lr_json_begin_array(&w);
    while (out->len < 20000) {
        lr_json_begin_object(&w);
        lr_json_member_z(&w, "role", out->len % 2 == 0 ? "user" : "assistant");
        lr_json_member_z(&w, "content",
                         "Write a function that returns the \"longest\" common prefix.\n"
                         "It must not allocate, and it must handle \xE6\x97\xA5\xE6\x9C\xAC"
                         "\xE8\xAA\x9E and caf\xC3\xA9 alike.  Then explain the cost.\n");
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}

/* The shape of a tokenizer.json: 200,000 names with numbers, 446,000 pairs. */
static void make_vocabulary(struct lr_buf *out)
{
    lr_buf_add_z(out, "{\n  \"model\": {\n    \"vocab\": {\n");
    for (int i = 0; i < 200000; i++)
        lr_buf_addf(out, "      \"%s%xq\": %d,\n", i % 3 == 0 ? "\xC4\xA0" : "", i * 7919, i);
    lr_buf_add_z(out, "      \"end\": 200000\n    },\n    \"merges\": [\n");
    for (int i = 0; i < 446000; i++)
        lr_buf_addf(out, "      [\n        \"%s%x\",\n        \"%x\"\n      ],\n",
                    i % 3 == 0 ? "\xC4\xA0" : "", i * 31 % 65536, i % 251);
    lr_buf_add_z(out, "      []\n    ]\n  }\n}\n");
}

static void measure_sha256(bool plain)
{
    unsigned char *bytes = calloc(1, HASHED_BYTES), digest[LR_SHA256_LEN];
    struct lr_sha256 h;
    if (bytes == NULL)
        exit(1);
    lr_sha256_init(&h);
    h.plain = plain;
    double start = cpu_ms();
    lr_sha256_add(&h, bytes, HASHED_BYTES);
    lr_sha256_end(&h, digest);
    double ms = cpu_ms() - start;
    printf("sha256 %s: %.2f GB/s\n", plain ? "in plain C" : "as the CPU allows",
           HASHED_BYTES / ms / 1e6);
    free(bytes);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct lr_file_map map;
        struct lr_error err;
        if (lr_file_map(argv[i], &map, &err) != LR_OK) {
            (void)fprintf(stderr, "bench_base: %s\n", err.text);
            return 1;
        }
        measure_json(lr_path_base(argv[i]), lr_str((const char *)map.data, map.len));
        lr_file_unmap(&map);
    }
    if (argc == 1) {
        struct lr_buf text;
        lr_buf_init(&text, 64 << 20);
        make_chat(&text);
        measure_json("chat request", lr_buf_str(&text));
        lr_buf_clear(&text);
        make_vocabulary(&text);
        measure_json("vocabulary", lr_buf_str(&text));
        lr_buf_free(&text);
    }
    measure_sha256(false);
    measure_sha256(true);
    return 0;
}
