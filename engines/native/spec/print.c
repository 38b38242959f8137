/* native/spec/print.c - the list of operations as text: one line for each operation, equal
 * layers once. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "engines/native/spec/spec.h"

enum { LAYER_TEXT_MAX = 1 << 20 };

/* "1.2 MB" */
static void put_bytes(struct lr_buf *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double v = (double)bytes;
    size_t unit = 0;

    while (v >= 1000 && unit < 4) {
        v /= 1000;
        unit++;
    }
    lr_buf_addf(out, unit == 0 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

/* A name behind its layer's number. */
static const char *short_name(const char *name)
{
    const char *at = strstr(name, "layers.");

    if (at == NULL)
        return name;
    at += strlen("layers.");
    at += strspn(at, "0123456789");
    return *at == '.' ? at + 1 : name;
}

static void put_matrix(const struct native_spec *s, const struct native_op *op, uint32_t index,
                       struct lr_buf *out)
{
    static const char *const types[] = {"BF16", "F16", "F32", "MXFP4"};
    uint32_t count = op->kind == NATIVE_OP_EXPERTS ? op->experts.experts : 1;

    if (index == NATIVE_NONE)
        return;
    const struct native_matrix *m = &s->matrices[index];
    lr_buf_addf(out, "  %s ", short_name(m->name));
    if (count > 1)
        lr_buf_addf(out, "%u x ", count);
    lr_buf_addf(out, "[%u, %u] %s ", m->rows, m->columns, types[m->type]);
    put_bytes(out, count * native_matrix_bytes(m));
}

static void put_register(const struct native_spec *s, reg r, struct lr_buf *out)
{
    if (r == NATIVE_X)
        lr_buf_add_z(out, "x");
    else
        lr_buf_addf(out, "r%u", s->registers[r].buffer);
    lr_buf_addf(out, "[%u]", s->registers[r].width);
}

static void put_attention(const struct native_spec *s, const struct native_op *op,
                          struct lr_buf *out)
{
    const struct native_attention *a = &op->attend;

    lr_buf_addf(out, "  %u heads of %u on %u", a->heads, a->head_size, a->kv_heads);
    if (a->window != 0)
        lr_buf_addf(out, ", window %u", a->window);
    if (a->values_are_keys)
        lr_buf_add_z(out, ", latent");
    if (!op->writes)
        lr_buf_add_z(out, ", keys of another layer");
    lr_buf_addf(out, ", %zu B a token",
                op->writes
                    ? (size_t)s->caches[op->cache].heads *
                          (s->caches[op->cache].key_size + s->caches[op->cache].value_size) *
                          sizeof(float)
                    : 0);
}

static void put_details(const struct native_spec *s, const struct native_op *op,
                        struct lr_buf *out)
{
    static const char *const pools[] = {"", "first", "mean", "last"};

    switch ((enum native_op_kind)op->kind) {
    case NATIVE_OP_ATTEND:
        put_attention(s, op, out);
        break;
    case NATIVE_OP_ROPE:
        lr_buf_addf(out, "  %u of %u values, theta %g", s->ropes[op->rope.table].dims,
                    op->rope.head_size, s->ropes[op->rope.table].theta);
        break;
    case NATIVE_OP_ROUTE:
        lr_buf_addf(out, "  %u of %u", op->route.chosen, op->route.experts);
        break;
    case NATIVE_OP_EXPERTS:
        lr_buf_addf(out, "  %s", native_act_name(op->experts.act));
        break;
    case NATIVE_OP_GATE:
    case NATIVE_OP_ACT:
        lr_buf_addf(out, "  %s", native_act_name(op->gate.act));
        break;
    case NATIVE_OP_CONV:
        lr_buf_addf(out, "  kernel %u %s", op->conv.kernel, native_act_name(op->conv.act));
        break;
    case NATIVE_OP_DELTA:
        lr_buf_addf(out, "  state %u x [%u, %u]", op->delta.value_heads, op->delta.key_size,
                    op->delta.value_size);
        break;
    case NATIVE_OP_SSM:
        lr_buf_addf(out, "  state %u x [%u, %u]", op->ssm.heads, op->ssm.state_size,
                    op->ssm.head_size);
        break;
    case NATIVE_OP_POOL:
        lr_buf_addf(out, "  %s", pools[s->pool]);
        break;
    default:
        break;
    }
}

static void put_op(const struct native_spec *s, const struct native_op *op, struct lr_buf *out)
{
    const char *between = "";

    lr_buf_add_z(out, "  ");
    put_register(s, op->out, out);
    lr_buf_addf(out, " = %s(", native_op_name(op->kind));
    if (op->kind == NATIVE_OP_EMBED)
        lr_buf_add_z(out, "tokens");
    for (int i = 0; i < NATIVE_INPUTS; i++) {
        if (op->in[i] == NATIVE_NO_REG)
            continue;
        lr_buf_add_z(out, between);
        put_register(s, op->in[i], out);
        between = ", ";
    }
    lr_buf_add_z(out, ")");
    put_details(s, op, out);
    for (int i = 0; i < 3; i++)
        put_matrix(s, op, op->matrix[i], out);
    for (int i = 0; i < NATIVE_WEIGHTS; i++)
        if (op->vector[i] != NATIVE_NONE)
            lr_buf_addf(out, "  %s [%u]", short_name(s->vectors[op->vector[i]].name),
                        s->vectors[op->vector[i]].count);
    lr_buf_add_z(out, "\n");
}

static void put_head(const struct native_spec *s, struct lr_buf *out)
{
    lr_buf_addf(out, "family %s: %u layers, width %u, vocabulary %u, context %u\nweights ",
                s->family, s->layers, s->hidden, s->vocab, s->context);
    put_bytes(out, s->weight_bytes);
    lr_buf_add_z(out, ", read for one token ");
    put_bytes(out, s->step_bytes);
    for (uint32_t i = 0; i < s->kind_count; i++) {
        lr_buf_add_z(out, "; keys and values ");
        put_bytes(out, (uint64_t)s->kinds[i].token_floats * sizeof(float));
        if (s->kinds[i].window == 0)
            lr_buf_add_z(out, " a token");
        else
            lr_buf_addf(out, " a token in a window of %u", s->kinds[i].window);
    }
    if (s->state_floats > 0) {
        lr_buf_add_z(out, "; state ");
        put_bytes(out, (uint64_t)s->state_floats * sizeof(float));
    }
    if (s->skipped > 0)
        lr_buf_addf(out, "\nnot needed for text: %u tensors, the first is %s", s->skipped,
                    s->skipped_of);
    lr_buf_add_z(out, "\n");
}

void native_spec_print(const struct native_spec *s, struct lr_buf *out)
{
    struct lr_buf now, before;
    uint32_t i = 0;

    put_head(s, out);
    lr_buf_init(&now, LAYER_TEXT_MAX);
    lr_buf_init(&before, LAYER_TEXT_MAX);
    while (i < s->op_count) {
        uint32_t layer = s->ops[i].layer, first = i;
        lr_buf_clear(&now);
        for (; i < s->op_count && s->ops[i].layer == layer; i++)
            put_op(s, &s->ops[i], &now);
        bool same = lr_str_eq(lr_buf_str(&now), lr_buf_str(&before));
        if (layer != NATIVE_NO_LAYER)
            lr_buf_addf(out, "layer %u%s\n", layer, same ? " is the same" : "");
        else
            lr_buf_add_z(out, first == 0 ? "before the layers\n" : "behind the layers\n");
        if (!same)
            lr_buf_add_str(out, lr_buf_str(&now));
        lr_buf_clear(&before);
        lr_buf_add_str(&before, lr_buf_str(&now));
    }
    lr_buf_free(&now);
    lr_buf_free(&before);
}
