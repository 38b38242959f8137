/* cli/resolve.h - a model by what a person typed: registered, on a node, or of the hub.
 *
 * A name that is not known here is resolved by the router (POST /v0/models/resolve).  The
 * choice is printed with its reason, and registered.  Where nothing can be chosen, the error
 * names repositories that run here; at a terminal the first is taken by a key. */
#ifndef CLI_RESOLVE_H
#define CLI_RESOLVE_H

#include <stdio.h>

#include "cli/names.h"
#include "cli/remote.h"

/* Flags of commands that may register the model that they name. */
#define CLI_CHOICE_FLAGS                                                                       \
    {.name = "filename",                                                                       \
     .type = LR_SETTING_STRING,                                                                \
     .value = "FILE",                                                                          \
     .help = "the GGUF file, the index or the weights to use; default: the best that fits"},   \
    {                                                                                          \
        .name = "revision", .type = LR_SETTING_STRING, .value = "REV",                         \
        .help = "branch, tag or commit [the repository's default branch]"                      \
    }

/* id becomes the model's id; it is registered now.  usable: among the models that a key of role
 * api may use.  The choice is told on `out`. */
LR_MUST_USE lr_code cli_resolve(const struct lr_settings *s, const char *name, bool usable,
                                FILE *out, char id[CLI_ID_MAX], struct lr_error *err);

/* The same for a model that is to answer now: waits for its files and loads it.  Choice and
 * progress go to standard error, so that standard output has the answer only. */
LR_MUST_USE lr_code cli_resolve_ready(const struct lr_settings *s, const char *name,
                                      char id[CLI_ID_MAX], struct lr_error *err);

/* The first model that is ready, else the first that can be used.  NOT_FOUND: there is none. */
LR_MUST_USE lr_code cli_first_model(const struct lr_settings *s, char id[CLI_ID_MAX],
                                    struct lr_error *err);

/* Asks the router what a name means; the caller frees the answer. */
LR_MUST_USE lr_code cli_ask_resolve(const struct lr_settings *s, const char *name,
                                    struct cli_answer *out, struct lr_error *err);

#endif
