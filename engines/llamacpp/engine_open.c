/* llamacpp/engine_open.c - probe, open and close.
 *
 * First our own check of the header, then the plan against the limits, and only then libllama
 * gets the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/llamacpp/device.h"
#include "engines/llamacpp/model.h"

/* Parsed options, header and plan; shared by probe and open. */
struct setting {
    struct lr_engine_options options;
    const char *device_name;
    const struct llamacpp_library *lib;
    ggml_backend_dev_t device;
    struct llamacpp_header header;
    struct llamacpp_plan plan;
};

static lr_code llama_open_settle(const char *dir, const struct lr_engine_options *given,
                                 struct setting *out, struct lr_error *err)
{
    bool on_device = false;

    if (given != NULL)
        ENGINE_COPY_SIZED(&out->options, given);
    lr_code code = llamacpp_device_kind(&out->options, &out->device_name, &on_device, err);
    if (code == LR_OK)
        code = llamacpp_header_read(dir, out->options.filename, &out->header, err);
    if (code == LR_OK)
        code = llamacpp_plan_make(&out->header, &out->options, on_device, &out->plan, err);
    if (code == LR_OK)
        code = llamacpp_library_get(&out->lib, err);
    if (code == LR_OK)
        code = llamacpp_device_find(out->lib, out->device_name, &out->device, err);
    return code;
}

/* The error of a failed load, with libllama's message. */
static lr_code load_failed(const struct setting *s, struct lr_error *err)
{
    char complaint[256];

    llamacpp_library_complaint(complaint, sizeof(complaint));
    bool is_unknown = strstr(complaint, "unknown model architecture") != NULL ||
                      strstr(complaint, "unknown pre-tokenizer") != NULL;
    return lr_fail(err, is_unknown ? LR_UNSUPPORTED : LR_MODEL_CORRUPT,
                   "%s: libllama %s cannot load it: %s", s->header.path, LLAMACPP_BUILT_FOR,
                   complaint[0] != '\0' ? complaint : "it gives no reason");
}

static lr_code check_kind(const struct llamacpp_library *lib, const struct llama_model *model,
                          const struct setting *s, struct lr_error *err)
{
    if (lib->llama_model_has_decoder(model) && !lib->llama_model_has_encoder(model) &&
        !lib->llama_model_is_diffusion(model))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: a model of architecture %s does not generate text token by token",
                   s->header.path, s->header.architecture);
}

/* ---- probe ---- */

/* libllama reads only header and vocabulary. */
static lr_code read_vocabulary(const struct setting *s, struct llama_model **out,
                               struct lr_error *err)
{
    struct llama_model_params params = s->lib->llama_model_default_params();
    ggml_backend_dev_t none[] = {NULL};

    params.vocab_only = true;
    params.devices = none;
    llamacpp_library_forget_complaint();
    *out = s->lib->llama_model_load_from_file(s->header.path, params);
    return *out != NULL ? LR_OK : load_failed(s, err);
}

/* Checks that libllama knows the architecture and the tokenizer. */
static lr_code rehearse(const struct setting *s, struct lr_error *err)
{
    struct llama_model *model;
    lr_code code = read_vocabulary(s, &model, err);

    if (code != LR_OK)
        return code;
    code = check_kind(s->lib, model, s, err);
    s->lib->llama_model_free(model);
    return code;
}

/* What was counted with last: a process counts for one model, again and again, and its end
 * frees the vocabulary. */
static struct {
    struct llama_model *model; /* owned; NULL: nothing was */
    struct llamacpp_vocabulary vocabulary;
    char path[sizeof(((struct llamacpp_header *)NULL)->path)];
} engine_open_counted;

static lr_code read_counted(const struct setting *s, struct lr_error *err)
{
    struct llama_model *model;
    if (engine_open_counted.model != NULL &&
        strcmp(engine_open_counted.path, s->header.path) == 0)
        return LR_OK;
    lr_code code = read_vocabulary(s, &model, err);
    if (code != LR_OK)
        return code;
    if (engine_open_counted.model != NULL) {
        llamacpp_vocabulary_close(&engine_open_counted.vocabulary);
        s->lib->llama_model_free(engine_open_counted.model);
    }
    engine_open_counted.model = model;
    engine_open_counted.vocabulary = (struct llamacpp_vocabulary){0};
    memcpy(engine_open_counted.path, s->header.path, sizeof(engine_open_counted.path));
    code = llamacpp_vocabulary_open(s->lib, model, s->header.path,
                                    &engine_open_counted.vocabulary, err);
    if (code != LR_OK) {
        llamacpp_vocabulary_close(&engine_open_counted.vocabulary);
        s->lib->llama_model_free(model);
        engine_open_counted.model = NULL;
    }
    return code;
}

