/* hub/listing.c - parses the hub's JSON into a sorted list of files. */
#include "hub/listing.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/sha256.h"
#include "hub/reference.h"

enum {
    LISTING_ARENA_MAX = 256 << 20, /* names and small files */
    PARSE_ARENA_MAX = 1 << 30,     /* a page of HUB_LISTING_BYTES_MAX as a tree */
    JSON_DEPTH = 32,
};

struct hub_listing *hub_listing_create(const char *repo)
{
    struct hub_listing *listing = calloc(1, sizeof(*listing));
    if (listing == NULL)
        return NULL;
    lr_arena_init(&listing->arena, LISTING_ARENA_MAX);
    size_t len = strnlen(repo, sizeof(listing->repo) - 1);
    memcpy(listing->repo, repo, len);
    return listing;
}

void hub_listing_destroy(struct hub_listing *listing)
{
    if (listing == NULL)
        return;
    lr_arena_free(&listing->arena);
    free(listing);
}

static int listing_by_name(const void *a, const void *b)
{
    return lr_str_cmp(((const struct hub_file *)a)->name, ((const struct hub_file *)b)->name);
}

const struct hub_file *hub_listing_find(const struct hub_listing *listing, struct lr_str name)
{
    struct hub_file key = {.name = name};
    if (listing->file_count == 0)
        return NULL;
    return bsearch(&key, listing->files, listing->file_count, sizeof(key), listing_by_name);
}

const struct hub_text *hub_listing_text(const struct hub_listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->text_count; i++) {
        if (lr_str_eq_z(listing->texts[i].name, name))
            return &listing->texts[i];
    }
    return NULL;
}

lr_code hub_listing_add_text(struct hub_listing *listing, struct lr_str name,
                             struct lr_str text, struct lr_error *err)
{
    struct hub_text *texts =
        lr_arena_array(&listing->arena, listing->text_count + 1, sizeof(*texts));
    char *name_copy = lr_arena_copy(&listing->arena, name);
    char *copy = lr_arena_copy(&listing->arena, text);
    if (texts == NULL || name_copy == NULL || copy == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %.*s of %s", LR_STR_ARG(name),
                       listing->repo);
    if (listing->text_count != 0)
        memcpy(texts, listing->texts, listing->text_count * sizeof(*texts));
    texts[listing->text_count].name = lr_str(name_copy, name.len);
    texts[listing->text_count].text = lr_str(copy, text.len);
    listing->texts = texts;
    listing->text_count++;
    return LR_OK;
}

/* A commit, as git writes it: 40 (SHA-1) or 64 (SHA-256) hex digits. */
static bool read_commit(const struct lr_json *value, char out[HUB_COMMIT_MAX])
{
    struct lr_str text;
    if (!lr_json_str(value, &text) || (text.len != 40 && text.len != 64))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
    }
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

/* False for an entry that is skipped. */
static bool listing_read_file(struct lr_arena *arena, const struct lr_json *entry,
                              struct hub_file *out)
{
    struct lr_str name, hash;
    const struct lr_json *lfs = lr_json_get(entry, "lfs");
    unsigned char digest[LR_SHA256_LEN];
    memset(out, 0, sizeof(*out));
    if (!lr_json_str(lr_json_get(entry, "rfilename"), &name) || !lr_path_safe(name))
        return false;
    char *copy = lr_arena_copy(arena, name);
    if (copy == NULL)
        return false;
    out->name = lr_str(copy, name.len);
    out->has_size = lr_json_u64(lr_json_get(lfs, "size"), &out->size) ||
                    lr_json_u64(lr_json_get(entry, "size"), &out->size);
    if ((lr_json_str(lr_json_get(lfs, "sha256"), &hash) ||
         lr_json_str(lr_json_get(lfs, "oid"), &hash)) &&
        lr_sha256_parse(hash, digest))
        lr_sha256_hex(digest, out->sha256);
    return true;
}

static lr_code add_files(struct hub_listing *listing, const struct lr_json *siblings,
                         struct lr_error *err)
{
    size_t most = listing->file_count + siblings->count;
    if (most > HUB_FILES_MAX)
        return lr_fail(err, LR_UPSTREAM, "%s lists more than %d files", listing->repo,
                       HUB_FILES_MAX);
    struct hub_file *files = lr_arena_array(&listing->arena, most + 1, sizeof(*files));
    if (files == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the listing of %s", listing->repo);
    size_t count = listing->file_count;
    if (count != 0)
        memcpy(files, listing->files, count * sizeof(*files));
    for (size_t i = 0; i < siblings->count; i++) {
        if (listing_read_file(&listing->arena, &siblings->items[i], &files[count]))
            count++;
    }
    if (count != 0)
        qsort(files, count, sizeof(*files), listing_by_name);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !lr_str_eq(files[kept - 1].name, files[i].name))
            files[kept++] = files[i];
    }
    listing->files = files;
    listing->file_count = kept;
    return LR_OK;
}

static lr_code read_page(struct hub_listing *listing, const struct lr_json *page,
                         struct lr_error *err)
{
    const struct lr_json *siblings = lr_json_get(page, "siblings");
    char commit[HUB_COMMIT_MAX];
    struct lr_str id;
    if (!read_commit(lr_json_get(page, "sha"), commit))
        return lr_fail(err, LR_UPSTREAM, "the hub's answer about %s names no commit (\"sha\")",
                       listing->repo);
    if (listing->commit[0] != '\0' && strcmp(listing->commit, commit) != 0)
        return lr_fail(err, LR_UPSTREAM, "%s changed while it was listed; try again",
                       listing->repo);
    memcpy(listing->commit, commit, sizeof(commit));
    if (!lr_json_is(siblings, LR_JSON_ARRAY))
        return lr_fail(err, LR_UPSTREAM,
                       "the hub's answer about %s lists no files (\"siblings\")",
                       listing->repo);
    /* For a renamed repository the hub answers with its current name. */
    if (lr_json_str(lr_json_get(page, "id"), &id) && hub_repo_valid(id)) {
        memcpy(listing->repo, id.ptr, id.len);
        listing->repo[id.len] = '\0';
    }
    return add_files(listing, siblings, err);
}

lr_code hub_listing_add_json(struct hub_listing *listing, struct lr_str json,
                             struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json_limits limits = {.max_depth = JSON_DEPTH,
                                          .max_bytes = HUB_LISTING_BYTES_MAX};
    const struct lr_json *page;
    struct lr_error why;
    lr_arena_init(&arena, PARSE_ARENA_MAX);
    lr_code code = lr_json_parse(&arena, json, &limits, &page, &why);
    if (code != LR_OK)
        code = lr_fail(err, LR_UPSTREAM, "the hub's answer about %s cannot be parsed: %s",
                       listing->repo, why.text);
    else
        code = read_page(listing, page, err);
    lr_arena_free(&arena);
    return code;
}
