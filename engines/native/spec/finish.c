/* native/spec/finish.c - lifetimes and buffers of registers, bytes of weights. */
#include <string.h>

#include "engines/native/formats/packed.h"
#include "engines/native/spec/build.h"

uint64_t native_matrix_bytes(const struct native_matrix *m)
{
    uint64_t values = (uint64_t)m->rows * m->columns;

    switch (m->type) {
    case NATIVE_MXFP4:
        return values / 2 + values / 32;
    case NATIVE_F32:
        return values * 4;
    case NATIVE_PACKED:
        return (uint64_t)((double)m->packed->bytes * m->rows / m->packed->rows);
    case NATIVE_BF16:
    case NATIVE_F16:
        break;
    }
    return values * 2;
}

const char *native_op_name(enum native_op_kind kind)
{
    static const char *const names[] = {
#define X(name, word) word,
        NATIVE_OP_MAP(X)
#undef X
    };
    return kind < NATIVE_OP_COUNT ? names[kind] : "?";
}

const char *native_act_name(enum native_act act)
{
    static const char *const names[] = {"",      "silu",    "gelu",    "gelu_tanh",
                                        "relu2", "sigmoid", "clipped", "tanh"};
    return names[act];
}

static void touch(struct native_spec *s, reg r, uint32_t op)
{
    if (r == NATIVE_NO_REG)
        return;
    if (s->registers[r].first == UINT32_MAX)
        s->registers[r].first = op;
    s->registers[r].last = op;
}

static void find_lifetimes(struct native_spec *s)
{
    for (uint32_t i = 0; i < s->op_count; i++) {
        touch(s, s->ops[i].out, i);
        for (int k = 0; k < NATIVE_INPUTS; k++)
            touch(s, s->ops[i].in[k], i);
        if (s->ops[i].kind == NATIVE_OP_ATTEND || s->ops[i].kind == NATIVE_OP_CONV ||
            s->ops[i].kind == NATIVE_OP_DELTA || s->ops[i].kind == NATIVE_OP_SSM)
            s->stateful_ops = i + 1;
    }
    s->registers[s->result].last = s->op_count;
    /* The head runs for a part of the tokens at a time: what it reads stays until its end. */
    for (uint32_t r = 0; r < s->register_count; r++)
        if (s->registers[r].first < s->head_ops && s->registers[r].last >= s->head_ops)
            s->registers[r].last = s->op_count;
}

/* A register gets the first buffer that is free while it lives. */
static void give_buffers(struct native_builder *b)
{
    struct native_spec *s = b->spec;
    uint32_t *until = native_build_alloc(b, s->register_count, sizeof(*until));

    s->buffers = native_build_alloc(b, s->register_count, sizeof(*s->buffers));
    if (until == NULL || s->buffers == NULL)
        return;
    for (uint32_t i = 0; i < s->op_count; i++) {
        reg r = s->ops[i].out;
        struct native_register *out = &s->registers[r];
        uint32_t n = 0;
        if (out->first != i)
            continue;
        while (n < s->buffer_count && until[n] >= i)
            n++;
        if (n == s->buffer_count)
            s->buffers[s->buffer_count++] = 0;
        until[n] = out->last;
        out->buffer = n;
        if (out->width > s->buffers[n])
            s->buffers[n] = out->width;
    }
}

static void count_bytes(struct native_spec *s)
{
    for (uint32_t i = 0; i < s->matrix_count; i++)
        s->weight_bytes += native_matrix_bytes(&s->matrices[i]);
    for (uint32_t i = 0; i < s->vector_count; i++)
        s->weight_bytes += (uint64_t)s->vectors[i].count * sizeof(float);
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct native_op *op = &s->ops[i];
        for (int k = 0; k < 3; k++) {
            uint64_t times = op->kind == NATIVE_OP_EXPERTS ? op->experts.chosen : 1;
            if (op->matrix[k] == NATIVE_NONE)
                continue;
            const struct native_matrix *m = &s->matrices[op->matrix[k]];
            uint64_t bytes = native_matrix_bytes(m);
            s->step_bytes += op->kind == NATIVE_OP_EMBED ? bytes / m->rows : bytes * times;
        }
    }
    s->step_bytes += 2ull * s->state_floats * sizeof(float);
}

void native_build_finish(struct native_builder *b)
{
    if (b->code != LR_OK)
        return;
    if (b->spec->op_count == 0 || b->spec->result == 0) {
        b->code = lr_fail(b->err, LR_INTERNAL, "the architecture has no result");
        return;
    }
    find_lifetimes(b->spec);
    give_buffers(b);
    count_bytes(b->spec);
}
