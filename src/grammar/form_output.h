/* grammar/form_output.h - an answer with reasoning and calls in a form of grammar/calls.h
 * (internal). */
#ifndef GRAMMAR_FORM_OUTPUT_H
#define GRAMMAR_FORM_OUTPUT_H

#include "grammar/constraint.h"
#include "grammar/program.h"

/* ---- output.c ---- */
/* The constrained answer, or free text. */
uint32_t grammar_output_answer(struct grammar_build *b, const struct grammar_constraint *c,
                               uint32_t next);
/* The arguments of a tool as a JSON object. */
uint32_t grammar_output_arguments(struct grammar_build *b, const struct grammar_tool *tool,
                                  uint32_t next);

/* ---- form_output.c ---- */
/* Reasoning, and then the answer or calls; stop: what ends the answer. */
uint32_t grammar_form_output(struct grammar_build *b, const struct grammar_constraint *c,
                             uint32_t stop);
/* A mark, with each part that may be a control token as that token or as text. */
uint32_t grammar_form_mark(struct grammar_build *b, struct lr_str mark, uint32_t next);
/* Any text up to a mark, and the mark. */
uint32_t grammar_form_text(struct grammar_build *b, struct lr_str mark, uint32_t found);
/* A line break or a blank, or none. */
uint32_t grammar_form_line(struct grammar_build *b, uint32_t next);

/* ---- form_params.c ---- */
/* What stands around the parameters of a call; texts live as long as the build. */
struct form_params {
    const struct grammar_form *form;
    struct lr_str open;      /* before a key */
    struct lr_str between;   /* two parameters; empty: a line break or nothing */
    struct lr_str close;     /* the end of the call */
    struct lr_str text_open; /* before a string; it ends with value_end */
    struct lr_str value_end; /* after any value; of strings also where it is empty */
    bool quotes_values;      /* strings are JSON */
};
/* Parameters in any order, the required ones once each, and the end of the call. */
uint32_t grammar_form_params(struct grammar_build *b, const struct form_params *s,
                             const struct grammar_tool *tool, uint32_t next);

#endif
