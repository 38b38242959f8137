/* hub/build_weights.c - which files hold the weights.
 *
 * For safetensors only the repository's root folder counts: original/ and metal/ hold the same
 * weights in other encodings.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "hub/build.h"
#include "hub/quant.h"
#include "model/gguf.h"

enum { INDEX_ARENA_MAX = 512 << 20, INDEX_PRIORITY = 5 };

static const char st_suffix[] = ".safetensors";
static const char index_suffix[] = ".safetensors.index.json";

/* A growing set of names; the strings belong to the listing. */
struct names {
    struct lr_arena *arena;
    struct lr_str *list;
    size_t count, cap;
};

static bool names_add(struct names *n, struct lr_str name)
{
    if (n->count == n->cap) {
        size_t cap = n->cap == 0 ? 64 : n->cap * 2;
        struct lr_str *list = lr_arena_array(n->arena, cap, sizeof(*list));
        if (list == NULL)
            return false;
        if (n->count != 0)
            memcpy(list, n->list, n->count * sizeof(*list));
        n->list = list;
        n->cap = cap;
    }
    n->list[n->count++] = name;
    return true;
}

/* "BEFORE org/name AFTER: a, b and 3 more" */
static lr_code fail_names(struct hub_builder *b, const char *before, const char *after,
                          const struct names *n)
{
    struct lr_buf text;
    lr_buf_init(&text, 4096);
    hub_build_names(&text, n->list, n->count);
    lr_code code = lr_fail(b->err, LR_INVALID_ARGUMENT, "%s%s%s: %s", before, b->listing->repo,
                           after, lr_buf_z(&text));
    lr_buf_free(&text);
    return code;
}

static lr_code build_weights_out_of_memory(struct hub_builder *b)
{
    return lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the files of %s", b->listing->repo);
}

static lr_code add_weight(struct hub_builder *b, struct lr_str name, const char *stored,
                          int32_t priority)
{
    struct hub_entry entry = {.listing = b->listing,
                              .file = hub_listing_find(b->listing, name),
                              .name = stored,
                              .priority = priority};
    return hub_build_add(b, &entry);
}

/* ---- the index ---- */

static int by_bytes(const void *a, const void *b)
{
    return lr_str_cmp(*(const struct lr_str *)a, *(const struct lr_str *)b);
}

/* The shards that an index names, sorted and without repeats.  Strings live in n->arena or in
 * the text. */
static lr_code read_index(struct hub_builder *b, struct lr_str name, struct names *n)
{
    char *key = lr_arena_copy(n->arena, name);
    const struct hub_text *text = key != NULL ? hub_listing_text(b->listing, key) : NULL;
    const struct lr_json *tree;
    struct lr_error why;
    if (text == NULL)
        return lr_fail(b->err, LR_INTERNAL, "%.*s of %s was not fetched", LR_STR_ARG(name),
                       b->listing->repo);
    if (lr_json_parse(n->arena, text->text, NULL, &tree, &why) != LR_OK)
        return lr_fail(b->err, LR_INVALID_ARGUMENT, "%s: %.*s: %s", b->listing->repo,
                       LR_STR_ARG(name), why.text);
    const struct lr_json *map = lr_json_get(tree, "weight_map");
    if (!lr_json_is(map, LR_JSON_OBJECT) || map->count == 0)
        return lr_fail(b->err, LR_INVALID_ARGUMENT, "%s: %.*s has no \"weight_map\"",
                       b->listing->repo, LR_STR_ARG(name));
    for (size_t i = 0; i < map->count; i++) {
        struct lr_str shard;
        if (!lr_json_str(&map->members[i].value, &shard) || !lr_path_safe(shard) ||
            !lr_str_ends(shard, st_suffix))
            return lr_fail(b->err, LR_INVALID_ARGUMENT,
                           "%s: %.*s names a shard that is no .safetensors file",
                           b->listing->repo, LR_STR_ARG(name));
        /* Tensors of the same shard are mostly neighbours. */
        if (n->count != 0 && lr_str_eq(n->list[n->count - 1], shard))
            continue;
        if (!names_add(n, shard))
            return build_weights_out_of_memory(b);
    }
    qsort(n->list, n->count, sizeof(*n->list), by_bytes);
    size_t kept = 1;
    for (size_t i = 1; i < n->count; i++) {
        if (!lr_str_eq(n->list[i], n->list[kept - 1]))
            n->list[kept++] = n->list[i];
    }
    n->count = kept;
    return LR_OK;
}

