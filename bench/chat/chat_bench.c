/* bench/chat/chat_bench.c - how fast the chat layer is on one core.
 *
 * Prints one line per figure: name, median, best, unit.  bench/results/ has its
 * results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/harmony/parser.h"
#include "chat/prompt.h"
#include "chat/response.h"

enum { ROUNDS = 31, ANSWERS = 400 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double *values, const char *unit, double limit)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    printf("%-34s median %10.3f  best %10.3f  %s (wanted %g)\n", name, values[ROUNDS / 2],
           unit[0] == 'm' ? values[0] : values[ROUNDS - 1], unit, limit);
}

/* ---- requests ---- */

/* A conversation of about 400 KB: agent turns with tool calls, some escapes. */
static void make_body(struct lr_buf *body)
{
    lr_buf_add_z(body, "{\"model\":\"openai/gpt-oss-20b\",\"temperature\":0.7,\"stream\":true,"
                       "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read_file\","
                       "\"description\":\"Read\",\"parameters\":{\"type\":\"object\","
                       "\"properties\":{\"path\":{\"type\":\"string\"}}}}}],\"messages\":["
                       "{\"role\":\"system\",\"content\":\"You are a careful assistant.\"}");
    for (int i = 0; body->len < 400 * 1024; i++) {
        lr_buf_addf(body, ",{\"role\":\"user\",\"content\":\"Question %d: ", i);
        for (int k = 0; k < 12; k++)
            lr_buf_add_z(body,
                         "please look at the file and tell me what it does, line by line. ");
        lr_buf_addf(
            body,
            "\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c%d\","
            "\"type\":\"function\",\"function\":{\"name\":\"read_file\",\"arguments\":"
            "\"{\\\"path\\\":\\\"src/file%d.c\\\"}\"}}]}",
            i, i);
        lr_buf_addf(body, ",{\"role\":\"tool\",\"tool_call_id\":\"c%d\",\"content\":\"", i);
        for (int k = 0; k < 40; k++)
            lr_buf_addf(body, "int value_%d = compute(\\\"%d\\\");\\n", k, i);
        lr_buf_add_z(body, "\"}");
    }
    lr_buf_add_z(body, "]}");
}

/* The same conversation to prompt segments, by the default template. */
static void bench_prompt(struct lr_str body)
{
    double ms[ROUNDS];
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    struct lr_error err;
    struct chat_model model = {
        .dialect = chat_dialect_of((struct lr_str){0}, LR_STR_LIT("GptOssForCausalLM"))};

    lr_arena_init(&arena, 64 << 20);
    if (chat_request_parse(&arena, &chat_openai_chat, body, &req, &e) != LR_OK)
        exit(1);
    for (int i = 0; i < ROUNDS; i++) {
        struct chat_prompt prompt;
        double start = now_s();
        lr_code code = chat_prompt_render(req, &model, 0, 1794744000, &prompt, &err);
        ms[i] = (now_s() - start) * 1e3;
        chat_prompt_free(&prompt);
        if (code != LR_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
    }
    report("repair and default Harmony prompt", ms, "ms", 2);
    lr_arena_free(&arena);
}

static void bench_request(void)
{
    struct lr_buf body;
    double ms[ROUNDS];
    lr_buf_init(&body, 4 << 20);
    make_body(&body);
    for (int i = 0; i < ROUNDS; i++) {
        struct lr_arena arena;
        const struct chat_request *req;
        struct chat_error e;
        double start = now_s();
        lr_arena_init(&arena, 64 << 20);
        lr_code code =
            chat_request_parse(&arena, &chat_openai_chat, lr_buf_str(&body), &req, &e);
        lr_arena_free(&arena);
        ms[i] = (now_s() - start) * 1e3;
        if (code != LR_OK) {
            fprintf(stderr, "%s\n", e.error.text);
            exit(1);
        }
    }
    printf("request of %zu bytes\n", body.len);
    report("parse and validate", ms, "ms", 2);
    bench_prompt(lr_buf_str(&body));
    lr_buf_free(&body);
}

/* ---- answers ---- */

struct token {
    const char *text;
    bool special;
};

static const struct token head[] = {
    {"<|channel|>", true}, {"analysis", false}, {"<|message|>", true}};
static const struct token middle[] = {{"<|end|>", true},    {"<|start|>", true},
                                      {"assistant", false}, {"<|channel|>", true},
                                      {"final", false},     {"<|message|>", true}};
static const char *const words[] = {
    " the", " answer", " is", " \"42\"", ",\n", " because", " \xE6\x97\xA5\xE6\x9C\xAC",
    " of",  " it",     "."};

/* One answer of about 240 tokens. */
static size_t make_answer(struct wire_token *out)
{
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        out[n++] =
            (struct wire_token){.bytes = lr_str_z(head[i].text), .special = head[i].special};
    for (size_t i = 0; i < 100; i++)
        out[n++] = (struct wire_token){.bytes = lr_str_z(words[i % 10])};
    for (size_t i = 0; i < 6; i++)
        out[n++] = (struct wire_token){.bytes = lr_str_z(middle[i].text),
                                       .special = middle[i].special};
    for (size_t i = 0; i < 130; i++)
        out[n++] = (struct wire_token){.bytes = lr_str_z(words[i % 10])};
    out[n++] = (struct wire_token){.bytes = LR_STR_LIT("<|return|>"), .special = true};
    return n;
}

static void count_delta(void *ctx, const struct chat_delta *delta)
{
    *(size_t *)ctx += delta->text.len;
}

static void bench_parser(const struct wire_token *tokens, size_t count)
{
    double rate[ROUNDS];
    size_t bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_s();
        for (int k = 0; k < ANSWERS; k++) {
            struct chat_harmony h;
            chat_harmony_init(&h, NULL, count_delta, &bytes);
            for (size_t t = 0; t < count; t++)
                chat_harmony_token(&h, tokens[t].bytes, tokens[t].special);
            chat_harmony_end(&h);
        }
        rate[i] = (double)count * ANSWERS / (now_s() - start) * 1e-6;
    }
    report("Harmony parser", rate, "M tokens/s", 1);
}

