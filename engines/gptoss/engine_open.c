/* gptoss/engine_open.c - probe, open and close.
 *
 * Only the named device is used: if it fails, that is an error, and no other device is tried
 * (docs/promises.md: cpu-by-word).  If an artifact cannot be read, the safetensors are read
 * instead, with a warning.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/file.h"
#include "engines/gptoss/engine_model.h"
#include "model/shape.h"

static lr_code pick_backend(const struct lr_engine_options *o,
                            const struct gptoss_backend_api **api, const char **device,
                            struct lr_error *err)
{
    *device = o->device_count > 0 ? o->devices[0] : "cpu";
    if (o->device_count > 1)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u devices were given: this engine runs a model on one",
                       o->device_count);
    if (strcmp(*device, "cpu") == 0) {
        *api = gptoss_backend_cpu();
        return LR_OK;
    }
    if (strncmp(*device, "cuda", 4) == 0 || strncmp(*device, "GPU-", 4) == 0) {
#ifdef GPTOSS_CUDA
        *api = gptoss_backend_cuda();
        return LR_OK;
#else
        return lr_fail(err, LR_UNSUPPORTED,
                       "device \"%s\": this engine was built without CUDA; build it where nvcc "
                       "is installed, or use --device cpu",
                       *device);
#endif
    }
    if (strcmp(*device, "vulkan") == 0 || strncmp(*device, "vulkan:", 7) == 0) {
#ifdef GPTOSS_VULKAN
        *api = gptoss_backend_vulkan();
        return LR_OK;
#else
        return lr_fail(err, LR_UNSUPPORTED,
                       "device \"%s\": this engine was built without Vulkan; build it where "
                       "glslc and Vulkan's headers are installed (Debian: glslc, "
                       "libvulkan-dev), or use --device cpu",
                       *device);
#endif
    }
    if (strcmp(*device, "metal") == 0) {
#ifdef GPTOSS_METAL
        *api = gptoss_backend_metal();
        return LR_OK;
#else
        return lr_fail(
            err, LR_UNSUPPORTED,
            "device \"metal\": this engine was built without Metal, which is part of "
            "macOS; on other systems use --device cuda, vulkan or cpu");
#endif
    }
    return lr_fail(err, LR_UNSUPPORTED,
                   "device \"%s\": use \"cpu\", \"cuda:N\", \"vulkan:N\", \"metal\" or a GPU's "
                   "UUID",
                   *device);
}

/* Parsed options and plan; shared by probe and open. */
struct setting {
    struct lr_engine_options options;
    const struct gptoss_backend_api *api;
    struct gptoss_backend_options backend;
    struct gptoss_extra extra;
};

static lr_code gptoss_open_settle(const struct lr_engine_options *given, struct setting *out,
                                  struct lr_error *err)
{
    struct lr_engine_options *o = &out->options;

    if (given != NULL)
        ENGINE_COPY_SIZED(o, given);
    else
        memset(o, 0, sizeof(*o));
    lr_code code = pick_backend(o, &out->api, &out->backend.device, err);
    if (code != LR_OK)
        return code;
    bool on_host = strcmp(out->api->name, "cpu") == 0;
    out->backend.memory_limit = on_host ? o->ram_limit : o->vram_limit;
    out->backend.kv_tokens = o->max_tokens;
    out->backend.max_sequences = o->max_sequences;
    out->backend.max_context = o->max_context;
    out->backend.prefill_chunk = o->prefill_chunk;
    out->backend.threads = o->threads;
    out->backend.extra_json = o->extra_json;
    code = gptoss_engine_extra(o->extra_json, &out->extra, err);
    out->backend.measure_memory = out->extra.measure_memory;
    out->backend.embed_on_host = out->extra.embed_on_host;
    if (code == LR_OK && on_host && out->extra.random_shape[0] != '\0')
        return lr_fail(err, LR_UNSUPPORTED,
                       "random weights are made on a GPU: use --device cuda or vulkan");
    return code;
}

