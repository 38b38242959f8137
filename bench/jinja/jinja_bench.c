/* bench/jinja/jinja_bench.c - the time to render a prompt of 400 KB.
 *
 * Usage: jinja_bench [TEMPLATE].  Without TEMPLATE, the official gpt-oss template if it is
 * next to the source, else a small template of the tests.  Prints one line per conversation:
 * median and best of CPU milliseconds, of the template and of the built-in Harmony.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "chat/harmony/template.h"
#include "chat/template/repair.h"
#include "jinja/jinja.h"

enum { ROUNDS = 51, WANTED_BYTES = 400 * 1024 };

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add_text(struct lr_buf *out, const char *line, size_t bytes)
{
    for (size_t end = out->len + bytes; out->len < end;)
        lr_buf_add_z(out, line);
}

/* `turns` turns of a user; with tools, each has a call, its result, and maybe an answer. */
static void make_input(struct lr_buf *out, int turns, bool tools, bool answers)
{
    size_t part = (size_t)(WANTED_BYTES / turns / (tools ? 2 + answers : 1 + answers));
    lr_buf_add_z(out, "{\"add_generation_prompt\":true,\"messages\":[{\"role\":\"system\","
                      "\"content\":\"You are careful.\"}");
    for (int i = 0; i < turns; i++) {
        lr_buf_add_z(out, ",{\"role\":\"user\",\"content\":\"");
        add_text(out, "please look at the file and tell me what it does, line by line. ", part);
        lr_buf_add_z(out, "\"}");
        if (tools) {
            lr_buf_addf(out,
                        ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
                        "\"c%d\",\"type\":\"function\",\"function\":{\"name\":\"read_file\","
                        "\"arguments\":{\"path\":\"src/file%d.c\"}}}]},{\"role\":\"tool\","
                        "\"tool_call_id\":\"c%d\",\"content\":\"",
                        i, i, i);
            add_text(out, "int value = compute(\\\"x\\\");\\n", part);
            lr_buf_add_z(out, "\"}");
        }
        if (answers) {
            lr_buf_add_z(out, ",{\"role\":\"assistant\",\"content\":\"");
            add_text(out, "It computes a value and keeps it. ", part);
            lr_buf_add_z(out, "\"}");
        }
    }
    lr_buf_add_z(out, "]}");
}

static double measure(const struct jinja_template *tmpl, const struct lr_json *context,
                      double *best, size_t *bytes)
{
    double values[ROUNDS];
    struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 15};
    for (int i = 0; i < ROUNDS; i++) {
        struct jinja_input input = {.context = context, .now = &now};
        struct jinja_output out;
        struct lr_error err = {0};
        double start = now_ms();
        lr_code rc = tmpl != NULL ? jinja_render(tmpl, &input, &out, &err)
                                  : chat_harmony_render(context, &now, &out, &err);
        values[i] = now_ms() - start;
        if (rc != LR_OK) {
            (void)fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        *bytes = out.text.len;
        jinja_output_free(&out);
    }
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    *best = values[0];
    return values[ROUNDS / 2];
}

static void run(const char *name, const struct jinja_template *tmpl, int turns, bool tools,
                bool answers)
{
    struct lr_buf text;
    struct lr_arena arena;
    const struct lr_json *context;
    double best, own_best;
    size_t bytes;
    lr_buf_init(&text, 8 << 20);
    lr_arena_init(&arena, 64 << 20);
    make_input(&text, turns, tools, answers);
    if (lr_json_parse(&arena, lr_buf_str(&text), NULL, &context, NULL) != LR_OK)
        exit(1);
    double median = measure(tmpl, context, &best, &bytes);
    double own = measure(NULL, context, &own_best, &bytes);
    printf("%-36s template median %7.3f best %7.3f ms   built in %7.3f best %7.3f ms   %zu "
           "bytes\n",
           name, median, best, own, own_best, bytes);
    lr_arena_free(&arena);
    lr_buf_free(&text);
}

int main(int argc, char **argv)
{
    const char *path =
        argc > 1 ? argv[1] : LR_SOURCE_DIR "/../shared/templates/openai-gpt-oss-120b.jinja";
    struct jinja_template *tmpl;
    struct lr_error err = {0};
    struct lr_arena arena;
    struct lr_str source;
    lr_arena_init(&arena, 1 << 20);
    if (!lr_file_exists(path))
        path = LR_SOURCE_DIR "/tests/fixtures/templates/tools.jinja";
    double start = now_ms();
    if (lr_file_read(&arena, path, JINJA_MAX_SOURCE, &source, &err) != LR_OK ||
        jinja_compile(source, &tmpl, &err) != LR_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s: %zu bytes, compiled in %.3f ms (wanted for 400 KB: 2 ms)\n", path, source.len,
           now_ms() - start);
    run("1 message", tmpl, 1, false, false);
    run("100 turns", tmpl, 100, false, true);
    run("1000 turns", tmpl, 1000, false, true);
    run("40 turns with a tool call", tmpl, 40, true, true);
    run("150 turns with a tool call", tmpl, 150, true, true);
    run("150 tool calls, no answer yet", tmpl, 150, true, false);
    jinja_template_destroy(tmpl);
    lr_arena_free(&arena);
    return 0;
}
