/* tests/unit/serving/support.h - for tests of the serving part without an engine. */
#ifndef TESTS_SERVING_SUPPORT_H
#define TESTS_SERVING_SUPPORT_H

#include "tests/unit/engine_recorder.h"
#include "tests/unit/serving/kinds.h"

/* No engine: these tests use the parts one by one. */
static inline const struct lr_engine_api *recorder_api(void)
{
    return NULL;
}

#endif
