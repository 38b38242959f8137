/* native/formats/parts.c - what the weight formats share: the tensors of a matrix, their types
 * and shapes, scales and groups. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engines/native/formats/formats.h"
#include "engines/native/formats/unpack.h"
#include "model/map.h"

void native_mark_used(const struct model_weights *w, bool *used, const struct model_tensor *t)
{
    for (size_t low = 0, high = model_weights_count(w); low < high;) {
        size_t middle = (low + high) / 2;
        int order = lr_str_cmp(model_weights_at(w, middle)->name, t->name);
        if (order == 0) {
            used[middle] = true;
            return;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
}

const struct model_tensor *native_part(const struct native_stored *s, const char *suffix)
{
    char name[512];
    int len = snprintf(name, sizeof(name), LR_STR_FMT ".%s", LR_STR_ARG(s->module), suffix);
    const struct model_tensor *t =
        len > 0 && (size_t)len < sizeof(name) ? model_weights_find(s->weights, name) : NULL;

    if (t != NULL)
        native_mark_used(s->weights, s->used, t);
    return t;
}

lr_code native_part_missing(const struct native_stored *s, const char *suffix)
{
    return lr_fail(s->err, LR_MODEL_CORRUPT,
                   "%s: tensor \"%.*s\" is %s, and there is no \"%.*s.%s\" for it",
                   s->codes->file, MODEL_QUOTE(s->codes->name),
                   model_dtype_name(s->codes->dtype), MODEL_QUOTE(s->module), suffix);
}

lr_code native_part_wrong(const struct native_stored *s, const struct model_tensor *part,
                          const char *format, ...)
{
    char expected[160], shape[MODEL_SHAPE_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof(expected), format, args);
    va_end(args);
    return lr_fail(s->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" is %s %s, expected %s",
                   part->file, MODEL_QUOTE(part->name), model_dtype_name(part->dtype),
                   model_shape_text(part->shape, part->rank, shape), expected);
}

lr_code native_part_refuse(const struct native_stored *s, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return lr_fail(s->err, LR_UNSUPPORTED, "%s: tensor \"%.*s\" is %s; %s", s->codes->file,
                   MODEL_QUOTE(s->codes->name), model_dtype_name(s->codes->dtype), text);
}

bool native_part_is(const struct native_stored *s, const struct model_tensor *t,
                    enum model_dtype dtype, uint64_t a, uint64_t b)
{
    uint32_t at = s->matrices > 1 ? 1 : 0;

    return t->dtype == dtype && t->rank == at + 2 && (at == 0 || t->shape[0] == s->matrices) &&
           t->shape[at] == a && t->shape[at + 1] == b;
}

lr_code native_take_scales(const struct native_stored *s, const struct model_tensor *scales,
                           struct native_packed *out)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < scales->rank; i++)
        count *= scales->shape[i];
    if (scales->dtype != MODEL_DTYPE_BF16 && scales->dtype != MODEL_DTYPE_F16 &&
        scales->dtype != MODEL_DTYPE_F32)
        return native_part_wrong(s, scales, "BF16, F16 or F32");
    out->scale = scales->dtype == MODEL_DTYPE_BF16  ? NATIVE_SCALE_BF16
                 : scales->dtype == MODEL_DTYPE_F16 ? NATIVE_SCALE_F16
                                                    : NATIVE_SCALE_F32;
    out->scales = scales->data;
    out->scale_count = count;
    out->bytes += scales->bytes;
    return LR_OK;
}

lr_code native_take_groups(const struct native_stored *s, const struct model_tensor *scales,
                           uint64_t groups, struct native_packed *out)
{
    if (groups == 0 || s->columns % groups != 0)
        return native_part_wrong(s, scales, "groups that divide %u columns", s->columns);
    out->columns_each = (uint32_t)(s->columns / groups);
    return LR_OK;
}

lr_code native_take_order(const struct native_stored *s, const struct model_tensor *part,
                          uint64_t groups, struct native_packed *out)
{
    uint32_t each =
        groups > 0 && s->columns % groups == 0 ? (uint32_t)(s->columns / groups) : 0;
    bool in_order = each > 0;

    if (part->dtype != MODEL_DTYPE_I32 || part->rank != 1 || part->shape[0] != s->columns)
        return native_part_wrong(s, part, "I32 [%u]", s->columns);
    for (uint32_t i = 0; i < s->columns; i++) {
        int32_t group = (int32_t)unpack_word((const uint8_t *)part->data + 4 * (size_t)i);
        if (group == -1)
            return LR_OK; /* the writer's sign for "no order" */
        if (group < 0 || (uint64_t)group >= groups)
            return native_part_wrong(
                s, part, "groups below %" PRIu64 "; column %u has %" PRId32, groups, i, group);
        in_order = in_order && (uint32_t)group == i / each;
    }
    out->groups = in_order ? NULL : part->data;
    out->bytes += in_order ? 0 : part->bytes;
    return LR_OK;
}

/* ---- numbers of eight and four bits that several methods have ---- */

static void take_codes(const struct native_stored *s, enum native_code code, uint32_t bits,
                       struct native_packed *out)
{
    out->code = (uint8_t)code;
    out->bits = (uint8_t)bits;
    out->order = NATIVE_ALONG_ROWS;
    out->codes = s->codes->data;
    out->code_stride = (uint64_t)s->columns * bits / 8;
    out->code_bytes = s->rows * out->code_stride;
    out->bytes = out->code_bytes;
}

