/* model/shape.c - see shape.h. */
#include "model/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gptoss_storage.h"

lr_code model_shape_config(const char *name, struct model_config *out, struct lr_error *err)
{
    bool large = strcmp(name, "120b") == 0;

    if (!large && strcmp(name, "20b") != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "shape \"%s\" is not known: 20b or 120b",
                       name);
    *out = (struct model_config){
        .layers = large ? 36 : 24,
        .hidden = 2880,
        .intermediate = 2880,
        .heads = 64,
        .kv_heads = 8,
        .head_dim = 64,
        .experts = large ? 128 : 32,
        .experts_per_token = 4,
        .vocab = 201088,
        .window = 128,
        .context = 131072,
        .rms_eps = 1e-5,
        .swiglu_limit = 7,
        .rope = {.kind = MODEL_ROPE_YARN,
                 .theta = 150000,
                 .factor = 32,
                 .beta_fast = 32,
                 .beta_slow = 1,
                 .attention_factor = 0.1 * log(32) + 1,
                 .original_context = 4096},
        .tokens = {.bos = -1, .pad = -1},
    };
    snprintf(out->identity.architecture, sizeof(out->identity.architecture),
             "GptOssForCausalLM");
    snprintf(out->identity.model_type, sizeof(out->identity.model_type), "gpt_oss");
    snprintf(out->identity.runtime, sizeof(out->identity.runtime), "gptoss");
    out->identity.context_tokens = out->context;
    for (uint32_t i = 0; i < out->layers; i++)
        out->sliding[i] = i % 2 == 0;
    return LR_OK;
}

lr_code model_shape_open(const char *name, struct model_gptoss **out, struct lr_error *err)
{
    struct model_gptoss *m = calloc(1, sizeof(*m));
    struct model_gptoss_storage *s = calloc(1, sizeof(*s));

    *out = NULL;
    if (m == NULL || s == NULL) {
        free(m);
        free(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a model of shape %s", name);
    }
    lr_arena_init(&s->arena, 1 << 20);
    m->storage = s;
    lr_code code = model_shape_config(name, &m->config, err);
    struct model_gptoss_layer *layers =
        code == LR_OK ? lr_arena_array(&s->arena, m->config.layers, sizeof(*layers)) : NULL;
    if (code == LR_OK && layers == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for %u layers", m->config.layers);
    if (code != LR_OK) {
        model_gptoss_close(m);
        return code;
    }
    memset(layers, 0, m->config.layers * sizeof(*layers));
    m->layers = layers;
    m->vocab_rows = m->config.vocab;
    m->weight_bytes = model_gptoss_weight_bytes(&m->config);
    m->source = "random";
    *out = m;
    return LR_OK;
}

double model_step_bytes(const struct model_config *c, uint32_t batch, double context)
{
    double up = 2.0 * c->intermediate, down = c->hidden, kv = 0;
    double expert = up * (c->hidden / 32 * 17.0 + 2) + down * (c->intermediate / 32 * 17.0 + 2);
    double idle = pow(1 - (double)c->experts_per_token / c->experts, batch);

    for (uint32_t i = 0; i < c->layers; i++) {
        double seen = c->sliding[i] && context > c->window ? c->window : context;
        kv += seen * c->kv_heads * c->head_dim * 2 * 2;
    }
    return (double)model_gptoss_weight_bytes(c) -
           c->layers * (double)c->experts * idle * expert -
           ((double)c->vocab - batch) * c->hidden * 2 + batch * kv;
}
