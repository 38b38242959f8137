/* jinja/scope.h - resolves names to slots. */
#ifndef JINJA_SCOPE_H
#define JINJA_SCOPE_H

#include "jinja/parse.h"

/* Gives every name of the tree its slot and every frame the initial values of its variables.
 * Refuses unknown filters and tests where Jinja2's compiler does.  False when the run
 * failed. */
bool jinja_resolve_names(struct run *run, struct jinja_template *tmpl, struct node **blocks,
                         size_t block_count);

#endif
