/* engines/testing/pry_none.c - systems that do not confine workers: there is nothing to try. */
#include <stdio.h>

#include "engines/testing/testing.h"

void testing_pry(const struct testing_options *options, char *out, size_t size)
{
    (void)options;
    (void)snprintf(out, size, "not confined");
}