static void bench_response(const char *name, const char *body, const struct wire_token *tokens,
                           size_t count)
{
    double rate[ROUNDS];
    struct lr_arena arena;
    struct lr_buf out;
    const struct chat_request *req;
    struct chat_error e;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&out, 16 << 20);
    if (chat_request_parse(&arena, &chat_openai_chat, lr_str_z(body), &req, &e) != LR_OK)
        exit(1);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_s();
        for (int k = 0; k < ANSWERS; k++) {
            struct chat_response *r;
            struct chat_dialect dialect =
                chat_dialect_of((struct lr_str){0}, LR_STR_LIT("GptOssForCausalLM"));
            struct chat_response_options o = {.request = req,
                                              .id = LR_STR_LIT("chatcmpl-0123456789abcdef"),
                                              .system_fingerprint = LR_STR_LIT("fp_0123456"),
                                              .created = 1763000000,
                                              .dialect = &dialect};
            struct chat_usage usage = {1000, (uint32_t)count, 0};
            if (chat_response_create(&o, &r, NULL) != LR_OK)
                exit(1);
            for (size_t t = 0; t < count; t++) {
                chat_response_on_token(r, 0, &tokens[t], &out);
                lr_buf_clear(&out); /* the caller sends it at once */
            }
            chat_response_on_done(r, 0, LR_FINISH_STOP, &usage, &out);
            lr_buf_clear(&out);
            chat_response_destroy(r);
        }
        rate[i] = (double)count * ANSWERS / (now_s() - start) * 1e-6;
    }
    report(name, rate, "M tokens/s", 1);
    lr_buf_free(&out);
    lr_arena_free(&arena);
}

int main(void)
{
    static struct wire_token tokens[256];
    size_t count = make_answer(tokens);

    bench_request();
    printf("answers of %zu tokens\n", count);
    bench_parser(tokens, count);
#define BODY "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]"
    bench_response("Harmony to SSE chunks", BODY ",\"stream\":true}", tokens, count);
    bench_response("the same with 4 stop strings",
                   BODY ",\"stream\":true,\"stop\":[\"\\n\\n\",\"STOP\",\"the end\",\"###\"]}",
                   tokens, count);
    bench_response("Harmony to one body", BODY "}", tokens, count);
    return 0;
}
