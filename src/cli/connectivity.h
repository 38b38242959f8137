/* cli/connectivity.h - checks the connection from this machine to a router, step by step: name,
 * TCP, TLS, version, key.  The first step that fails is the step to fix. */
#ifndef CLI_CONNECTIVITY_H
#define CLI_CONNECTIVITY_H

#include "base/settings.h"
#include "cli/checks.h"

void cli_check_connectivity(struct cli_checks *c, const struct lr_settings *s);

#endif
