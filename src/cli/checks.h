/* cli/checks.h - checks that `doctor` and `config check` share: each prints a line, and where
 * something is wrong what to do. */
#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"

struct cli_checks {
    unsigned problems;
};

void cli_check(struct cli_checks *c, bool ok, const char *what, const char *advice);
/* What an operator should know, but cannot change: no problem. */
void cli_note(const char *what);

/* A folder that a process writes to, or the nearest parent that exists; nothing is created. */
void cli_check_folder(struct cli_checks *c, const char *title, const char *folder);

/* Certificate and key: readable, not expired, of each other, good for `host` (NULL: not
 * checked), and valid for more days than warn_days. */
void cli_check_tls(struct cli_checks *c, const char *cert, const char *key, const char *host,
                   long long warn_days);

/* Every engine of the folder; NULL: the folder installed with the program. */
void cli_check_engines(struct cli_checks *c, const char *engines_dir);

/* The folder itself, or its nearest parent that exists. */
void cli_nearest_folder(const char *folder, char *out, size_t size);

/* LR_OK, or UNAVAILABLE with the number of problems. */
LR_MUST_USE lr_code cli_checks_end(const struct cli_checks *c, struct lr_error *err);

#endif
