/* native/spec/tensors.c - from the names in an architecture to tensors of the files.
 *
 * A wrapper with towers for images or sound has the text's tensors below another name; the
 * places are tried in order.  Type and shape are checked here, and nowhere else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engines/native/spec/build.h"
#include "model/map.h"

enum { NAME_MAX_BYTES = 256, VECTOR_MAX = 1 << 28 /* values that are converted */ };

/* A name with its prefix and without the rows that it may end with. */
struct place {
    char name[NAME_MAX_BYTES];
    bool has_rows;
    uint32_t first, count;
};

static bool split(const struct native_builder *b, const char *name, struct place *out)
{
    const char *bracket = strchr(name, '[');
    int len = bracket != NULL ? (int)(bracket - name) : (int)strlen(name);
    bool absolute = name[0] == '/';

    *out = (struct place){.has_rows = bracket != NULL};
    int n = snprintf(out->name, sizeof(out->name), "%s%.*s", absolute ? "" : b->prefix,
                     absolute ? len - 1 : len, absolute ? name + 1 : name);
    if (bracket != NULL &&
        sscanf(bracket, "[%" SCNu32 ":%" SCNu32 "]", &out->first, &out->count) != 2)
        return false;
    return n > 0 && (size_t)n < sizeof(out->name);
}

static const struct model_tensor *lookup(const struct native_builder *b, const char *place,
                                         const char *name)
{
    static const char *const suffixes[] = {".weight", "", ".weight_packed", ".qweight"};
    char full[NAME_MAX_BYTES + 64];

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(full, sizeof(full), "%s%s%s", place, name, suffixes[i]);
        const struct model_tensor *t = model_weights_find(b->weights, full);
        if (t != NULL)
            return t;
    }
    return NULL;
}

/* NULL: there is none. */
static const struct model_tensor *find_tensor(const struct native_builder *b, const char *name)
{
    bool in_model = strncmp(name, "model.", 6) == 0;
    const struct model_tensor *t = lookup(b, "", name);

    if (t == NULL && in_model)
        t = lookup(b, "model.language_model.", name + 6);
    if (t == NULL)
        t = lookup(b, "language_model.", name);
    if (t == NULL && in_model)
        t = lookup(b, "", name + 6);
    return t;
}

bool native_has(struct native_builder *b, const char *name)
{
    struct place place;

    return b->code == LR_OK && split(b, name, &place) && find_tensor(b, place.name) != NULL;
}

static const struct model_tensor *need(struct native_builder *b, const char *name,
                                       struct place *place)
{
    if (b->code != LR_OK)
        return NULL;
    if (!split(b, name, place)) {
        b->code = lr_fail(b->err, LR_INTERNAL, "the name \"%s\" of a tensor is too long", name);
        return NULL;
    }
    const struct model_tensor *t = find_tensor(b, place->name);
    if (t == NULL)
        b->code = lr_fail(b->err, LR_MODEL_CORRUPT, "the weights have no tensor \"%s.weight\"",
                          place->name);
    else
        native_mark_used(b->weights, b->used, t);
    return t;
}

static void wrong_shape(struct native_builder *b, const struct model_tensor *t,
                        const char *expected)
{
    char text[MODEL_SHAPE_TEXT];

    b->code = lr_fail(
        b->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" has the shape %s, expected %s", t->file,
        MODEL_QUOTE(t->name), model_shape_text(t->shape, t->rank, text), expected);
}

static bool type_of(struct native_builder *b, const struct model_tensor *t,
                    enum native_type *out, uint32_t *bytes)
{
    *out = t->dtype == MODEL_DTYPE_BF16  ? NATIVE_BF16
           : t->dtype == MODEL_DTYPE_F16 ? NATIVE_F16
                                         : NATIVE_F32;
    *bytes = *out == NATIVE_F32 ? 4 : 2;
    if (t->dtype != MODEL_DTYPE_BF16 && t->dtype != MODEL_DTYPE_F16 &&
        t->dtype != MODEL_DTYPE_F32) {
        b->code =
            lr_fail(b->err, LR_UNSUPPORTED,
                    "%s: tensor \"%.*s\" is %s; this engine runs BF16, F16, F32 and MXFP4 "
                    "experts",
                    t->file, MODEL_QUOTE(t->name), model_dtype_name(t->dtype));
        return false;
    }
    return true;
}

