#include "worker/confine.h"

#include "base/sandbox.h"
#include "worker/worker.h"

lr_code worker_confine(int parent, struct lr_error *err)
{
    return lr_sandbox_begin(parent, WORKER_OUT_FD, err);
}

lr_code worker_confine_engine(const char *scratch, const struct wire_open *open,
                              struct lr_error *err)
{
    const struct lr_sandbox_facts facts = lr_sandbox_look();
    const struct lr_sandbox_needs needs = {
        .scratch = scratch,
        .library = open->library,
        .file = open->options.artifact_path,
        .folder = open->model_dir,
        .is_downloaded = open->is_downloaded,
        .blobs = open->blobs,
    };
    if (lr_sandbox_enter(&facts, &needs, err) == LR_OK)
        return LR_OK;
    return lr_fail_prefix(err, "confining the worker (--no-confine-workers runs engines "
                               "without)");
}
