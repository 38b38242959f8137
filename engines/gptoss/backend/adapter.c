/* gptoss/backend/adapter.c - see adapter.h. */
#include "engines/gptoss/backend/adapter.h"

#include <stdlib.h>

#include "base/fail.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/extra.h"
#include "engines/gptoss/model/loader.h"

_Static_assert(GPTOSS_NO_PAGE == SERVING_NO_PAGE, "tables are passed on as they are");
_Static_assert((int)GPTOSS_DIPS == (int)SERVING_DIPS, "plans have the same places");

enum { BATCHES = 3 }; /* two that are begun, and one of forward() */

/* A batch as the device gets it. */
struct adapted {
    struct gptoss_step *steps;         /* owned, max_sequences entries */
    const struct serving_batch *batch; /* borrowed while forward() runs */
    struct serving_step *results;      /* borrowed until the batch is finished */
    uint32_t count;
};

struct serving_backend {
    const struct gptoss_backend_api *api;
    struct gptoss_backend *device; /* owned */
    struct adapted batches[BATCHES];
    uint32_t begun; /* begin() and finish() so far: the batches take turns */
    uint32_t finished;
};

/* ---- options and plans ---- */

static lr_code options_of(const struct serving_options *given,
                          struct gptoss_backend_options *out, struct lr_error *err)
{
    struct gptoss_extra extra;
    lr_code code = gptoss_extra_read(given->extra_json, &extra, err);

    *out = (struct gptoss_backend_options){
        .device = given->device,
        .memory_limit = given->memory_limit,
        .kv_tokens = given->kv_tokens,
        .max_sequences = given->max_sequences,
        .max_context = given->max_context,
        .prefill_chunk = given->prefill_chunk,
        .threads = given->threads,
        .extra_json = given->extra_json,
        .measure_memory = extra.measure_memory,
        .embed_on_host = extra.embed_on_host,
    };
    return code;
}

/* Members with the same name and meaning in both plans. */
#define SAME_MEMBERS(to, from)                                                                 \
    do {                                                                                       \
        (to)->on_device = (from)->on_device;                                                   \
        (to)->page_tokens = (from)->page_tokens;                                               \
        (to)->max_sequences = (from)->max_sequences;                                           \
        (to)->max_context = (from)->max_context;                                               \
        (to)->prefill_chunk = (from)->prefill_chunk;                                           \
        (to)->step_tokens = (from)->step_tokens;                                               \
        (to)->threads = (from)->threads;                                                       \
        (to)->least_chunk = (from)->least_chunk;                                               \
        (to)->first_chunk = (from)->first_chunk;                                               \
        (to)->late_masks = (from)->late_masks;                                                 \
        for (int i_ = 0; i_ < GPTOSS_DIPS; i_++) {                                             \
            (to)->dips[i_].rows = (from)->dips[i_].rows;                                       \
            (to)->dips[i_].enough = (from)->dips[i_].enough;                                   \
        }                                                                                      \
        (to)->host = (from)->host;                                                             \
        (to)->weights = (from)->weights;                                                       \
        (to)->workspace = (from)->workspace;                                                   \
        (to)->fixed = (from)->fixed;                                                           \
        (to)->kv = (from)->kv;                                                                 \
        (to)->total = (from)->total;                                                           \
    } while (0)

static void plan_to_serving(const struct gptoss_plan *plan, uint32_t window,
                            struct serving_plan *out)
{
    *out = (struct serving_plan){.kind_count = GPTOSS_KINDS};
    SAME_MEMBERS(out, plan);
    out->kinds[GPTOSS_FULL] = (struct serving_kind){
        .page_bytes = plan->full_page_bytes,
        .pages = plan->full_pages,
        .least = plan->least_pages[GPTOSS_FULL],
        .most = plan->most_pages[GPTOSS_FULL],
    };
    out->kinds[GPTOSS_WINDOW] = (struct serving_kind){
        .window = window,
        .page_bytes = plan->window_page_bytes,
        .pages = plan->window_pages,
        .least = plan->least_pages[GPTOSS_WINDOW],
        .most = plan->most_pages[GPTOSS_WINDOW],
    };
}

