/* tokenizer/pattern.h - compiles a pattern in PCRE2's own notation; for this folder only. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

/* *code is a pcre2_code, freed by tokenizer_split_free_code. */
LR_MUST_USE lr_code tokenizer_pattern_compile(struct lr_str pattern, uint32_t options,
                                              const char *what, void **code,
                                              struct lr_error *err);

/* Appends the set of all characters that match the pattern, as "[\x{41}-\x{5A}...]"; false: it
 * cannot be compiled, nothing matches, or there is no memory. */
bool tokenizer_pattern_ranges(struct lr_str character, struct lr_buf *out);

#endif
