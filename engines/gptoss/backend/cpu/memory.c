/* gptoss/backend/cpu/memory.c - the number of KV pages changes. */
#include "engines/gptoss/backend/cpu/cpu.h"

lr_code cpu_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                   struct lr_error *err)
{
    return engine_region_resize(&b->regions[kind], pages, err);
}

lr_code cpu_move(struct gptoss_backend *b, enum gptoss_kind kind,
                 const struct gptoss_move *moves, uint32_t count, struct lr_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < count; i++)
        engine_region_move(&b->regions[kind], moves[i].from, moves[i].to);
    return LR_OK;
}
