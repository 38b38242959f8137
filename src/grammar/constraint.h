/* grammar/constraint.h - a constraint as text: a router writes it and a worker compiles it.
 *
 *   {"format":"harmony","answer":"schema","strict":true,"schema":{...},
 *    "tools":[{"name":"f","strict":true,"schema":{...}}]}
 *
 *   format  "plain": only the answer, up to the model's stop token
 *           "harmony": free analysis messages, then the answer on the final channel or a call
 *   answer  "schema", "object" (any JSON object), "text", or "none": a call is required
 *   tools   tools that may be called; a schema that is not strict is enforced as far as its
 *           keywords are supported
 */
#ifndef GRAMMAR_CONSTRAINT_H
#define GRAMMAR_CONSTRAINT_H

#include "base/buf.h"
#include "base/json.h"

enum grammar_answer {
    GRAMMAR_ANSWER_NONE,
    GRAMMAR_ANSWER_TEXT,
    GRAMMAR_ANSWER_OBJECT,
    GRAMMAR_ANSWER_SCHEMA,
};

struct grammar_tool {
    struct lr_str name;
    const struct lr_json *schema; /* NULL: any object */
    bool strict;
};

struct grammar_constraint {
    bool is_harmony;
    enum grammar_answer answer;
    const struct lr_json *schema;
    bool is_strict; /* objects of the schema are closed unless they say otherwise */
    const struct grammar_tool *tools;
    uint32_t tool_count;
};

/* Appends the constraint's text. */
void grammar_constraint_write(struct lr_buf *out, const struct grammar_constraint *c);

#endif
