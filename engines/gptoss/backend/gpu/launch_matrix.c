/* gptoss/backend/gpu/launch_matrix.c - launches of the kernels with cooperative matrices. */
#include "engines/gptoss/backend/gpu/launch.h"

enum {
    TILE_ROWS = 16,
    MX_TILES = 2,
    MANY_ROWS = 128,
    MANY_TOKENS = 64,
    SUBGROUPS = 8,
    HELD = 14
};
enum { LEAST_DENSE = 3 }; /* fewer rows: the plain kernels read as fast */
enum { FEW_MOST = 24, DENSE_MOST = 64, ROWS_OF_GROUP = 8 };

/* ---- layout ---- */

/* What invocation `me` must hold, as matrix.glsl assumes. */
static bool held_is_expected(const uint32_t *held, uint32_t me)
{
    uint32_t g = me / 4, q = me % 4;
    bool same = held[0] == 8 && held[1] == 4;

    for (uint32_t i = 0; i < 8; i++)
        same = same && held[2 + i] == (g + i / 4 * 8) * 16 + q * 2 + i % 2 + i / 2 % 2 * 8;
    for (uint32_t i = 0; i < 4; i++)
        same = same && held[10 + i] == (q * 2 + i % 2 + i / 2 * 8) * 8 + g;
    return same;
}

static lr_code ask_layout(struct gptoss_backend *b, bool *expected, struct lr_error *err)
{
    struct gpu_made *made = &b->made[b->made_count++];
    struct gpu_list list = {0};
    const struct push_fill push = {0};
    uint64_t bytes = 32 * HELD * 4;

    *made = (struct gpu_made){GPU_layout_m, 0, NULL};
    gpu_launch(b, &list, GPU_layout_m, 0, (struct gpu_grid){1, 1, 1}, PUSH(push),
               SPANS(gpu_whole(b->ws.best)));
    gpu_list_copy(&list, (struct gpu_span){b->ws.best, 0, bytes},
                  (struct gpu_span){b->to_host, 0, bytes});
    lr_code code = gpu_run(b, &list, err);
    gpu_list_free(&list);
    const uint32_t *held = b->host->mapped(b->to_host);
    *expected = code == LR_OK;
    for (uint32_t i = 0; i < 32 && *expected; i++)
        *expected = held_is_expected(held + (size_t)i * HELD, i);
    return code;
}

lr_code gpu_matrices_open(struct gptoss_backend *b, const struct gpu_extra *extra,
                          struct lr_error *err)
{
    bool expected = false;
    lr_code code = LR_OK;

    if (!b->limits.matrices || extra->no_matrices)
        return LR_OK;
    b->matrices = (struct gpu_matrices){.many = true, .parts = extra->parts == 1 ? 1 : 2};
    if (b->few != 0 && !extra->no_few_matrices)
        code = ask_layout(b, &expected, err);
    if (expected) {
        uint32_t most = GPU_FEW_PAIRS / b->config->experts_per_token;
        b->matrices.few = most < FEW_MOST ? most : FEW_MOST;
        b->matrices.dense = LEAST_DENSE;
        b->matrices.dense_most = DENSE_MOST;
    }
    return code;
}

bool gpu_few_dense_by_matrices(const struct gptoss_backend *b, uint32_t rows)
{
    return b->matrices.dense != 0 && rows >= b->matrices.dense &&
           rows <= b->matrices.dense_most;
}

/* ---- launches ---- */

void gpu_add_pack(struct gptoss_backend *b, struct gpu_list *l, struct gpu_buffer *from,
                  struct gpu_buffer *to, uint32_t columns, uint32_t rows,
                  const struct gpu_span *norm, const struct gpu_span *out_rows)
{
    const struct push_norm push = {rows, columns, out_rows != NULL ? 1 : 0,
                                   (float)b->config->rms_eps};
    struct gpu_span x = gpu_whole(from);

    gpu_launch(
        b, l, GPU_pack, norm != NULL ? GPU_NORM : 0, (struct gpu_grid){rows, 1, 1}, PUSH(push),
        SPANS(x, norm != NULL ? *norm : x, out_rows != NULL ? *out_rows : x, gpu_whole(to)));
}

void gpu_add_few_qkv_m(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                       const struct gpu_layer *layer)
{
    struct push_qkv push = gpu_qkv_push(b, s, layer);

    gpu_add_pack(b, l, b->ws.x, b->ws.normed, b->config->hidden, s->rows, &layer->attn_norm,
                 NULL);
    for (uint32_t i = 0; i < layer->qkv.part_count; i++) {
        const struct gpu_part *part = &layer->qkv.parts[i];
        push.first = part->first;
        push.count = part->count;
        gpu_launch(
            b, l, GPU_few_qkv_m, 0,
            (struct gpu_grid){gpu_over(s->rows, ROWS_OF_GROUP), part->count / TILE_ROWS, 1},
            PUSH(push),
            SPANS(part->weight, layer->qkv.bias, gpu_whole(b->ws.normed),
                  gpu_input(b, s->at.rows), gpu_input(b, s->at.rope), gpu_whole(b->ws.q),
                  gpu_whole(layer->kv)));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, b->config->hidden, s->rows);
    }
}

