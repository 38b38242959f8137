/* tests/unit/llamacpp/support.h - shared by the engine's tests: a recording host, and libllama
 * used directly.  Header only: each test is one program.  The model is made by `llm-router
 * debug write-gguf` (a fixture of ctest). */
#ifndef TESTS_LLAMACPP_SUPPORT_H
#define TESTS_LLAMACPP_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engines/llamacpp/engine.h"
#include "engines/llamacpp/library.h"
#include "tests/unit/engine_recorder.h"

static inline const struct lr_engine_api *recorder_api(void)
{
    return llamacpp_engine_api();
}

static inline const struct lr_engine_api *api(void)
{
    return llamacpp_engine_api();
}

/* The sampled tokens are random, so stop tokens are ignored. */
static inline struct lr_engine_request endless_request(uint64_t id, const uint32_t *ids,
                                                       size_t count, uint32_t max_tokens)
{
    struct lr_engine_request request = plain_request(id, ids, count, max_tokens);

    request.ignore_stop = 1;
    return request;
}

/* The id of a token by its text. */
static inline uint32_t token_named(const struct recorder *r, const char *text)
{
    const char *bytes;
    uint32_t len, flags;

    for (uint32_t id = 0; api()->vocab(r->model, id, &bytes, &len, &flags) == LR_OK; id++)
        if (len == strlen(text) && memcmp(bytes, text, len) == 0)
            return id;
    fail_msg("no token %s", text);
    return 0;
}

static inline struct lr_engine_options small_options(void)
{
    return (struct lr_engine_options){
        .size = sizeof(struct lr_engine_options),
        .max_sequences = 4,
        .max_context = 256,
        .prefill_chunk = 16,
        .threads = 1,
    };
}

/* ---- libllama, without the engine ---- */

struct direct {
    const struct llamacpp_library *lib;
    struct llama_model *model;
    struct llama_context *context;
    const struct llama_vocab *vocab;
    uint32_t rows;
};

static inline struct direct direct_open(uint32_t context)
{
    struct direct d = {0};
    struct lr_error err = {0};
    ggml_backend_dev_t none[] = {NULL};

    if (llamacpp_library_get(&d.lib, &err) != LR_OK)
        fail_msg("%s", err.text);
    struct llama_model_params mp = d.lib->llama_model_default_params();
    mp.devices = none;
    d.model = d.lib->llama_model_load_from_file(LLAMACPP_MODEL "/model.gguf", mp);
    assert_non_null(d.model);
    struct llama_context_params cp = d.lib->llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = context;
    cp.n_outputs_max = cp.n_outputs_max_per_seq = context;
    cp.n_threads = cp.n_threads_batch = 1;
    d.context = d.lib->llama_init_from_model(d.model, cp);
    assert_non_null(d.context);
    d.vocab = d.lib->llama_model_get_vocab(d.model);
    d.rows = (uint32_t)d.lib->llama_vocab_n_tokens(d.vocab);
    return d;
}

static inline void direct_close(struct direct *d)
{
    d->lib->llama_free(d->context);
    d->lib->llama_model_free(d->model);
}

/* Decodes ids from position `at`; the logits of all are available afterwards. */
static inline void direct_decode(const struct direct *d, const uint32_t *ids, int32_t count,
                                 int32_t at)
{
    struct llama_batch batch = d->lib->llama_batch_init(count, 0, 1);

    batch.n_tokens = count;
    for (int32_t i = 0; i < count; i++) {
        batch.token[i] = (llama_token)ids[i];
        batch.pos[i] = at + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    assert_int_equal(d->lib->llama_decode(d->context, batch), 0);
    d->lib->llama_batch_free(batch);
}

#endif
