/* cli/bench_engine.c - `bench engine`: how fast an engine prefills and decodes on this machine.
 *
 * For every prompt length and batch size, that many requests with random prompts are submitted
 * at once, and this command runs a worker's loop.
 *
 *   prefill  prompt tokens of all requests / time until each has its first token
 *   first    time until all requests have their first token
 *   decode   tokens of all requests after their first / time from there to the end
 *   opened   time until the model could take requests, measured once
 *
 * Each figure is the median over --repeat runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/os/cpu.h"
#include "cli/bench_memory.h"
#include "cli/commands.h"
#include "cli/engine_tool.h"
#include "model/shape.h"

enum { OUTPUT_MAX = 1 << 20, MOST_REPEATS = 101, MOST_BATCH = 1024 };

struct run {
    uint32_t wanted; /* requests */
    uint32_t first;  /* requests that have their first token */
    uint32_t done;
    uint64_t tokens;
    uint64_t start_ns, first_ns, all_first_ns, end_ns;
    uint32_t count[MOST_BATCH];
    double device_memory; /* bytes per second, as reported by the engine */
    struct lr_error error;
};

struct figures {
    double prefill[MOST_REPEATS], decode[MOST_REPEATS], first_ms[MOST_REPEATS];
};

static void bench_engine_on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct run *r = ctx;

    (void)token;
    r->tokens++;
    if (r->count[id]++ != 0)
        return;
    uint64_t now = lr_clock_ns(NULL);
    if (r->first++ == 0)
        r->first_ns = now;
    if (r->first == r->wanted)
        r->all_first_ns = now;
}

static void bench_engine_on_done(void *ctx, uint64_t id, enum lr_finish reason,
                                 const struct lr_usage *usage, const struct lr_error *error)
{
    struct run *r = ctx;

    (void)id;
    (void)usage;
    r->done++;
    r->end_ns = lr_clock_ns(NULL);
    if (reason == LR_FINISH_ERROR && error != NULL)
        r->error = *error;
}

static void bench_engine_on_log(void *ctx, int32_t level, const char *event, const char *text)
{
    struct run *r = ctx;
    static const char member[] = "read_bytes_per_s=";

    if (strcmp(event, "cuda.memory") == 0 && strncmp(text, member, sizeof(member) - 1) == 0)
        r->device_memory = strtod(text + sizeof(member) - 1, NULL);
    cli_engine_log(ctx, level, event, text);
}

/* Ids that differ between requests and runs, so that no prefix cache contains the prompt. */
static void make_prompt(uint32_t *ids, size_t count, uint32_t vocab, uint64_t seed)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;

    for (size_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        ids[i] = (uint32_t)(x >> 33) % vocab;
    }
}

