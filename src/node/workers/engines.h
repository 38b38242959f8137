/* node/workers/engines.h - EngineRegistry: which engines lie here, and which may be used.
 *
 * The node reads manifests and copies files; it never opens a library
 * (docs/promises.md: engine-in-a-worker).  Every version that runs does so from a private copy
 * named by its content, so replacing a file in the engines folder never touches a running
 * worker.
 * Thread: the node's loop.
 */
#ifndef NODE_WORKERS_ENGINES_H
#define NODE_WORKERS_ENGINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/sha256.h"
#include "plugin/manifest.h"

enum { NODE_REASON_MAX = 512 };

/* One version of an engine's files.  Shared: the registry and every worker that runs
 * it hold a reference. */
struct node_library {
    unsigned refs;
    uint32_t abi;
    char sha256[LR_SHA256_HEX_LEN + 1]; /* of the library and what lies beside it */
    char engine_id[65];
    char version[PLUGIN_MANIFEST_TEXT + 1];
    char folder[LR_PATH_MAX]; /* the private copy */
    char path[LR_PATH_MAX];   /* the library in it */
    uint64_t signature;       /* of the folder */
};

struct node_engine {
    struct node_engine *next;
    char folder[LR_PATH_MAX];
    char name[65]; /* engine_id, or the folder's name where the manifest is unusable */
    struct plugin_manifest manifest;
    struct node_library *library;  /* what new workers run; NULL: refused */
    struct node_library *previous; /* what ran before the last reload; to go back to */
    struct node_reload *reload;    /* under way; NULL: none */
    uint64_t seen_signature;       /* at the last look, if it differed: waits for quiet */
    struct lr_error refusal;       /* why it is refused; its text "": it is not */
    uint64_t retry_ms;             /* refused for what may pass: looked at again then */
    bool is_told;                  /* the event of its refusal was sent */
    uint64_t signature;            /* of the folder's files when it was last read */
};

struct node_engines {
    struct node_engine *first;
    char dir[LR_PATH_MAX];       /* the engines folder */
    char cache_dir[LR_PATH_MAX]; /* of the private copies */
};

/* Reads every folder of the engines folder that is not in the list yet.  What is refused stays
 * in the list with its reason. A folder that is not there is an empty one.  True: there are
 * more now. */
bool node_engines_scan(struct node_engines *engines);
void node_engines_free(struct node_engines *engines);

struct node_engine *node_engines_find(const struct node_engines *engines, struct lr_str id);

/* What a model asks of an engine. */
struct node_wish {
    const char *runtime;      /* "gptoss_cpp" is an alias of "gptoss" */
    const char *format;       /* "safetensors", "gguf" */
    const char *architecture; /* NULL: the engine itself is asked when it is probed */
    const char *device;       /* "cpu", "cuda", "vulkan", "metal" */
    bool is_named;            /* an operator named the device: engines on trial there, too */
};
/* The engine for a model: of several that fit, the one of the largest priority; of equal ones,
 * the first.  UNSUPPORTED says which runtimes there are, or why the
 * only candidate is refused. */
LR_MUST_USE lr_code node_engines_resolve(const struct node_engines *engines,
                                         const struct node_wish *wish, struct node_engine **out,
                                         struct lr_error *err);

/* Where no engine has CUDA for the model: one that computes on the same GPU through Vulkan. */
bool node_resolve_by_vulkan(const struct node_engines *engines, const struct node_wish *wish,
                            struct node_engine **out);

/* Reads a folder again and copies its present files.  *out is the caller's reference.
 * UNAVAILABLE: the file is still being copied (library_sha256 does not match yet). */
LR_MUST_USE lr_code node_library_take(const struct node_engines *engines, const char *folder,
                                      struct plugin_manifest *manifest,
                                      struct node_library **out, struct lr_error *err);
/* Makes the private copy of what new workers run again if somebody deleted or changed it. */
LR_MUST_USE lr_code node_library_restore(const struct node_engines *engines,
                                         struct node_engine *engine, struct lr_error *err);
struct node_library *node_library_ref(struct node_library *library);
void node_library_unref(struct node_library *library); /* NULL is fine */

/* Changes whenever a file of the folder does; 0: there is no folder. */
uint64_t node_folder_signature(const char *folder);

/* ---- DirectML ----
 * DirectML is experimental and exists on Windows only.  Nobody here runs its artifacts, but
 * an operator who brings one learns what it is and where its runtime comes from, instead of
 * reading that some other file is missing. */

/* The path is a DirectML artifact (model.directml.bin, model.dml.bin) or a folder with one:
 * err, which may be NULL, gets UNSUPPORTED, what it is and where to get the runtime. */
bool node_is_directml(const char *path, struct lr_error *err);

#endif
