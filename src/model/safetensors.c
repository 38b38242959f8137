/* model/safetensors.c - see safetensors.h.
 *
 * The header is untrusted: every number is checked before use, in 64 bits and without overflow.
 * The tensors are sorted by offset, so that overlaps and holes show between neighbours.
 */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/map.h"

/* The tree of a million tensors takes 600 MB; a header that needs more is no model. */
enum { HEADER_ARENA_MAX = 1 << 30, HEADER_DEPTH = 8 };

struct parse {
    struct lr_arena *arena;
    const char *file;
    uint64_t data_start;
    uint64_t data_bytes;
    struct lr_error *err;
};

static uint64_t read_le64(const unsigned char *p)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

static lr_code read_shape(const struct parse *p, const struct lr_json *shape,
                          struct model_tensor *t)
{
    if (!lr_json_is(shape, LR_JSON_ARRAY))
        return lr_fail(p->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" has no shape array",
                       p->file, MODEL_QUOTE(t->name));
    if (shape->count > MODEL_RANK_MAX)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\" has %u dimensions, the limit is %d", p->file,
                       MODEL_QUOTE(t->name), shape->count, MODEL_RANK_MAX);
    t->rank = shape->count;
    for (uint32_t i = 0; i < t->rank; i++) {
        const struct lr_json *item = &shape->items[i];
        struct lr_str got =
            item->type == LR_JSON_NUMBER ? item->text : lr_str_z(lr_json_type_name(item->type));
        if (!lr_json_u64(item, &t->shape[i]))
            return lr_fail(p->err, LR_MODEL_CORRUPT,
                           "%s: tensor \"%.*s\": dimension %u must be a whole number from 0, "
                           "not %.*s",
                           p->file, MODEL_QUOTE(t->name), i, MODEL_QUOTE(got));
    }
    return LR_OK;
}

/* Bytes that the shape and the type imply. */
static lr_code shape_bytes(const struct parse *p, const struct model_tensor *t, uint64_t *out)
{
    uint64_t bits = model_dtype_bits(t->dtype);
    char text[MODEL_SHAPE_TEXT];
    for (uint32_t i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(bits, t->shape[i], &bits))
            return lr_fail(p->err, LR_MODEL_CORRUPT,
                           "%s: tensor \"%.*s\": shape %s is larger than any file", p->file,
                           MODEL_QUOTE(t->name), model_shape_text(t->shape, t->rank, text));
    }
    if (bits % 8 != 0)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\": shape %s of %s is not a whole number of bytes",
                       p->file, MODEL_QUOTE(t->name), model_shape_text(t->shape, t->rank, text),
                       model_dtype_name(t->dtype));
    *out = bits / 8;
    return LR_OK;
}

static lr_code read_offsets(const struct parse *p, const struct lr_json *offsets,
                            struct model_tensor *t)
{
    uint64_t begin, end, want = 0;
    if (!lr_json_is(offsets, LR_JSON_ARRAY) || offsets->count != 2 ||
        !lr_json_u64(&offsets->items[0], &begin) || !lr_json_u64(&offsets->items[1], &end))
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\": data_offsets must be two whole numbers from 0",
                       p->file, MODEL_QUOTE(t->name));
    if (begin > end)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\" ends at byte %" PRIu64
                       ", before it begins at %" PRIu64,
                       p->file, MODEL_QUOTE(t->name), end, begin);
    if (end > p->data_bytes)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\" ends at byte %" PRIu64
                       " of the data, but the file holds %" PRIu64 ": is it truncated?",
                       p->file, MODEL_QUOTE(t->name), end, p->data_bytes);
    lr_code code = shape_bytes(p, t, &want);
    if (code != LR_OK)
        return code;
    if (end - begin != want) {
        char text[MODEL_SHAPE_TEXT];
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\": %s of %s takes %" PRIu64
                       " bytes, its offsets give it %" PRIu64,
                       p->file, MODEL_QUOTE(t->name), model_shape_text(t->shape, t->rank, text),
                       model_dtype_name(t->dtype), want, end - begin);
    }
    t->bytes = want;
    t->offset = p->data_start + begin;
    return LR_OK;
}