/* The same for a tensor that is used where it lies. */
static bool type_in_place(struct native_builder *b, const struct model_tensor *t,
                          enum native_type *out, uint32_t *bytes)
{
    if (!type_of(b, t, out, bytes))
        return false;
    if ((uintptr_t)t->data % *bytes == 0)
        return true;
    b->code =
        lr_fail(b->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" is not aligned to %u bytes",
                t->file, MODEL_QUOTE(t->name), *bytes);
    return false;
}

static const char *name_of(struct native_builder *b, const struct model_tensor *t)
{
    const char *name = lr_arena_copy(&b->spec->arena, t->name);

    return name != NULL ? name : "";
}

static bool grow(struct native_builder *b, void **items, uint32_t count, uint32_t more,
                 uint32_t *room, size_t size)
{
    if (count + more <= *room)
        return true;
    uint32_t next = *room * 2 + more + 64;
    void *wider = native_build_alloc(b, next, size);
    if (wider == NULL)
        return false;
    if (count > 0)
        memcpy(wider, *items, count * size);
    *items = wider;
    *room = next;
    return true;
}

/* ---- quantized matrices ---- */

static bool is_plain(const struct model_tensor *t)
{
    return t->dtype == MODEL_DTYPE_BF16 || t->dtype == MODEL_DTYPE_F16 ||
           t->dtype == MODEL_DTYPE_F32;
}

/* The name of the module that the codes belong to. */
static struct lr_str module_of(const struct model_tensor *t)
{
    size_t n = t->name.len;

    while (n > 0 && t->name.ptr[n - 1] != '.')
        n--;
    return lr_str(t->name.ptr, n > 0 ? n - 1 : 0);
}

/* Rows that the codes' tensor has, where the architecture asks for some of them. */
static uint64_t stored_rows(const struct native_builder *b, const struct model_tensor *t,
                            uint32_t columns)
{
    if (lr_str_ends(t->name, ".qweight") && t->rank == 2)
        return t->shape[1] * (b->quant.format == &native_format_awq ? 8 : 1);
    if (b->quant.format == &native_format_bitsandbytes)
        return t->bytes * 2 / columns;
    return t->rank > 0 ? t->shape[0] : 0;
}

/* count matrices of one tensor in a weight format of formats/. */
static void add_packed(struct native_builder *b, const struct model_tensor *t,
                       const struct place *place, uint32_t count, uint32_t rows,
                       uint32_t columns, struct native_matrix *out)
{
    uint64_t stored = place->has_rows ? stored_rows(b, t, columns) : rows;
    struct native_packed *packed = native_build_alloc(b, count, sizeof(*packed));

    if (packed == NULL)
        return;
    if (place->has_rows && (place->count != rows || stored > UINT32_MAX ||
                            stored < (uint64_t)place->first + rows)) {
        wrong_shape(b, t, "more rows");
        return;
    }
    const struct native_stored s = {.weights = b->weights,
                                    .codes = t,
                                    .module = module_of(t),
                                    .matrices = count,
                                    .rows = (uint32_t)stored,
                                    .columns = columns,
                                    .quant = &b->quant,
                                    .arena = &b->spec->arena,
                                    .used = b->used,
                                    .err = b->err};
    b->code = native_format_read(&s, packed);
    const char *text = name_of(b, t);
    for (uint32_t i = 0; b->code == LR_OK && i < count; i++)
        out[i] = (struct native_matrix){
            .name = text,
            .type = NATIVE_PACKED,
            .rows = rows,
            .columns = columns,
            .row_stride = columns,
            .data = packed[i].codes,
            .packed = &packed[i],
            .packed_first = place->first,
        };
}

/* One tensor of rows x columns, or rows of it. */
static void add_matrix(struct native_builder *b, const char *name, uint32_t rows,
                       uint32_t columns, struct native_matrix *out)
{
    char expected[96];
    struct place place;
    const struct model_tensor *t = need(b, name, &place);
    uint32_t bytes;

    if (t != NULL && !is_plain(t)) {
        add_packed(b, t, &place, 1, rows, columns, out);
        return;
    }
    if (t == NULL || !type_in_place(b, t, &out->type, &bytes))
        return;
    snprintf(expected, sizeof(expected), "[%s%u, %u]", place.has_rows ? "at least " : "",
             place.has_rows ? place.first + place.count : rows, columns);
    bool fits = t->rank == 2 && t->shape[1] == columns &&
                (place.has_rows
                     ? place.count == rows && t->shape[0] >= (uint64_t)place.first + place.count
                     : t->shape[0] == rows);
    if (!fits) {
        wrong_shape(b, t, expected);
        return;
    }
    out->name = name_of(b, t);
    out->rows = rows;
    out->columns = columns;
    out->row_stride = columns;
    out->data = (const char *)t->data + (uint64_t)place.first * columns * bytes;
}

