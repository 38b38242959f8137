/* grammar/calls.h - the forms in which models write calls of tools.
 *
 * A model's chat template shows the form that the model was trained on.  Each form is a row of
 * one table.  The reader of answers (chat/calls.h) and the constraint on answers
 * (grammar/output.c) follow the row, so another form is another row.  Harmony is more than a
 * form of calls and has its own parser and grammar.
 */
#ifndef GRAMMAR_CALLS_H
#define GRAMMAR_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum grammar_format {
    GRAMMAR_PLAIN,   /* no form of calls is known */
    GRAMMAR_HARMONY, /* gpt-oss */
    GRAMMAR_HERMES,  /* <tool_call>{"name": ..., "arguments": {...}}</tool_call>: also Qwen */
    GRAMMAR_LLAMA3,  /* {"name": ..., "parameters": {...}} at the beginning of the answer */
    GRAMMAR_FORMAT_COUNT,
};

enum { GRAMMAR_SIGNS_MAX = 3 };

/* A call is a JSON object with the members "name" and `arguments`. */
struct grammar_form {
    const char *name;    /* of the format in a constraint */
    struct lr_str begin; /* before each call, its first byte occurs in it once; empty: calls are
                            at the beginning of the answer */
    struct lr_str end;   /* after each call; may be empty */
    char between;        /* between two calls; '\0': only blanks */
    struct lr_str lead;  /* control token that may come before the first call; may be empty */
    struct lr_str arguments;
    uint8_t begin_token, end_token, lead_token; /* enum grammar_control, of models for which
                                                   these texts are control tokens */
    const char *signs[GRAMMAR_SIGNS_MAX];       /* in a template that has this form */
    const char *others[GRAMMAR_SIGNS_MAX];      /* not in it */
};

/* NULL for GRAMMAR_PLAIN and GRAMMAR_HARMONY. */
const struct grammar_form *grammar_form_of(enum grammar_format format);

/* The format that a chat template shows, Harmony or a form of calls; else GRAMMAR_PLAIN. */
enum grammar_format grammar_format_of_template(struct lr_str chat_template);

const char *grammar_format_name(enum grammar_format format);

/* ---- text in which a call may begin ---- */

#define GRAMMAR_SCAN_FOUND UINT32_MAX       /* the byte completes the beginning of a call */
#define GRAMMAR_SCAN_NEVER (UINT32_MAX - 1) /* no call begins in the rest of the text */

static inline bool grammar_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The state after one more byte; 0 before the first byte.  With a `begin`, the state is the
 * number of its bytes that the text ends with. */
static inline uint32_t grammar_form_scan(const struct grammar_form *form, uint32_t state,
                                         char byte)
{
    if (form->begin.len == 0) {
        if (state != 0 || grammar_is_blank(byte))
            return state;
        return byte == '{' ? GRAMMAR_SCAN_FOUND : GRAMMAR_SCAN_NEVER;
    }
    if (byte == form->begin.ptr[state])
        return state + 1 == form->begin.len ? GRAMMAR_SCAN_FOUND : state + 1;
    return byte == form->begin.ptr[0] ? 1 : 0;
}

#endif
