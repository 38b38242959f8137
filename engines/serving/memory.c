/* serving/memory.c - the KV memory grows and shrinks while the model is open. */
#include "base/fail.h"
#include "engines/serving/model.h"

/* The model is dead after any failure but a lack of memory. */
static void memory_check(struct lr_engine_model *m, lr_code code, const struct lr_error *err)
{
    if (code == LR_OK || code == LR_OUT_OF_VRAM || code == LR_OUT_OF_RAM)
        return;
    m->session.dead = *err;
    m->session.dead.code = LR_INTERNAL;
}

static bool resize(void *ctx, uint32_t kind, uint32_t pages)
{
    struct lr_engine_model *m = ctx;
    struct lr_error err = {0};
    lr_code code = m->backend_api->resize(m->backend, kind, pages, &err);

    memory_check(m, code, &err);
    return code == LR_OK;
}

static void memory_move(void *ctx, uint32_t kind, const struct serving_move *moves,
                        uint32_t count)
{
    struct lr_engine_model *m = ctx;
    struct lr_error err = {0};

    memory_check(m, m->backend_api->move(m->backend, kind, moves, count, &err), &err);
}

void serving_engine_memory_open(struct lr_engine_model *m)
{
    const struct serving_page_device device = {.ctx = m, .resize = resize, .move = memory_move};

    serving_scheduler_set_device(&m->scheduler, &device);
}

lr_code serving_engine_limit_kv(struct lr_engine_model *m, uint64_t bytes, uint64_t *kv_bytes,
                                struct lr_error *err)
{
    struct lr_engine_stats stats = {.size = sizeof(stats)};
    const struct serving_kv_share share = serving_elastic_divide(&m->plan, bytes);

    *kv_bytes = 0;
    lr_code code = engine_session_alive(&m->session, err);
    if (code != LR_OK)
        return code;
    serving_scheduler_limit(&m->scheduler, &share);
    serving_engine_stats(m, &stats);
    *kv_bytes = stats.kv_bytes;
    return engine_session_alive(&m->session, err);
}
