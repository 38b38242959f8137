/* model/index.c - model.safetensors.index.json: which shard holds which tensor.
 *
 * The index is untrusted.  A shard name must be a plain file name in the snapshot's root
 * folder; any other name is refused before it is used.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/map.h"
#include "model/weights.h"

enum { SHARDS_MAX = 4096, INDEX_DEPTH = 16 };

static bool plain_name(struct lr_str name)
{
    if (!lr_str_ends(name, ".safetensors") || name.len > 255 || name.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < 0x20 || c == '/' || c == '\\' || c == ':' || c == 0x7f)
            return false;
    }
    return true;
}

static int index_by_name(const void *left, const void *right)
{
    return lr_str_cmp(*(const struct lr_str *)left, *(const struct lr_str *)right);
}

/* Sorts all shard names and drops repeats. */
static lr_code collect_shards(struct lr_arena *arena, const struct lr_json *map,
                              struct model_index *out, struct lr_error *err)
{
    struct lr_str *names = lr_arena_array(arena, map->count + 1u, sizeof(*names));
    if (names == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u index entries", map->count);
    for (uint32_t i = 0; i < map->count; i++) {
        const struct lr_json_member *m = &map->members[i];
        if (!lr_json_str(&m->value, &names[i]))
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "weight_map: the shard of \"%.*s\" must be a string, not %s",
                           MODEL_QUOTE(m->key), lr_json_type_name(m->value.type));
        if (!plain_name(names[i]))
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "weight_map: the shard \"%.*s\" of \"%.*s\" must be a plain "
                           "*.safetensors name in the same folder",
                           MODEL_QUOTE(names[i]), MODEL_QUOTE(m->key));
    }
    qsort(names, map->count, sizeof(*names), index_by_name);
    size_t kept = 0;
    for (uint32_t i = 0; i < map->count; i++) {
        if (kept == 0 || !lr_str_eq(names[kept - 1], names[i]))
            names[kept++] = names[i];
    }
    if (kept > SHARDS_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT, "weight_map: %zu shards, the limit is %d", kept,
                       SHARDS_MAX);
    out->shards = names;
    out->shard_count = kept;
    return LR_OK;
}

static lr_code read_map(struct lr_arena *arena, const struct lr_json *map,
                        struct model_index *out, struct lr_error *err)
{
    if (map->count == 0)
        return lr_fail(err, LR_MODEL_CORRUPT, "weight_map is empty");
    if (map->count > MODEL_INDEX_TENSORS_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT, "weight_map names %u tensors, the limit is %d",
                       map->count, MODEL_INDEX_TENSORS_MAX);
    lr_code code = collect_shards(arena, map, out, err);
    if (code != LR_OK)
        return code;
    out->entries = lr_arena_array(arena, map->count, sizeof(*out->entries));
    if (out->entries == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u index entries", map->count);
    for (uint32_t i = 0; i < map->count; i++) {
        const struct lr_json_member *m = &map->members[i];
        const struct lr_str *shard = bsearch(&m->value.text, out->shards, out->shard_count,
                                             sizeof(*out->shards), index_by_name);
        out->entries[i].tensor = m->key;
        out->entries[i].shard = (uint32_t)(shard - out->shards);
    }
    out->count = map->count;
    return LR_OK;
}

lr_code model_index_parse(struct lr_arena *arena, struct lr_str text, struct model_index *out,
                          struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    struct lr_json_limits limits = {.max_depth = INDEX_DEPTH,
                                    .max_bytes = MODEL_INDEX_BYTES_MAX};
    const struct lr_json *root;
    lr_code code = lr_json_parse(arena, text, &limits, &root, err);
    if (code != LR_OK) {
        code = code == LR_OUT_OF_RAM ? LR_OUT_OF_RAM : LR_MODEL_CORRUPT;
        if (err != NULL)
            err->code = code;
        return code;
    }
    const struct lr_json *map = lr_json_get(root, "weight_map");
    if (!lr_json_is(map, LR_JSON_OBJECT))
        return lr_fail(err, LR_MODEL_CORRUPT, "weight_map, an object, is missing");
    return read_map(arena, map, out, err);
}
