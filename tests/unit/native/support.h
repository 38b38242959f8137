/* Runs models of the native engine through its device's own interface. */
#ifndef UNIT_NATIVE_SUPPORT_H
#define UNIT_NATIVE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "engines/native/cpu/cpu.h"
#include "engines/native/model.h"

#ifndef LR_SOURCE_DIR
#define LR_SOURCE_DIR "."
#endif
#define FAMILIES LR_SOURCE_DIR "/tests/fixtures/families/"

enum { RUN_CONTEXT = 256, RUN_KINDS = SERVING_KINDS_MAX, RUN_BESIDE = 7 };

/* Tiny models, each with the logits of Hugging Face transformers. */
static const char *const families[] = {
    "qwen3",      "llama3",         "gpt-oss",  "qwen3-moe", "qwen3.5", "deepseek-v3", "gemma4",
    "nemotron-h", "granite-hybrid", "lfm2-moe", "phi3",      "cohere2", "ministral3"};
enum { FAMILIES_COUNT = sizeof(families) / sizeof(families[0]) };

/* The same with quantized weights; beside the families. */
static const char *const formats[] = {
    "../formats/ct-fp8-block", "../formats/modelopt-fp8",   "../formats/ct-int8",
    "../formats/ct-mxfp8",     "../formats/ct-w4a16-asym",  "../formats/awq",
    "../formats/gptq",         "../formats/gptq-v2",        "../formats/ct-nvfp4",
    "../formats/quark-mxfp4",  "../formats/modelopt-nvfp4", "../formats/mlx-4bit",
    "../formats/mlx-mxfp4",    "../formats/bnb-4bit"};
enum { FORMATS_COUNT = sizeof(formats) / sizeof(formats[0]) };

/* How a prompt is computed. */
struct how {
    uint32_t chunk;
    uint32_t beside;                       /* other sequences in the same batches */
    uint32_t threads;                      /* 0: one per core */
    const char *kernels;                   /* NULL: the fastest */
    const struct serving_backend_api *api; /* NULL: the processor */
    const char *device, *extra_json;       /* of another api */
};

static inline const struct serving_backend_api *run_api(const struct how *how)
{
    return how->api != NULL ? how->api : native_backend_cpu();
}

/* An open model with pages for 1 + beside sequences, a window's in a ring. */
struct run {
    void *model;
    struct serving_facts facts;
    struct serving_plan plan;
    struct serving_backend *backend;
    uint32_t *usable;
    uint32_t pages[1 + RUN_BESIDE][RUN_KINDS][RUN_CONTEXT];
    uint32_t prompt; /* tokens of the prompt that is computed */
    struct how how;
};

static inline void run_open(struct run *r, const char *dir, const struct how *how)
{
    const struct serving_host host = {0};
    const struct serving_backend_api *api = run_api(how);
    struct lr_error err = {0};
    char extra[64];

    memset(r, 0, sizeof(*r));
    r->how = *how;
    snprintf(extra, sizeof(extra), "{\"kernels\":\"%s\"}", how->kernels ? how->kernels : "");
    const struct serving_options options = {.device = how->api ? how->device : "cpu",
                                            .max_sequences = 1 + how->beside,
                                            .prefill_chunk = how->chunk * (1 + how->beside),
                                            .threads = how->threads,
                                            .extra_json =
                                                how->extra_json ? how->extra_json : extra};
    if (native_model_api()->open(&host, dir, &options, &r->model, &err) != LR_OK)
        fail_msg("%s", err.text);
    native_model_api()->facts(r->model, &r->facts);
    if (api->plan(r->model, &options, &r->plan, &err) != LR_OK)
        fail_msg("%s", err.text);
    r->usable = malloc((r->facts.vocab_rows / 32 + 1) * sizeof(*r->usable));
    memset(r->usable, 0xFF, (r->facts.vocab_rows / 32 + 1) * sizeof(*r->usable));
    if (api->open(&host, r->model, r->usable, &options, &r->plan, &r->backend, &err) != LR_OK)
        fail_msg("%s", err.text);
    for (uint32_t s = 0; s <= how->beside; s++)
        for (uint32_t k = 0; k < r->plan.kind_count; k++)
            for (uint32_t i = 0; i < RUN_CONTEXT; i++) {
                uint32_t own = r->plan.kinds[k].pages / (1 + how->beside);
                r->pages[s][k][i] = s * own + i % own;
            }
}

static inline void run_close(struct run *r)
{
    run_api(&r->how)->close(r->backend);
    native_model_api()->close(r->model);
    free(r->usable);
}

static inline struct serving_step run_step(struct run *r, uint32_t slot, const uint32_t *ids,
                                           uint32_t at, uint32_t count)
{
    struct serving_step step = {.slot = slot,
                                .position = at,
                                .count = count,
                                .page_count = (at + count + 31) / 32,
                                .prompt = r->prompt,
                                .tokens = ids + at,
                                .snapshot_load = SERVING_NONE,
                                .snapshot_save = SERVING_NONE};

    for (uint32_t k = 0; k < r->plan.kind_count; k++)
        step.pages[k] = r->pages[slot][k];
    return step;
}

/* Logits of every position; the caller frees them. */
static inline float *run_logits(struct run *r, const uint32_t *ids, uint32_t count)
{
    size_t vocab = r->facts.vocab_rows;
    float *out = calloc(count * vocab, sizeof(*out));
    uint32_t *others = calloc((size_t)RUN_BESIDE * count, sizeof(*others));
    struct lr_error err = {0};

    assert_true(out != NULL && others != NULL);
    r->prompt = count;
    for (uint32_t i = 0; i < RUN_BESIDE * count; i++)
        others[i] = (i * 7 + ids[i % count]) % (uint32_t)vocab;
    for (uint32_t at = 0; at < count; at += r->how.chunk) {
        uint32_t n = count - at < r->how.chunk ? count - at : r->how.chunk;
        struct serving_step steps[1 + RUN_BESIDE];
        for (uint32_t s = 0; s <= r->how.beside; s++)
            steps[s] = run_step(r, s, s == 0 ? ids : others + (size_t)(s - 1) * count, at, n);
        steps[0].logits = out + at * vocab;
        const struct serving_batch batch = {
            .steps = steps, .count = 1 + r->how.beside, .tokens = n * (1 + r->how.beside)};
        if (run_api(&r->how)->forward(r->backend, &batch, &err) != LR_OK)
            fail_msg("%s", err.text);
    }
    free(others);
    return out;
}

/* The text of a file of a family; the arena keeps it. */
static inline struct lr_str family_file(struct lr_arena *arena, const char *family,
                                        const char *name)
{
    char path[512];
    struct lr_str text;

    snprintf(path, sizeof(path), FAMILIES "%s/%s", family, name);
    assert_int_equal(lr_file_read(arena, path, 16 << 20, &text, NULL), LR_OK);
    return text;
}

static inline const struct lr_json *family_json(struct lr_arena *arena, const char *family,
                                                const char *name)
{
    const struct lr_json *json;

    assert_int_equal(lr_json_parse(arena, family_file(arena, family, name), NULL, &json, NULL),
                     LR_OK);
    return json;
}

/* A list of numbers; *count of them. */
static inline uint32_t *json_ids(struct lr_arena *arena, const struct lr_json *list,
                                 uint32_t *count)
{
    uint32_t *ids = lr_arena_array(arena, list->count, sizeof(*ids));

    *count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id = 0;
        assert_true(lr_json_u64(&list->items[i], &id));
        ids[i] = (uint32_t)id;
    }
    return ids;
}

#endif
