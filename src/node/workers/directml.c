/* node/workers/directml.c - see node/workers/directml.h. */
#include "node/workers/directml.h"

#include <stdio.h>

#include "base/file.h"

static const char *const names[] = {"model.directml.bin", "model.dml.bin"};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

bool node_directml_is(const char *path)
{
    for (size_t i = 0; i < NAME_COUNT; i++)
        if (strcmp(lr_path_base(path), names[i]) == 0)
            return true;
    return false;
}

const char *node_directml_in(const char *dir)
{
    char path[LR_PATH_MAX + 32];
    for (size_t i = 0; i < NAME_COUNT; i++) {
        (void)snprintf(path, sizeof(path), "%.4000s/%s", dir, names[i]);
        if (lr_file_exists(path))
            return names[i];
    }
    return NULL;
}

void node_directml_refuse(const char *artifact, struct lr_error *err)
{
    (void)lr_fail(err, LR_UNSUPPORTED,
                  "%s is a DirectML artifact and the DirectML runtime is not here: it is "
                  "experimental and runs on Windows only, with DirectML.dll from "
                  "https://github.com/microsoft/DirectML; on this machine use the model's "
                  "safetensors",
                  lr_path_base(artifact));
}
