/* native/model.c - a model's folder for the serving part: its list of operations, and facts. */
#include "engines/native/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "engines/native/spec/open.h"
#include "model/config.h"

/* Option of extra_json: "describe": true tells the list of operations, for `debug ops`. */
static bool wants_description(const char *extra_json)
{
    const struct lr_json *extra;
    struct lr_arena arena;
    bool wanted = false;

    if (extra_json == NULL)
        return false;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(extra_json), NULL, &extra, NULL) == LR_OK)
        (void)lr_json_bool(lr_json_get(extra, "describe"), &wanted);
    lr_arena_free(&arena);
    return wanted;
}

static lr_code describe(const struct serving_host *host, const struct native_model *m,
                        struct lr_error *err)
{
    enum { TEXT_MAX = 16 << 20 };
    struct lr_buf text;

    lr_buf_init(&text, TEXT_MAX);
    native_spec_print(&m->spec, &text);
    char *line = (char *)(uintptr_t)lr_buf_z(&text);
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        host->log(host->ctx, 1, "model.ops", line);
    }
    lr_buf_free(&text);
    return lr_fail(err, LR_CANCELLED, "the model was described and not opened");
}

static lr_code model_open(const struct serving_host *host, const char *dir,
                          const struct serving_options *options, void **model,
                          struct lr_error *err)
{
    struct native_model *m;
    lr_code code = native_model_open(dir, &m, err);
    char text[256];

    *model = m;
    if (code >= 100) /* the daemon's own codes must not be returned through the ABI */
        return err->code = LR_MODEL_CORRUPT;
    if (code == LR_OK && host != NULL && host->log != NULL && m->spec.skipped > 0) {
        snprintf(text, sizeof(text),
                 "%u tensors that text does not need are not loaded: %s and others",
                 m->spec.skipped, m->spec.skipped_of);
        host->log(host->ctx, 1, "model.skipped", text);
    }
    if (code == LR_OK && host != NULL && host->log != NULL && m->spec.scales_skipped > 0) {
        snprintf(text, sizeof(text),
                 "%u scales of activations and of a KV cache are not used: activations stay "
                 "float32",
                 m->spec.scales_skipped);
        host->log(host->ctx, 1, "model.scales", text);
    }
    if (code == LR_OK && host != NULL && host->log != NULL &&
        wants_description(options->extra_json)) {
        code = describe(host, m, err);
        native_model_close(m);
        *model = NULL;
    }
    return code;
}

/* The depth at which the keys and values of a sequence have as many bytes as the weights. */
static uint32_t depth_unit(const struct native_spec *s)
{
    uint64_t floats = 0;

    for (uint32_t i = 0; i < s->kind_count; i++)
        floats += s->kinds[i].window == 0 ? s->kinds[i].token_floats : 0;
    uint64_t depth = floats > 0 ? s->step_bytes / (floats * sizeof(float)) : 0;
    return depth > UINT32_MAX ? UINT32_MAX : (uint32_t)depth;
}

static struct serving_lengths lengths_of(const struct native_spec *s)
{
    for (uint32_t i = 0; i < s->rope_count; i++)
        if (s->ropes[i].longer != NULL || s->ropes[i].dynamic > 0)
            return (struct serving_lengths){s->ropes[i].limit, s->ropes[i].dynamic > 0};
    return (struct serving_lengths){0};
}

/* What Qwen3-Reranker was trained with. */
static const struct serving_pair question = {
    .before =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
        "Query and the Instruct provided. Note that the answer can only be \"yes\" or "
        "\"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve "
        "relevant passages that answer the query\n<Query>: ",
    .between = "\n<Document>: ",
    .after = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

static void model_facts(const void *model, struct serving_facts *out)
{
    const struct native_model *m = model;

    *out = (struct serving_facts){
        .vocab_rows = m->spec.vocab,
        .context = m->spec.context,
        .depth_unit = depth_unit(&m->spec),
        .lengths = lengths_of(&m->spec),
        .source = "safetensors",
        .dimensions =
            m->spec.pool != NATIVE_NO_POOL ? m->spec.registers[m->spec.result].width : 0,
        .ranks = m->spec.ranks,
        .stop_count = m->stop_count,
    };
    if (m->spec.asks)
        out->pair = question;
    memcpy(out->stops, m->stops, m->stop_count * sizeof(*m->stops));
}

static void model_close(void *model)
{
    native_model_close(model);
}

const struct serving_model_api *native_model_api(void)
{
    static const struct serving_model_api api = {
        .open = model_open, .facts = model_facts, .close = model_close};

    return &api;
}
