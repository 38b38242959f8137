/* model/descriptor_safetensors.c - describes a safetensors snapshot.
 *
 * First collects everything that is missing, so that the operator can fetch all of it at once;
 * only a complete snapshot is read further.
 */
#include "base/file.h"
#include "base/json.h"
#include "llm-router/engine.h"
#include "model/config.h"
#include "model/descriptor_build.h"
#include "model/map.h"
#include "model/weights.h"

struct found {
    struct model_weight_files where;
    struct model_index index; /* count 0 without an index */
};

static lr_code read_index(struct model_build *b, struct found *found)
{
    char path[LR_PATH_MAX];
    struct lr_str text;
    lr_code code = model_path(path, b->dir, found->where.index, b->err);
    if (code == LR_OK)
        code = model_read_text(b->scratch, path, MODEL_INDEX_BYTES_MAX, &text, b->err);
    if (code != LR_OK)
        return code;
    code = model_index_parse(b->scratch, text, &found->index, b->err);
    if (code != LR_OK)
        (void)lr_fail_prefix(b->err, "%s", path);
    return code;
}

/* As src/tokenizer/source.c: any of these is a tokenizer. */
static bool has_tokenizer(const struct model_build *b)
{
    static const char *const one[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                      "vocab.txt"};
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
        if (model_folder_has(&b->folder, lr_str_z(one[i])))
            return true;
    return model_folder_has(&b->folder, LR_STR_LIT("vocab.json")) &&
           model_folder_has(&b->folder, LR_STR_LIT("merges.txt"));
}

static lr_code check_complete(struct model_build *b, const struct found *found)
{
    size_t count = 0, shards = found->index.shard_count;
    struct lr_str *missing = lr_arena_array(b->scratch, shards + 3, sizeof(*missing));
    if (missing == NULL)
        return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory for %zu shards", b->dir, shards);
    if (!model_folder_has(&b->folder, LR_STR_LIT("config.json")))
        missing[count++] = LR_STR_LIT("config.json");
    if (!has_tokenizer(b))
        missing[count++] = LR_STR_LIT("a tokenizer (tokenizer.json, tokenizer.model, "
                                      "tekken.json, vocab.json with merges.txt, or vocab.txt)");
    if (found->where.index.len == 0 && found->where.single.len == 0)
        missing[count++] = LR_STR_LIT("model.safetensors (or model.safetensors.index.json and "
                                      "its shards)");
    for (size_t i = 0; i < shards; i++) {
        if (!model_folder_has(&b->folder, found->index.shards[i]))
            missing[count++] = found->index.shards[i];
    }
    return count == 0 ? LR_OK : model_build_missing(b, missing, count);
}

static lr_code check_filename(struct model_build *b, struct lr_str primary)
{
    if (b->filename == NULL || lr_str_eq_z(primary, b->filename))
        return LR_OK;
    return lr_fail(b->err, LR_INVALID_ARGUMENT,
                   "%s: \"%s\" was asked for, but the weights of this snapshot are %s", b->dir,
                   b->filename, primary.ptr);
}

/* Files of a folder that modules.json names, where they are there. */
static lr_code list_module(struct model_build *b, const struct lr_json *module)
{
    static const char *const known[] = {"config.json", "model.safetensors"};
    struct lr_str folder = LR_STR_LIT("");
    char path[LR_PATH_MAX];
    lr_code code = LR_OK;
    if (!lr_json_str(lr_json_get(module, "path"), &folder) || !lr_path_safe(folder))
        return LR_OK;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && code == LR_OK; i++) {
        const char *name = lr_arena_printf(b->scratch, "%.*s/%s", LR_STR_ARG(folder), known[i]);
        if (name == NULL)
            return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory to describe the model",
                           b->dir);
        code = model_path(path, b->dir, lr_str_z(name), b->err);
        if (code == LR_OK && lr_file_exists(path))
            code = model_build_file(b, lr_str_z(name), i == 1);
    }
    return code;
}

