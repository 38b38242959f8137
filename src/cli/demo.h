/* cli/demo.h - the demo model of `up`, where there is nothing else to serve. */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "base/file.h"
#include "base/settings.h"

/* Whether the operator has models of his own: named, in the models folder, in the Hugging
 * Face cache. */
bool cli_has_models(const struct lr_settings *settings, const char *data_dir);

/* Installed: share/llm-router/models/demo beside bin/; built: models/demo of the sources.
 * `self` is the program's path.  False: it is not there. */
bool cli_find_demo(const char *self, char out[LR_PATH_MAX]);

#endif
