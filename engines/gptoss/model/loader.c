/* gptoss/model/loader.c - see loader.h. */
#include "engines/gptoss/model/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/gptoss/extra.h"
#include "engines/serving/pace.h"
#include "model/shape.h"

static lr_code open_weights(const struct serving_host *host, const char *dir,
                            const struct serving_options *options,
                            const struct gptoss_extra *extra, struct model_gptoss **out,
                            struct lr_error *err)
{
    if (extra->random_shape[0] != '\0')
        return model_shape_open(extra->random_shape, out, err);
    lr_code code = model_gptoss_open(dir, options->artifact, out, err);

    if (code != LR_OK && options->artifact != NULL) {
        if (host != NULL && host->log != NULL)
            host->log(host->ctx, 2, "model.artifact", err->text);
        code = model_gptoss_open(dir, NULL, out, err);
    }
    return code;
}

static void loader_close(void *model)
{
    struct gptoss_model *m = model;

    if (m != NULL)
        model_gptoss_close(m->weights);
    free(m);
}

static lr_code loader_open(const struct serving_host *host, const char *dir,
                           const struct serving_options *options, void **model,
                           struct lr_error *err)
{
    struct gptoss_extra extra;

    *model = NULL;
    lr_code code = gptoss_extra_read(options->extra_json, &extra, err);
    if (code == LR_OK && strcmp(options->device, "cpu") == 0 && extra.random_shape[0] != '\0')
        code = lr_fail(err, LR_UNSUPPORTED,
                       "random weights are made on a GPU: use --device cuda or vulkan");
    if (code != LR_OK)
        return code;
    struct gptoss_model *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the model");
    code = open_weights(host, dir, options, &extra, &m->weights, err);
    if (code == LR_OK)
        code = model_generation_read(dir, &m->generation, err);
    if (code != LR_OK) {
        loader_close(m);
        return code;
    }
    *model = m;
    return LR_OK;
}

static void add_stops(struct serving_facts *facts, const struct model_token_ids *ids)
{
    for (uint32_t i = 0; i < ids->eos_count && facts->stop_count < SERVING_STOPS_MAX; i++)
        facts->stops[facts->stop_count++] = ids->eos[i];
}

static void loader_facts(const void *model, struct serving_facts *out)
{
    /* Found by name, never by number, because other vocabularies number them differently. */
    static const char *const stops[] = {"<|return|>", "<|call|>", "<|endoftext|>", NULL};
    const struct gptoss_model *m = model;
    const struct model_config *config = &m->weights->config;

    *out = (struct serving_facts){
        .vocab_rows = m->weights->vocab_rows,
        .context = config->context,
        .stop_names = stops,
        .depth_unit = gptoss_depth_unit(config),
        .source = m->weights->source,
    };
    add_stops(out, &config->tokens);
    add_stops(out, &m->generation.tokens);
}

const struct serving_model_api gptoss_loader = {
    .open = loader_open, .facts = loader_facts, .close = loader_close};

uint32_t gptoss_depth_unit(const struct model_config *c)
{
    /* Multiplications of one token, in one layer. */
    uint64_t heads = (uint64_t)c->heads * c->head_dim;
    uint64_t projections = (uint64_t)c->hidden * (2 * heads + 2ull * c->kv_heads * c->head_dim);
    uint64_t experts = (uint64_t)c->experts_per_token * 3 * c->hidden * c->intermediate;
    uint64_t key = 2 * heads; /* of one key: its product with the query, and its value */
    uint64_t full = 0;

    for (uint32_t i = 0; i < c->layers; i++)
        full += c->sliding[i] ? 0 : 1;
    if (full == 0)
        return SERVING_DEPTH_IS_FREE;
    uint64_t rest = c->layers * (projections + experts) + (c->layers - full) * key * c->window;
    uint64_t unit = rest / (full * key);
    return unit < 1 ? 1 : unit > UINT32_MAX ? UINT32_MAX : (uint32_t)unit;
}