static lr_code run_once(struct cli_engine *engine, const struct lr_settings *settings,
                        struct run *r, uint32_t *ids, size_t prompt, uint32_t batch,
                        uint64_t seed, struct lr_error *err)
{
    lr_code code = LR_OK;
    int32_t busy = 1;

    *r = (struct run){.wanted = batch, .start_ns = lr_clock_ns(NULL)};
    for (uint32_t i = 0; code == LR_OK && i < batch; i++) {
        make_prompt(ids, prompt, engine->need.vocab_size, seed + i);
        const struct lr_engine_request request = {
            .size = sizeof(request),
            .id = i,
            .prompt_ids = ids,
            .prompt_id_count = prompt,
            .sampling = {.size = sizeof(struct lr_sampling),
                         .temperature = (float)lr_settings_float(settings, "temperature"),
                         .top_p = (float)lr_settings_float(settings, "top-p"),
                         .seed = seed + i},
            .max_tokens = (uint32_t)lr_settings_int(settings, "generate"),
            .ignore_stop = 1,
        };
        code = engine->api->submit(engine->model, &request, err);
    }
    while (code == LR_OK && busy)
        code = engine->api->step(engine->model, &busy, err);
    if (code == LR_OK && (r->error.code != LR_OK || r->done != batch))
        return lr_fail(err, LR_INTERNAL, "%u of %u requests ended: %s", r->done, batch,
                       r->error.text);
    return code;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct bench {
    const struct lr_settings *settings;
    struct cli_engine engine;
    struct run *run;
    struct lr_json_writer json;
    struct model_config config; /* layers 0: not gpt-oss, sizes unknown */
    double memory;              /* bytes per second; 0: not known */
    bool is_json;
    double open_s; /* seconds until the model was open */
};

/* Bytes that a step must read, with the mean context of a run. */
static double step_bytes(const struct bench *b, uint64_t prompt, uint64_t batch)
{
    double half = (double)lr_settings_int(b->settings, "generate") / 2;

    return b->config.layers == 0
               ? 0
               : model_step_bytes(&b->config, (uint32_t)batch, (double)prompt + half);
}

static void report(struct bench *b, uint64_t prompt, uint64_t batch, struct figures *f,
                   size_t repeats)
{
    double prefill = median(f->prefill, repeats), decode = median(f->decode, repeats);
    double first = median(f->first_ms, repeats);
    double bytes = step_bytes(b, prompt, batch);
    double share = b->memory > 0 ? decode / (double)batch * bytes / b->memory : 0;

    if (!b->is_json) {
        printf(
            "prompt %6llu batch %4llu  prefill %9.1f tok/s  first %9.1f ms  decode %9.2f tok/s",
            (unsigned long long)prompt, (unsigned long long)batch, prefill, first, decode);
        if (share > 0)
            printf("  %.0f %% of memory", share * 100);
        printf("\n");
        fflush(stdout);
        return;
    }
    lr_json_begin_object(&b->json);
    lr_json_member_u64(&b->json, "prompt", prompt);
    lr_json_member_u64(&b->json, "batch", batch);
    lr_json_member_double(&b->json, "prefill_tokens_per_s", prefill);
    lr_json_member_double(&b->json, "first_token_ms", first);
    lr_json_member_double(&b->json, "decode_tokens_per_s", decode);
    if (bytes > 0)
        lr_json_member_double(&b->json, "decode_bytes_per_step", bytes);
    if (share > 0)
        lr_json_member_double(&b->json, "decode_share_of_memory", share);
    lr_json_end_object(&b->json);
}

static lr_code bench_engine_measure(struct bench *b, uint32_t prompt, uint32_t batch,
                                    struct lr_error *err)
{
    uint32_t generate = (uint32_t)lr_settings_int(b->settings, "generate");
    size_t repeats = (size_t)lr_settings_int(b->settings, "repeat");
    struct run *r = b->run;
    struct figures f;
    uint32_t *ids = calloc(prompt, sizeof(*ids));
    lr_code code = LR_OK;

    if (ids == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a prompt of %u", prompt);
    for (size_t i = 0; code == LR_OK && i < repeats; i++) {
        code = run_once(&b->engine, b->settings, r, ids, prompt, batch, i * 1000003, err);
        double fill = (double)(r->all_first_ns - r->start_ns) / 1e9;
        double rest = (double)(r->end_ns - r->all_first_ns) / 1e9;
        f.prefill[i] = fill > 0 ? (double)prompt * batch / fill : 0;
        f.first_ms[i] = (double)(r->first_ns - r->start_ns) / 1e6;
        f.decode[i] = generate > 1 && rest > 0 ? (double)(generate - 1) * batch / rest : 0;
    }
    if (code == LR_OK)
        report(b, prompt, batch, &f, repeats);
    free(ids);
    return code;
}

static lr_code number_at(const struct lr_settings *s, const char *name, size_t i, uint32_t most,
                         uint32_t *out, struct lr_error *err)
{
    const char *text = lr_settings_list_item(s, name, i);
    uint64_t value;

    if (!lr_str_u64(lr_str_z(text), &value) || value == 0 || value > most)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--%s %s: whole numbers from 1 to %u", name,
                       text, most);
    *out = (uint32_t)value;
    return LR_OK;
}

static lr_code measure_all(struct bench *b, struct lr_error *err)
{
    lr_code code = LR_OK;

    for (size_t i = 0; i < lr_settings_list_count(b->settings, "prompt"); i++)
        for (size_t j = 0; j < lr_settings_list_count(b->settings, "batch"); j++) {
            uint32_t prompt = 0, batch = 0;
            code = number_at(b->settings, "prompt", i, 1 << 24, &prompt, err);
            if (code == LR_OK)
                code = number_at(b->settings, "batch", j, MOST_BATCH, &batch, err);
            if (code == LR_OK)
                code = bench_engine_measure(b, prompt, batch, err);
            if (code != LR_OK)
                return code;
        }
    return code;
}

static void bench_engine_describe(struct bench *b)
{
    struct lr_engine_stats st = {.size = sizeof(st)};
    double token_bytes = b->config.layers == 0 ? 0 : model_step_bytes(&b->config, 1, 0);

    b->engine.api->stats(b->engine.model, &st);
    if (!b->is_json) {
        printf("weights %llu, KV %llu, workspace %llu, fixed %llu bytes; %.0f bytes a token; "
               "memory reads at %.1f GB/s; opened in %.2f s\n",
               (unsigned long long)st.weights_bytes, (unsigned long long)st.kv_bytes,
               (unsigned long long)st.workspace_bytes, (unsigned long long)st.fixed_bytes,
               token_bytes, b->memory / 1e9, b->open_s);
        return;
    }
    lr_json_member_z(&b->json, "device", lr_settings_str(b->settings, "device"));
    lr_json_member_u64(&b->json, "weights_bytes", st.weights_bytes);
    lr_json_member_u64(&b->json, "kv_bytes", st.kv_bytes);
    lr_json_member_u64(&b->json, "workspace_bytes", st.workspace_bytes);
    lr_json_member_u64(&b->json, "fixed_bytes", st.fixed_bytes);
    lr_json_member_u64(&b->json, "kv_bytes_per_token", b->engine.need.kv_per_token);
    lr_json_member_double(&b->json, "weight_bytes_per_token", token_bytes);
    lr_json_member_double(&b->json, "open_s", b->open_s);
    if (b->memory > 0)
        lr_json_member_double(&b->json, "memory_bytes_per_s", b->memory);
}

/* The largest batch and its tokens, so that no request waits for pages. */
static void size_of(const struct lr_settings *s, uint32_t *sequences, uint64_t *tokens)
{
    uint64_t longest = 0, widest = 1, n;

    for (size_t i = 0; i < lr_settings_list_count(s, "prompt"); i++)
        if (lr_str_u64(lr_str_z(lr_settings_list_item(s, "prompt", i)), &n) && n > longest)
            longest = n;
    for (size_t i = 0; i < lr_settings_list_count(s, "batch"); i++)
        if (lr_str_u64(lr_str_z(lr_settings_list_item(s, "batch", i)), &n) && n > widest)
            widest = n;
    widest = widest > MOST_BATCH ? MOST_BATCH : widest;
    *sequences = (uint32_t)widest;
    *tokens = widest * (longest + (uint64_t)lr_settings_int(s, "generate") + 64);
}

/* Opens --model, or a model shape with random weights on the GPU. */
static lr_code open_engine(struct bench *b, const struct lr_engine_host *host,
                           struct lr_error *err)
{
    const struct lr_settings *s = b->settings;
    const char *dir = lr_settings_str(s, "model"), *shape = lr_settings_str(s, "shape");
    const char *id = lr_settings_str(s, "engine");
    bool random = lr_settings_bool(s, "random");
    bool ours = id == NULL || strcmp(id, "gptoss") == 0;
    char extra[96];
    uint32_t sequences;
    uint64_t tokens;
    lr_code code = LR_OK;

    size_of(s, &sequences, &tokens);
    if (random != (shape != NULL) || (random && dir != NULL))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "--shape and --random go together and take the place of --model");
    if (!random) {
        if (dir != NULL && model_config_read(dir, &b->config, NULL) != LR_OK)
            b->config.layers = 0;
        snprintf(extra, sizeof(extra), "{\"measure_memory\":true}");
    } else {
        code = model_shape_config(shape, &b->config, err);
        dir = "random weights"; /* no such folder: the model has no tokenizer */
        snprintf(extra, sizeof(extra), "{\"random_shape\":\"%.8s\",\"measure_memory\":true}",
                 shape);
    }
    return code == LR_OK ? cli_engine_open_extra(s, host, dir, ours ? extra : NULL, sequences,
                                                 tokens, &b->engine, err)
                         : code;
}