lr_code llamacpp_engine_count(const char *dir, const struct lr_engine_options *options,
                              const struct lr_segment *segments, size_t segment_count,
                              uint64_t *count, struct lr_error *err)
{
    struct setting s = {0};
    struct llamacpp_ids list = {0};
    lr_code code = llama_open_settle(dir, options, &s, err);

    *count = 0;
    if (code == LR_OK)
        code = read_counted(&s, err);
    if (code == LR_OK)
        code = llamacpp_tokenize(&engine_open_counted.vocabulary, segments, segment_count,
                                 INT32_MAX / 4, &list, err);
    if (code == LR_OK)
        *count = list.count;
    free(list.items);
    return code;
}

lr_code llamacpp_engine_probe(const char *dir, const struct lr_engine_options *options,
                              struct lr_engine_need *need, struct lr_error *err)
{
    struct setting s = {0};
    lr_code code = llama_open_settle(dir, options, &s, err);

    if (code == LR_OK)
        code = rehearse(&s, err);
    if (code != LR_OK)
        return code;
    const struct llamacpp_plan *p = &s.plan;
    struct lr_engine_need n = {
        .size = need->size,
        .on_device = p->on_device,
        .weights = p->weights,
        .kv_per_token = p->kv_per_token,
        .kv_per_sequence = p->kv_per_sequence,
        .workspace = p->workspace,
        .fixed = p->fixed,
        .kv = p->kv,
        .total = p->total,
        .max_context = p->max_context,
        .max_sequences = p->max_sequences,
        .vocab_size = s.header.vocab,
        .requests = s.header.requests,
        .dimensions =
            (s.header.requests >> LR_REQUEST_EMBED & 1) != 0 ? s.header.dimensions : 0,
    };
    memcpy(need, &n, need->size < sizeof(n) ? need->size : sizeof(n));
    return LR_OK;
}

/* ---- open ---- */

static bool llama_open_on_progress(float done, void *ctx)
{
    struct lr_engine_model *m = ctx;
    double share = done < 0 ? 0 : done > 1 ? 1 : (double)done;

    if (m->session.host.progress == NULL || m->gave_up)
        return !m->gave_up;
    m->gave_up = m->session.host.progress(m->session.host.ctx, "read",
                                          (uint64_t)(share * (double)m->plan.weights),
                                          m->plan.weights) != 0;
    return !m->gave_up;
}

static lr_code llama_open_give_up(struct lr_error *err)
{
    return lr_fail(err, LR_CANCELLED, "loading was cancelled");
}

static lr_code llama_open_load(struct lr_engine_model *m, const struct setting *s,
                               struct lr_error *err)
{
    struct llama_model_params params = m->lib->llama_model_default_params();
    ggml_backend_dev_t devices[] = {s->device, NULL};

    params.devices = devices; /* an empty list means "no GPU"; NULL would mean "all" */
    params.n_gpu_layers = s->device != NULL ? -1 : 0;
    params.split_mode = LLAMA_SPLIT_MODE_NONE;
    params.progress_callback = llama_open_on_progress;
    params.progress_callback_user_data = m;
    if (!llama_open_on_progress(0, m))
        return llama_open_give_up(err);
    llamacpp_library_forget_complaint();
    m->llama = m->lib->llama_model_load_from_file(m->header.path, params);
    if (m->gave_up)
        return llama_open_give_up(err);
    return m->llama != NULL ? check_kind(m->lib, m->llama, s, err) : load_failed(s, err);
}

struct llama_context_params llamacpp_context_params(const struct llamacpp_library *lib,
                                                    const struct llamacpp_plan *p)
{
    static const enum ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0};
    struct llama_context_params params = lib->llama_context_default_params();

    params.n_ctx = (uint32_t)p->kv_tokens;
    params.n_batch = p->step_tokens;
    params.n_ubatch = p->step_tokens;
    params.n_seq_max = p->max_sequences;
    params.n_outputs_max = p->is_vector ? p->step_tokens : p->max_sequences;
    params.embeddings = p->is_vector;
    if (p->is_vector && p->pooling == LLAMA_POOLING_TYPE_NONE)
        params.pooling_type = LLAMA_POOLING_TYPE_MEAN; /* the header leaves it open */
    params.n_threads = (int32_t)p->threads;
    params.n_threads_batch = (int32_t)p->threads;
    params.type_k = types[p->kv_type];
    params.type_v = types[p->kv_type];
    params.kv_unified = p->shared;
    params.swa_full = false;
    params.no_perf = true;
    return params;
}