static void add_dense(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_product *d,
                      enum gpu_kernel kernel, uint32_t mode)
{
    struct gpu_span x = gpu_whole(d->x);

    for (uint32_t i = 0; i < d->m->part_count; i++) {
        const struct gpu_part *part = &d->m->parts[i];
        const struct push_dense push = {d->m->columns, part->first, part->count,
                                        d->tokens,     d->y_stride, 0};
        struct gpu_grid grid = {gpu_over(part->count, MANY_ROWS),
                                gpu_over(d->tokens, MANY_TOKENS), 1};
        if (kernel == GPU_few_dense_m)
            grid = (struct gpu_grid){gpu_over(d->tokens, ROWS_OF_GROUP),
                                     gpu_over(part->count, TILE_ROWS), 1};
        gpu_launch(
            b, l, kernel, mode, grid, PUSH(push),
            SPANS(part->weight, (mode & GPU_BIAS) != 0 ? d->m->bias : x, x, gpu_whole(d->y)));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, d->m->columns, d->tokens);
    }
}

void gpu_add_few_dense_m(struct gptoss_backend *b, struct gpu_list *l,
                         const struct gpu_product *d)
{
    add_dense(b, l, d, GPU_few_dense_m, d->mode);
}

void gpu_add_many_dense_m(struct gptoss_backend *b, struct gpu_list *l,
                          const struct gpu_product *d)
{
    uint32_t parts = d->exact || b->matrices.parts == 2 ? GPU_TWO_PARTS : 0;

    add_dense(b, l, d, GPU_many_dense_m, d->mode | parts);
}

void gpu_add_few_experts_m(struct gptoss_backend *b, struct gpu_list *l,
                           const struct gpu_shape *s, const struct gpu_layer *layer)
{
    const struct model_config *c = b->config;
    uint32_t pairs = s->rows * c->experts_per_token;
    /* One token's experts are added up where they are computed. */
    uint32_t sets =
        s->rows == 1 && SUBGROUPS % c->experts_per_token == 0 ? c->experts_per_token : 0;

    for (uint32_t i = 0; i < layer->router.part_count; i++) {
        const struct gpu_part *part = &layer->router.parts[i];
        const struct push_dense push = {c->hidden, part->first, part->count,
                                        s->rows,   c->experts,  (float)c->rms_eps};
        gpu_launch(b, l, GPU_few_router_pack, 0,
                   (struct gpu_grid){part->count, gpu_over(s->rows, ROWS_OF_GROUP), 1},
                   PUSH(push),
                   SPANS(part->weight, layer->router.bias, gpu_whole(b->ws.x), layer->mlp_norm,
                         gpu_whole(b->ws.router), gpu_whole(b->ws.normed)));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, c->hidden, s->rows);
    }
    for (uint32_t i = 0; i < layer->gate_up.part_count; i++) {
        const struct gpu_part *part = &layer->gate_up.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->gate_up, part, s->rows);
        gpu_launch(
            b, l, GPU_few_up_m, 0,
            (struct gpu_grid){gpu_over(layer->gate_up.rows, MX_TILES * TILE_ROWS), pairs, 1},
            PUSH(push),
            SPANS(part->weight, part->scales, layer->gate_up.bias, gpu_whole(b->ws.normed),
                  gpu_whole(b->ws.router), gpu_whole(b->ws.inner), gpu_whole(b->ws.choice)));
        gpu_beside_previous(l, i > 0);
        gpu_charge_experts(b, l, &layer->gate_up, part, s->rows);
    }
    for (uint32_t i = 0; i < layer->down.part_count; i++) {
        const struct gpu_part *part = &layer->down.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->down, part, s->rows);
        struct gpu_grid one = {gpu_over(layer->down.rows, TILE_ROWS), 1, 1},
                        several = {gpu_over(layer->down.rows, MX_TILES * TILE_ROWS), pairs, 1};
        gpu_launch(b, l, GPU_few_down_m, sets, sets != 0 ? one : several, PUSH(push),
                   SPANS(part->weight, part->scales, layer->down.bias, gpu_whole(b->ws.inner),
                         gpu_whole(b->ws.choice),
                         gpu_whole(sets != 0 ? b->ws.x : b->ws.expert_out)));
        gpu_beside_previous(l, i > 0 && sets == 0);
        gpu_charge_experts(b, l, &layer->down, part, s->rows);
    }
    if (sets == 0) {
        const struct push_route route = {s->rows, c->experts, c->experts_per_token, c->hidden};
        gpu_launch(b, l, GPU_many_sum, 0,
                   (struct gpu_grid){gpu_over(c->hidden, 64), s->rows, 1}, PUSH(route),
                   SPANS(gpu_whole(b->ws.expert_out), gpu_whole(b->ws.x)));
    }
}
