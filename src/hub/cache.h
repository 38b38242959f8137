/* hub/cache.h - an existing Hugging Face cache, which is used in place and never written.
 * Thread: any.
 */
#ifndef HUB_CACHE_H
#define HUB_CACHE_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/file.h"

/* A model of the cache: its snapshot lies in `dir`.  With `why` the cache's entry lies there,
 * and the text says what is wrong with the entry. */
typedef void (*hub_cache_fn)(void *arg, const char *id, const char *dir, struct lr_error *why);

/* Calls fn for every model of the cache: of HF_HUB_CACHE, else HF_HOME/hub, else the user's. */
void hub_cache_each(hub_cache_fn fn, void *arg);

/* Whether `dir`, a real path, is the folder of a model of that cache.  `blobs` becomes the
 * folder of the files that links in `dir` lead to. */
bool hub_cache_has(const char *dir, char blobs[LR_PATH_MAX]);

#endif
