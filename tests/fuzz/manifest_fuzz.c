/* LINK: plugin base */
/* manifest.json of an unknown engine. */
#include <stdint.h>
#include <stdlib.h>

#include "base/fail.h"
#include "plugin/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plugin_manifest m;
    struct lr_error err = {0};
    lr_code code = plugin_manifest_parse(&m, lr_str((const char *)data, size), &err);
    /* Accepted means complete; refused means with a reason. */
    if (code == LR_OK && (m.engine_id == NULL || m.runtimes == NULL || m.library == NULL ||
                          m.license == NULL || strchr(m.library, '/') != NULL))
        abort();
    if (code != LR_OK && err.text[0] == '\0')
        abort();
    plugin_manifest_free(&m);
    return 0;
}
