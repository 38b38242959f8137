/* gptoss/backend/gpu/in_place.c - weights that the device reads where the file is mapped.
 *
 * A model.bin is laid out for that: its tensors begin at multiples of 16 bytes.  A window is a
 * buffer over some pages of the file with whole tensors in it.  A tensor for which there is no
 * window is copied, see load.c.
 */
#include <stdlib.h>

#include "engines/gptoss/backend/gpu/gpu.h"

enum {
    FILE_PAGE = 16384,    /* a multiple of every system's page; the mapping begins at a page */
    EXPERT_ALIGNMENT = 16 /* of the places and strides in an expert: of a block */
};

/* A tensor, in bytes of the file. */
struct range {
    uint64_t begin, end;
};

struct ranges {
    const char *file;
    uint64_t file_bytes;
    struct range *list; /* owned */
    uint32_t count;
};

static void in_place_add(struct ranges *r, const void *from, uint64_t bytes)
{
    uint64_t begin = (uint64_t)((uintptr_t)from - (uintptr_t)r->file);

    if (begin < r->file_bytes && bytes <= r->file_bytes - begin)
        r->list[r->count++] = (struct range){begin, begin + bytes};
}

enum { RANGES_OF_MODEL = 3, RANGES_OF_LAYER = 10 };

static void add_layer(struct ranges *r, const struct model_config *c,
                      const struct model_gptoss_layer *l)
{
    uint64_t hidden = c->hidden, q = (uint64_t)c->heads * c->head_dim;
    uint64_t qkv = q + 2ull * c->kv_heads * c->head_dim;
    const char *experts = (const char *)l->gate_up.blocks;

    in_place_add(r, l->attn_norm, hidden * 2);
    in_place_add(r, l->paired_qkv, hidden * qkv * 2);
    in_place_add(r, l->paired_qkv_bias, qkv * 2);
    in_place_add(r, l->sinks, (uint64_t)c->heads * 2);
    in_place_add(r, l->o_weight, hidden * q * 2);
    in_place_add(r, l->o_bias, hidden * 2);
    in_place_add(r, l->mlp_norm, hidden * 2);
    in_place_add(r, l->router_weight, c->experts * hidden * 2);
    in_place_add(r, l->router_bias, (uint64_t)c->experts * 2);
    in_place_add(r, experts,
                 c->experts * l->gate_up.blocks_stride); /* all parts of both matrices */
}

static int by_place(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Windows over the sorted ranges.  False: there are too many. */
static bool choose_windows(struct gptoss_backend *b, const struct ranges *r)
{
    const struct gpu_limits *l = &b->limits;
    uint64_t most =
        l->binding_bytes < l->allocation_bytes ? l->binding_bytes : l->allocation_bytes;

    most = (most < UINT32_MAX ? most : UINT32_MAX) / FILE_PAGE * FILE_PAGE;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct range *t = &r->list[i];
        struct gpu_window *w =
            b->window_count > 0 ? &b->windows[b->window_count - 1] : &b->windows[0];
        uint64_t begin = t->begin / FILE_PAGE * FILE_PAGE;
        if (t->end - begin > most)
            continue;
        if (b->window_count == 0 || t->end - (uint64_t)(w->from - r->file) > most) {
            if (b->window_count == GPU_WINDOWS_MAX)
                return false;
            w = &b->windows[b->window_count++];
            *w = (struct gpu_window){.from = r->file + begin};
        }
        w->bytes = t->end - (uint64_t)(w->from - r->file);
    }
    return true;
}

static void forget_windows(struct gptoss_backend *b)
{
    for (uint32_t i = 0; i < b->window_count; i++)
        b->host->release(b->device, b->windows[i].buffer);
    b->window_count = 0;
}

