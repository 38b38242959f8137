/* native/spec/builder.c - see builder.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engines/native/spec/build.h"

enum { WIDTH_MAX = 1 << 24, REGISTERS_MAX = 60000, OPS_MAX = 1 << 20 };

bool native_build_failed(const struct native_builder *b)
{
    return b->code != LR_OK;
}

struct native_spec *native_build_spec(struct native_builder *b)
{
    return b->spec;
}

void *native_build_alloc(struct native_builder *b, size_t count, size_t size)
{
    void *memory = lr_arena_array(&b->spec->arena, count, size);

    if (memory == NULL && b->code == LR_OK)
        b->code = lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the description of the model");
    return memory;
}

void native_refuse(struct native_builder *b, const char *format, ...)
{
    char text[256];
    va_list args;

    if (b->code != LR_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    b->code = lr_fail(b->err, LR_UNSUPPORTED, "%s", text);
}

const char *native_name(struct native_builder *b, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char *copy = lr_arena_printf(&b->spec->arena, "%s", text);
    return copy != NULL ? copy : "";
}

void native_layer(struct native_builder *b, const char *format, uint32_t n)
{
    const char *mark = strstr(format, "%u");

    b->layer = format[0] == '\0' ? NATIVE_NO_LAYER : (uint16_t)n;
    if (mark == NULL)
        snprintf(b->prefix, sizeof(b->prefix), "%s", format);
    else
        snprintf(b->prefix, sizeof(b->prefix), "%.*s%u%s", (int)(mark - format), format, n,
                 mark + 2);
}

const char *native_either(struct native_builder *b, const char *name, const char *other)
{
    return native_has(b, other) ? other : name;
}

/* ---- registers and operations ---- */

bool native_build_room(struct native_builder *b, void **items, uint32_t count, uint32_t *room,
                       size_t size)
{
    if (count < *room)
        return true;
    uint32_t next = *room * 2 + 64;
    void *more = native_build_alloc(b, next, size);
    if (more == NULL)
        return false;
    if (count > 0)
        memcpy(more, *items, count * size);
    *items = more;
    *room = next;
    return true;
}

reg native_register(struct native_builder *b, uint32_t width)
{
    struct native_spec *s = b->spec;

    if (b->code == LR_OK &&
        (width == 0 || width > WIDTH_MAX || s->register_count >= REGISTERS_MAX))
        native_refuse(b, "an operation of %u values: the limit is %u", width, WIDTH_MAX);
    if (b->code != LR_OK || !native_build_room(b, (void **)&s->registers, s->register_count,
                                               &b->register_room, sizeof(*s->registers)))
        return NATIVE_X;
    s->registers[s->register_count] =
        (struct native_register){.width = width, .first = UINT32_MAX};
    return (reg)s->register_count++;
}

uint32_t native_width(const struct native_builder *b, reg r)
{
    return r < b->spec->register_count ? b->spec->registers[r].width : 0;
}

struct native_op *native_build_op(struct native_builder *b, enum native_op_kind kind, reg out,
                                  reg in)
{
    static struct native_op nowhere;
    struct native_spec *s = b->spec;

    if (b->code == LR_OK && s->op_count >= OPS_MAX)
        native_refuse(b, "more than %d operations", OPS_MAX);
    if (b->code != LR_OK ||
        !native_build_room(b, (void **)&s->ops, s->op_count, &b->op_room, sizeof(*s->ops)))
        return &nowhere;
    struct native_op *op = &s->ops[s->op_count++];
    *op = (struct native_op){
        .kind = (uint8_t)kind, .layer = b->layer, .out = out, .cache = NATIVE_NONE};
    for (int i = 0; i < NATIVE_INPUTS; i++)
        op->in[i] = i == 0 ? in : NATIVE_NO_REG;
    for (int i = 0; i < NATIVE_WEIGHTS; i++)
        op->vector[i] = NATIVE_NONE;
    for (int i = 0; i < 3; i++)
        op->matrix[i] = NATIVE_NONE;
    return op;
}

/* The operation's widths must be what the model's own sizes say. */
void native_build_width(struct native_builder *b, reg r, uint64_t width, const char *what)
{
    if (b->code == LR_OK && native_width(b, r) != width)
        b->code = lr_fail(b->err, LR_MODEL_CORRUPT,
                          "config.json: layer %u: %s has %u values, expected %llu", b->layer,
                          what, native_width(b, r), (unsigned long long)width);
}

const char *native_build_bias(struct native_builder *b, const char *name)
{
    return native_name(b, "%s.bias", name);
}