static void fill_need(const struct gptoss_plan *p, uint32_t vocab, uint64_t tokenizer,
                      struct lr_engine_need *need)
{
    uint64_t per_sequence =
        p->least_pages[GPTOSS_WINDOW] / p->max_sequences * p->window_page_bytes;
    struct lr_engine_need n = {
        .size = need->size,
        .on_device = p->on_device,
        .weights = p->weights,
        .kv_per_token = p->full_page_bytes / p->page_tokens,
        .kv_per_sequence = per_sequence,
        .workspace = p->workspace,
        .fixed = p->fixed + (p->on_device ? 0 : tokenizer),
        .kv = p->kv,
        .total = p->total + (p->on_device ? 0 : tokenizer),
        .max_context = p->max_context,
        .max_sequences = p->max_sequences,
        .vocab_size = vocab,
        .requests = 1u << LR_REQUEST_GENERATE,
        .kv_most = p->most_pages[GPTOSS_FULL] * p->full_page_bytes +
                   p->most_pages[GPTOSS_WINDOW] * p->window_page_bytes,
        .ram = p->on_device ? p->host : 0,
    };
    memcpy(need, &n, need->size < sizeof(n) ? need->size : sizeof(n));
}

/* Estimated memory of a tokenizer: about twice the size of its file. */
static uint64_t tokenizer_guess(const char *dir)
{
    char path[4096];
    struct lr_stat st;
    int n = snprintf(path, sizeof(path), "%s/tokenizer.json", dir);

    return n > 0 && (size_t)n < sizeof(path) && lr_stat(path, &st) ? st.size * 2 : 0;
}

static lr_code open_weights(const struct lr_engine_host *host, const char *dir,
                            const struct setting *s, struct model_gptoss **out,
                            struct lr_error *err)
{
    const char *artifact = s->options.artifact_path;

    if (s->extra.random_shape[0] != '\0')
        return model_shape_open(s->extra.random_shape, out, err);
    lr_code code = model_gptoss_open(dir, artifact, out, err);

    if (code != LR_OK && artifact != NULL) {
        if (host != NULL && host->log != NULL)
            host->log(host->ctx, 2, "model.artifact", err->text);
        code = model_gptoss_open(dir, NULL, out, err);
    }
    /* The daemon's own codes must not be returned through the ABI. */
    if (code >= 100)
        code = err->code = LR_MODEL_CORRUPT;
    return code;
}

lr_code gptoss_engine_probe(const char *dir, const struct lr_engine_options *options,
                            struct lr_engine_need *need, struct lr_error *err)
{
    struct setting s = {0};
    struct gptoss_plan plan;
    struct model_gptoss *weights = NULL;

    lr_code code = gptoss_open_settle(options, &s, err);
    if (code == LR_OK)
        code = open_weights(NULL, dir, &s, &weights, err);
    if (code == LR_OK)
        code = s.api->plan(&weights->config, &s.backend, &plan, err);
    if (code == LR_OK)
        fill_need(&plan, weights->vocab_rows, tokenizer_guess(dir), need);
    model_gptoss_close(weights);
    return code;
}

static struct lr_str gptoss_open_token(const void *ctx, uint32_t id, uint32_t *flags)
{
    const struct lr_engine_model *m = ctx;

    return gptoss_vocabulary_bytes(&m->vocabulary, id, flags);
}

static void gptoss_open_release(void *ctx, struct engine_sequence *seq)
{
    struct lr_engine_model *m = ctx;

    if (seq->state == ENGINE_READING)
        gptoss_reading_drop(&m->reading, seq->arrival);
    gptoss_ahead_forget(m, seq);
    gptoss_scheduler_end(&m->scheduler, seq);
}

/* False: no memory. */
static bool open_round(struct gptoss_round *r, uint32_t sequences)
{
    r->steps = calloc(sequences, sizeof(*r->steps));
    r->batch = calloc(sequences, sizeof(*r->batch));
    r->samples = calloc(sequences, sizeof(*r->samples));
    r->sampled = calloc(sequences, sizeof(*r->sampled));
    return r->steps != NULL && r->batch != NULL && r->samples != NULL && r->sampled != NULL;
}

