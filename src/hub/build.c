/* hub/build.c - building a manifest: format, metadata files, order. */
#include "hub/build.h"

#include <stdlib.h>

#include "base/file.h"
#include "model/config.h"

enum { MANIFEST_ARENA_MAX = 64 << 20, NAMES_TEXT_MAX = 400 };

const char *const hub_default_publishers[] = {"openai/*", "nvidia/*", NULL};

bool hub_build_is_root(struct lr_str name)
{
    return lr_str_find_char(name, '/') == LR_STR_NONE;
}

void hub_build_names(struct lr_buf *out, const struct lr_str *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (out->len + names[i].len > NAMES_TEXT_MAX && i != 0) {
            lr_buf_addf(out, " and %zu more", count - i);
            return;
        }
        if (i != 0)
            lr_buf_add_z(out, ", ");
        lr_buf_add_str(out, lr_str_sub(names[i], 0, NAMES_TEXT_MAX));
    }
}

static bool hub_build_read_number(struct lr_str digits, uint64_t *out)
{
    return digits.len >= 3 && digits.len <= 9 && lr_str_u64(digits, out);
}

bool hub_build_shard(struct lr_str name, const char *suffix, struct hub_shard *out)
{
    if (!lr_str_ends(name, suffix))
        return false;
    name.len -= strlen(suffix);
    for (size_t of = name.len; of-- > 1;) {
        if (of + 4 > name.len || memcmp(name.ptr + of, "-of-", 4) != 0)
            continue;
        size_t dash = of;
        while (dash > 0 && name.ptr[dash - 1] != '-')
            dash--;
        if (dash == 0 || !hub_build_read_number(lr_str_sub(name, dash, of), &out->number) ||
            !hub_build_read_number(lr_str_sub(name, of + 4, name.len), &out->total))
            return false;
        out->stem = lr_str_sub(name, 0, dash - 1);
        return true;
    }
    return false;
}

static lr_code hub_build_out_of_memory(struct hub_builder *b)
{
    return lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the manifest of %s", b->listing->repo);
}

static lr_code hub_build_grow(struct hub_builder *b)
{
    struct hub_manifest *m = b->manifest;
    if (m->file_count < b->file_cap)
        return LR_OK;
    if (m->file_count >= HUB_MANIFEST_FILES_MAX)
        return lr_fail(b->err, LR_INVALID_ARGUMENT, "%s needs more than %d files",
                       b->listing->repo, HUB_MANIFEST_FILES_MAX);
    b->file_cap = b->file_cap == 0 ? 32 : b->file_cap * 2;
    struct hub_manifest_file *files = lr_arena_array(&m->arena, b->file_cap, sizeof(*m->files));
    if (files == NULL)
        return hub_build_out_of_memory(b);
    if (m->file_count != 0)
        memcpy(files, m->files, m->file_count * sizeof(*files));
    m->files = files;
    return LR_OK;
}

static const char *make_url(struct hub_builder *b, const struct hub_entry *entry)
{
    struct lr_buf url;
    lr_buf_init(&url, HUB_URL_MAX);
    hub_url_resolve(&url, b->in->policy, lr_str_z(entry->listing->repo),
                    lr_str_z(entry->listing->commit), entry->file->name);
    const char *copy = url.failed ? NULL : lr_arena_copy(&b->manifest->arena, lr_buf_str(&url));
    lr_buf_free(&url);
    return copy;
}

lr_code hub_build_add(struct hub_builder *b, const struct hub_entry *entry)
{
    static const char *const none[] = {NULL};
    const struct hub_file *file = entry->file;
    struct lr_arena *arena = &b->manifest->arena;
    if (!file->has_size)
        return lr_fail(b->err, LR_UPSTREAM, "the hub gives no size for %.*s of %s",
                       LR_STR_ARG(file->name), entry->listing->repo);
    if (file->size > HUB_FILE_SIZE_MAX)
        return lr_fail(b->err, LR_UPSTREAM,
                       "the hub says that %.*s of %s has %llu bytes; a file has at most %llu",
                       LR_STR_ARG(file->name), entry->listing->repo,
                       (unsigned long long)file->size, HUB_FILE_SIZE_MAX);
    lr_code code = hub_build_grow(b);
    if (code != LR_OK)
        return code;
    const char *sha256 = entry->sha256 != NULL ? entry->sha256 : file->sha256;
    struct hub_manifest_file out = {
        .name = entry->name != NULL ? lr_arena_copy(arena, lr_str_z(entry->name))
                                    : lr_arena_copy(arena, file->name),
        .url = make_url(b, entry),
        .size = file->size,
        .sha256 = sha256[0] != '\0' ? lr_arena_copy(arena, lr_str_z(sha256)) : NULL,
        .priority = entry->priority,
        .optional = entry->optional,
        .is_artifact = entry->is_artifact,
        .backends = entry->backends != NULL ? entry->backends : none,
        .runtimes = entry->runtimes != NULL ? entry->runtimes : b->manifest->runtimes,
    };
    if (entry->is_artifact) {
        out.repo = lr_arena_copy(arena, lr_str_z(entry->listing->repo));
        out.revision = lr_arena_copy(arena, lr_str_z(entry->listing->commit));
    }
    if (out.name == NULL || out.url == NULL || (sha256[0] != '\0' && out.sha256 == NULL) ||
        (entry->is_artifact && (out.repo == NULL || out.revision == NULL)))
        return hub_build_out_of_memory(b);
    b->manifest->files[b->manifest->file_count++] = out;
    return LR_OK;
}

