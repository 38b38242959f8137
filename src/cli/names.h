/* cli/names.h - a model, node or key that a person names: by its id, or by its name.
 *
 * An id wins over a name.  A name that several have is an error that lists their ids, and an
 * unknown name is an error that suggests a similar one. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "base/settings.h"

enum { CLI_ID_MAX = 256 };

/* A registered model by its id, an alias, or the part of its id behind the last slash. */
LR_MUST_USE lr_code cli_model_id(const struct lr_settings *s, const char *name,
                                 char id[CLI_ID_MAX], struct lr_error *err);
/* Either of cli_model_id and cli_usable_model_id.  *has_near (NULL is fine): after NOT_FOUND,
 * the error suggests a similar name. */
LR_MUST_USE lr_code cli_find_model(const struct lr_settings *s, const char *name, bool usable,
                                   char id[CLI_ID_MAX], bool *has_near, struct lr_error *err);
/* name NULL: the only node. */
LR_MUST_USE lr_code cli_node_id(const struct lr_settings *s, const char *name,
                                char id[CLI_ID_MAX], struct lr_error *err);
/* A key that is not revoked. */
LR_MUST_USE lr_code cli_key_id(const struct lr_settings *s, const char *name,
                               char id[CLI_ID_MAX], struct lr_error *err);
/* Like cli_model_id, among the models that a key of role api may use. */
LR_MUST_USE lr_code cli_usable_model_id(const struct lr_settings *s, const char *name,
                                        char id[CLI_ID_MAX], struct lr_error *err);

/* The id of the node that --node names, or of the only node. */
LR_MUST_USE lr_code cli_choose_node(const struct lr_settings *s, char id[CLI_ID_MAX],
                                    struct lr_error *err);

#endif
