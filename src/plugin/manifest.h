/* plugin/manifest.h - what an engine says about itself before any of its code runs.
 *
 * engines/<id>/manifest.json is read, checked field by field and held in one arena.  The node
 * uses only the manifest and never opens the library (docs/promises.md: engine-in-a-worker).
 * Thread: any; a manifest is read-only once it is read.
 */
#ifndef PLUGIN_MANIFEST_H
#define PLUGIN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "llm-router/status.h"

/* Limits on what a manifest may contain. */
enum {
    PLUGIN_MANIFEST_BYTES = 64 << 10,
    PLUGIN_MANIFEST_ITEMS = 256, /* entries of one list */
    PLUGIN_MANIFEST_TEXT = 256,  /* bytes of one string */
    PLUGIN_MANIFEST_PRIORITY = 1000,
};

struct plugin_manifest {
    struct lr_arena arena; /* owns every string below */
    const char *engine_id; /* [a-z0-9_-], at most 64 */
    const char *engine_version;
    uint32_t abi_version;
    int32_t priority; /* of engines that fit a model, the largest is taken; 0: not given */
    const char *const *runtimes; /* NULL-terminated, at least one entry, as all four lists */
    const char *const *formats;
    const char *const *architectures;
    const char *const *backends;
    /* Backends that nobody has run on such a device yet: only an operator who names the device
     * gets them.  NULL: none. */
    const char *const *trial_backends;
    const char *library; /* a file name, no folders */
    const char *license;
    const char *library_sha256; /* 64 lower-case hex digits, or NULL */
    const char *folder;         /* absolute; NULL for a manifest that was only parsed */
    const char
        *library_path; /* absolute, links resolved; NULL for a manifest that was only parsed */
};

/* Where engines lie: `set` where that is not NULL; of an installed program
 * lib/llm-router/engines beside bin/, of a built one engines/ there. */
void plugin_engines_dir(const char *set, char out[LR_PATH_MAX]);

/* Parses and checks every field.  Pure.  INVALID_ARGUMENT names each
 * missing or wrong field; *out is then empty. */
LR_MUST_USE lr_code plugin_manifest_parse(struct plugin_manifest *out, struct lr_str text,
                                          struct lr_error *err);

/* The engine computes on a device of this kind; is_named: an operator named the device. */
bool plugin_manifest_computes_on(const struct plugin_manifest *manifest, const char *backend,
                                 bool is_named);

/* Reads folder/manifest.json and checks the library beside it: it exists, lies
 * inside the folder once links are resolved, is a regular file that only its owner
 * may write, and belongs to root or to us. */
LR_MUST_USE lr_code plugin_manifest_read(struct plugin_manifest *out, const char *folder,
                                         struct lr_error *err);

/* The same checks for another file of the folder that the library may load. */
LR_MUST_USE lr_code plugin_manifest_check_file(const struct plugin_manifest *manifest,
                                               const char *name, struct lr_error *err);

/* ABI_MISMATCH with both numbers unless the versions are exactly equal. */
LR_MUST_USE lr_code plugin_manifest_check_abi(const struct plugin_manifest *manifest,
                                              struct lr_error *err);

bool plugin_list_has(const char *const *list, const char *item);

void plugin_manifest_free(struct plugin_manifest *manifest);

#endif
