/* tests/unit/llamacpp/oracle.h - the vector of a text by a plain loop over llama.h: one text,
 * one context, one batch.  Our engine is compared with it. */
#ifndef TESTS_LLAMACPP_ORACLE_H
#define TESTS_LLAMACPP_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engines/llamacpp/library.h"

enum { ORACLE_TOKENS = 512, ORACLE_VALUES = 256 };

struct oracle {
    const struct llamacpp_library *lib;
    struct llama_model *model;
    const struct llama_vocab *vocab;
    llama_token ids[ORACLE_TOKENS];
    int32_t count;
};

static inline bool oracle_open(const char *file, struct oracle *o, struct lr_error *err)
{
    ggml_backend_dev_t none[] = {NULL};
    *o = (struct oracle){0};
    if (llamacpp_library_get(&o->lib, err) != LR_OK)
        return false;
    struct llama_model_params params = o->lib->llama_model_default_params();
    params.devices = none;
    o->model = o->lib->llama_model_load_from_file(file, params);
    o->vocab = o->model != NULL ? o->lib->llama_model_get_vocab(o->model) : NULL;
    return o->model != NULL;
}

static inline void oracle_close(struct oracle *o)
{
    o->lib->llama_model_free(o->model);
}

/* Appends the tokens of a text; with `special`, libllama adds what it thinks belongs there. */
static inline void oracle_add(struct oracle *o, const char *text, bool special)
{
    int32_t n = o->lib->llama_tokenize(o->vocab, text, (int32_t)strlen(text), o->ids + o->count,
                                       ORACLE_TOKENS - o->count, special, false);
    o->count += n > 0 ? n : 0;
}

static inline void oracle_text(struct oracle *o, const char *text)
{
    o->count = 0;
    oracle_add(o, text, true);
}

static inline void oracle_pair(struct oracle *o, const char *query, const char *document)
{
    o->count = 0;
    o->ids[o->count++] = o->lib->llama_vocab_bos(o->vocab);
    oracle_add(o, query, false);
    o->ids[o->count++] = o->lib->llama_vocab_eos(o->vocab);
    o->ids[o->count++] = o->lib->llama_vocab_sep(o->vocab);
    oracle_add(o, document, false);
    o->ids[o->count++] = o->lib->llama_vocab_eos(o->vocab);
}

/* The pooled values of o->ids, as libllama gives them; 0: it failed. */
static inline uint32_t oracle_compute(const struct oracle *o, bool ranks,
                                      float out[ORACLE_VALUES])
{
    struct llama_context_params params = o->lib->llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t)o->count;
    params.n_threads = params.n_threads_batch = 1;
    params.embeddings = true;
    struct llama_context *context = o->lib->llama_init_from_model(o->model, params);
    struct llama_batch batch = o->lib->llama_batch_init(o->count, 0, 1);
    uint32_t count = ranks ? 1 : (uint32_t)o->lib->llama_model_n_embd_out(o->model);
    batch.n_tokens = o->count;
    for (int32_t i = 0; i < o->count; i++) {
        batch.token[i] = o->ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    bool ok = context != NULL && o->lib->llama_encode(context, batch) == 0;
    const float *values = ok ? o->lib->llama_get_embeddings_seq(context, 0) : NULL;
    if (values != NULL && count <= ORACLE_VALUES)
        memcpy(out, values, count * sizeof(*out));
    o->lib->llama_batch_free(batch);
    if (context != NULL)
        o->lib->llama_free(context);
    return values != NULL ? count : 0;
}

static inline void oracle_scale(float *values, uint32_t count)
{
    double squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += (double)values[i] * (double)values[i];
    for (uint32_t i = 0; i < count; i++)
        values[i] = (float)((double)values[i] / sqrt(squares));
}

static inline float oracle_score(float logit)
{
    return (float)(1 / (1 + exp(-(double)logit)));
}

#endif