/* Experts in one tensor [count, rows, columns], or [count, columns, rows]. */
static void add_fused(struct native_builder *b, const char *name, uint32_t count, uint32_t rows,
                      uint32_t columns, bool transposed, struct native_matrix *out)
{
    char expected[96];
    struct place place;
    const struct model_tensor *t = need(b, name, &place);
    uint32_t bytes, stored = transposed ? columns : rows, across = transposed ? rows : columns;
    enum native_type type;

    if (t != NULL && !is_plain(t) && !transposed) {
        add_packed(b, t, &place, count, rows, columns, out);
        return;
    }
    if (t == NULL || !type_in_place(b, t, &type, &bytes))
        return;
    uint64_t whole = t->rank == 3 ? t->shape[1] : 0;
    snprintf(expected, sizeof(expected), "[%u, %u, %u]", count, stored, across);
    if (t->rank != 3 || t->shape[0] != count || t->shape[2] != across ||
        (place.has_rows
             ? transposed || place.count != rows || (uint64_t)place.first + place.count > whole
             : whole != stored)) {
        wrong_shape(b, t, expected);
        return;
    }
    const char *text = name_of(b, t);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct native_matrix){
            .name = text,
            .type = type,
            .transposed = transposed,
            .rows = rows,
            .columns = columns,
            .row_stride = across,
            .data = (const char *)t->data + (i * whole + place.first) * across * bytes,
        };
}

/* One tensor of columns x rows. */
static bool add_by_columns(struct native_builder *b, const char *name, uint32_t rows,
                           uint32_t columns, struct native_matrix *out)
{
    char expected[64];
    struct place place;
    uint32_t bytes;

    if (!split(b, name, &place))
        return false;
    const struct model_tensor *t = find_tensor(b, place.name);
    if (t == NULL || t->rank != 2 || !is_plain(t))
        return false;
    t = need(b, name, &place);
    if (t == NULL || !type_in_place(b, t, &out->type, &bytes))
        return true;
    snprintf(expected, sizeof(expected), "[%u, %u]", columns, rows);
    if (place.has_rows || t->shape[0] != columns || t->shape[1] != rows) {
        wrong_shape(b, t, expected);
        return true;
    }
    out->name = name_of(b, t);
    out->transposed = true;
    out->rows = rows;
    out->columns = columns;
    out->row_stride = rows;
    out->data = t->data;
    return true;
}

/* "<name>_blocks" [count, rows, columns / 32, 16] and "<name>_scales" [count, rows, columns /
 * 32]. */
static bool add_mxfp4(struct native_builder *b, const char *name, uint32_t count, uint32_t rows,
                      uint32_t columns, struct native_matrix *out)
{
    enum { GROUP = 32 };
    char part[NAME_MAX_BYTES];
    struct place place;
    uint32_t groups = columns / GROUP;

    snprintf(part, sizeof(part), "%s_blocks", name);
    if (!native_has(b, part))
        return false;
    const struct model_tensor *blocks = need(b, part, &place);
    snprintf(part, sizeof(part), "%s_scales", name);
    const struct model_tensor *scales = need(b, part, &place);
    if (blocks == NULL || scales == NULL)
        return true;
    const uint64_t shape[] = {count, rows, groups, GROUP / 2};
    bool fits = columns % GROUP == 0 && blocks->rank == 4 && scales->rank == 3 &&
                blocks->dtype == MODEL_DTYPE_U8 && scales->dtype == MODEL_DTYPE_U8 &&
                memcmp(blocks->shape, shape, sizeof(shape)) == 0 &&
                memcmp(scales->shape, shape, 3 * sizeof(shape[0])) == 0;
    if (!fits) {
        snprintf(part, sizeof(part), "U8 [%u, %u, %u, 16] and scales [%u, %u, %u]", count, rows,
                 groups, count, rows, groups);
        wrong_shape(b, blocks, part);
        return true;
    }
    const char *text = name_of(b, blocks);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct native_matrix){
            .name = text,
            .type = NATIVE_MXFP4,
            .rows = rows,
            .columns = columns,
            .row_stride = columns,
            .data = (const char *)blocks->data + (uint64_t)i * rows * groups * (GROUP / 2),
            .scales = (const uint8_t *)scales->data + (uint64_t)i * rows * groups,
        };
    return true;
}

