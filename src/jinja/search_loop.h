/* jinja/search_loop.h - see search_loop.c. */
#ifndef JINJA_SEARCH_LOOP_H
#define JINJA_SEARCH_LOOP_H

#include "jinja/ast.h"

bool jinja_is_search_loop(const struct node *loop);

#endif
