/* model/gguf.c - parses the header of a GGUF file.
 *
 * One cursor walks the bytes; it never passes their end and keeps its first error.  Counts are
 * compared with the remaining bytes before memory is allocated.
 */
#include "model/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_format.h"
#include "model/map.h"

struct cursor {
    struct lr_arena *arena;
    const unsigned char *bytes;
    uint64_t at;
    uint64_t available;
    uint64_t file_size;
    const char *file;
    lr_code code; /* the first error */
    struct lr_error *err;
};

static bool need(struct cursor *c, uint64_t bytes, const char *what, struct lr_str name)
{
    if (c->code != LR_OK)
        return false;
    if (bytes <= c->available - c->at)
        return true;
    c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                      "%s: %s%s%.*s%s at byte %" PRIu64 " takes %" PRIu64
                      " bytes, the file ends after %" PRIu64,
                      c->file, what, name.len != 0 ? " \"" : "", MODEL_QUOTE(name),
                      name.len != 0 ? "\"" : "", c->at, bytes, c->available - c->at);
    return false;
}

static uint64_t model_gguf_take(struct cursor *c, unsigned bytes, const char *what,
                                struct lr_str name)
{
    uint64_t value = 0;
    if (!need(c, bytes, what, name))
        return 0;
    for (unsigned i = bytes; i-- > 0;)
        value = value << 8 | c->bytes[c->at + i];
    c->at += bytes;
    return value;
}

static struct lr_str take_string(struct cursor *c, uint64_t limit, const char *what,
                                 struct lr_str name)
{
    uint64_t len = model_gguf_take(c, 8, what, name);
    if (c->code == LR_OK && len > limit)
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: %s \"%.*s\" has %" PRIu64 " bytes, the limit is %" PRIu64,
                          c->file, what, MODEL_QUOTE(name), len, limit);
    if (!need(c, len, what, name))
        return (struct lr_str){NULL, 0};
    struct lr_str text = lr_str((const char *)c->bytes + c->at, (size_t)len);
    c->at += len;
    return text;
}

static void fail_type(struct cursor *c, struct lr_str key, uint64_t type)
{
    if (c->code == LR_OK)
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: metadata \"%.*s\" has the unknown type %" PRIu64, c->file,
                          MODEL_QUOTE(key), type);
}

/* Skips one value, or `count` of them, and checks their content. */
static void skip_values(struct cursor *c, struct lr_str key, enum model_gguf_type type,
                        uint64_t count, int depth);

static void skip_array(struct cursor *c, struct lr_str key, int depth,
                       struct model_gguf_value *out)
{
    uint64_t type = model_gguf_take(c, 4, "the array", key);
    uint64_t count = model_gguf_take(c, 8, "the array", key);
    if (c->code != LR_OK)
        return;
    if (type >= MODEL_GGUF_TYPE_COUNT) {
        fail_type(c, key, type);
        return;
    }
    if (depth >= MODEL_GGUF_NEST_MAX) {
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: metadata \"%.*s\" nests arrays deeper than %d", c->file,
                          MODEL_QUOTE(key), MODEL_GGUF_NEST_MAX);
        return;
    }
    uint64_t begin = c->at;
    skip_values(c, key, (enum model_gguf_type)type, count, depth + 1);
    if (out != NULL && c->code == LR_OK) {
        out->item_type = (enum model_gguf_type)type;
        out->count = count;
        out->raw = lr_str((const char *)c->bytes + begin, (size_t)(c->at - begin));
    }
}

static void skip_values(struct cursor *c, struct lr_str key, enum model_gguf_type type,
                        uint64_t count, int depth)
{
    unsigned size = model_gguf_type_size(type);
    uint64_t bytes;
    if (size != 0) {
        if (__builtin_mul_overflow(count, (uint64_t)size, &bytes))
            bytes = UINT64_MAX;
        if (need(c, bytes, "the array", key))
            c->at += bytes;
        return;
    }
    /* Every string or array takes at least 8 bytes, so the loop ends with the file. */
    for (uint64_t i = 0; i < count && c->code == LR_OK; i++) {
        if (type == MODEL_GGUF_STRING)
            (void)take_string(c, UINT64_MAX, "a string of", key);
        else
            skip_array(c, key, depth, NULL);
    }
}