static lr_code bench_engine_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct run *r = calloc(1, sizeof(*r));
    struct bench b = {.settings = settings, .run = r};
    const struct lr_engine_host host = {
        .size = sizeof(host),
        .ctx = r,
        .log = bench_engine_on_log,
        .on_token = bench_engine_on_token,
        .on_done = bench_engine_on_done,
    };
    struct lr_buf text;

    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the bench");
    b.is_json = lr_settings_bool(settings, "json");
    lr_buf_init(&text, OUTPUT_MAX);
    lr_json_writer_init(&b.json, &text);
    uint64_t start = lr_clock_ns(NULL);
    lr_code code = open_engine(&b, &host, err);
    b.open_s = (double)(lr_clock_ns(NULL) - start) / 1e9;
    if (code == LR_OK) {
        int64_t cores = lr_cpu_online();
        int64_t threads = lr_settings_int(settings, "threads");
        b.memory = b.engine.need.on_device
                       ? r->device_memory
                       : cli_bench_memory((uint32_t)(threads > 0 ? threads : cores));
        lr_json_begin_object(&b.json);
        bench_engine_describe(&b);
        lr_json_member_array(&b.json, "runs");
        code = measure_all(&b, err);
        lr_json_end_array(&b.json);
        lr_json_end_object(&b.json);
        lr_buf_add_char(&text, '\n');
    }
    if (code == LR_OK && b.is_json)
        code = cli_print(&text, err);
    cli_engine_close(&b.engine);
    lr_buf_free(&text);
    free(r);
    return code;
}