/* ---- format ---- */

static lr_code choose_format(struct hub_builder *b, enum hub_format *out)
{
    bool has_safetensors = false, has_gguf = false;
    for (size_t i = 0; i < b->listing->file_count; i++) {
        struct lr_str name = b->listing->files[i].name;
        if (hub_build_is_root(name) &&
            (lr_str_ends(name, ".safetensors") || lr_str_ends(name, ".safetensors.index.json")))
            has_safetensors = true;
        has_gguf = has_gguf || lr_str_ends(name, ".gguf");
    }
    *out = b->request->format;
    if (!has_safetensors && !has_gguf)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s holds neither .safetensors files (in its root) nor .gguf files",
                       b->listing->repo);
    if (*out == HUB_FORMAT_NONE && has_safetensors && has_gguf)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s holds both formats: set \"format\" to \"safetensors\" or \"gguf\"",
                       b->listing->repo);
    if (*out == HUB_FORMAT_NONE)
        *out = has_safetensors ? HUB_FORMAT_SAFETENSORS : HUB_FORMAT_GGUF;
    if (*out == HUB_FORMAT_SAFETENSORS && !has_safetensors)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s holds no .safetensors files in its root; its format is gguf",
                       b->listing->repo);
    if (*out == HUB_FORMAT_GGUF && !has_gguf)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s holds no .gguf files; its format is safetensors", b->listing->repo);
    return LR_OK;
}

/* ---- safetensors: the files beside the weights ---- */

/* The files that can describe a tokenizer; the first row that a repository has whole decides
 * (src/tokenizer/source.c reads them in the same order). */
static const char *const tokenizers[][2] = {
    {"tokenizer.json", NULL},     {"tokenizer.model", NULL}, {"tekken.json", NULL},
    {"vocab.json", "merges.txt"}, {"vocab.txt", NULL},
};

static const char *const *find_tokenizer(const struct hub_builder *b)
{
    for (size_t i = 0; i < sizeof(tokenizers) / sizeof(tokenizers[0]); i++)
        if (hub_listing_find(b->listing, lr_str_z(tokenizers[i][0])) != NULL &&
            (tokenizers[i][1] == NULL ||
             hub_listing_find(b->listing, lr_str_z(tokenizers[i][1])) != NULL))
            return tokenizers[i];
    return NULL;
}

static lr_code check_required(struct hub_builder *b)
{
    bool config = hub_listing_find(b->listing, LR_STR_LIT("config.json")) != NULL;
    bool tokenizer = find_tokenizer(b) != NULL;
    if (config && tokenizer)
        return LR_OK;
    return lr_fail(b->err, LR_INVALID_ARGUMENT,
                   "%s lacks %s%s%s, which format=safetensors needs", b->listing->repo,
                   config ? "" : "config.json", !config && !tokenizer ? " and " : "",
                   tokenizer ? ""
                             : "a tokenizer (tokenizer.json, tokenizer.model, tekken.json, "
                               "vocab.json with merges.txt, or vocab.txt)");
}

static lr_code set_runtimes(struct hub_builder *b, const char *runtime)
{
    const char **runtimes = lr_arena_array(&b->manifest->arena, 2, sizeof(*runtimes));
    if (runtimes == NULL)
        return hub_build_out_of_memory(b);
    runtimes[0] = lr_arena_copy(&b->manifest->arena, lr_str_z(runtime));
    runtimes[1] = NULL;
    b->manifest->runtimes = runtimes;
    return runtimes[0] != NULL ? LR_OK : hub_build_out_of_memory(b);
}

static lr_code find_runtime(struct hub_builder *b)
{
    const struct hub_text *config = hub_listing_text(b->listing, "config.json");
    struct model_identity id;
    struct lr_error why;
    if (config == NULL)
        return lr_fail(b->err, LR_INTERNAL, "config.json of %s was not fetched",
                       b->listing->repo);
    lr_code code = model_identity_parse(config->text, &id, &why);
    if (code == LR_OK)
        return set_runtimes(b, id.runtime);
    /* The error is in the requested repository, not in files of this machine. */
    return lr_fail(b->err, code == LR_MODEL_CORRUPT ? LR_INVALID_ARGUMENT : code, "%s: %s",
                   b->listing->repo, why.text);
}

static lr_code add_small(struct hub_builder *b, const char *name, bool optional)
{
    const struct hub_file *file =
        name != NULL ? hub_listing_find(b->listing, lr_str_z(name)) : NULL;
    struct hub_entry entry = {b->listing, file, NULL, 10, optional, false, NULL, NULL, NULL};
    return file != NULL ? hub_build_add(b, &entry) : LR_OK;
}

