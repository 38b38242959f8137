/* engines/testing/engine.c - the engine's table and a model's life: probe, open, close. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/file.h"
#include "engines/testing/testing.h"

#ifndef LR_TESTING_ABI
#define LR_TESTING_ABI LR_ENGINE_ABI
#endif

static const struct lr_engine_facts *describe(void)
{
    static const char *const runtimes[] = {LR_TESTING_ID, NULL};
    static const char *const formats[] = {"safetensors", NULL};
    static const char *const architectures[] = {"EchoForTesting", NULL};
    static const char *const backends[] = {"cpu", NULL};
    static const struct lr_engine_facts facts = {
        .size = sizeof(facts),
        .id = LR_TESTING_ID,
        .version = LR_TESTING_VERSION,
        .runtimes = runtimes,
        .formats = formats,
        .architectures = architectures,
        .backends = backends,
    };
    return &facts;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static void size_model(struct lr_engine_model *m, const struct lr_engine_options *options)
{
    m->max_sequences = or_default(options->max_sequences, 64);
    m->max_context = or_default(options->max_context, 32768);
    m->prefill_chunk = or_default(options->prefill_chunk, 512);
    uint64_t tokens = options->max_tokens != 0 ? options->max_tokens
                                               : (uint64_t)m->max_sequences * m->max_context;
    m->pages_limit = m->pages_total = (tokens + TESTING_PAGE - 1) / TESTING_PAGE;
}

/* Used by probe() and open(), which must report the same need. */
static void fill_need(const struct lr_engine_model *m, uint64_t limit,
                      struct lr_engine_need *need)
{
    struct lr_engine_need n = {
        .size = sizeof(n),
        .on_device = m->options.on_device,
        .weights = m->options.weights_bytes,
        .kv_per_token = TESTING_KV_BYTES,
        .workspace = 4096,
        .fixed = 4096,
        .kv = 4096, /* no real KV cache exists; pages are only counted */
        .max_context = m->max_context,
        .max_sequences = m->max_sequences,
        .vocab_size = TESTING_VOCAB,
        .requests =
            1u << LR_REQUEST_GENERATE | 1u << LR_REQUEST_EMBED | 1u << LR_REQUEST_RERANK,
        .dimensions = TESTING_DIMENSIONS,
        .ram = m->options.on_device ? m->options.ram_bytes : 0,
    };
    n.total = n.weights + n.workspace + n.fixed + n.kv;
    if (m->options.fill && limit > n.total) {
        n.kv += limit - n.total;
        n.total = limit;
    }
    uint32_t size = need->size < sizeof(n) ? need->size : (uint32_t)sizeof(n);
    n.size = need->size;
    memcpy(need, &n, size);
}

static uint64_t limit_of(const struct lr_engine_model *m,
                         const struct lr_engine_options *options)
{
    bool is_device = m->options.on_device && options->vram_limit != 0;
    return is_device ? options->vram_limit : options->ram_limit;
}

static lr_code check_limits(const struct lr_engine_model *m,
                            const struct lr_engine_options *options, struct lr_error *err)
{
    struct lr_engine_need need = {.size = sizeof(need)};
    uint64_t limit = limit_of(m, options);
    fill_need(m, limit, &need);
    if (limit == 0 || need.total <= limit)
        return LR_OK;
    return lr_fail(err, m->options.on_device ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM,
                   "the model needs %llu bytes, its allotment is %llu",
                   (unsigned long long)need.total, (unsigned long long)limit);
}

static lr_code check_device(const struct testing_options *o,
                            const struct lr_engine_options *options, struct lr_error *err)
{
    if (o->refuses[0] == '\0' || options->device_count == 0 ||
        strcmp(options->devices[0], o->refuses) != 0)
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED, "%s is too old", options->devices[0]);
}

static lr_code probe(const char *model_dir, const struct lr_engine_options *options,
                     struct lr_engine_need *need, struct lr_error *err)
{
    struct lr_engine_model m = {0};
    lr_code code = testing_options_read(&m.options, model_dir, options->extra_json, err);
    if (code == LR_OK)
        code = check_device(&m.options, options, err);
    if (code == LR_OK)
        code = testing_artifact_check(options->artifact_path, false, err);
    if (code == LR_OK)
        code = testing_fault(&m.options, TESTING_PROBE, err);
    if (code != LR_OK)
        return code;
    size_model(&m, options);
    fill_need(&m, limit_of(&m, options), need);
    return m.options.fill ? check_limits(&m, options, err) : LR_OK;
}