static const struct lr_setting flags[] = {
    CLI_ENGINE_FLAGS,
    {.name = "shape",
     .type = LR_SETTING_STRING,
     .value = "NAME",
     .help = "20b or 120b, with --random: use a gpt-oss of that size instead of --model"},
    {.name = "random",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "generate random weights in GPU memory; no file is read"},
    {.name = "prompt",
     .type = LR_SETTING_LIST,
     .fallback = "64",
     .help = "lengths of the prompts, in tokens"},
    {.name = "batch",
     .type = LR_SETTING_LIST,
     .fallback = "1",
     .help = "requests that run at the same time"},
    {.name = "generate",
     .type = LR_SETTING_INT,
     .fallback = "64",
     .min = 1,
     .max = 1 << 20,
     .help = "tokens that each request generates"},
    {.name = "temperature",
     .type = LR_SETTING_FLOAT,
     .fallback = "0",
     .max = 2,
     .help = "sampling temperature; 0: always the most likely token"},
    {.name = "top-p",
     .type = LR_SETTING_FLOAT,
     .fallback = "1",
     .max = 1,
     .help = "top-p of sampling; 1: off"},
    {.name = "repeat",
     .type = LR_SETTING_INT,
     .fallback = "3",
     .min = 1,
     .max = MOST_REPEATS,
     .help = "number of runs; the median is printed"},
    {.name = "json",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print one JSON object"},
};

static const struct cli_command bench_engine = {
    .name = "engine",
    .summary = "Measure prefill, decode and time to first token of an engine",
    .details =
        "Prompts are random token ids, so the answers are meaningless and only the times "
        "count.\n"
        "The same run measures the bandwidth of the device's memory.  The share of memory is\n"
        "the number of bytes that a decoding step must read (the weights once, the experts\n"
        "expected to be chosen, the visible keys and values), divided by the number of bytes\n"
        "that the memory could deliver in the measured time.\n"
        "  llm-router bench engine --model DIR --prompt 64,512 --batch 1,8 --json\n"
        "  llm-router bench engine --shape 20b --random --device cuda --batch 1,8,64",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = bench_engine_run,
};

static struct cli_table bench_tools(void)
{
    static const struct cli_command *const rows[] = {&bench_engine};
    return (struct cli_table){rows, sizeof(rows) / sizeof(rows[0])};
}

const struct cli_command cli_command_bench = {
    .name = "bench",
    .summary = "Measure how fast this machine runs a model",
    .arguments = "TOOL ...",
    .tools = bench_tools,
};