/* "1_Pooling/config.json", "2_Dense/model.safetensors": a folder of modules.json, with the
 * number of its entry. */
static bool is_module_file(struct lr_str name)
{
    struct lr_str folder, digits;
    return lr_str_split(&name, '/', &folder) && lr_str_split(&folder, '_', &digits) &&
           digits.len != 0 && digits.ptr[0] >= '0' && digits.ptr[0] <= '9' &&
           (lr_str_eq_z(name, "config.json") || lr_str_eq_z(name, "model.safetensors"));
}

/* How a text's vector is made (sentence-transformers). */
static lr_code add_modules(struct hub_builder *b)
{
    if (hub_listing_find(b->listing, LR_STR_LIT("modules.json")) == NULL)
        return LR_OK;
    lr_code code = add_small(b, "modules.json", false);
    for (size_t i = 0; i < b->listing->file_count && code == LR_OK; i++)
        if (is_module_file(b->listing->files[i].name))
            code = add_small(b, b->listing->files[i].name.ptr, false);
    return code;
}

static lr_code add_metadata(struct hub_builder *b)
{
    static const char *const optional[] = {
        "generation_config.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
    };
    const char *const *tokenizer = find_tokenizer(b);
    lr_code code = add_small(b, "config.json", false);
    for (int i = 0; i < 2 && code == LR_OK; i++)
        code = add_small(b, tokenizer[i], false);
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]) && code == LR_OK; i++)
        code = add_small(b, optional[i], true);
    return code == LR_OK ? add_modules(b) : code;
}

/* Finds the file with the chat template: a file of its own wins (as in transformers). */
static void find_template(struct hub_builder *b)
{
    const struct hub_text *config = hub_listing_text(b->listing, "tokenizer_config.json");
    struct lr_arena arena;
    const struct lr_json *tree;
    if (hub_listing_find(b->listing, LR_STR_LIT("chat_template.jinja")) != NULL) {
        b->manifest->chat_template = "chat_template.jinja";
        return;
    }
    if (config == NULL)
        return;
    lr_arena_init(&arena, MANIFEST_ARENA_MAX * 4);
    /* A malformed file counts as one without a template; the code that needs its tokens reports
     * the error. */
    if (lr_json_parse(&arena, config->text, NULL, &tree, NULL) == LR_OK &&
        lr_json_get(tree, "chat_template") != NULL &&
        lr_json_get(tree, "chat_template")->type != LR_JSON_NULL)
        b->manifest->chat_template = "tokenizer_config.json";
    lr_arena_free(&arena);
}

static lr_code build_safetensors(struct hub_builder *b)
{
    lr_code code = check_required(b);
    if (code == LR_OK)
        code = find_runtime(b);
    if (code == LR_OK)
        code = add_metadata(b);
    if (code == LR_OK)
        code = hub_build_safetensors(b);
    if (code == LR_OK)
        code = hub_build_artifacts(b);
    if (code == LR_OK)
        find_template(b);
    return code;
}

static int by_priority(const void *a, const void *b)
{
    const struct hub_manifest_file *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    return strcmp(x->name, y->name);
}

static lr_code hub_build_this(struct hub_builder *b)
{
    struct hub_manifest *m = b->manifest;
    struct lr_str id =
        b->request->name.len != 0 ? b->request->name : lr_str_z(b->listing->repo);
    if (b->request->filename.len != 0 && !lr_path_safe(b->request->filename))
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "filename is not a relative path within the repository");
    m->id = lr_arena_copy(&m->arena, id);
    m->repo = lr_arena_copy(&m->arena, lr_str_z(b->listing->repo));
    m->revision = lr_arena_copy(&m->arena, lr_str_z(b->listing->commit));
    if (m->id == NULL || m->repo == NULL || m->revision == NULL)
        return hub_build_out_of_memory(b);
    lr_code code = choose_format(b, &m->format);
    if (code != LR_OK)
        return code;
    if (m->format == HUB_FORMAT_SAFETENSORS) {
        code = build_safetensors(b);
    } else {
        code = set_runtimes(b, "llama_cpp");
        if (code == LR_OK)
            code = hub_build_gguf(b);
    }
    if (code == LR_OK)
        qsort(m->files, m->file_count, sizeof(*m->files), by_priority);
    return code;
}

lr_code hub_manifest_build(const struct hub_build_input *in, const struct hub_request *request,
                           struct hub_manifest **out, struct lr_error *err)
{
    struct lr_error local;
    *out = NULL;
    struct hub_manifest *manifest = calloc(1, sizeof(*manifest));
    if (manifest == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a manifest");
    lr_arena_init(&manifest->arena, MANIFEST_ARENA_MAX);
    struct hub_builder b = {in, in->listing, request, manifest, 0, err != NULL ? err : &local};
    lr_code code = hub_build_this(&b);
    if (code != LR_OK) {
        hub_manifest_destroy(manifest);
        return code;
    }
    *out = manifest;
    return LR_OK;
}