/* Starts threads that live as long as the model; without them ggml starts new ones each
 * step. */
static void start_pool(struct lr_engine_model *m)
{
    ggml_backend_dev_t cpu = m->lib->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t reg = m->lib->ggml_backend_dev_backend_reg(cpu);
    void *create = m->lib->ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    void *release = m->lib->ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_free");
    struct ggml_threadpool *(*pool_new)(struct ggml_threadpool_params *);

    if (create == NULL || release == NULL || m->plan.threads < 2)
        return;
    memcpy(&pool_new, &create, sizeof(pool_new));
    memcpy(&m->pool_free, &release, sizeof(m->pool_free));
    struct ggml_threadpool_params params =
        m->lib->ggml_threadpool_params_default((int)m->plan.threads);
    m->pool = pool_new(&params);
    if (m->pool != NULL)
        m->lib->llama_attach_threadpool(m->context, m->pool, m->pool);
}

static void llama_open_forget(void *ctx, uint32_t slot)
{
    struct lr_engine_model *m = ctx;

    (void)m->lib->llama_memory_seq_rm(m->lib->llama_get_memory(m->context), (llama_seq_id)slot,
                                      -1, -1);
}

static lr_code make_context(struct lr_engine_model *m, struct lr_error *err)
{
    char complaint[256];

    if (m->session.host.progress != NULL &&
        m->session.host.progress(m->session.host.ctx, "prepare", 0,
                                 m->plan.kv + m->plan.workspace) != 0)
        return llama_open_give_up(err);
    llamacpp_library_forget_complaint();
    m->context =
        m->lib->llama_init_from_model(m->llama, llamacpp_context_params(m->lib, &m->plan));
    if (m->context == NULL) {
        llamacpp_library_complaint(complaint, sizeof(complaint));
        return lr_fail(err, m->plan.on_device ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM,
                       "%s: libllama cannot allot %llu bytes of KV cache and %llu of "
                       "workspace: %s",
                       m->header.path, (unsigned long long)m->plan.kv,
                       (unsigned long long)m->plan.workspace, complaint);
    }
    start_pool(m);
    return LR_OK;
}

/* A GPU's driver compiles a kernel when it is first used, which may take longer than the host
 * waits for a step.  So the kernels of a long and of a short batch are used once here. */
static lr_code warm_up(struct lr_engine_model *m, struct lr_error *err)
{
    enum { LONG_BATCH = 64 };
    const uint32_t longest =
        m->plan.max_context < LONG_BATCH ? m->plan.max_context : LONG_BATCH;
    const uint32_t counts[] = {1,
                               longest < m->plan.step_tokens ? longest : m->plan.step_tokens};
    struct llama_batch *b = &m->batch;

    if (!m->plan.on_device || m->plan.is_vector)
        return LR_OK;
    for (uint32_t i = 0; i < 2; i++) {
        if (m->session.host.progress != NULL &&
            m->session.host.progress(m->session.host.ctx, "compile", i, 2) != 0)
            return llama_open_give_up(err);
        for (b->n_tokens = 0; (uint32_t)b->n_tokens < counts[i]; b->n_tokens++) {
            b->token[b->n_tokens] = 0;
            b->pos[b->n_tokens] = b->n_tokens;
            b->n_seq_id[b->n_tokens] = 1;
            b->seq_id[b->n_tokens][0] = 0;
            b->logits[b->n_tokens] = (uint32_t)b->n_tokens + 1 == counts[i];
        }
        if (m->lib->llama_decode(m->context, *b) != 0)
            return lr_fail(err, LR_INTERNAL, "%s: the GPU could not compute a first batch",
                           m->header.path);
        llama_open_forget(m, 0);
    }
    return LR_OK;
}

static struct lr_str llama_open_token(const void *ctx, uint32_t id, uint32_t *flags)
{
    const struct lr_engine_model *m = ctx;

