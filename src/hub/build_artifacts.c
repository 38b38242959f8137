/* hub/build_artifacts.c - official GPU-optimised encodings as an execution cache.
 *
 * An artifact is not checked tensor by tensor.  So it is taken only from the model's own
 * publisher, only if that publisher is on the allowlist, and only with a hash.  Everything else
 * is ignored with a log line.
 */
#include "base/log.h"
#include "hub/build.h"
#include "hub/reference.h"

/* Where publishers keep artifacts in a repository, and where a node expects them. */
static const struct {
    const char *path;
    const char *name;
    const char *backends[2];
} places[] = {
    {"metal/model.bin", "metal/model.bin", {"metal", NULL}},
    {"model.metal.bin", "metal/model.bin", {"metal", NULL}},
    {"model.directml.bin", "model.directml.bin", {"directml", NULL}},
    {"model.dml.bin", "model.dml.bin", {"directml", NULL}},
};

/* A pattern that ends in a star matches every repository with that prefix; any other pattern
 * matches one repository. */
static bool is_allowed(const char *const *publishers, struct lr_str repo)
{
    for (size_t i = 0; publishers[i] != NULL; i++) {
        struct lr_str pattern = lr_str_z(publishers[i]);
        bool is_open = lr_str_ends(pattern, "*");
        if (is_open)
            pattern.len--;
        struct lr_str part = is_open ? lr_str_sub(repo, 0, pattern.len) : repo;
        if (lr_str_eq_nocase(pattern, part))
            return true;
    }
    return false;
}

static bool may_take(struct hub_builder *b, const char *repo, const char *path)
{
    const char *const *publishers =
        b->in->publishers != NULL ? b->in->publishers : hub_default_publishers;
    struct lr_str own = hub_repo_owner(lr_str_z(b->listing->repo));
    const char *reason = NULL;
    if (!lr_str_eq_nocase(own, hub_repo_owner(lr_str_z(repo))))
        reason = "another publisher's";
    else if (!is_allowed(publishers, lr_str_z(repo)))
        reason = "publisher not on the allowlist";
    if (reason != NULL)
        lr_log_info(NULL, "hub.artifact_ignored model=%s repo=%s file=%s reason=%s",
                    b->listing->repo, repo, path, reason);
    return reason == NULL;
}

static bool has_name(const struct hub_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->file_count; i++) {
        if (lr_str_eq_nocase(lr_str_z(m->files[i].name), lr_str_z(name)))
            return true;
    }
    return false;
}

static lr_code build_artifacts_add(struct hub_builder *b, struct hub_entry *entry)
{
    const char *hash = entry->sha256 != NULL ? entry->sha256 : entry->file->sha256;
    const char *reason = NULL;
    if (hash[0] == '\0' || !entry->file->has_size)
        reason = "the hub gives no size or hash";
    else if (entry->sha256 != NULL && entry->file->sha256[0] != '\0' &&
             !lr_str_eq_nocase(lr_str_z(entry->sha256), lr_str_z(entry->file->sha256)))
        reason = "its hash is not the one in supported_models.json";
    else if (has_name(b->manifest, entry->name))
        return LR_OK; /* supported_models.json names an artifact that was added already */
    if (reason != NULL) {
        lr_log_warn(NULL, "hub.artifact_ignored model=%s repo=%s file=%s reason=%s",
                    b->listing->repo, entry->listing->repo, entry->name, reason);
        return LR_OK;
    }
    return hub_build_add(b, entry);
}

static const struct hub_listing *find_listing(struct hub_builder *b, const char *repo)
{
    if (lr_str_eq_nocase(lr_str_z(repo), lr_str_z(b->listing->repo)))
        return b->listing;
    for (size_t i = 0; i < b->in->artifact_listing_count; i++) {
        const struct hub_listing *listing = b->in->artifact_listings[i];
        if (lr_str_eq_nocase(lr_str_z(repo), lr_str_z(listing->repo)))
            return listing;
    }
    return NULL;
}

/* Copies the list, because the manifest outlives supported_models.json. */
static const char *const *copy_list(struct hub_builder *b, const char *const *list)
{
    const char **copy = lr_arena_array(&b->manifest->arena, HUB_LIST_MAX + 1, sizeof(*copy));
    size_t count = 0;
    for (; copy != NULL && list[count] != NULL && count < HUB_LIST_MAX; count++) {
        copy[count] = lr_arena_copy(&b->manifest->arena, lr_str_z(list[count]));
        if (copy[count] == NULL)
            return NULL;
    }
    if (copy != NULL)
        copy[count] = NULL;
    return copy;
}

static lr_code add_known(struct hub_builder *b, const struct hub_known_artifact *known)
{
    const struct hub_listing *listing = find_listing(b, known->repo);
    const struct hub_file *file =
        listing != NULL ? hub_listing_find(listing, lr_str_z(known->path)) : NULL;
    if (!may_take(b, known->repo, known->path))
        return LR_OK;
    if (file == NULL) {
        lr_log_warn(NULL, "hub.artifact_ignored model=%s repo=%s file=%s reason=%s",
                    b->listing->repo, known->repo, known->path,
                    listing != NULL ? "no such file" : "its repository could not be listed");
        return LR_OK;
    }
    struct hub_entry entry = {.listing = listing,
                              .file = file,
                              .name = known->name,
                              .priority = known->priority,
                              .optional = true,
                              .is_artifact = true,
                              .backends = copy_list(b, known->backends),
                              .sha256 = known->sha256};
    if (known->runtimes[0] != NULL)
        entry.runtimes = copy_list(b, known->runtimes);
    return build_artifacts_add(b, &entry);
}

lr_code hub_build_artifacts(struct hub_builder *b)
{
    const struct hub_known_model *model =
        hub_supported_find(b->in->supported, lr_str_z(b->listing->repo));
    lr_code code = LR_OK;
    for (size_t i = 0; model != NULL && i < model->artifact_count && code == LR_OK; i++)
        code = add_known(b, &model->artifacts[i]);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && code == LR_OK; i++) {
        const struct hub_file *file = hub_listing_find(b->listing, lr_str_z(places[i].path));
        struct hub_entry entry = {.listing = b->listing,
                                  .file = file,
                                  .name = places[i].name,
                                  .priority = 5,
                                  .optional = true,
                                  .is_artifact = true,
                                  .backends = places[i].backends};
        if (file != NULL && may_take(b, b->listing->repo, places[i].path))
            code = build_artifacts_add(b, &entry);
    }
    return code;
}
