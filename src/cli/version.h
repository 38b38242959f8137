/* cli/version.h - which build this is. */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

const char *cli_version(void); /* "0.1.0" */
const char *cli_commit(void);  /* abbreviated, or "unknown" outside a git checkout */

#endif
