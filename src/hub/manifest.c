/* hub/manifest.c - manifests as JSON, and which files of a manifest a node needs. */
#include "hub/manifest.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/strmap.h"
#include "hub/fields.h"
#include "hub/reference.h"

enum {
    DECODE_ARENA_MAX = 256 << 20,
    JSON_DEPTH = 16,
    ID_MAX = 200,
    FILE_NAME_MAX = 512,
};

static const char *const format_names[] = {"", "safetensors", "gguf"};

const char *hub_format_name(enum hub_format format)
{
    return format_names[format];
}

bool hub_format_find(struct lr_str name, enum hub_format *out)
{
    for (size_t i = 1; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
        if (lr_str_eq_z(name, format_names[i])) {
            *out = (enum hub_format)i;
            return true;
        }
    }
    return false;
}

void hub_manifest_destroy(struct hub_manifest *manifest)
{
    if (manifest == NULL)
        return;
    lr_arena_free(&manifest->arena);
    free(manifest);
}

/* ---- encode ---- */

static void put_names(struct lr_json_writer *w, const char *key, const char *const *names)
{
    lr_json_member_array(w, key);
    for (; *names != NULL; names++)
        lr_json_put_z(w, *names);
    lr_json_end_array(w);
}

static void put_file(struct lr_json_writer *w, const struct hub_manifest_file *file)
{
    lr_json_begin_object(w);
    lr_json_member_z(w, "name", file->name);
    lr_json_member_z(w, "url", file->url);
    lr_json_member_u64(w, "size", file->size);
    if (file->sha256 != NULL)
        lr_json_member_z(w, "sha256", file->sha256);
    lr_json_member_i64(w, "priority", file->priority);
    lr_json_member_bool(w, "optional", file->optional);
    put_names(w, "runtimes", file->runtimes);
    if (file->is_artifact)
        lr_json_member_z(w, "kind", "artifact");
    if (file->backends[0] != NULL)
        put_names(w, "backends", file->backends);
    if (file->repo != NULL)
        lr_json_member_z(w, "repo", file->repo);
    if (file->revision != NULL)
        lr_json_member_z(w, "revision", file->revision);
    lr_json_end_object(w);
}

void hub_manifest_encode(const struct hub_manifest *manifest, struct lr_buf *out)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_i64(&w, "version", HUB_MANIFEST_VERSION);
    lr_json_member_z(&w, "id", manifest->id);
    if (manifest->repo[0] != '\0')
        lr_json_member_z(&w, "repo", manifest->repo);
    lr_json_member_z(&w, "format", hub_format_name(manifest->format));
    lr_json_member_z(&w, "revision", manifest->revision);
    put_names(&w, "runtimes", manifest->runtimes);
    lr_json_member_z(&w, "chat_template", manifest->chat_template);
    lr_json_member_array(&w, "files");
    for (size_t i = 0; i < manifest->file_count; i++)
        put_file(&w, &manifest->files[i]);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}

/* ---- decode ---- */

/* .download is reserved for partial files and their notes. */
static bool name_allowed(const char *name)
{
    struct lr_str s = lr_str_z(name), first;
    return lr_path_safe(s) && lr_str_split(&s, '/', &first) &&
           !lr_str_eq_nocase(first, LR_STR_LIT(".download"));
}

static lr_code hub_manifest_read_file(const struct hub_fields *f, struct hub_manifest_file *out)
{
    struct hub_url url;
    const char *kind = NULL;
    memset(out, 0, sizeof(*out));
    lr_code code = hub_field_text(f, "name", true, FILE_NAME_MAX, &out->name);
    if (code == LR_OK)
        code = hub_field_text(f, "url", true, HUB_URL_MAX - 1, &out->url);
    if (code == LR_OK)
        code = hub_field_u64(f, "size", true, HUB_FILE_SIZE_MAX, &out->size);
    if (code == LR_OK)
        code = hub_field_sha256(f, "sha256", &out->sha256);
    if (code == LR_OK)
        code = hub_field_int(f, "priority", -1000000, 1000000, &out->priority);
    if (code == LR_OK)
        code = hub_field_bool(f, "optional", &out->optional);
    if (code == LR_OK)
        code = hub_field_text(f, "kind", false, HUB_NAME_MAX, &kind);
    if (code == LR_OK)
        code = hub_field_names(f, "backends", &out->backends);
    if (code == LR_OK)
        code = hub_field_names(f, "runtimes", &out->runtimes);
    if (code == LR_OK)
        code = hub_field_text(f, "repo", false, HUB_REPO_MAX - 1, &out->repo);
    if (code == LR_OK)
        code = hub_field_text(f, "revision", false, HUB_REVISION_MAX - 1, &out->revision);
    if (code != LR_OK)
        return code;
    out->is_artifact = kind != NULL && strcmp(kind, "artifact") == 0;
    if (!name_allowed(out->name))
        return hub_field_fail(f, "name", "a relative path below the model's folder");
    if (hub_url_parse(lr_str_z(out->url), &url, NULL) != LR_OK)
        return hub_field_fail(f, "url", "an http or https address");
    return LR_OK;
}

