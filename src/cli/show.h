/* cli/show.h - one model: what it is, what it can do, how its prompts are made. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "base/settings.h"

/* name: an id, an alias or a short name.  The settings may have --template, --parameters and
 * --system, which print that alone. */
LR_MUST_USE lr_code cli_show_model(const struct lr_settings *s, const char *name,
                                   struct lr_error *err);

#endif
