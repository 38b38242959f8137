#include "plugin/library.h"

#include <stdbool.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/library.h"

typedef const struct lr_engine_api *(*entry_fn)(void);

/* Every member up to `stats` is required; the later ones are optional (LR_ENGINE_HAS). */
static bool is_complete(const struct lr_engine_api *api)
{
    return LR_ENGINE_HAS(api, describe) && LR_ENGINE_HAS(api, probe) &&
           LR_ENGINE_HAS(api, open) && LR_ENGINE_HAS(api, close) &&
           LR_ENGINE_HAS(api, submit) && LR_ENGINE_HAS(api, cancel) &&
           LR_ENGINE_HAS(api, step) && LR_ENGINE_HAS(api, stats);
}

static lr_code check_facts(const char *path, const struct lr_engine_api *api,
                           const struct plugin_expectation *expected, struct lr_error *err)
{
    const struct lr_engine_facts *facts = api->describe();
    if (facts == NULL || facts->size < sizeof(uint32_t) * 2 + 6 * sizeof(char *) ||
        facts->id == NULL || facts->version == NULL)
        return lr_fail(err, LR_INTERNAL, "%s: describe() gives no id and version", path);
    if (expected->engine_id != NULL && strcmp(expected->engine_id, facts->id) != 0)
        return lr_fail(err, LR_INTERNAL,
                       "%s: the manifest says engine \"%s\", the library says \"%s\"", path,
                       expected->engine_id, facts->id);
    if (expected->engine_version != NULL &&
        strcmp(expected->engine_version, facts->version) != 0)
        return lr_fail(err, LR_INTERNAL,
                       "%s: the manifest says version %s, the library says %s", path,
                       expected->engine_version, facts->version);
    return LR_OK;
}

lr_code plugin_library_open(const char *path, const struct plugin_expectation *expected,
                            const struct lr_engine_api **out, struct lr_error *err)
{
    *out = NULL;
    if (expected->abi_version != LR_ENGINE_ABI)
        return lr_fail(err, LR_ABI_MISMATCH,
                       "%s: the manifest says engine ABI %u, this program has %u", path,
                       expected->abi_version, LR_ENGINE_ABI);

    void *handle = lr_library_open(path);
    if (handle == NULL)
        return lr_fail(err, LR_INTERNAL, "cannot open the engine library: %s",
                       lr_library_error());
    void *symbol = lr_library_symbol(handle, "lr_engine_entry");
    if (symbol == NULL)
        return lr_fail(err, LR_INTERNAL, "%s: no symbol lr_engine_entry", path);
    entry_fn entry;
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function */
    const struct lr_engine_api *api = entry();
    if (api == NULL || api->size < 2 * sizeof(uint32_t))
        return lr_fail(err, LR_INTERNAL, "%s: lr_engine_entry() gives no table", path);
    if (api->abi != LR_ENGINE_ABI)
        return lr_fail(err, LR_ABI_MISMATCH,
                       "%s: the library's table has engine ABI %u, this program has %u", path,
                       api->abi, LR_ENGINE_ABI);
    if (!is_complete(api))
        return lr_fail(err, LR_INTERNAL,
                       "%s: the engine's table lacks a required function (table of %u bytes)",
                       path, api->size);
    lr_code code = check_facts(path, api, expected, err);
    if (code == LR_OK)
        *out = api;
    return code;
}