/* The files of sentence-transformers: they decide what an embedder computes. */
static lr_code list_modules(struct model_build *b)
{
    enum { MODULES_BYTES_MAX = 1 << 20 };
    const struct lr_json *modules;
    char path[LR_PATH_MAX];
    struct lr_str text;
    if (!model_folder_has(&b->folder, LR_STR_LIT("modules.json")))
        return LR_OK;
    lr_code code = model_build_file(b, LR_STR_LIT("modules.json"), false);
    if (code == LR_OK)
        code = model_path(path, b->dir, LR_STR_LIT("modules.json"), b->err);
    if (code == LR_OK)
        code = model_read_text(b->scratch, path, MODULES_BYTES_MAX, &text, b->err);
    /* A broken file is the engine's to refuse. */
    if (code != LR_OK || lr_json_parse(b->scratch, text, NULL, &modules, NULL) != LR_OK ||
        !lr_json_is(modules, LR_JSON_ARRAY))
        return code;
    for (uint32_t i = 0; i < modules->count && code == LR_OK; i++) {
        struct lr_str type = LR_STR_LIT("");
        (void)lr_json_str(lr_json_get(&modules->items[i], "type"), &type);
        if (lr_str_ends(type, ".Pooling") || lr_str_ends(type, ".LogitScore"))
            b->d->requests =
                1u << (lr_str_ends(type, ".Pooling") ? LR_REQUEST_EMBED : LR_REQUEST_RERANK);
        code = list_module(b, &modules->items[i]);
    }
    return code;
}

static lr_code list_files(struct model_build *b, const struct found *found)
{
    static const char *const known[] = {
        "config.json",
        "tokenizer.json",
        "generation_config.json",
        "tokenizer.model",
        "tekken.json",
        "vocab.json",
        "merges.txt",
        "vocab.txt",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "chat_template.json",
    };
    lr_code code = LR_OK;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && code == LR_OK; i++) {
        if (model_folder_has(&b->folder, lr_str_z(known[i])))
            code = model_build_file(b, lr_str_z(known[i]), false);
    }
    if (code == LR_OK)
        code = list_modules(b);
    if (code == LR_OK && found->where.index.len == 0)
        return model_build_file(b, found->where.single, true);
    if (code == LR_OK)
        code = model_build_file(b, found->where.index, false);
    for (size_t i = 0; i < found->index.shard_count && code == LR_OK; i++)
        code = model_build_file(b, found->index.shards[i], true);
    return code;
}

/* Reads what the model is, and checks the sizes of a supported architecture. */
static lr_code read_config(struct model_build *b)
{
    char path[LR_PATH_MAX];
    struct lr_str text;
    struct model_identity id;
    lr_code code = model_path(path, b->dir, LR_STR_LIT("config.json"), b->err);
    if (code == LR_OK)
        code = model_read_text(b->scratch, path, MODEL_CONFIG_BYTES_MAX, &text, b->err);
    if (code != LR_OK)
        return code;
    code = model_identity_parse(text, &id, b->err);
    if (code == LR_OK && lr_str_eq_z(lr_str_z(id.runtime), "gptoss")) {
        struct model_config config;
        code = model_config_parse(text, &config, b->err);
    }
    if (code != LR_OK) {
        (void)lr_fail_prefix(b->err, "%s", b->dir);
        return code;
    }
    b->d->requests =
        model_ranks_by_answer(b->dir, id.has_answers) ? 1u << LR_REQUEST_RERANK : id.requests;
    b->d->context_tokens = id.context_tokens;
    b->d->kv_bytes = id.kv_bytes;
    struct model_generation generation;
    code = model_generation_read(b->dir, &generation, b->err);
    b->d->sampling = generation.sampling;
    b->tokens = generation.tokens;
    if (code == LR_OK)
        code = model_build_text(b, lr_str_z(id.runtime), &b->d->runtime);
    if (code != LR_OK)
        return code;
    return model_build_text(
        b, lr_str_z(id.architecture[0] != '\0' ? id.architecture : id.model_type),
        &b->d->architecture);
}

lr_code model_build_safetensors(struct model_build *b)
{
    struct found found = {0};
    char path[LR_PATH_MAX];
    lr_code code = model_folder_weights(&b->folder, b->dir, &found.where, b->err);
    if (code == LR_OK && found.where.index.len != 0)
        code = read_index(b, &found);
    if (code == LR_OK)
        code = check_complete(b, &found);
    if (code != LR_OK)
        return code;
    struct lr_str primary = found.where.index.len != 0 ? found.where.index : found.where.single;
    code = check_filename(b, primary);
    if (code == LR_OK)
        code = model_path(path, b->dir, primary, b->err);
    if (code == LR_OK)
        code = model_build_text(b, lr_str_z(path), &b->d->primary);
    if (code == LR_OK)
        code = read_config(b);
    if (code == LR_OK)
        code = list_files(b, &found);
    if (code == LR_OK)
        code = model_build_prompt(b);
    if (code == LR_OK)
        code = model_build_control(b);
    if (code == LR_OK)
        code = model_build_stops(b);
    if (code != LR_OK)
        return code;
    struct model_weights *weights;
    code = model_weights_open(b->dir, &weights, b->err);
    model_weights_close(weights);
    return code;
}