static lr_code add_indexed(struct hub_builder *b, struct lr_str index,
                           const struct names *shards)
{
    struct names missing = {.arena = shards->arena};
    for (size_t i = 0; i < shards->count; i++) {
        if (hub_listing_find(b->listing, shards->list[i]) == NULL &&
            !names_add(&missing, shards->list[i]))
            return build_weights_out_of_memory(b);
    }
    if (missing.count != 0)
        return fail_names(b, "", " lacks shards that its index names", &missing);
    lr_code code = add_weight(b, index, NULL, INDEX_PRIORITY);
    for (size_t i = 0; i < shards->count && code == LR_OK; i++)
        code = add_weight(b, shards->list[i], NULL, 0);
    return code;
}

/* ---- safetensors ---- */

static bool names_has(const struct names *n, struct lr_str name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (lr_str_eq(n->list[i], name))
            return true;
    }
    return false;
}

static bool is_one_of_many(struct lr_str name)
{
    struct hub_shard shard;
    return hub_build_shard(name, st_suffix, &shard) && shard.total > 1;
}

static lr_code use_index(struct hub_builder *b, struct lr_str index, struct lr_arena *arena)
{
    struct names shards = {.arena = arena};
    lr_code code = read_index(b, index, &shards);
    return code == LR_OK ? add_indexed(b, index, &shards) : code;
}

/* The request names a file: the index, or the only file with weights. */
static lr_code use_filename(struct hub_builder *b, const struct names *indexes,
                            const struct names *weights)
{
    struct lr_str filename = b->request->filename;
    if (names_has(indexes, filename))
        return use_index(b, filename, weights->arena);
    if (!names_has(weights, filename))
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "filename \"%.*s\" is no .safetensors file or index in the root of %s",
                       (int)(filename.len < 200 ? filename.len : 200), filename.ptr,
                       b->listing->repo);
    for (size_t i = 0; i < indexes->count; i++) {
        struct names shards = {.arena = weights->arena};
        lr_code code = read_index(b, indexes->list[i], &shards);
        if (code != LR_OK)
            return code;
        if (shards.count > 1 && names_has(&shards, filename))
            return fail_names(b, "ambiguous: filename names one shard of many of ",
                              "; leave it out or name the index. Shards", &shards);
    }
    if (is_one_of_many(filename))
        return fail_names(b, "ambiguous: filename names one shard of many of ",
                          ", which has no index for it", weights);
    return add_weight(b, filename, NULL, 0);
}

static lr_code choose_safetensors(struct hub_builder *b, struct lr_arena *arena)
{
    struct names indexes = {.arena = arena}, weights = {.arena = arena};
    for (size_t i = 0; i < b->listing->file_count; i++) {
        struct lr_str name = b->listing->files[i].name;
        if (!hub_build_is_root(name))
            continue;
        if ((lr_str_ends(name, index_suffix) && !names_add(&indexes, name)) ||
            (lr_str_ends(name, st_suffix) && !names_add(&weights, name)))
            return build_weights_out_of_memory(b);
    }
    if (b->request->filename.len != 0)
        return use_filename(b, &indexes, &weights);
    if (indexes.count > 1)
        return fail_names(b, "ambiguous: ", " holds several indexes, set \"filename\" to one",
                          &indexes);
    if (indexes.count == 1)
        return use_index(b, indexes.list[0], arena);
    if (weights.count > 1)
        return fail_names(b, "ambiguous: ", " holds several .safetensors files and no index",
                          &weights);
    if (is_one_of_many(weights.list[0]))
        return fail_names(b, "ambiguous: ", " holds one shard of several and no index",
                          &weights);
    return add_weight(b, weights.list[0], NULL, 0);
}

lr_code hub_build_safetensors(struct hub_builder *b)
{
    struct lr_arena arena;
    lr_arena_init(&arena, INDEX_ARENA_MAX);
    lr_code code = choose_safetensors(b, &arena);
    lr_arena_free(&arena);
    return code;
}