lr_code testing_artifact_check(const char *path, bool whole, struct lr_error *err)
{
    static const char magic[] = "ARTIFACT";
    char head[sizeof(magic)] = "";
    FILE *file = path != NULL ? lr_fopen(path, "rbe") : NULL;
    if (path == NULL)
        return LR_OK;
    size_t got = file != NULL ? fread(head, 1, sizeof(magic) - 1, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    size_t len = whole ? sizeof(magic) - 1 : 3;
    return got >= len && memcmp(head, magic, len) == 0
               ? LR_OK
               : lr_fail(err, LR_MODEL_CORRUPT, "%s is no artifact of this engine", path);
}

static lr_code load(struct lr_engine_model *m, struct lr_error *err)
{
    enum { SLICE_MS = 10 };
    const struct testing_options *o = &m->options;
    uint64_t slices = o->load_ms / SLICE_MS;

    lr_code code = testing_fault(o, TESTING_LOAD, err);
    if (code != LR_OK)
        return code;
    for (uint64_t i = 0; i <= slices; i++) {
        if (m->host->progress(m->host->ctx, "read", i + 1, slices + 1) != 0)
            return lr_fail(err, LR_CANCELLED, "loading was cancelled");
        if (i < slices)
            testing_sleep_ms(SLICE_MS);
    }
    testing_sleep_ms(o->load_silent_ms);
    if (o->use_bytes != 0) {
        m->memory = malloc((size_t)o->use_bytes);
        if (m->memory == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for %llu bytes",
                           (unsigned long long)o->use_bytes);
        memset(m->memory, 0x5a, (size_t)o->use_bytes);
    }
    return LR_OK;
}

static void close_model(struct lr_engine_model *model)
{
    struct lr_error ignored;
    if (model == NULL)
        return;
    (void)testing_fault(&model->options, TESTING_CLOSE, &ignored);
    testing_sequences_free(model);
    free(model->memory);
    free(model);
}

static lr_code open_model(const struct lr_engine_host *host, const char *model_dir,
                          const struct lr_engine_options *options,
                          struct lr_engine_model **model, struct lr_error *err)
{
    *model = NULL;
    struct lr_engine_model *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a model");
    m->host = host;
    m->last = &m->first;
    size_model(m, options);
    lr_code code = testing_options_read(&m->options, model_dir, options->extra_json, err);
    if (code == LR_OK)
        code = check_device(&m->options, options, err);
    if (code == LR_OK)
        code = testing_artifact_check(options->artifact_path, true, err);
    m->has_artifact = options->artifact_path != NULL;
    if (code == LR_OK)
        code = check_limits(m, options, err);
    if (code == LR_OK)
        code = load(m, err);
    if (code != LR_OK) {
        free(m->memory);
        free(m);
        return code;
    }
    host->log(host->ctx, 1, "testing.opened", LR_TESTING_ID " " LR_TESTING_VERSION);
    *model = m;
    return LR_OK;
}

enum { PAGE_BYTES = TESTING_PAGE * TESTING_KV_BYTES };

/* Pages that one request of max_context needs; never given back. */
static uint64_t least_pages(const struct lr_engine_model *model)
{
    return (model->max_context + TESTING_PAGE - 1) / TESTING_PAGE;
}

static lr_code limit_kv(struct lr_engine_model *model, uint64_t bytes, uint64_t *kv_bytes,
                        struct lr_error *err)
{
    (void)err;
    uint64_t pages = bytes / PAGE_BYTES, least = least_pages(model);
    model->pages_limit = pages > least ? pages : least;
    testing_pages_settle(model);
    *kv_bytes = model->pages_total * PAGE_BYTES;
    return LR_OK;
}

static void stats(const struct lr_engine_model *model, struct lr_engine_stats *out)
{
    uint64_t kept = least_pages(model);
    kept = kept > model->pages_in_use ? kept : model->pages_in_use;
    struct lr_engine_stats s = {
        .size = out->size,
        .sequences = model->live,
        .weights_bytes = model->options.weights_bytes,
        .kv_bytes = model->pages_total * PAGE_BYTES,
        .kv_bytes_in_use = model->pages_in_use * PAGE_BYTES,
        .workspace_bytes = 4096,
        .fixed_bytes = 4096,
        .pages_total = model->pages_total,
        .pages_in_use = model->pages_in_use,
        .steps = model->steps,
        .prompt_tokens = model->prompt_tokens,
        .generated_tokens = model->generated_tokens,
        .kv_bytes_reclaimable =
            model->pages_total > kept ? (model->pages_total - kept) * PAGE_BYTES : 0,
    };
    memcpy(out, &s, out->size < sizeof(s) ? out->size : sizeof(s));
}

static lr_code count_tokens(const char *dir, const struct lr_engine_options *options,
                            const struct lr_segment *segments, size_t segment_count,
                            uint64_t *count, struct lr_error *err)
{
    size_t n = 0;
    lr_code code = testing_tokenize(NULL, segments, segment_count, NULL, 0, &n, err);
    (void)dir;
    (void)options;
    *count = n;
    return code;
}

const struct lr_engine_api *lr_engine_entry(void)
{
    static const struct lr_engine_api api = {
        .size = sizeof(api),
        .abi = LR_TESTING_ABI,
        .describe = describe,
        .probe = probe,
        .open = open_model,
        .close = close_model,
        .submit = testing_submit,
        .cancel = testing_cancel,
        .step = testing_step,
        .stats = stats,
        .tokenize = testing_tokenize,
        .vocab = testing_vocab,
        .limit_kv = limit_kv,
        .count_tokens = count_tokens,
    };
    return &api;
}
