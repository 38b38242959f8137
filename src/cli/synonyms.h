/* cli/synonyms.h - commands and flags that users of other servers type.
 *
 * A command of Ollama, LM Studio, vLLM or llama.cpp is ours under another name, or one sentence
 * says what takes its place.  A flag that a command does not have, but another server's does,
 * gets one line with ours. */
#ifndef CLI_SYNONYMS_H
#define CLI_SYNONYMS_H

#include "base/fail.h"
#include "base/settings.h"

enum { CLI_SYNONYM_ARGS = 256 };

/* Our command line for a typed one: `out` gets its arguments, borrowed, and a NULL; *count
 * their number, 0: nothing is to be changed.  INVALID_ARGUMENT: there is no such command; the
 * sentence names ours. */
LR_MUST_USE lr_code cli_synonym(int argc, const char *const *argv,
                                const char *out[CLI_SYNONYM_ARGS], int *count,
                                struct lr_error *err);

/* INVALID_ARGUMENT where the arguments have a flag of another server that this command does not
 * know: one line with ours. */
LR_MUST_USE lr_code cli_foreign_flags(const struct lr_settings *s, int argc,
                                      const char *const *argv, struct lr_error *err);

#endif
