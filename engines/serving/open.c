/* serving/open.c - probe, open and close.
 *
 * Only the named device is used: if it fails, that is an error, and no other device is tried
 * (docs/promises.md: cpu-by-word).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/file.h"
#include "engines/serving/engine.h"
#include "engines/serving/model.h"

/* The kind of a device; NULL: there is no such name. */
static const char *device_kind(const char *device)
{
    if (strcmp(device, "cpu") == 0 || strcmp(device, "metal") == 0)
        return device;
    if (strncmp(device, "cuda", 4) == 0 || strncmp(device, "GPU-", 4) == 0)
        return "cuda";
    if (strcmp(device, "vulkan") == 0 || strncmp(device, "vulkan:", 7) == 0)
        return "vulkan";
    return NULL;
}

static lr_code pick_backend(const struct serving_engine *engine,
                            const struct lr_engine_options *o,
                            const struct serving_backend_api **api, const char **device,
                            struct lr_error *err)
{
    *device = o->device_count > 0 ? o->devices[0] : "cpu";
    if (o->device_count > 1)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u devices were given: this engine runs a model on one",
                       o->device_count);
    const char *kind = device_kind(*device);
    if (kind == NULL)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "device \"%s\": use \"cpu\", \"cuda:N\", \"vulkan:N\", \"metal\" or a GPU's "
            "UUID",
            *device);
    const struct serving_device *d = engine->devices;
    while (d->name != NULL && strcmp(d->name, kind) != 0)
        d++;
    if (d->name == NULL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "device \"%s\": engine %s has no code for it; use --device %s", *device,
                       engine->facts->id, engine->devices[0].name);
    if (d->api == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "device \"%s\": %s", *device, d->missing);
    *api = d->api;
    return LR_OK;
}

/* Parsed options; shared by probe and open. */
struct setting {
    struct lr_engine_options given;
    const struct serving_engine *engine;
    const struct serving_backend_api *api;
    struct serving_options options;
};

static lr_code open_settle(const struct serving_engine *engine,
                           const struct lr_engine_options *given, struct setting *out,
                           struct lr_error *err)
{
    struct lr_engine_options *o = &out->given;
    const char *device = NULL;

    if (given != NULL)
        ENGINE_COPY_SIZED(o, given);
    else
        memset(o, 0, sizeof(*o));
    out->engine = engine;
    lr_code code = pick_backend(engine, o, &out->api, &device, err);
    if (code != LR_OK)
        return code;
    bool on_host = strcmp(out->api->name, "cpu") == 0;
    out->options = (struct serving_options){
        .device = device,
        .memory_limit = on_host ? o->ram_limit : o->vram_limit,
        .kv_tokens = o->max_tokens,
        .max_sequences = o->max_sequences,
        .max_context = o->max_context,
        .prefill_chunk = o->prefill_chunk,
        .threads = o->threads,
        .artifact = o->artifact_path,
        .extra_json = o->extra_json,
    };
    return LR_OK;
}

/* A model of vectors generates no text. */
static uint32_t requests_of(const struct serving_facts *facts)
{
    return 1u << (facts->ranks            ? LR_REQUEST_RERANK
                  : facts->dimensions > 0 ? LR_REQUEST_EMBED
                                          : LR_REQUEST_GENERATE);
}

