/* cli/bench_engine.c - `bench engine`: how fast an engine prefills and decodes here.
 *
 * For every prompt length and batch size: that many requests with made-up prompts are
 * submitted at once, and the loop of a worker is run by hand.
 *   prefill  prompt tokens of all requests / time until each has its first token
 *   first    time until the first token of all
 *   decode   tokens of all requests after their first / time from there to the end
 * Each figure is the median over --repeat runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/bench_memory.h"
#include "cli/commands.h"
#include "cli/engine_tool.h"
#include "model/gptoss.h"

enum { OUTPUT_MAX = 1 << 20, MOST_REPEATS = 101, MOST_BATCH = 1024 };

struct run {
    uint32_t wanted; /* requests */
    uint32_t first;  /* requests that have their first token */
    uint32_t done;
    uint64_t tokens;
    uint64_t start_ns, first_ns, all_first_ns, end_ns;
    uint32_t count[MOST_BATCH];
    struct lr_error error;
};

struct figures {
    double prefill[MOST_REPEATS], decode[MOST_REPEATS], first_ms[MOST_REPEATS];
};

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
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

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    struct run *r = ctx;

    (void)id;
    (void)usage;
    r->done++;
    r->end_ns = lr_clock_ns(NULL);
    if (reason == LR_FINISH_ERROR && error != NULL)
        r->error = *error;
}

/* Ids that differ between requests and runs, from a small generator: prompts that no
 * cache has seen. */
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

static lr_code run_once(struct cli_engine *engine, struct run *r, uint32_t *ids, size_t prompt,
                        uint32_t batch, uint32_t generate, uint64_t seed, struct lr_error *err)
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
            .sampling = {.size = sizeof(struct lr_sampling), .top_p = 1.0f},
            .max_tokens = generate,
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

/* Weight bytes that one token at batch 1 reads: all but the unchosen experts and the
 * embedding table.  0 for a model that is no gpt-oss. */
static uint64_t bytes_per_token(const char *dir)
{
    struct model_config c;

    if (model_config_read(dir, &c, NULL) != LR_OK)
        return 0;
    uint64_t up = 2ull * c.intermediate, down = c.hidden;
    uint64_t expert =
        up * (c.hidden / 32 * 17ull + 2) + down * (c.intermediate / 32 * 17ull + 2);
    uint64_t idle = (uint64_t)c.layers * (c.experts - c.experts_per_token) * expert;
    uint64_t embed = (uint64_t)(c.vocab - 1) * c.hidden * 2;
    return model_gptoss_weight_bytes(&c) - idle - embed;
}

struct bench {
    const struct lr_settings *settings;
    struct cli_engine engine;
    struct run *run;
    struct lr_json_writer json;
    uint64_t token_bytes;
    double memory; /* bytes per second */
    bool is_json;
};

static void report(struct bench *b, uint64_t prompt, uint64_t batch, struct figures *f,
                   size_t repeats)
{
    double prefill = median(f->prefill, repeats), decode = median(f->decode, repeats);
    double first = median(f->first_ms, repeats);
    double share =
        batch == 1 && b->memory > 0 ? decode * (double)b->token_bytes / b->memory : 0;

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
    if (share > 0)
        lr_json_member_double(&b->json, "decode_share_of_memory", share);
    lr_json_end_object(&b->json);
}

static lr_code measure(struct bench *b, uint32_t prompt, uint32_t batch, struct lr_error *err)
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
        code = run_once(&b->engine, r, ids, prompt, batch, generate, i * 1000003, err);
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
                code = measure(b, prompt, batch, err);
            if (code != LR_OK)
                return code;
        }
    return code;
}

static void describe(struct bench *b)
{
    struct lr_engine_stats st = {.size = sizeof(st)};

    b->engine.api->stats(b->engine.model, &st);
    if (!b->is_json) {
        printf("weights %llu, KV %llu, workspace %llu, fixed %llu bytes; %llu bytes a token; "
               "memory reads at %.1f GB/s\n",
               (unsigned long long)st.weights_bytes, (unsigned long long)st.kv_bytes,
               (unsigned long long)st.workspace_bytes, (unsigned long long)st.fixed_bytes,
               (unsigned long long)b->token_bytes, b->memory / 1e9);
        return;
    }
    lr_json_member_z(&b->json, "device", lr_settings_str(b->settings, "device"));
    lr_json_member_u64(&b->json, "weights_bytes", st.weights_bytes);
    lr_json_member_u64(&b->json, "kv_bytes", st.kv_bytes);
    lr_json_member_u64(&b->json, "workspace_bytes", st.workspace_bytes);
    lr_json_member_u64(&b->json, "fixed_bytes", st.fixed_bytes);
    lr_json_member_u64(&b->json, "kv_bytes_per_token", b->engine.need.kv_per_token);
    lr_json_member_u64(&b->json, "weight_bytes_per_token", b->token_bytes);
    if (b->memory > 0)
        lr_json_member_double(&b->json, "memory_bytes_per_s", b->memory);
}

/* The largest batch and the tokens it needs, so that nothing waits for pages. */
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

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    struct run *r = calloc(1, sizeof(*r));
    struct bench b = {.settings = settings, .run = r};
    const struct lr_engine_host host = {
        .size = sizeof(host),
        .ctx = r,
        .log = cli_engine_log,
        .on_token = on_token,
        .on_done = on_done,
    };
    struct lr_buf text;
    uint32_t sequences;
    uint64_t tokens;

    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the bench");
    b.is_json = lr_settings_bool(settings, "json");
    lr_buf_init(&text, OUTPUT_MAX);
    lr_json_writer_init(&b.json, &text);
    size_of(settings, &sequences, &tokens);
    lr_code code = cli_engine_open(settings, &host, sequences, tokens, &b.engine, err);
    if (code == LR_OK) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        int64_t threads = lr_settings_int(settings, "threads");
        if (!b.engine.need.on_device)
            b.memory = cli_bench_memory((uint32_t)(threads > 0 ? threads : cores));
        b.token_bytes = bytes_per_token(lr_settings_str(settings, "model"));
        lr_json_begin_object(&b.json);
        describe(&b);
        lr_json_key(&b.json, "runs");
        lr_json_begin_array(&b.json);
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
    {.name = "prompt",
     .type = LR_SETTING_LIST,
     .fallback = "64",
     .help = "lengths of the prompts, in tokens"},
    {.name = "batch", .type = LR_SETTING_LIST, .fallback = "1", .help = "requests at one time"},
    {.name = "generate",
     .type = LR_SETTING_INT,
     .fallback = "64",
     .min = 1,
     .max = 1 << 20,
     .help = "tokens each request generates"},
    {.name = "repeat",
     .type = LR_SETTING_INT,
     .fallback = "3",
     .min = 1,
     .max = MOST_REPEATS,
     .help = "runs of which the median is given"},
    {.name = "json",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "write one JSON object"},
};

static const struct cli_command bench_engine = {
    .name = "engine",
    .summary = "Measure prefill, decode and time to first token of an engine",
    .details =
        "Prompts are random ids; the answers mean nothing, the times do.  On the CPU the\n"
        "machine's memory is measured in the same run, and decoding alone is given as a\n"
        "share of it.\n"
        "  llm-router bench engine --model DIR --prompt 64,512 --batch 1,8 --json",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
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
