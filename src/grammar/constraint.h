/* grammar/constraint.h - a constraint as text: a router writes it and a worker compiles it.
 *
 *   {"format":"harmony","answer":"schema","strict":true,"schema":{...},
 *    "tools":[{"name":"f","strict":true,"schema":{...}}],"one_call":true}
 *
 *   format  "plain": only the answer, up to the model's stop token
 *           "harmony": free analysis messages, then the answer on the final channel or a call
 *           others: the answer or calls in a form of grammar/calls.h
 *   answer  "schema", "object" (any JSON object), "regex", "choice", "grammar" (GBNF), "text",
 *           "free" (any tokens after the reasoning), or "none": a call is required.  The member
 * of the same name has the schema, the regular expression, the list of choices or the grammar
 *   tools   tools that may be called; a schema that is not strict is enforced as far as its
 *           keywords are supported
 *   one_call  the answer ends after a call (Harmony's always does)
 *   thought   {"begin":"<think>","end":"</think>","opened":true}: reasoning may come first;
 * what is constrained begins after its end.  opened: the prompt has its
 *           beginning; "budget": the most tokens of reasoning, then its end
 */
#ifndef GRAMMAR_CONSTRAINT_H
#define GRAMMAR_CONSTRAINT_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "grammar/calls.h"

enum grammar_answer {
    GRAMMAR_ANSWER_NONE,
    GRAMMAR_ANSWER_TEXT,
    GRAMMAR_ANSWER_FREE,    /* any tokens: only the reasoning before them is bounded */
    GRAMMAR_ANSWER_OBJECT,  /* any JSON object */
    GRAMMAR_ANSWER_SCHEMA,  /* JSON that fits a schema; it and those below have a value */
    GRAMMAR_ANSWER_REGEX,   /* a text that a regular expression matches as a whole: a string */
    GRAMMAR_ANSWER_CHOICE,  /* one of several texts: an array of strings */
    GRAMMAR_ANSWER_GRAMMAR, /* a text of a grammar in GBNF: a string */
};

struct grammar_tool {
    struct lr_str name;
    const struct lr_json *schema; /* NULL: any object */
    bool strict;
};

struct grammar_constraint {
    enum grammar_format format;
    enum grammar_answer answer;
    const struct lr_json *value; /* the schema, regular expression, ...; NULL: it has none */
    bool is_strict; /* objects of the schema are closed unless they say otherwise */
    const struct grammar_tool *tools;
    uint32_t tool_count;
    bool one_call;
    struct grammar_thought thought; /* empty: there is no reasoning before the answer */
    bool is_opened;
    uint32_t budget; /* tokens of reasoning, after which its end comes; 0: no limit */
};

enum { GRAMMAR_TOOLS_MAX = 256, GRAMMAR_THOUGHT_MAX = 64 };

/* Appends the constraint's text. */
void grammar_constraint_write(struct lr_buf *out, const struct grammar_constraint *c);

/* Checks whether grammar_compile would accept an answer with this value, so that a request can
 * be refused at once.  work: remaining budget of the request, GRAMMAR_WORK_MAX before the
 * first. */
LR_MUST_USE lr_code grammar_check_answer(enum grammar_answer answer,
                                         const struct lr_json *value, uint32_t *work,
                                         struct lr_error *err);
/* The same for the arguments of a tool that is not strict. */
LR_MUST_USE lr_code grammar_check_lenient(const struct lr_json *schema, uint32_t *work,
                                          struct lr_error *err);

#endif