/* ---- gguf ---- */

static struct lr_str base_name(struct lr_str name)
{
    for (size_t i = name.len; i > 0; i--) {
        if (name.ptr[i - 1] == '/')
            return lr_str_sub(name, i, name.len);
    }
    return name;
}

/* Adds all parts of a split file; they are stored together in the model's folder. */
static lr_code add_gguf(struct hub_builder *b, struct lr_str name, struct lr_arena *arena)
{
    struct hub_shard shard;
    struct names missing = {.arena = arena};
    if (!hub_build_shard(name, ".gguf", &shard) || shard.total <= 1) {
        const char *stored = lr_arena_copy(arena, base_name(name));
        return stored != NULL ? add_weight(b, name, stored, 0) : build_weights_out_of_memory(b);
    }
    if (shard.total > HUB_MANIFEST_FILES_MAX)
        return lr_fail(b->err, LR_INVALID_ARGUMENT, "%.*s is one of too many parts",
                       LR_STR_ARG(name));
    lr_code code = LR_OK;
    for (uint64_t i = 1; i <= shard.total && code == LR_OK; i++) {
        char *part = lr_arena_printf(arena, "%.*s-%05u-of-%05u.gguf", LR_STR_ARG(shard.stem),
                                     (unsigned)i, (unsigned)shard.total);
        if (part == NULL)
            return build_weights_out_of_memory(b);
        if (hub_listing_find(b->listing, lr_str_z(part)) == NULL) {
            if (!names_add(&missing, lr_str_z(part)))
                return build_weights_out_of_memory(b);
        } else if (missing.count == 0) {
            code = add_weight(b, lr_str_z(part), base_name(lr_str_z(part)).ptr, 0);
        }
    }
    if (missing.count != 0)
        return fail_names(b, "", " lacks parts of a split GGUF file", &missing);
    return code;
}

/* The part of a file's name that may have its quantization. */
static struct lr_str label_part(struct lr_str name)
{
    struct hub_shard shard;
    return hub_build_shard(name, ".gguf", &shard)
               ? shard.stem
               : lr_str_sub(name, 0, name.len - strlen(".gguf"));
}

static lr_code choose_gguf(struct hub_builder *b, struct lr_arena *arena)
{
    struct names found = {.arena = arena};
    struct lr_str filename = b->request->filename, quant = b->request->quant;
    for (size_t i = 0; i < b->listing->file_count; i++) {
        struct lr_str name = b->listing->files[i].name;
        struct hub_shard shard;
        if (!lr_str_ends(name, ".gguf"))
            continue;
        if (filename.len != 0 && lr_str_eq(name, filename))
            return add_gguf(b, name, arena);
        /* Skips files beside a model, and parts after the first, which belong to it. */
        if (!model_gguf_is_main(name) ||
            (hub_build_shard(name, ".gguf", &shard) && shard.number > 1))
            continue;
        if (quant.len != 0 && !hub_quant_matches(hub_quant_of(label_part(name)), quant))
            continue;
        if (!names_add(&found, name))
            return build_weights_out_of_memory(b);
    }
    if (filename.len != 0) {
        char text[160];
        (void)snprintf(text, sizeof(text), "filename \"" LR_STR_FMT "\" is no .gguf file of ",
                       LR_STR_ARG(lr_str_sub(filename, 0, 100)));
        return fail_names(b, text, ", which has", &found);
    }
    if (found.count == 0 && quant.len != 0)
        return lr_fail(b->err, LR_INVALID_ARGUMENT, "%s holds no GGUF model \"" LR_STR_FMT "\"",
                       b->listing->repo, LR_STR_ARG(quant));
    if (found.count == 0)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s holds no complete .gguf model: set \"filename\"", b->listing->repo);
    if (found.count > 1)
        return fail_names(b, "", " holds several GGUF files, set \"filename\" to one of",
                          &found);
    return add_gguf(b, found.list[0], arena);
}

lr_code hub_build_gguf(struct hub_builder *b)
{
    struct lr_arena arena;
    lr_arena_init(&arena, INDEX_ARENA_MAX);
    lr_code code = choose_gguf(b, &arena);
    lr_arena_free(&arena);
    return code;
}
