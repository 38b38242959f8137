/* model/gguf_get.c - opens a GGUF file and looks up its metadata. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "model/gguf_format.h"
#include "model/map.h"

enum { GGUF_ARENA_MAX = 128 << 20 };

struct storage {
    struct lr_arena arena;
    struct lr_file_map map;
};

lr_code model_gguf_open(const char *path, struct model_gguf **out, struct lr_error *err)
{
    *out = NULL;
    struct model_gguf *g = calloc(1, sizeof(*g));
    struct storage *s = calloc(1, sizeof(*s));
    if (g == NULL || s == NULL) {
        free(g);
        free(s);
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", path);
    }
    lr_arena_init(&s->arena, GGUF_ARENA_MAX);
    lr_code code = model_map(path, &s->map, err);
    if (code == LR_OK)
        code = model_gguf_parse(&s->arena, s->map.data, s->map.len, s->map.len, path, g, err);
    g->storage = s;
    if (code != LR_OK) {
        model_gguf_close(g);
        return code;
    }
    *out = g;
    return LR_OK;
}

void model_gguf_close(struct model_gguf *g)
{
    if (g == NULL)
        return;
    struct storage *s = g->storage;
    if (s != NULL) {
        lr_file_unmap(&s->map);
        lr_arena_free(&s->arena);
        free(s);
    }
    free(g);
}

const struct model_gguf_value *model_gguf_get(const struct model_gguf *g, const char *key)
{
    for (size_t i = 0; i < g->kv_count; i++) {
        if (lr_str_eq_z(g->kv[i].key, key))
            return &g->kv[i].value;
    }
    return NULL;
}

static uint64_t little(const char *bytes, size_t len)
{
    uint64_t value = 0;
    for (size_t i = len; i-- > 0;)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

bool model_gguf_str(const struct model_gguf *g, const char *key, struct lr_str *out)
{
    const struct model_gguf_value *v = model_gguf_get(g, key);
    if (v == NULL || v->type != MODEL_GGUF_STRING)
        return false;
    *out = v->raw;
    return true;
}

bool model_gguf_u64(const struct model_gguf *g, const char *key, uint64_t *out)
{
    const struct model_gguf_value *v = model_gguf_get(g, key);
    if (v == NULL)
        return false;
    switch (v->type) {
    case MODEL_GGUF_I8:
    case MODEL_GGUF_I16:
    case MODEL_GGUF_I32:
    case MODEL_GGUF_I64:
        if ((unsigned char)v->raw.ptr[v->raw.len - 1] & 0x80)
            return false;
        break;
    case MODEL_GGUF_U8:
    case MODEL_GGUF_U16:
    case MODEL_GGUF_U32:
    case MODEL_GGUF_U64:
        break;
    default:
        return false;
    }
    *out = little(v->raw.ptr, v->raw.len);
    return true;
}

bool model_gguf_u32(const struct model_gguf *g, const char *key, uint32_t *out)
{
    uint64_t value;
    if (!model_gguf_u64(g, key, &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool model_gguf_str_at(const struct model_gguf_value *array, uint64_t i, struct lr_str *out)
{
    if (array == NULL || array->type != MODEL_GGUF_ARRAY ||
        array->item_type != MODEL_GGUF_STRING || i >= array->count)
        return false;
    /* The parser has checked these lengths, so they stay inside raw. */
    size_t at = 0;
    for (uint64_t n = 0;; n++) {
        size_t len = (size_t)little(array->raw.ptr + at, 8);
        at += 8;
        if (n == i) {
            *out = lr_str(array->raw.ptr + at, len);
            return true;
        }
        at += len;
    }
}

/* Whether the word stands at this place of a name, with an edge behind it. */
static bool has_word_at(struct lr_str name, size_t at, const char *word)
{
    size_t end = at + strlen(word);
    return lr_str_eq_nocase(lr_str_sub(name, at, end), lr_str_z(word)) &&
           (end == name.len || strchr("-_.0123456789", name.ptr[end]) != NULL);
}

bool model_gguf_is_main(struct lr_str name)
{
    static const char *const anywhere[] = {"mmproj", "imatrix", "draft"};
    for (size_t at = name.len; at-- > 0;) {
        if (name.ptr[at] == '/') {
            name = lr_str_sub(name, at + 1, name.len);
            break;
        }
    }
    for (size_t at = 0; at < name.len; at++) {
        bool is_begin = at == 0 || strchr("-_.", name.ptr[at - 1]) != NULL;
        for (size_t i = 0; is_begin && i < sizeof(anywhere) / sizeof(anywhere[0]); i++)
            if (has_word_at(name, at, anywhere[i]))
                return false;
    }
    return !has_word_at(name, 0, "mtp") && !has_word_at(name, 0, "eagle");
}