static void plan_to_device(const struct serving_plan *plan, struct gptoss_plan *out)
{
    const struct serving_kind *full = &plan->kinds[GPTOSS_FULL],
                              *window = &plan->kinds[GPTOSS_WINDOW];

    *out = (struct gptoss_plan){
        .full_pages = full->pages,
        .window_pages = window->pages,
        .least_pages = {full->least, window->least},
        .most_pages = {full->most, window->most},
        .full_page_bytes = full->page_bytes,
        .window_page_bytes = window->page_bytes,
        .embed_on_host = plan->host != 0 ? 1 : 0,
    };
    SAME_MEMBERS(out, plan);
}

static lr_code adapter_plan(const struct gptoss_backend_api *api, const void *model,
                            const struct serving_options *options, struct serving_plan *out,
                            struct lr_error *err)
{
    const struct model_config *config = &((const struct gptoss_model *)model)->weights->config;
    struct gptoss_backend_options o;
    struct gptoss_plan plan;
    lr_code code = options_of(options, &o, err);

    if (code == LR_OK)
        code = api->plan(config, &o, &plan, err);
    if (code == LR_OK)
        plan_to_serving(&plan, config->window, out);
    return code;
}

/* ---- open and close ---- */

static void adapter_close(struct serving_backend *b)
{
    if (b == NULL)
        return;
    if (b->device != NULL)
        b->api->close(b->device);
    for (int i = 0; i < BATCHES; i++)
        free(b->batches[i].steps);
    free(b);
}

static bool adapter_allot(struct serving_backend *b, uint32_t sequences)
{
    for (int i = 0; i < BATCHES; i++) {
        b->batches[i].steps = calloc(sequences, sizeof(*b->batches[i].steps));
        if (b->batches[i].steps == NULL)
            return false;
    }
    return true;
}

static lr_code adapter_open(const struct gptoss_backend_api *api,
                            const struct serving_host *host, const void *model,
                            const uint32_t *usable, const struct serving_options *options,
                            const struct serving_plan *plan, struct serving_backend **out,
                            struct lr_error *err)
{
    const struct gptoss_backend_host h = {host->ctx, host->progress, host->log};
    struct serving_backend *b = calloc(1, sizeof(*b));
    struct gptoss_backend_options o;
    struct gptoss_plan p;

    *out = NULL;
    if (b == NULL || !adapter_allot(b, plan->max_sequences)) {
        adapter_close(b);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u sequences", plan->max_sequences);
    }
    b->api = api;
    plan_to_device(plan, &p);
    lr_code code = options_of(options, &o, err);
    if (code == LR_OK)
        code = api->open(&h, ((const struct gptoss_model *)model)->weights, usable, &o, &p,
                         &b->device, err);
    if (code != LR_OK) {
        adapter_close(b);
        return code;
    }
    *out = b;
    return LR_OK;
}

/* ---- steps ---- */

static struct gptoss_batch adapt(struct adapted *a, const struct serving_batch *batch)
{
    a->batch = batch;
    a->results = batch->steps;
    a->count = batch->count;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct serving_step *s = &batch->steps[i];
        a->steps[i] = (struct gptoss_step){
            .slot = s->slot,
            .position = s->position,
            .count = s->count,
            .page_count = s->page_count,
            .tokens = s->tokens,
            .full_pages = s->pages[GPTOSS_FULL],
            .window_pages = s->pages[GPTOSS_WINDOW],
            .logits = s->logits,
            .sample = s->sample,
            .sampled = s->sampled,
        };
    }
    return (struct gptoss_batch){.steps = a->steps,
                                 .count = batch->count,
                                 .tokens = batch->tokens,
                                 .follows = batch->follows};
}

/* The masks of the steps are complete, except of those that are not sampled. */
static void adapter_fill_masks(void *ctx)
{
    const struct adapted *a = ctx;

    a->batch->fill_masks(a->batch->ctx);
    for (uint32_t i = 0; i < a->count; i++)
        a->steps[i].sample = a->results[i].sample;
}

