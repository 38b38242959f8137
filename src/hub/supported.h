/* hub/supported.h - supported_models.json: models that are known to work, and where their
 * publishers keep GPU-optimised encodings of them.
 *
 *   [{"repo": "openai/gpt-oss-20b", "artifacts": [
 *      {"name": "metal/model.bin", "path": "metal/model.bin", "repo": "openai/other",
 *       "revision": "<commit>", "sha256": "...", "runtimes": ["gptoss"],
 *       "backends": ["metal"], "priority": 5}]}]
 *
 * `path` and `repo` say where the artifact lies (default: name, the model's repository).  Other
 * members (description, tags, ...) are kept unchanged for the catalogue.  Thread: any, once
 * parsed.
 */
#ifndef HUB_SUPPORTED_H
#define HUB_SUPPORTED_H

#include "base/arena.h"
#include "base/json.h"

enum { HUB_SUPPORTED_BYTES_MAX = 4 << 20 };

struct hub_known_artifact {
    const char *name; /* below the model's folder */
    const char *repo;
    const char *path;     /* in that repository */
    const char *revision; /* "" : the default branch, pinned at registration */
    const char *sha256;   /* NULL: the hub's */
    const char *const *runtimes;
    const char *const *backends;
    int32_t priority;
};

struct hub_known_model {
    const char *repo;
    struct hub_known_artifact *artifacts;
    size_t artifact_count;
    const struct lr_json *entry; /* the whole JSON entry */
};

struct hub_supported {
    struct lr_arena arena;
    struct hub_known_model *models;
    size_t model_count;
};

/* json: NULL text is the built-in list.  INVALID_ARGUMENT names entry and member. */
LR_MUST_USE lr_code hub_supported_parse(struct lr_str json, struct hub_supported **out,
                                        struct lr_error *err);
void hub_supported_destroy(struct hub_supported *supported); /* NULL is fine */
const struct hub_known_model *hub_supported_find(const struct hub_supported *supported,
                                                 struct lr_str repo);
#endif
