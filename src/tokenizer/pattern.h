/* tokenizer/pattern.h - compiles a pattern in PCRE2's own notation; for this folder only. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "base/fail.h"
#include "base/str.h"

/* *code is a pcre2_code, freed by tokenizer_split_free_code. */
LR_MUST_USE lr_code tokenizer_pattern_compile(struct lr_str pattern, uint32_t options,
                                              const char *what, void **code,
                                              struct lr_error *err);

#endif
