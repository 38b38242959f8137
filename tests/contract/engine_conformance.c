/* tests/contract/engine_conformance.c - the conformance runner.
 *
 *   engine_conformance LIBRARY [--model DIR] [--device NAME] [--options JSON]
 *                      [--not-invariant] [--only CHECK]
 *
 * Prints one line per check and exits with 1 if any failed.  Without --model the
 * engine is opened with an empty folder name, which only engines without weights take.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/contract/conformance.h"

static const struct {
    const char *name;
    void (*fn)(struct run *run);
    bool is_for_all; /* false: the check needs a model that generates text */
} checks[] = {
    {"exactly one symbol is exported", check_one_symbol, true},
    {"the table is complete", check_library, true},
    {"probe says what a model needs", check_probe, true},
    {"a wrong model is refused with a reason", check_wrong_model, true},
    {"a truncated model is refused", check_truncated, true},
    {"an allotment that is too small is refused", check_limits, true},
    {"a load can be cancelled", check_giving_up, true},
    {"opening and closing leaves nothing behind", check_reopening, false},
    {"a request ends once and its usage is right", check_generate, false},
    {"max_tokens is exact", check_length, false},
    {"the same request gives the same tokens", check_repeatable, false},
    {"generated[] continues as one run would", check_continuation, false},
    {"two requests at once do not disturb each other", check_two_at_once, false},
    {"cancel works at every stage", check_cancel, false},
    {"a storm of requests and cancels leaves no page", check_storm, false},
    {"constrained output keeps to its masks, or is refused", check_constrained, false},
    {"a request without its mask sits out, and the others go on", check_slow_masks, false},
    {"closing while busy is quiet", check_close_busy, false},
    {"bad requests are refused", check_bad_requests, false},
    {"a smaller request struct is understood", check_old_host, false},
    {"log probabilities are sane", check_logprobs, false},
    {"the vocabulary is bounded", check_vocab, true},
    {"control tokens need trust in every byte", check_control_tokens, false},
    {"reports of steps add up to the statistics", check_step_reports, false},
    {"KV memory is given back without a loss", check_kv_limit, false},
    {"embeddings have length 1, or are refused", check_embeddings, true},
    {"scores lie in 0 to 1, or are refused", check_reranking, true},
    {"a smaller host struct is understood", check_smaller_host, false},
};

void conformance_fail(struct run *run, const char *condition, const char *fmt, ...)
{
    va_list args;
    run->failures++;
    (void)fprintf(run->report, "    not kept: %s: ", condition);
    va_start(args, fmt);
    (void)vfprintf(run->report, fmt, args);
    va_end(args);
    (void)fprintf(run->report, "\n");
}

/* ---- the host ---- */

static void on_log(void *ctx, int32_t level, const char *event, const char *text)
{
    struct run *run = ctx;
    EXPECT(run, level >= 0 && level <= 3 && event != NULL && text != NULL, "log(%d)", level);
}

static int32_t on_progress(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct run *run = ctx;
    EXPECT(run, phase != NULL && phase[0] != '\0', "progress without a phase");
    EXPECT(run, total == 0 || done <= total, "progress %llu of %llu", (unsigned long long)done,
           (unsigned long long)total);
    run->progress_calls++;
    return run->give_up_at != 0 && run->progress_calls >= run->give_up_at;
}

struct seen *conformance_seen(struct run *run, uint64_t id)
{
    for (uint32_t i = 0; i < run->seen_count; i++)
        if (run->seen[i].id == id)
            return &run->seen[i];
    if (run->seen_count == REQUESTS_MAX)
        abort();
    struct seen *s = &run->seen[run->seen_count++];
    memset(s, 0, sizeof(*s));
    s->id = id;
    return s;
}

void conformance_forget(struct run *run)
{
    run->seen_count = 0;
}

static struct seen *callback_for(struct run *run, uint64_t id)
{
    struct seen *s = conformance_seen(run, id);
    run->late_callbacks += run->is_closed;
    run->reports.too_late += run->reports.of_step;
    s->after_done += s->done_count != 0;
    return s;
}

static lr_code on_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words)
{
    struct run *run = ctx;
    struct seen *s = callback_for(run, id);
    uint32_t legal = conformance_legal(s->token_count);
    s->masks_late += s->masks++ != s->token_count;
    EXPECT(run, words == ((size_t)run->need.vocab_size + 31) / 32, "a mask of %zu words",
           words);
    mask[legal >> 5] |= 1u << (legal & 31);
    return LR_OK;
}

