/* native/cpu/backend.c - open and close, and the table of this device. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/os/memory.h"
#include "engines/native/cpu/cpu.h"

static void backend_close(struct serving_backend *b)
{
    if (b == NULL)
        return;
    engine_pool_destroy(b->pool);
    native_weights_close(b->weights);
    for (uint32_t i = 0; b->samplers != NULL && i < b->plan.threads; i++)
        sampler_destroy(b->samplers[i]);
    free(b->samplers);
    for (uint32_t i = 0; i <= SERVING_KINDS_MAX; i++)
        native_region_close(&b->regions[i]);
    lr_aligned_free(b->block);
    free(b);
}

static lr_code backend_allot(struct serving_backend *b, struct lr_error *err)
{
    const struct serving_plan *p = &b->plan;
    size_t bytes = native_lay_out(b, NULL);
    bool ok = native_region_open(&b->regions[SERVING_SNAPSHOTS], p->snapshots,
                                 p->most_snapshots, p->state_bytes);

    for (uint32_t i = 0; i < p->kind_count; i++)
        ok = ok && native_region_open(&b->regions[i], p->kinds[i].pages, p->kinds[i].most,
                                      p->kinds[i].page_bytes);
    b->samplers = calloc(p->threads, sizeof(*b->samplers));
    b->block = lr_aligned_alloc(NATIVE_CPU_ALIGN, bytes + NATIVE_CPU_ALIGN);
    for (uint32_t i = 0; b->samplers != NULL && i < p->threads; i++) {
        b->samplers[i] = sampler_create(b->spec->vocab);
        ok = ok && b->samplers[i] != NULL;
    }
    if (!ok || b->samplers == NULL || b->block == NULL)
        return lr_fail(err, LR_OUT_OF_RAM,
                       "no memory for a KV cache of %llu and a workspace of %llu bytes",
                       (unsigned long long)p->kv, (unsigned long long)p->workspace);
    memset(b->block, 0, bytes);
    native_lay_out(b, b->block);
    b->pool = engine_pool_create(p->threads);
    if (b->pool == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start %u threads", p->threads);
    return LR_OK;
}

/* "kernels": "plain" or "avx2" in extra_json: other kernels than the fastest, for tests. */
static const struct native_kernels *backend_kernels(const char *extra_json)
{
    const struct native_kernels *const all[] = {native_kernels_plain(), native_kernels_avx2()};
    const struct native_kernels *found = native_kernels_best();
    const struct lr_json *extra;
    struct lr_arena arena;
    struct lr_str text;

    if (extra_json == NULL)
        return found;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(extra_json), NULL, &extra, NULL) == LR_OK &&
        lr_json_str(lr_json_get(extra, "kernels"), &text))
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            if (all[i] != NULL && lr_str_eq_z(text, all[i]->name))
                found = all[i];
    lr_arena_free(&arena);
    return found;
}

static lr_code backend_open(const struct serving_host *host, const void *model,
                            const uint32_t *usable, const struct serving_options *options,
                            const struct serving_plan *plan, struct serving_backend **out,
                            struct lr_error *err)
{
    const struct native_model *m = model;
    struct serving_backend *b = calloc(1, sizeof(*b));

    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the CPU device");
    b->spec = &m->spec;
    b->usable = usable;
    b->kernels = backend_kernels(options->extra_json);
    b->plan = *plan;
    lr_code code = backend_allot(b, err);
    if (code == LR_OK)
        code = native_weights_open(host, m, b->pool, &b->weights, err);
    if (code != LR_OK) {
        backend_close(b);
        return code;
    }
    b->matrices = native_weights_matrices(b->weights);
    *out = b;
    return LR_OK;
}

const struct serving_backend_api *native_backend_cpu(void)
{
    static const struct serving_backend_api api = {
        .name = "cpu",
        .plan = native_plan,
        .open = backend_open,
        .close = backend_close,
        .forward = native_forward,
        .resize = native_resize,
        .move = native_move,
    };
    return &api;
}