static lr_code read_files(struct hub_manifest *m, const struct lr_json *list,
                          struct lr_strmap *seen, struct lr_error *err)
{
    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count == 0 ||
        list->count > HUB_MANIFEST_FILES_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "files: a list of 1 to %d files is expected",
                       HUB_MANIFEST_FILES_MAX);
    m->files = lr_arena_array(&m->arena, list->count, sizeof(*m->files));
    if (m->files == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the files of a manifest");
    for (size_t i = 0; i < list->count; i++) {
        char where[32], folded[FILE_NAME_MAX + 1];
        (void)snprintf(where, sizeof(where), "files[%zu].", i);
        struct hub_fields f = {&m->arena, &list->items[i], where, err};
        struct hub_manifest_file *file = &m->files[i];
        lr_code code = hub_manifest_read_file(&f, file);
        if (code != LR_OK)
            return code;
        /* On file systems that ignore case two such names would be the same file. */
        size_t len = strlen(file->name);
        for (size_t c = 0; c <= len; c++) {
            char ch = file->name[c];
            folded[c] = (char)(ch >= 'A' && ch <= 'Z' ? ch + 32 : ch);
        }
        if (lr_strmap_has(seen, lr_str(folded, len)))
            return lr_fail(err, LR_INVALID_ARGUMENT, "files[%zu].name: \"%s\" occurs twice", i,
                           file->name);
        if (!lr_strmap_put(seen, lr_str(folded, len), file, NULL))
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for the files of a manifest");
        m->file_count++;
    }
    return LR_OK;
}

static lr_code read_manifest(struct hub_manifest *m, const struct lr_json *tree,
                             struct lr_error *err)
{
    struct hub_fields f = {&m->arena, tree, "", err};
    const char *format = NULL;
    uint64_t version = 0;
    lr_code code = hub_field_u64(&f, "version", true, 1000, &version);
    if (code != LR_OK)
        return code;
    if (version != HUB_MANIFEST_VERSION)
        return lr_fail(err, LR_INVALID_ARGUMENT, "version: only %d is supported, not %llu",
                       HUB_MANIFEST_VERSION, (unsigned long long)version);
    code = hub_field_text(&f, "id", true, ID_MAX, &m->id);
    m->repo = "";
    if (code == LR_OK)
        code = hub_field_text(&f, "repo", false, HUB_REPO_MAX - 1, &m->repo);
    if (code == LR_OK)
        code = hub_field_text(&f, "format", true, HUB_NAME_MAX, &format);
    if (code == LR_OK)
        code = hub_field_text(&f, "revision", true, HUB_REVISION_MAX - 1, &m->revision);
    if (code == LR_OK)
        code = hub_field_names(&f, "runtimes", &m->runtimes);
    if (code == LR_OK)
        code = hub_field_text(&f, "chat_template", false, FILE_NAME_MAX, &m->chat_template);
    if (code != LR_OK)
        return code;
    if (!hub_format_find(lr_str_z(format), &m->format))
        return hub_field_fail(&f, "format", "\"safetensors\" or \"gguf\"");
    struct lr_strmap seen;
    lr_strmap_init(&seen);
    code = read_files(m, lr_json_get(tree, "files"), &seen, err);
    lr_strmap_free(&seen);
    return code;
}

lr_code hub_manifest_decode(struct lr_str json, struct hub_manifest **out, struct lr_error *err)
{
    const struct lr_json_limits limits = {.max_depth = JSON_DEPTH,
                                          .max_bytes = HUB_MANIFEST_BYTES_MAX};
    struct lr_arena arena;
    const struct lr_json *tree;
    struct lr_error why;
    *out = NULL;
    struct hub_manifest *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a manifest");
    lr_arena_init(&m->arena, DECODE_ARENA_MAX);
    lr_arena_init(&arena, DECODE_ARENA_MAX);
    lr_code code = lr_json_parse(&arena, json, &limits, &tree, &why);
    if (code == LR_OK)
        code = read_manifest(m, tree, &why);
    lr_arena_free(&arena);
    if (code != LR_OK) {
        hub_manifest_destroy(m);
        return lr_fail(err, code, "manifest: %s", why.text);
    }
    *out = m;
    return LR_OK;
}

/* ---- files that a node needs ---- */

static bool lists_meet(const char *const *a, const char *const *b)
{
    for (; *a != NULL; a++) {
        for (size_t i = 0; b[i] != NULL; i++) {
            if (strcmp(*a, b[i]) == 0)
                return true;
        }
    }
    return false;
}

lr_code hub_manifest_wanted(const struct hub_manifest *manifest,
                            const struct hub_filter *filter, struct lr_error *err)
{
    if (filter == NULL || filter->runtimes == NULL || manifest->runtimes[0] == NULL ||
        lists_meet(manifest->runtimes, filter->runtimes))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED, "%s: no engine here for runtime %s%s", manifest->id,
                   manifest->runtimes[0],
                   manifest->runtimes[1] != NULL ? " or its others" : "");
}

bool hub_manifest_file_wanted(const struct hub_manifest *manifest,
                              const struct hub_manifest_file *file,
                              const struct hub_filter *filter)
{
    (void)manifest;
    if (filter == NULL)
        return true;
    if (file->is_artifact && filter->no_artifacts)
        return false;
    if (file->backends[0] != NULL && filter->backends != NULL &&
        !lists_meet(file->backends, filter->backends))
        return false;
    return file->runtimes[0] == NULL || filter->runtimes == NULL ||
           lists_meet(file->runtimes, filter->runtimes);
}

void hub_manifest_digest(const struct hub_manifest *manifest, char out[LR_SHA256_HEX_LEN + 1])
{
    unsigned char digest[LR_SHA256_LEN];
    struct lr_buf text;
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    hub_manifest_encode(manifest, &text);
    lr_sha256_of(lr_buf_str(&text), digest);
    lr_sha256_hex(digest, out);
    lr_buf_free(&text);
}

const char *hub_manifest_gguf(const struct hub_manifest *manifest)
{
    for (size_t i = 0; manifest->format == HUB_FORMAT_GGUF && i < manifest->file_count; i++)
        if (lr_str_ends(lr_str_z(manifest->files[i].name), ".gguf"))
            return manifest->files[i].name;
    return NULL;
}