static lr_code on_try_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words, int32_t *ready)
{
    struct run *run = ctx;
    struct seen *s = callback_for(run, id);
    *ready = id != run->slow_masks || s->sat_out >= 2 * (s->token_count + 1);
    if (*ready)
        return on_mask(ctx, id, mask, words);
    s->masks_late += s->masks != s->token_count;
    s->sat_out++;
    return LR_OK;
}

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct run *run = ctx;
    struct seen *s = callback_for(run, id);
    if (s->token_count < TOKENS_MAX)
        s->tokens[s->token_count++] = token->id;
    for (uint32_t i = 0; i < token->top_count; i++)
        s->bad_logprobs += !(token->top[i].logprob <= 0.0f) ||
                           (i != 0 && token->top[i].logprob > token->top[i - 1].logprob);
    s->bad_logprobs += !(token->logprob <= 0.0f);
    EXPECT(run, token->size >= sizeof(uint32_t) * 2, "token without a size");
    EXPECT(run, token->len == 0 || token->bytes != NULL, "token without bytes");
}

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    struct run *run = ctx;
    struct seen *s = callback_for(run, id);
    s->done_count++;
    s->reason = reason;
    if (usage != NULL)
        s->usage = *usage;
    if (error != NULL)
        s->error = *error;
    EXPECT(run, usage != NULL, "on_done without usage");
}

static void on_enter(void *ctx, const uint64_t *ids, size_t count)
{
    struct run *run = ctx;
    for (size_t i = 0; i < count; i++) {
        struct seen *s = callback_for(run, ids[i]);
        EXPECT(run, s->entered == 0 && s->token_count == 0 && s->prefill_done == 0,
               "on_enter for a request that was part of a step already");
        s->entered++;
    }
    run->reports_entries = true;
}

static void on_prefill(void *ctx, uint64_t id, uint32_t done, uint32_t total)
{
    struct seen *s = callback_for(ctx, id);
    EXPECT((struct run *)ctx, done <= total && done >= s->prefill_done, "prefill %u of %u",
           done, total);
    s->prefill_done = done;
    s->prefill_total = total;
}

static void on_vector(void *ctx, uint64_t id, const struct lr_vector *vector)
{
    struct run *run = ctx;
    struct seen *s = callback_for(run, id);
    s->vectors++;
    s->vector_count = vector->count < VECTOR_MAX ? vector->count : VECTOR_MAX;
    EXPECT(run, vector->size >= sizeof(*vector), "vector without a size");
    memcpy(s->vector, vector->values, s->vector_count * sizeof(float));
}

static void on_step(void *ctx, const struct lr_step_report *report)
{
    struct run *run = ctx;
    struct reports *r = &run->reports;
    run->late_callbacks += run->is_closed;
    EXPECT(run, report->size >= sizeof(*report), "report without a size");
    EXPECT(run, report->sequences != 0, "report of a step in which no request took part");
    EXPECT(run, report->kv_bytes_in_use <= report->kv_bytes, "%llu of %llu bytes in use",
           (unsigned long long)report->kv_bytes_in_use, (unsigned long long)report->kv_bytes);
    EXPECT(run, ++r->of_step == 1, "%u reports of one step", r->of_step);
    r->count++;
    r->prompt_tokens += report->prompt_tokens;
    r->generated_tokens += report->generated_tokens;
}

/* ---- helpers ---- */

lr_code conformance_step(struct run *run, struct lr_engine_model *model, int32_t *busy,
                         struct lr_error *err)
{
    lr_code code = run->api->step(model, busy, err);
    run->reports.of_step = 0;
    return code;
}

struct lr_engine_options conformance_options(const struct run *run)
{
    return (struct lr_engine_options){
        .size = sizeof(struct lr_engine_options),
        .devices = &run->device,
        .device_count = 1,
        .max_sequences = 4,
        .max_context = 512,
        .prefill_chunk = 8,
        .threads = 2,
        .extra_json = run->extra_json,
    };
}

struct lr_engine_model *conformance_open(struct run *run)
{
    struct lr_engine_options options = conformance_options(run);
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    run->is_closed = false;
    run->progress_calls = 0;
    conformance_forget(run);
    lr_code code = run->api->open(&run->host, run->model_dir, &options, &model, &err);
    EXPECT(run, code == LR_OK && model != NULL, "open: %d %s", code, err.text);
    return model;
}

void conformance_close(struct run *run, struct lr_engine_model *model)
{
    run->is_closed = true;
    run->api->close(model);
    EXPECT(run, run->late_callbacks == 0, "%u callbacks after close", run->late_callbacks);
}

struct lr_engine_request conformance_request(uint64_t id, const struct lr_segment *segment,
                                             uint32_t max_tokens)
{
    return (struct lr_engine_request){
        .size = sizeof(struct lr_engine_request),
        .id = id,
        .segments = segment,
        .segment_count = 1,
        .max_tokens = max_tokens,
        .sampling = {.size = sizeof(struct lr_sampling),
                     .temperature = 0.0f,
                     .top_p = 1.0f,
                     .repetition_penalty = 1.0f,
                     .seed = 7},
    };
}

bool conformance_drain(struct run *run, struct lr_engine_model *model, uint32_t limit)
{
    struct lr_error err = {0};
    int32_t busy = 1;
    for (uint32_t i = 0; busy != 0 && i < limit; i++) {
        lr_code code = conformance_step(run, model, &busy, &err);
        if (code != LR_OK) {
            EXPECT(run, code == LR_OK, "step: %d %s", code, err.text);
            return false;
        }
    }
    EXPECT(run, busy == 0, "still busy after %u steps", limit);
    return busy == 0;
}

