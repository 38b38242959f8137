/* cli/way.h - the way from this machine to a router, step by step: name, connection, TLS, key,
 * version.  The first step that fails is the one to fix. */
#ifndef CLI_WAY_H
#define CLI_WAY_H

#include "base/settings.h"
#include "cli/checks.h"

void cli_check_way(struct cli_checks *c, const struct lr_settings *s);

#endif
