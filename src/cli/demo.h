/* cli/demo.h - the demo model of `up`, used when there is no other model. */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "base/file.h"
#include "base/settings.h"

/* True when the operator has a model: named, in the models folder, or in the Hugging Face
 * cache. */
bool cli_has_models(const struct lr_settings *settings, const char *data_dir);

/* Installed: share/llm-router/models/demo beside bin/; built: models/demo of the sources.
 * `self` is the program's path.  False: not found. */
bool cli_find_demo(const char *self, char out[LR_PATH_MAX]);

#endif
