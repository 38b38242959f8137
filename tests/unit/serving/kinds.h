/* tests/unit/serving/kinds.h - the kinds of KV pages in most tests: of all positions, and of a
 * window. */
#ifndef TESTS_SERVING_KINDS_H
#define TESTS_SERVING_KINDS_H

#include "engines/serving/backend.h"

enum { KIND_FULL, KIND_WINDOW, KINDS };

#endif