/* The kernels of all layers want the same. */
static bool all_paired(const struct gptoss_backend *b)
{
    const struct model_config *c = b->config;
    uint64_t rows = (c->heads + 2ull * c->kv_heads) * c->head_dim;

    for (uint32_t i = 0; i < c->layers; i++) {
        const struct model_gptoss_layer *l = &b->weights->layers[i];
        if (gpu_in_place(b, l->paired_qkv, rows * c->hidden * 2).buffer == NULL ||
            gpu_in_place(b, l->paired_qkv_bias, rows * 2).buffer == NULL)
            return false;
    }
    return true;
}

lr_code gpu_wrap_file(struct gptoss_backend *b, struct lr_error *err)
{
    const struct model_gptoss *m = b->weights;
    const struct model_config *c = b->config;
    struct ranges r = {0};
    bool done;

    /* The kernels with cooperative matrices want the experts adjacent. */
    if (b->host->wrap == NULL || b->limits.matrices)
        return LR_OK;
    r.file = model_gptoss_file(m, &r.file_bytes);
    if (r.file == NULL)
        return LR_OK;
    r.list = calloc(RANGES_OF_MODEL + (size_t)c->layers * RANGES_OF_LAYER, sizeof(*r.list));
    if (r.list == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the places of %u layers", c->layers);
    in_place_add(&r, m->embed, (uint64_t)m->vocab_rows * c->hidden * 2);
    in_place_add(&r, m->norm, (uint64_t)c->hidden * 2);
    in_place_add(&r, m->unembed, (uint64_t)m->vocab_rows * c->hidden * 2);
    for (uint32_t i = 0; i < c->layers; i++)
        add_layer(&r, c, &m->layers[i]);
    qsort(r.list, r.count, sizeof(*r.list), by_place);
    done = choose_windows(b, &r);
    free(r.list);
    for (uint32_t i = 0; i < b->window_count && done; i++) {
        b->windows[i].buffer =
            b->host->wrap(b->device, b->windows[i].from, b->windows[i].bytes);
        done = b->windows[i].buffer != NULL;
    }
    if (!done)
        forget_windows(b); /* everything is copied */
    b->is_paired = all_paired(b);
    return LR_OK;
}

bool gpu_is_in_place(const struct gptoss_backend *b, const struct gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < b->window_count; i++)
        if (b->windows[i].buffer == buffer)
            return true;
    return false;
}

struct gpu_span gpu_in_place(const struct gptoss_backend *b, const void *from, uint64_t bytes)
{
    for (uint32_t i = 0; i < b->window_count; i++) {
        const struct gpu_window *w = &b->windows[i];
        uint64_t at = (uint64_t)((uintptr_t)from - (uintptr_t)w->from);
        if (at < w->bytes && bytes <= w->bytes - at && at % b->limits.alignment == 0)
            return (struct gpu_span){w->buffer, at, bytes};
    }
    return (struct gpu_span){0};
}

bool gpu_experts_in_place(const struct gptoss_backend *b, const struct model_experts *e,
                          struct gpu_matrix *m)
{
    uint64_t groups = (uint64_t)m->rows * (m->columns / 32), others = b->config->experts - 1;
    struct gpu_part part = {.count = b->config->experts};

    part.weight = gpu_in_place(b, e->blocks, others * e->blocks_stride + groups * 16);
    part.scales = gpu_in_place(b, e->scales, others * e->scales_stride + groups);
    m->bias = gpu_in_place(b, e->bias, others * e->bias_stride + (uint64_t)m->rows * 2);
    if (part.weight.buffer == NULL || part.scales.buffer == NULL || m->bias.buffer == NULL ||
        (e->blocks_stride | e->scales_stride | e->bias_stride) % EXPERT_ALIGNMENT != 0)
        return false;
    m->parts[0] = part;
    m->part_count = 1;
    m->block_stride = (uint32_t)(e->blocks_stride / 16);
    m->scale_stride = (uint32_t)e->scales_stride;
    m->bias_stride = (uint32_t)(e->bias_stride / 2);
    return true;
}