static lr_code read_tensor(const struct parse *p, const struct lr_json_member *member,
                           struct model_tensor *t)
{
    memset(t, 0, sizeof(*t));
    t->name = member->key;
    t->file = p->file;
    if (member->value.type != LR_JSON_OBJECT)
        return lr_fail(p->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" is no object", p->file,
                       MODEL_QUOTE(t->name));
    struct lr_str dtype;
    if (!lr_json_str(lr_json_get(&member->value, "dtype"), &dtype))
        return lr_fail(p->err, LR_MODEL_CORRUPT, "%s: tensor \"%.*s\" has no dtype", p->file,
                       MODEL_QUOTE(t->name));
    if (!model_dtype_find(dtype, &t->dtype))
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%.*s\" has the unknown dtype \"%.*s\"", p->file,
                       MODEL_QUOTE(t->name), MODEL_QUOTE(dtype));
    lr_code code = read_shape(p, lr_json_get(&member->value, "shape"), t);
    if (code != LR_OK)
        return code;
    return read_offsets(p, lr_json_get(&member->value, "data_offsets"), t);
}

static lr_code check_metadata(const struct parse *p, const struct lr_json *metadata)
{
    bool good = metadata->type == LR_JSON_OBJECT;
    for (uint32_t i = 0; good && i < metadata->count; i++)
        good = metadata->members[i].value.type == LR_JSON_STRING;
    if (!good)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: __metadata__ must be an object of strings", p->file);
    return LR_OK;
}

static int by_offset(const void *left, const void *right)
{
    const struct model_tensor *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    /* An empty tensor may share its offset with the next. */
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return lr_str_cmp(a->name, b->name);
}

/* The format requires that tensors cover the data part exactly once. */
static lr_code check_coverage(const struct parse *p, const struct model_tensor *tensors,
                              size_t count)
{
    uint64_t at = p->data_start;
    for (size_t i = 0; i < count; i++) {
        const struct model_tensor *t = &tensors[i];
        if (t->offset < at)
            return lr_fail(
                p->err, LR_MODEL_CORRUPT,
                "%s: tensors \"%.*s\" and \"%.*s\" overlap: one ends at byte %" PRIu64
                " of the data, the other begins at %" PRIu64,
                p->file, MODEL_QUOTE(tensors[i - 1].name), MODEL_QUOTE(t->name),
                at - p->data_start, t->offset - p->data_start);
        if (t->offset > at)
            return lr_fail(p->err, LR_MODEL_CORRUPT,
                           "%s: bytes %" PRIu64 " to %" PRIu64
                           " of the data belong to no tensor (before \"%.*s\")",
                           p->file, at - p->data_start, t->offset - p->data_start,
                           MODEL_QUOTE(t->name));
        at = t->offset + t->bytes;
    }
    if (at - p->data_start != p->data_bytes)
        return lr_fail(p->err, LR_MODEL_CORRUPT,
                       "%s: the tensors end at byte %" PRIu64
                       " of the data, but the file holds %" PRIu64,
                       p->file, at - p->data_start, p->data_bytes);
    return LR_OK;
}

static lr_code read_tensors(const struct parse *p, const struct lr_json *root,
                            struct model_safetensors_header *out)
{
    if (root->type != LR_JSON_OBJECT)
        return lr_fail(p->err, LR_MODEL_CORRUPT, "%s: the header is no JSON object", p->file);
    if (root->count > MODEL_SAFETENSORS_TENSORS_MAX)
        return lr_fail(p->err, LR_MODEL_CORRUPT, "%s: %u tensors, the limit is %d", p->file,
                       root->count, MODEL_SAFETENSORS_TENSORS_MAX);
    out->tensors = lr_arena_array(p->arena, root->count + 1u, sizeof(*out->tensors));
    if (out->tensors == NULL)
        return lr_fail(p->err, LR_OUT_OF_RAM, "%s: no memory for %u tensors", p->file,
                       root->count);
    for (uint32_t i = 0; i < root->count; i++) {
        const struct lr_json_member *member = &root->members[i];
        lr_code code;
        if (lr_str_eq_z(member->key, "__metadata__")) {
            code = check_metadata(p, &member->value);
        } else {
            code = read_tensor(p, member, &out->tensors[out->count]);
            out->count++;
        }
        if (code != LR_OK)
            return code;
    }
    qsort(out->tensors, out->count, sizeof(*out->tensors), by_offset);
    return check_coverage(p, out->tensors, out->count);
}