static lr_code adapter_forward(struct serving_backend *b, const struct serving_batch *batch,
                               struct lr_error *err)
{
    struct adapted *a = &b->batches[BATCHES - 1];
    struct gptoss_batch adapted = adapt(a, batch);

    if (batch->fill_masks != NULL) {
        adapted.fill_masks = adapter_fill_masks;
        adapted.ctx = a;
    }
    return b->api->forward(b->device, &adapted, err);
}

#ifdef GPTOSS_CUDA /* the only device that begins steps */
static lr_code adapter_begin(struct serving_backend *b, const struct serving_batch *batch,
                             struct lr_error *err)
{
    const struct gptoss_batch adapted = adapt(&b->batches[b->begun % (BATCHES - 1)], batch);
    lr_code code = b->api->begin(b->device, &adapted, err);

    b->begun += code == LR_OK ? 1 : 0;
    return code;
}

static lr_code adapter_finish(struct serving_backend *b, struct lr_error *err)
{
    const struct adapted *a = &b->batches[b->finished++ % (BATCHES - 1)];
    lr_code code = b->api->finish(b->device, err);

    for (uint32_t i = 0; i < a->count; i++)
        a->results[i].sample = a->steps[i].sample;
    return code;
}
#endif

/* ---- memory ---- */

static lr_code adapter_resize(struct serving_backend *b, uint32_t kind, uint32_t pages,
                              struct lr_error *err)
{
    return b->api->resize(b->device, (enum gptoss_kind)kind, pages, err);
}

static lr_code adapter_move(struct serving_backend *b, uint32_t kind,
                            const struct serving_move *moves, uint32_t count,
                            struct lr_error *err)
{
    /* The two records are the same; moves are few, and made while no step is computed. */
    struct gptoss_move *adapted = calloc(count, sizeof(*adapted));

    if (adapted == NULL)
        return lr_fail(err, LR_INTERNAL, "no memory to move %u pages", count);
    for (uint32_t i = 0; i < count; i++)
        adapted[i] = (struct gptoss_move){moves[i].from, moves[i].to};
    lr_code code = b->api->move(b->device, (enum gptoss_kind)kind, adapted, count, err);
    free(adapted);
    return code;
}

/* ---- the devices ---- */

/* begin and finish: adapter_begin, adapter_finish; or NULL, NULL. */
#define ADAPTED(device, begins, finishes)                                                      \
    static lr_code device##_plan(const void *model, const struct serving_options *options,     \
                                 struct serving_plan *out, struct lr_error *err)               \
    {                                                                                          \
        return adapter_plan(gptoss_backend_##device(), model, options, out, err);              \
    }                                                                                          \
    static lr_code device##_open(                                                              \
        const struct serving_host *host, const void *model, const uint32_t *usable,            \
        const struct serving_options *options, const struct serving_plan *plan,                \
        struct serving_backend **out, struct lr_error *err)                                    \
    {                                                                                          \
        return adapter_open(gptoss_backend_##device(), host, model, usable, options, plan,     \
                            out, err);                                                         \
    }                                                                                          \
    const struct serving_backend_api gptoss_serving_##device = {                               \
        .name = #device,                                                                       \
        .plan = device##_plan,                                                                 \
        .open = device##_open,                                                                 \
        .close = adapter_close,                                                                \
        .forward = adapter_forward,                                                            \
        .resize = adapter_resize,                                                              \
        .move = adapter_move,                                                                  \
        .begin = (begins),                                                                     \
        .finish = (finishes),                                                                  \
    };

ADAPTED(cpu, NULL, NULL)
#ifdef GPTOSS_CUDA
ADAPTED(cuda, adapter_begin, adapter_finish)
#endif
#ifdef GPTOSS_VULKAN
ADAPTED(vulkan, NULL, NULL)
#endif
#ifdef GPTOSS_METAL
ADAPTED(metal, NULL, NULL)
#endif