static void read_value(struct cursor *c, struct lr_str key, struct model_gguf_value *out)
{
    uint64_t type = model_gguf_take(c, 4, "metadata", key);
    if (c->code != LR_OK)
        return;
    if (type >= MODEL_GGUF_TYPE_COUNT) {
        fail_type(c, key, type);
        return;
    }
    out->type = (enum model_gguf_type)type;
    if (out->type == MODEL_GGUF_STRING) {
        out->raw = take_string(c, UINT64_MAX, "the value of", key);
    } else if (out->type == MODEL_GGUF_ARRAY) {
        skip_array(c, key, 0, out);
    } else {
        unsigned size = model_gguf_type_size(out->type);
        if (need(c, size, "the value of", key)) {
            out->raw = lr_str((const char *)c->bytes + c->at, size);
            c->at += size;
        }
    }
    if (c->code == LR_OK && out->type == MODEL_GGUF_BOOL && (unsigned char)out->raw.ptr[0] > 1)
        c->code =
            lr_fail(c->err, LR_MODEL_CORRUPT, "%s: metadata \"%.*s\" is a boolean of value %d",
                    c->file, MODEL_QUOTE(key), (unsigned char)out->raw.ptr[0]);
}

/* Allocates `count` items after checking that the file can hold that number. */
static void *model_gguf_make_room(struct cursor *c, uint64_t count, uint64_t limit,
                                  uint64_t least_bytes, size_t size, const char *what)
{
    if (c->code != LR_OK)
        return NULL;
    uint64_t left = c->available - c->at;
    if (count > limit || count > left / least_bytes) {
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: claims %" PRIu64 " %s; the limit is %" PRIu64 ", and %" PRIu64
                          " bytes are left",
                          c->file, count, what, limit, left);
        return NULL;
    }
    void *items = lr_arena_zalloc(c->arena, (size_t)(count + 1) * size);
    if (items == NULL)
        c->code = lr_fail(c->err, LR_OUT_OF_RAM, "%s: no memory for %" PRIu64 " %s", c->file,
                          count, what);
    return items;
}

static void read_tensor(struct cursor *c, struct model_gguf_tensor *t)
{
    struct lr_str none = {NULL, 0};
    t->name = take_string(c, MODEL_GGUF_KEY_MAX, "a tensor's name", none);
    uint64_t rank = model_gguf_take(c, 4, "tensor", t->name);
    if (c->code == LR_OK && rank > 4) {
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: tensor \"%.*s\" has %" PRIu64 " dimensions, the limit is 4",
                          c->file, MODEL_QUOTE(t->name), rank);
        return;
    }
    t->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < t->rank; i++)
        t->shape[i] = model_gguf_take(c, 8, "tensor", t->name);
    t->type = (uint32_t)model_gguf_take(c, 4, "tensor", t->name);
    t->offset = model_gguf_take(c, 8, "tensor", t->name);
}

static void place_tensor(struct cursor *c, const struct model_gguf *g,
                         struct model_gguf_tensor *t)
{
    uint64_t data_bytes = c->file_size - g->data_start;
    const char *why = NULL;
    if (c->code != LR_OK)
        return;
    if (!model_gguf_tensor_bytes(t, &t->bytes))
        why = "has a shape that does not fit its type";
    else if (t->offset % g->alignment != 0)
        why = "does not begin at a multiple of the alignment";
    else if (t->offset > data_bytes || t->bytes > data_bytes - t->offset)
        why = "ends after the file: is it truncated?";
    if (why != NULL)
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: tensor \"%.*s\" %s (%" PRIu64 " bytes at %" PRIu64 " of %" PRIu64
                          ", alignment %u)",
                          c->file, MODEL_QUOTE(t->name), why, t->bytes, t->offset, data_bytes,
                          g->alignment);
    t->offset += g->data_start;
}

static int by_key(const void *left, const void *right)
{
    return lr_str_cmp(*(const struct lr_str *)left, *(const struct lr_str *)right);
}

/* Finds a repeated name by sorting a copy. */
static void check_twice(struct cursor *c, struct lr_str *names, size_t count, const char *what)
{
    if (c->code != LR_OK)
        return;
    qsort(names, count, sizeof(*names), by_key);
    for (size_t i = 1; i < count; i++) {
        if (lr_str_eq(names[i - 1], names[i])) {
            c->code = lr_fail(c->err, LR_MODEL_CORRUPT, "%s: %s \"%.*s\" occurs twice", c->file,
                              what, MODEL_QUOTE(names[i]));
            return;
        }
    }
}

static void check_names(struct cursor *c, const struct model_gguf *g)
{
    size_t most = g->kv_count > g->tensor_count ? g->kv_count : g->tensor_count;
    struct lr_str *names = lr_arena_array(c->arena, most + 1, sizeof(*names));
    if (names == NULL) {
        c->code = lr_fail(c->err, LR_OUT_OF_RAM, "%s: no memory for %zu names", c->file, most);
        return;
    }
    for (size_t i = 0; i < g->kv_count; i++)
        names[i] = g->kv[i].key;
    check_twice(c, names, g->kv_count, "metadata");
    for (size_t i = 0; i < g->tensor_count; i++)
        names[i] = g->tensors[i].name;
    check_twice(c, names, g->tensor_count, "tensor");
}