lr_code native_read_fp8(const struct native_stored *s, const struct model_tensor *scales,
                        struct native_packed *out)
{
    const uint64_t *shape = scales->shape;
    uint32_t rows = s->quant->block_rows, columns = s->quant->block_columns;
    bool four = scales->rank == 4 && shape[1] == 1 && shape[3] == 1;
    uint64_t across = four ? shape[2] : shape[1];

    if (!native_part_is(s, s->codes, MODEL_DTYPE_F8_E4M3, s->rows, s->columns))
        return native_part_wrong(s, s->codes, "F8_E4M3 [%u, %u]", s->rows, s->columns);
    take_codes(s, NATIVE_CODE_E4M3, 8, out);
    out->rows_each = UINT32_MAX;
    out->columns_each = s->columns;
    lr_code code = native_take_scales(s, scales, out);
    if (code != LR_OK)
        return code;
    if (scales->rank == 0 || (scales->rank == 1 && shape[0] == 1)) {
        out->format = "FP8, one scale";
        return LR_OK;
    }
    if ((scales->rank == 1 || (scales->rank == 2 && shape[1] == 1)) && shape[0] == s->rows) {
        out->format = "FP8, a scale for each row";
        out->rows_each = 1;
        out->row_step = 1;
        return LR_OK;
    }
    rows = four ? 128 : rows;
    columns = four ? 128 : columns;
    if (rows == 0)
        return native_part_wrong(s, scales,
                                 "[], [1], [%u] or [%u, 1]: %s gives no size of blocks",
                                 s->rows, s->rows, s->quant->file);
    uint64_t down = ((uint64_t)s->rows + rows - 1) / rows;
    if ((scales->rank != 2 && !four) || shape[0] != down ||
        across != ((uint64_t)s->columns + columns - 1) / columns)
        return native_part_wrong(s, scales, "[%" PRIu64 ", %" PRIu64 "] for blocks of %u x %u",
                                 down, ((uint64_t)s->columns + columns - 1) / columns, rows,
                                 columns);
    out->format = "FP8 in blocks";
    out->rows_each = rows;
    out->columns_each = columns;
    out->row_step = across;
    out->column_step = 1;
    return LR_OK;
}

static lr_code take_small_groups(const struct native_stored *s,
                                 const struct model_tensor *scales, uint32_t each,
                                 struct native_packed *out)
{
    uint64_t groups = s->columns / each;

    if (s->columns % each != 0)
        return native_part_refuse(s, "groups of %u columns do not divide %u", each, s->columns);
    if (!native_part_is(s, scales, scales->dtype, s->rows, groups))
        return native_part_wrong(s, scales, "[%u, %" PRIu64 "]", s->rows, groups);
    out->scales = scales->data;
    out->scale_count = s->rows * groups;
    out->bytes += s->rows * groups;
    out->rows_each = 1;
    out->columns_each = each;
    out->row_step = groups;
    out->column_step = 1;
    return LR_OK;
}

lr_code native_read_nvfp4(const struct native_stored *s, const struct model_tensor *scales,
                          const struct model_tensor *global, bool divides,
                          struct native_packed *out)
{
    if (!native_part_is(s, s->codes, MODEL_DTYPE_U8, s->rows, s->columns / 2) ||
        s->columns % 2 != 0)
        return native_part_wrong(s, s->codes, "U8 [%u, %u]", s->rows, s->columns / 2);
    if (scales->dtype != MODEL_DTYPE_F8_E4M3)
        return native_part_wrong(s, scales, "F8_E4M3");
    if (global->dtype != MODEL_DTYPE_F32 || global->bytes != sizeof(float))
        return native_part_wrong(s, global, "one F32");
    take_codes(s, NATIVE_CODE_E2M1, 4, out);
    out->format = "NVFP4";
    out->scale = NATIVE_SCALE_E4M3;
    memcpy(&out->global, global->data, sizeof(float));
    out->divides = divides;
    if (!(out->global > 0) || out->global > 3.4e38f)
        return native_part_wrong(s, global, "a number above zero; it is %g",
                                 (double)out->global);
    return take_small_groups(s, scales, 16, out);
}

lr_code native_read_mx(const struct native_stored *s, const struct model_tensor *scales,
                       uint32_t bits, struct native_packed *out)
{
    enum model_dtype dtype = bits == 8 ? MODEL_DTYPE_F8_E4M3 : MODEL_DTYPE_U8;
    uint32_t stored = s->columns * bits / 8;

    if (!native_part_is(s, s->codes, dtype, s->rows, stored))
        return native_part_wrong(s, s->codes, "%s [%u, %u]", model_dtype_name(dtype), s->rows,
                                 stored);
    if (scales->dtype != MODEL_DTYPE_U8 && scales->dtype != MODEL_DTYPE_F8_E8M0)
        return native_part_wrong(s, scales, "U8 or F8_E8M0");
    take_codes(s, bits == 8 ? NATIVE_CODE_E4M3 : NATIVE_CODE_E2M1, bits, out);
    out->format = bits == 8 ? "MXFP8" : "MXFP4";
    out->scale = NATIVE_SCALE_E8M0;
    return take_small_groups(s, scales, 32, out);
}