/* The name of expert i: "%u" in the name is replaced. */
static const char *expert_name(const char *name, uint32_t i, char out[NAME_MAX_BYTES])
{
    const char *mark_at = strstr(name, "%u");

    snprintf(out, NAME_MAX_BYTES, "%.*s%u%s", (int)(mark_at - name), name, i, mark_at + 2);
    return out;
}

/* A matrix that is there already, as the embeddings that also give the logits. */
static uint32_t known_matrix(const struct native_spec *s, uint32_t at)
{
    const struct native_matrix *m = &s->matrices[at];

    for (uint32_t i = 0; i < at; i++)
        if (s->matrices[i].data == m->data && s->matrices[i].rows == m->rows &&
            s->matrices[i].columns == m->columns &&
            s->matrices[i].packed_first == m->packed_first)
            return i;
    return at;
}

/* mlx-lm stacks experts: "mlp.experts.%u.up_proj" is "mlp.switch_mlp.up_proj". */
static const char *stack_name(struct native_builder *b, const char *name,
                              char out[NAME_MAX_BYTES])
{
    static const char *const other[][2] = {
        {"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};
    const char *at = strstr(name, "experts.%u.");

    if (at == NULL)
        return NULL;
    const char *last = at + strlen("experts.%u.");
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (strcmp(last, other[i][0]) == 0)
            last = other[i][1];
    snprintf(out, NAME_MAX_BYTES, "%.*sswitch_mlp.%s", (int)(at - name), name, last);
    return native_has(b, out) ? out : NULL;
}

uint32_t native_build_matrices(struct native_builder *b, const char *name, uint32_t count,
                               uint32_t rows, uint32_t columns, bool transposed)
{
    struct native_spec *s = b->spec;
    char one[NAME_MAX_BYTES];

    if (b->code != LR_OK || !grow(b, (void **)&s->matrices, s->matrix_count, count,
                                  &b->matrix_room, sizeof(*s->matrices)))
        return NATIVE_NONE;
    uint32_t first = s->matrix_count;
    struct native_matrix *at = s->matrices + first;
    memset(at, 0, count * sizeof(*at));
    s->matrix_count += count;
    const char *stack = stack_name(b, name, one);
    if (stack != NULL) {
        add_fused(b, stack, count, rows, columns, false, at);
    } else if (strstr(name, "%u") != NULL) {
        for (uint32_t i = 0; i < count && b->code == LR_OK; i++)
            add_matrix(b, expert_name(name, i, one), rows, columns, &at[i]);
    } else if (count == 1 && !transposed) {
        add_matrix(b, name, rows, columns, at);
        uint32_t known = known_matrix(s, first);
        s->matrix_count -= known != first;
        return known;
    } else if (!(count == 1 && transposed && add_by_columns(b, name, rows, columns, at)) &&
               !add_mxfp4(b, name, count, rows, columns, at)) {
        add_fused(b, name, count, rows, columns, transposed, at);
    }
    return first;
}

static float f16_to_f32(uint16_t h)
{
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023u, bits;
    float v;

    if (exponent == 0) {
        v = (float)mantissa * 5.9604644775390625e-8f; /* 2^-24 */
        return h >> 15 ? -v : v;
    }
    bits = (uint32_t)(h >> 15) << 31 | mantissa << 13 |
           (exponent == 31 ? 255u : exponent + 112) << 23;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void convert(const struct model_tensor *t, enum native_type type, uint32_t count,
                    float *out)
{
    const char *from = t->data; /* at any byte of the file */

    for (uint32_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + (type == NATIVE_F32 ? 0 : 2 * (size_t)i), sizeof(half));
        uint32_t bits = (uint32_t)half << 16;
        if (type == NATIVE_F32)
            memcpy(&out[i], from + 4 * (size_t)i, sizeof(out[i]));
        else if (type == NATIVE_BF16)
            memcpy(&out[i], &bits, sizeof(bits));
        else
            out[i] = f16_to_f32(half);
    }
}

uint32_t native_build_vector(struct native_builder *b, const char *name, uint64_t count)
{
    struct native_spec *s = b->spec;
    char expected[32];
    struct place place;
    uint64_t values = 1;
    enum native_type type;
    uint32_t bytes;

    if (name == NULL || b->code != LR_OK ||
        !grow(b, (void **)&s->vectors, s->vector_count, 1, &b->vector_room,
              sizeof(*s->vectors)))
        return NATIVE_NONE;
    const struct model_tensor *t = need(b, name, &place);
    if (t == NULL || !type_of(b, t, &type, &bytes))
        return NATIVE_NONE;
    for (uint32_t i = 0; i < t->rank; i++)
        values = values > count ? values : values * t->shape[i];
    if (values != count || t->rank == 0 || count > VECTOR_MAX) {
        snprintf(expected, sizeof(expected), "%llu values", (unsigned long long)count);
        wrong_shape(b, t, expected);
        return NATIVE_NONE;
    }
    float *to = native_build_alloc(b, count, sizeof(*to));
    if (to == NULL)
        return NATIVE_NONE;
    convert(t, type, (uint32_t)count, to);
    s->vectors[s->vector_count] = (struct native_vector){name_of(b, t), to, (uint32_t)count};
    return s->vector_count++;
}

/* ---- what is left ---- */

static bool is_tower(struct lr_str name)
{
    static const char *const towers[] = {
        "model.visual.",
        "visual.",
        "vision_tower.",
        "model.vision_tower.",
        "vision_model.",
        "model.vision_model.",
        "audio_tower.",
        "model.audio_tower.",
        "embed_vision.",
        "model.embed_vision.",
        "embed_audio.",
        "model.embed_audio.",
        "multi_modal_projector.",
        "model.multi_modal_projector.",
        "mtp.",
        "model.mtp.",
    };

    for (size_t i = 0; i < sizeof(towers) / sizeof(towers[0]); i++)
        if (lr_str_starts(name, towers[i]))
            return true;
    return lr_str_ends(name, ".rotary_emb.inv_freq");
}

static bool is_ignored(const struct native_builder *b, const struct native_arch *arch,
                       struct lr_str name)
{
    for (uint32_t i = 0; i < b->ignored_count; i++)
        if (lr_str_starts(name, b->ignored[i]))
            return true;
    for (size_t i = 0; arch->ignored != NULL && arch->ignored[i] != NULL; i++)
        if (lr_str_starts(name, arch->ignored[i]))
            return true;
    return is_tower(name);
}

void native_ignore(struct native_builder *b, const char *name)
{
    static const char *const places[] = {"", "model.language_model.", "language_model."};
    struct place place;

    if (b->code != LR_OK || !split(b, name, &place))
        return;
    for (size_t i = 0; i < 3; i++) {
        if (b->ignored_count == sizeof(b->ignored) / sizeof(b->ignored[0]))
            return;
        bool below = i == 1 && strncmp(place.name, "model.", 6) == 0;
        const char *text =
            lr_arena_printf(&b->spec->arena, "%s%s", places[i], place.name + (below ? 6 : 0));
        if (text != NULL)
            b->ignored[b->ignored_count++] = text;
    }
}

void native_build_check_tensors(struct native_builder *b, const struct native_arch *arch)
{
    for (size_t i = 0; b->code == LR_OK && i < model_weights_count(b->weights); i++) {
        const struct model_tensor *t = model_weights_at(b->weights, i);
        if (b->used[i])
            continue;
        if (b->quant.format != NULL && native_format_skips(t->name)) {
            b->spec->scales_skipped++;
            continue;
        }
        if (!is_ignored(b, arch, t->name)) {
            b->code =
                lr_fail(b->err, LR_UNSUPPORTED,
                        "%s: tensor \"%.*s\" is unknown to the family %s: the model would "
                        "compute something else without it",
                        t->file, MODEL_QUOTE(t->name), arch->family);
            return;
        }
        if (b->spec->skipped++ == 0)
            b->spec->skipped_of = name_of(b, t);
    }
}
