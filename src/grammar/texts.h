/* grammar/texts.h - answers that are not JSON: regular expressions, choices and grammars
 * (internal).  Each function takes the step that follows and gives the step to begin with. */
#ifndef GRAMMAR_TEXTS_H
#define GRAMMAR_TEXTS_H

#include "grammar/program.h"

/* A text that a regular expression matches as a whole. */
uint32_t grammar_text_regex(struct grammar_build *b, struct lr_str pattern, uint32_t next);
/* One of the strings of a JSON array. */
uint32_t grammar_text_choice(struct grammar_build *b, const struct lr_json *list,
                             uint32_t next);
/* ---- gbnf_compile.c ---- */
uint32_t grammar_text_gbnf(struct grammar_build *b, struct lr_str text, uint32_t next);

/* The automaton of texts that fit a tree as a whole.  NULL: it would have more than 1024 states
 * or take long to build, or the build has failed. */
const struct dfa *grammar_text_small_dfa(struct grammar_build *b, const struct regex *tree);
/* A step that takes what the automaton accepts; mask_text.c makes its masks. */
uint32_t grammar_text_dfa(struct grammar_build *b, const struct dfa *dfa, uint32_t next);

#endif