struct seen *conformance_complete(struct run *run, struct lr_engine_model *model,
                                  const struct lr_engine_request *request)
{
    struct lr_error err = {0};
    struct seen *s = conformance_seen(run, request->id);
    memset(s, 0, sizeof(*s));
    s->id = request->id;
    lr_code code = run->api->submit(model, request, &err);
    EXPECT(run, code == LR_OK, "submit: %d %s", code, err.text);
    if (code == LR_OK)
        (void)conformance_drain(run, model, 100000);
    EXPECT(run, s->done_count == 1, "on_done came %u times", s->done_count);
    EXPECT(run, !run->reports_entries || s->token_count == 0 || s->entered == 1,
           "tokens without on_enter");
    EXPECT(run, s->after_done == 0, "%u callbacks after on_done", s->after_done);
    return s;
}

void conformance_expect_idle(struct run *run, const struct lr_engine_model *model)
{
    struct lr_engine_stats stats = {.size = sizeof(stats)};
    run->api->stats(model, &stats);
    EXPECT(run, stats.sequences == 0, "%u sequences are left", stats.sequences);
    EXPECT(run, stats.kv_bytes_in_use == 0, "%llu bytes of KV cache are left",
           (unsigned long long)stats.kv_bytes_in_use);
    EXPECT(run, stats.pages_in_use == 0, "%llu pages are left",
           (unsigned long long)stats.pages_in_use);
}

/* ---- main ---- */

static bool parse_args(struct run *run, int argc, char **argv, const char **only)
{
    run->is_invariant = true;
    run->device = "cpu";
    run->model_dir = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--not-invariant") == 0)
            run->is_invariant = false;
        else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            run->model_dir = argv[++i];
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            run->device = argv[++i];
        else if (strcmp(argv[i], "--options") == 0 && i + 1 < argc)
            run->extra_json = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            *only = argv[++i];
        else if (run->library == NULL && argv[i][0] != '-')
            run->library = argv[i];
        else
            return false;
    }
    return run->library != NULL;
}

static bool load(struct run *run)
{
    void *handle = dlopen(run->library, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle != NULL ? dlsym(handle, "lr_engine_entry") : NULL;
    const struct lr_engine_api *(*entry)(void);
    if (symbol == NULL) {
        (void)fprintf(run->report, "%s: %s\n", run->library, dlerror());
        return false;
    }
    memcpy(&entry, &symbol, sizeof(entry));
    run->api = entry();
    return run->api != NULL;
}

/* From here on descriptors 1 and 2 are the plugin's. */
static int capture(struct run *run)
{
    char name[] = "/tmp/lr-conformance-XXXXXX";
    int file = mkstemp(name);
    (void)unlink(name);
    run->report = fdopen(dup(1), "w");
    (void)setvbuf(run->report, NULL, _IOLBF, 0);
    (void)dup2(file, 1);
    (void)dup2(file, 2);
    return file;
}

static void check_silence(struct run *run, int file)
{
    struct stat info;
    (void)fflush(stdout);
    (void)fflush(stderr);
    if (fstat(file, &info) == 0 && info.st_size != 0) {
        char text[200] = "";
        (void)!pread(file, text, sizeof(text) - 1, 0);
        EXPECT(run, info.st_size == 0, "the plugin wrote: %s", text);
        (void)!ftruncate(file, 0);
        (void)lseek(file, 0, SEEK_SET);
    }
}

int main(int argc, char **argv)
{
    static struct run run;
    const char *only = NULL;
    if (!parse_args(&run, argc, argv, &only)) {
        (void)fprintf(stderr, "usage: engine_conformance LIBRARY [--model DIR] [--device NAME]"
                              " [--options JSON] [--not-invariant] [--only CHECK]\n");
        return 2;
    }
    int file = capture(&run);
    run.host = (struct lr_engine_host){
        .size = sizeof(run.host),
        .ctx = &run,
        .log = on_log,
        .progress = on_progress,
        .on_token = on_token,
        .fill_mask = on_mask,
        .try_mask = on_try_mask,
        .on_done = on_done,
        .on_prefill = on_prefill,
        .on_enter = on_enter,
        .on_vector = on_vector,
        .on_step = on_step,
    };
    if (!load(&run))
        return 1;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (only != NULL && strstr(checks[i].name, only) == NULL)
            continue;
        bool generates = run.need.requests == 0 || (run.need.requests & 1) != 0;
        if (!generates && !checks[i].is_for_all)
            continue;
        unsigned before = run.failures;
        run.check = checks[i].name;
        run.late_callbacks = 0;
        run.give_up_at = 0;
        checks[i].fn(&run);
        check_silence(&run, file);
        run.checks++;
        (void)fprintf(run.report, "%s %s\n", run.failures == before ? "ok    " : "FAILED",
                      checks[i].name);
    }
    (void)fprintf(run.report, "%u checks, %u promises not kept\n", run.checks, run.failures);
    return run.failures != 0 || run.checks == 0;
}