static void read_alignment(struct cursor *c, struct model_gguf *g)
{
    g->alignment = 32;
    if (model_gguf_get(g, "general.alignment") == NULL)
        return;
    uint32_t value = 0;
    if (!model_gguf_u32(g, "general.alignment", &value) || value == 0 || value > 1 << 20 ||
        (value & (value - 1)) != 0)
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT,
                          "%s: general.alignment must be a power of two up to 1048576, not %u",
                          c->file, value);
    else
        g->alignment = value;
}

/* *tensors: how many the file claims. */
static void read_pairs(struct cursor *c, struct model_gguf *g, uint64_t *tensors)
{
    struct lr_str none = {NULL, 0};
    if (!need(c, 24, "the GGUF header", none))
        return;
    if (memcmp(c->bytes, "GGUF", 4) != 0) {
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT, "%s does not begin with \"GGUF\"", c->file);
        return;
    }
    c->at = 4;
    g->version = (uint32_t)model_gguf_take(c, 4, "version", none);
    if (g->version != 2 && g->version != 3)
        c->code =
            lr_fail(c->err, LR_UNSUPPORTED, "%s: GGUF version %u%s, expected 2 or 3", c->file,
                    g->version, (g->version & 0xFFFF) == 0 ? " (a big-endian file)" : "");
    *tensors = model_gguf_take(c, 8, "tensor count", none);
    uint64_t pairs = model_gguf_take(c, 8, "metadata count", none);
    /* Shortest pair: empty key, type, one byte.  Shortest tensor: no name, no dimension. */
    g->kv = model_gguf_make_room(c, pairs, MODEL_GGUF_KV_MAX, 8 + 4 + 1, sizeof(*g->kv),
                                 "metadata pairs");
    for (; g->kv_count < pairs && c->code == LR_OK; g->kv_count++) {
        struct model_gguf_kv *kv = &g->kv[g->kv_count];
        kv->key = take_string(c, MODEL_GGUF_KEY_MAX, "a metadata key", none);
        read_value(c, kv->key, &kv->value);
    }
}

static void read_front(struct cursor *c, struct model_gguf *g)
{
    uint64_t tensors = 0;
    read_pairs(c, g, &tensors);
    g->tensors = model_gguf_make_room(c, tensors, MODEL_GGUF_TENSORS_MAX, 8 + 4 + 4 + 8,
                                      sizeof(*g->tensors), "tensors");
    for (; g->tensor_count < tensors && c->code == LR_OK; g->tensor_count++)
        read_tensor(c, &g->tensors[g->tensor_count]);
}

lr_code model_gguf_parse_front(struct lr_arena *arena, const void *bytes, size_t available,
                               const char *file, struct model_gguf *out, struct lr_error *err)
{
    uint64_t tensors = 0;
    memset(out, 0, sizeof(*out));
    struct cursor c = {.arena = arena,
                       .bytes = bytes,
                       .available = available,
                       .file_size = available,
                       .file = file,
                       .err = err};
    read_pairs(&c, out, &tensors);
    /* The loop counts the pair in which it ended. */
    if (c.code != LR_OK && out->kv_count != 0) {
        out->kv_count--;
        return LR_OK;
    }
    return c.code;
}

lr_code model_gguf_parse(struct lr_arena *arena, const void *bytes, size_t available,
                         uint64_t file_size, const char *file, struct model_gguf *out,
                         struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    struct cursor c = {.arena = arena,
                       .bytes = bytes,
                       .available = available,
                       .file_size = file_size,
                       .file = file,
                       .err = err};
    read_front(&c, out);
    if (c.code == LR_OK)
        read_alignment(&c, out);
    if (c.code == LR_OK)
        check_names(&c, out);
    if (c.code != LR_OK)
        return c.code;
    uint64_t start = (c.at + out->alignment - 1) / out->alignment * out->alignment;
    /* A file without tensors (a vocabulary) may end after its header. */
    out->data_start = start < file_size ? start : file_size;
    out->weight_bytes = file_size - out->data_start;
    for (size_t i = 0; i < out->tensor_count; i++)
        place_tensor(&c, out, &out->tensors[i]);
    if (c.code == LR_OK)
        c.code = model_gguf_check_overlap(arena, out, file, err);
    return c.code;
}