    *flags = m->vocabulary.flags[id];
    return llamacpp_vocabulary_bytes(&m->vocabulary, id);
}

static void llama_open_release(void *ctx, struct engine_sequence *seq)
{
    struct lr_engine_model *m = ctx;

    llamacpp_scheduler_end(&m->scheduler, seq);
}

static lr_code bring_up(struct lr_engine_model *m, const struct setting *s,
                        struct lr_error *err)
{
    lr_code code = llama_open_load(m, s, err);

    if (code == LR_OK)
        code = llamacpp_vocabulary_open(m->lib, m->llama, m->header.path, &m->vocabulary, err);
    if (code == LR_OK && m->vocabulary.count != m->header.vocab)
        code = lr_fail(err, LR_MODEL_CORRUPT, "%s: %u tokens in the header, %u in libllama",
                       m->header.path, m->header.vocab, m->vocabulary.count);
    if (code == LR_OK)
        code = make_context(m, err);
    if (code != LR_OK)
        return code;
    m->session.queue = &m->scheduler.queue;
    m->session.max_context = m->plan.max_context;
    m->session.vocab = m->vocabulary.count;
    m->session.requests = m->header.requests;
    m->session.dimensions = (uint32_t)m->lib->llama_model_n_embd_out(m->llama);
    m->session.ctx = m;
    m->session.token = llama_open_token;
    m->session.release = llama_open_release;
    m->session.stats = llamacpp_engine_stats;
    m->sampler = sampler_create(m->vocabulary.count);
    m->batched = calloc(m->plan.max_sequences, sizeof(struct engine_sequence *));
    m->rows = calloc(m->plan.max_sequences, sizeof(*m->rows));
    m->batch = m->lib->llama_batch_init((int32_t)m->plan.step_tokens, 0, 1);
    if (m->sampler == NULL || m->batched == NULL || m->rows == NULL || m->batch.token == NULL ||
        !llamacpp_scheduler_init(&m->scheduler, &m->plan, llama_open_forget, m))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u sequences", m->plan.max_sequences);
    return warm_up(m, err);
}

static void llama_open_tell(const struct lr_engine_model *m, const struct setting *s)
{
    char text[512];

    if (m->session.host.log == NULL)
        return;
    (void)snprintf(text, sizeof(text),
                   "device=%s libllama=%s architecture=%s weight_bytes=%llu kv_bytes=%llu "
                   "kv=%s context=%u sequences=%u chunk=%u threads=%u",
                   s->device_name, LLAMACPP_BUILT_FOR, m->header.architecture,
                   (unsigned long long)m->plan.weights, (unsigned long long)m->plan.kv,
                   m->plan.shared ? "shared" : "own", m->plan.max_context,
                   m->plan.max_sequences, m->plan.prefill_chunk, m->plan.threads);
    m->session.host.log(m->session.host.ctx, 1, "model.open", text);
}

lr_code llamacpp_engine_open(const struct lr_engine_host *host, const char *dir,
                             const struct lr_engine_options *options,
                             struct lr_engine_model **out, struct lr_error *err)
{
    struct setting s = {0};
    struct lr_engine_model *m = calloc(1, sizeof(*m));

    *out = NULL;
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the model");
    ENGINE_COPY_SIZED(&m->session.host, host);
    llamacpp_library_log_to(&m->session.host);
    lr_code code = llama_open_settle(dir, options, &s, err);
    m->lib = s.lib;
    m->header = s.header;
    m->plan = s.plan;
    if (code == LR_OK)
        code = bring_up(m, &s, err);
    if (code != LR_OK) {
        llamacpp_engine_close(m);
        return code;
    }
    llama_open_tell(m, &s);
    *out = m;
    return LR_OK;
}

void llamacpp_engine_close(struct lr_engine_model *m)
{
    if (m == NULL)
        return;
    llamacpp_scheduler_deinit(&m->scheduler);
    engine_session_deinit(&m->session);
    llamacpp_vocabulary_close(&m->vocabulary);
    if (m->batch.token != NULL)
        m->lib->llama_batch_free(m->batch);
    if (m->context != NULL)
        m->lib->llama_free(m->context);
    if (m->pool != NULL)
        m->pool_free(m->pool);
    if (m->llama != NULL)
        m->lib->llama_model_free(m->llama);
    sampler_destroy(m->sampler);
    free(m->batched);
    free(m->rows);
    llamacpp_library_log_end(&m->session.host);
    free(m);
}