static void fill_need(const struct serving_plan *p, const struct serving_facts *facts,
                      uint64_t tokenizer, struct lr_engine_need *need)
{
    uint64_t per_token = 0, per_sequence = p->state_bytes,
             most = p->most_snapshots * p->state_bytes;

    for (uint32_t i = 0; i < p->kind_count; i++) {
        const struct serving_kind *k = &p->kinds[i];
        per_token += k->window == 0 ? k->page_bytes : 0;
        per_sequence += k->window != 0 ? k->least / p->max_sequences * k->page_bytes : 0;
        most += k->most * k->page_bytes;
    }
    struct lr_engine_need n = {
        .size = need->size,
        .on_device = p->on_device,
        .weights = p->weights,
        .kv_per_token = per_token / p->page_tokens,
        .kv_per_sequence = per_sequence,
        .workspace = p->workspace,
        .fixed = p->fixed + (p->on_device ? 0 : tokenizer),
        .kv = p->kv,
        .total = p->total + (p->on_device ? 0 : tokenizer),
        .max_context = p->max_context,
        .max_sequences = p->max_sequences,
        .vocab_size = facts->vocab_rows,
        .requests = requests_of(facts),
        .dimensions = facts->dimensions,
        .kv_most = most,
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

/* Model, facts and plan. */
static lr_code open_model(const struct serving_host *host, const char *dir,
                          const struct setting *s, void **model, struct serving_facts *facts,
                          struct serving_plan *plan, struct lr_error *err)
{
    lr_code code = s->engine->model->open(host, dir, &s->options, model, err);

    /* The daemon's own codes must not be returned through the ABI. */
    if (code >= 100)
        code = err->code = LR_MODEL_CORRUPT;
    if (code != LR_OK)
        return code;
    s->engine->model->facts(*model, facts);
    return s->api->plan(*model, &s->options, plan, err);
}

lr_code serving_engine_probe(const struct serving_engine *engine, const char *dir,
                             const struct lr_engine_options *options,
                             struct lr_engine_need *need, struct lr_error *err)
{
    struct setting s = {0};
    struct serving_facts facts = {0};
    struct serving_plan plan = {0};
    void *model = NULL;

    lr_code code = open_settle(engine, options, &s, err);
    if (code == LR_OK)
        code = open_model(NULL, dir, &s, &model, &facts, &plan, err);
    if (code == LR_OK)
        fill_need(&plan, &facts, tokenizer_guess(dir), need);
    engine->model->close(model);
    return code;
}

static struct lr_str open_token(const void *ctx, uint32_t id, uint32_t *flags)
{
    const struct lr_engine_model *m = ctx;

    return serving_vocabulary_bytes(&m->vocabulary, id, flags);
}

static void open_release(void *ctx, struct engine_sequence *seq)
{
    struct lr_engine_model *m = ctx;

    if (seq->state == ENGINE_READING)
        serving_reading_drop(&m->reading, seq->arrival);
    serving_ahead_forget(m, seq);
    serving_scheduler_end(&m->scheduler, seq);
}

/* False: no memory. */
static bool open_round(struct serving_round *r, uint32_t sequences, uint32_t dimensions)
{
    if (dimensions > 0) {
        r->vectors = calloc((size_t)sequences * dimensions, sizeof(*r->vectors));
        if (r->vectors == NULL)
            return false;
    }
    r->steps = calloc(sequences, sizeof(*r->steps));
    r->batch = calloc(sequences, sizeof(*r->batch));
    r->samples = calloc(sequences, sizeof(*r->samples));
    r->sampled = calloc(sequences, sizeof(*r->sampled));
    return r->steps != NULL && r->batch != NULL && r->samples != NULL && r->sampled != NULL;
}

static void close_round(struct serving_round *r)
{
    free(r->steps);
    free(r->batch);
    free(r->samples);
    free(r->sampled);
    free(r->vectors);
}

static void open_session(struct lr_engine_model *m, const struct serving_facts *facts)
{
    struct engine_session *session = &m->session;

    serving_engine_memory_open(m);
    serving_reading_init(&m->reading, m->vocabulary.tokenizer, serving_engine_encode);
    session->queue = &m->scheduler.queue;
    session->max_context = m->plan.max_context;
    session->vocab = m->vocabulary.rows;
    session->requests = requests_of(facts);
    session->dimensions = facts->dimensions;
    session->ctx = m;
    session->token = open_token;
    session->release = open_release;
    session->stats = serving_engine_stats;
}

static void open_tell(const struct lr_engine_model *m, const struct setting *s,
                      const struct serving_facts *facts)
{
    char text[512];

    if (m->session.host.log == NULL)
        return;
    snprintf(text, sizeof(text),
             "device=%s weights=%s weight_bytes=%llu kv_bytes=%llu context=%u sequences=%u "
             "chunk=%u threads=%u",
             s->options.device, facts->source, (unsigned long long)m->plan.weights,
             (unsigned long long)m->plan.kv, m->plan.max_context, m->plan.max_sequences,
             m->plan.prefill_chunk, m->plan.threads);
    m->session.host.log(m->session.host.ctx, 1, "model.open", text);
}

static lr_code bring_up(struct lr_engine_model *m, const char *dir, const struct setting *s,
                        struct lr_error *err)
{
    const struct serving_host host = {m->session.host.ctx, m->session.host.progress,
                                      m->session.host.log};
    struct serving_facts facts = {0};
    lr_code code = open_model(&host, dir, s, &m->model, &facts, &m->plan, err);

    if (code == LR_OK)
        code = serving_vocabulary_open(dir, &facts, &m->vocabulary, err);
    if (code == LR_OK)
        code = serving_scheduler_init(&m->scheduler, &m->plan, err);
    if (code == LR_OK)
        code = s->api->open(&host, m->model, m->vocabulary.usable, &s->options, &m->plan,
                            &m->backend, err);
    if (code != LR_OK)
        return code;
    m->pair = facts.pair;
    m->beside = serving_logits_beside(s->options.extra_json);
    serving_scheduler_set_lengths(&m->scheduler, facts.lengths);
    serving_scheduler_set_pace(&m->scheduler, s->given.target_gap_ms, facts.depth_unit);
    open_session(m, &facts);
    if (!open_round(&m->round, m->plan.max_sequences, facts.dimensions) ||
        !open_round(&m->next, m->plan.max_sequences, facts.dimensions))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u sequences", m->plan.max_sequences);
    open_tell(m, s, &facts);
    return LR_OK;
}

lr_code serving_engine_open(const struct serving_engine *engine,
                            const struct lr_engine_host *host, const char *dir,
                            const struct lr_engine_options *options,
                            struct lr_engine_model **out, struct lr_error *err)
{
    struct setting s = {0};
    struct lr_engine_model *m = calloc(1, sizeof(*m));

    *out = NULL;
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the model");
    ENGINE_COPY_SIZED(&m->session.host, host);
    lr_code code = open_settle(engine, options, &s, err);
    m->model_api = engine->model;
    m->backend_api = s.api;
    if (code == LR_OK)
        code = bring_up(m, dir, &s, err);
    if (code != LR_OK) {
        serving_engine_close(m);
        return code;
    }
    *out = m;
    return LR_OK;
}

void serving_engine_close(struct lr_engine_model *m)
{
    if (m == NULL)
        return;
    if (m->backend != NULL)
        m->backend_api->close(m->backend);
    serving_reading_deinit(&m->reading);
    serving_scheduler_deinit(&m->scheduler);
    engine_session_deinit(&m->session);
    serving_vocabulary_close(&m->vocabulary);
    m->model_api->close(m->model);
    close_round(&m->round);
    close_round(&m->next);
    free(m);
}