lr_code model_safetensors_parse(struct lr_arena *arena, const void *bytes, size_t available,
                                uint64_t file_size, const char *file,
                                struct model_safetensors_header *out, struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    if (file_size < 8 || available < 8)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: %" PRIu64 " bytes are too few for a safetensors file", file,
                       file_size);
    uint64_t length = read_le64(bytes);
    if (length > MODEL_SAFETENSORS_HEADER_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: the header claims %" PRIu64 " bytes, the limit is %d", file, length,
                       MODEL_SAFETENSORS_HEADER_MAX);
    if (length > file_size - 8 || length > available - 8)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: the header claims %" PRIu64 " bytes, the file has %" PRIu64
                       " after its length: is it truncated?",
                       file, length, file_size - 8);
    struct parse p = {arena, file, 8 + length, file_size - 8 - length, err};
    struct lr_json_limits limits = {.max_depth = HEADER_DEPTH};
    const struct lr_json *root;
    lr_code code = lr_json_parse(arena, lr_str((const char *)bytes + 8, (size_t)length),
                                 &limits, &root, err);
    if (code != LR_OK) {
        (void)lr_fail_prefix(err, "%s: header", file);
        code = code == LR_OUT_OF_RAM ? LR_OUT_OF_RAM : LR_MODEL_CORRUPT;
        if (err != NULL)
            err->code = code;
        return code;
    }
    out->data_start = p.data_start;
    out->data_bytes = p.data_bytes;
    return read_tensors(&p, root, out);
}

struct model_safetensors {
    struct lr_arena arena; /* tensors, names that the header writes with escapes, path */
    struct lr_file_map map;
    struct model_safetensors_header header;
    const char *path;
};

/* Copies the tensors out of the arena of the header's tree, which is many times as large. */
static lr_code keep_tensors(struct model_safetensors *st, struct lr_error *err)
{
    const char *first = (const char *)st->map.data, *end = first + st->map.len;
    struct model_tensor *kept = lr_arena_array(&st->arena, st->header.count + 1, sizeof(*kept));

    for (size_t i = 0; kept != NULL && i < st->header.count; i++) {
        struct lr_str name = st->header.tensors[i].name;
        kept[i] = st->header.tensors[i];
        if (name.ptr >= first && name.ptr < end)
            continue;
        kept[i].name.ptr = lr_arena_copy(&st->arena, name);
        if (kept[i].name.ptr == NULL)
            kept = NULL;
    }
    st->header.tensors = kept;
    return kept != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", st->path);
}

lr_code model_safetensors_open(const char *path, struct model_safetensors **out,
                               struct lr_error *err)
{
    *out = NULL;
    struct model_safetensors *st = calloc(1, sizeof(*st));
    struct lr_arena tree;
    if (st == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", path);
    lr_arena_init(&st->arena, HEADER_ARENA_MAX);
    lr_code code = model_map(path, &st->map, err);
    if (code != LR_OK)
        goto failed;
    st->path = lr_arena_copy(&st->arena, lr_str_z(path));
    if (st->path == NULL) {
        code = lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", path);
        goto failed;
    }
    lr_arena_init(&tree, HEADER_ARENA_MAX);
    code = model_safetensors_parse(&tree, st->map.data, st->map.len, st->map.len, st->path,
                                   &st->header, err);
    if (code == LR_OK)
        code = keep_tensors(st, err);
    lr_arena_free(&tree);
    if (code != LR_OK)
        goto failed;
    for (size_t i = 0; i < st->header.count; i++)
        st->header.tensors[i].data = st->map.data + st->header.tensors[i].offset;
    *out = st;
    return LR_OK;
failed:
    model_safetensors_close(st);
    return code;
}

void model_safetensors_close(struct model_safetensors *st)
{
    if (st == NULL)
        return;
    lr_file_unmap(&st->map);
    lr_arena_free(&st->arena);
    free(st);
}

size_t model_safetensors_count(const struct model_safetensors *st)
{
    return st->header.count;
}

const struct model_tensor *model_safetensors_at(const struct model_safetensors *st, size_t i)
{
    return &st->header.tensors[i];
}

uint64_t model_safetensors_file_size(const struct model_safetensors *st)
{
    return st->map.len;
}
