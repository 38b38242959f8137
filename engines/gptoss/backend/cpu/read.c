/* gptoss/backend/cpu/read.c - reads the mapped weights into memory.
 *
 * Touches one byte of every page, in the order of the layers, so that the first answer does not
 * wait for the disk and the operator sees progress.
 */
#include "base/fail.h"
#include "engines/gptoss/backend/cpu/cpu.h"

enum { PAGE = 4096, REPORT = 64 << 20 };

struct reading {
    const struct gptoss_backend_host *host;
    uint64_t done, total, reported;
    volatile unsigned char sum; /* keeps the compiler from removing the reads */
};

/* False: the host asks to stop. */
static bool touch(struct reading *r, const void *data, uint64_t bytes)
{
    const unsigned char *p = data;

    for (uint64_t i = 0; i < bytes; i += PAGE) {
        r->sum = (unsigned char)(r->sum + p[i]);
        if (r->done + i >= r->reported + REPORT) {
            r->reported = r->done + i;
            if (r->host->progress != NULL &&
                r->host->progress(r->host->ctx, "read", r->reported, r->total) != 0)
                return false;
        }
    }
    r->done += bytes;
    return true;
}

static bool touch_experts(struct reading *r, const struct model_experts *m, uint32_t experts)
{
    uint64_t groups = (uint64_t)m->rows * (m->columns / CPU_MX_BLOCK);

    for (uint32_t e = 0; e < experts; e++)
        if (!touch(r, m->blocks + e * m->blocks_stride, groups * 16) ||
            !touch(r, m->scales + e * m->scales_stride, groups))
            return false;
    return true;
}

static bool touch_layer(struct reading *r, const struct model_config *c,
                        const struct model_gptoss_layer *w)
{
    uint64_t q = (uint64_t)c->heads * c->head_dim * c->hidden * 2;
    uint64_t kv = (uint64_t)c->kv_heads * c->head_dim * c->hidden * 2;

    return touch(r, w->q_weight, q) && touch(r, w->k_weight, kv) && touch(r, w->v_weight, kv) &&
           touch(r, w->o_weight, q) && touch_experts(r, &w->gate_up, c->experts) &&
           touch_experts(r, &w->down, c->experts);
}

lr_code cpu_read_weights(const struct gptoss_backend_host *host,
                         const struct model_gptoss *weights, struct lr_error *err)
{
    struct reading r = {.host = host, .total = weights->weight_bytes};
    uint64_t table = (uint64_t)weights->vocab_rows * weights->config.hidden * 2;

    model_gptoss_advise(weights, MODEL_ADVICE_WILLNEED);
    bool go_on = touch(&r, weights->embed, table);
    for (uint32_t i = 0; go_on && i < weights->config.layers; i++)
        go_on = touch_layer(&r, &weights->config, &weights->layers[i]);
    go_on = go_on && touch(&r, weights->unembed, table);
    if (go_on && host->progress != NULL)
        go_on = host->progress(host->ctx, "read", r.total, r.total) == 0;
    return go_on ? LR_OK : lr_fail(err, LR_CANCELLED, "loading was cancelled");
}