static void close_round(struct gptoss_round *r)
{
    free(r->steps);
    free(r->batch);
    free(r->samples);
    free(r->sampled);
}

static lr_code bring_up(struct lr_engine_model *m, const char *dir, const struct setting *s,
                        struct lr_error *err)
{
    struct engine_session *session = &m->session;
    const struct gptoss_backend_host host = {session->host.ctx, session->host.progress,
                                             session->host.log};
    lr_code code = open_weights(&session->host, dir, s, &m->weights, err);

    if (code == LR_OK)
        code = s->api->plan(&m->weights->config, &s->backend, &m->plan, err);
    if (code == LR_OK)
        code = gptoss_vocabulary_open(dir, &m->weights->config, m->weights->vocab_rows,
                                      &m->vocabulary, err);
    if (code == LR_OK)
        code = gptoss_scheduler_init(&m->scheduler, &m->plan, m->weights->config.window, err);
    if (code == LR_OK)
        code = s->api->open(&host, m->weights, m->vocabulary.usable, &s->backend, &m->plan,
                            &m->backend, err);
    if (code != LR_OK)
        return code;
    gptoss_scheduler_set_pace(&m->scheduler, s->options.target_gap_ms,
                              gptoss_depth_unit(&m->weights->config));
    gptoss_engine_memory_open(m);
    gptoss_reading_init(&m->reading, m->vocabulary.tokenizer, gptoss_engine_encode);
    session->queue = &m->scheduler.queue;
    session->max_context = m->plan.max_context;
    session->vocab = m->vocabulary.rows;
    session->ctx = m;
    session->token = gptoss_open_token;
    session->release = gptoss_open_release;
    session->stats = gptoss_engine_stats;
    if (!open_round(&m->round, m->plan.max_sequences) ||
        !open_round(&m->next, m->plan.max_sequences))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u sequences", m->plan.max_sequences);
    return LR_OK;
}

static void gptoss_open_tell(const struct lr_engine_model *m, const struct setting *s)
{
    char text[512];

    if (m->session.host.log == NULL)
        return;
    snprintf(text, sizeof(text),
             "device=%s weights=%s weight_bytes=%llu kv_bytes=%llu context=%u sequences=%u "
             "chunk=%u threads=%u",
             s->backend.device, m->weights->source, (unsigned long long)m->plan.weights,
             (unsigned long long)m->plan.kv, m->plan.max_context, m->plan.max_sequences,
             m->plan.prefill_chunk, m->plan.threads);
    m->session.host.log(m->session.host.ctx, 1, "model.open", text);
}

lr_code gptoss_engine_open(const struct lr_engine_host *host, const char *dir,
                           const struct lr_engine_options *options,
                           struct lr_engine_model **out, struct lr_error *err)
{
    struct setting s = {0};
    struct lr_engine_model *m = calloc(1, sizeof(*m));

    *out = NULL;
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the model");
    ENGINE_COPY_SIZED(&m->session.host, host);
    lr_code code = gptoss_open_settle(options, &s, err);
    m->backend_api = s.api;
    if (code == LR_OK)
        code = bring_up(m, dir, &s, err);
    if (code != LR_OK) {
        gptoss_engine_close(m);
        return code;
    }
    gptoss_open_tell(m, &s);
    *out = m;
    return LR_OK;
}

void gptoss_engine_close(struct lr_engine_model *m)
{
    if (m == NULL)
        return;
    if (m->backend != NULL)
        m->backend_api->close(m->backend);
    gptoss_reading_deinit(&m->reading);
    gptoss_scheduler_deinit(&m->scheduler);
    engine_session_deinit(&m->session);
    gptoss_vocabulary_close(&m->vocabulary);
    model_gptoss_close(m->weights);
    close_round(&m->round);
    close_round(&m->next);
    free(m);
}
