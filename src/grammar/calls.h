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

/* In the order in which the signs of a template are compared. */
enum grammar_format {
    GRAMMAR_PLAIN,   /* no form of calls is known */
    GRAMMAR_HARMONY, /* gpt-oss */
    GRAMMAR_MUSE,
    GRAMMAR_KIMI_K3,
    GRAMMAR_KIMI_K2,
    GRAMMAR_DSML, /* DeepSeek V3.2, V4 */
    GRAMMAR_DEEPSEEK_V3,
    GRAMMAR_DEEPSEEK_V31,
    GRAMMAR_MINIMAX_M3,
    GRAMMAR_MINIMAX_M2,
    GRAMMAR_STEP3,
    GRAMMAR_SOLAR,
    GRAMMAR_GEMMA4,
    GRAMMAR_FUNCTIONGEMMA,
    GRAMMAR_MISTRAL_ARGS,
    GRAMMAR_MISTRAL_JSON,
    GRAMMAR_COHERE,
    GRAMMAR_COMMAND_R, /* Command R and R+ of 2024 */
    GRAMMAR_GRANITE3,
    GRAMMAR_GRANITE20B,
    GRAMMAR_INTERNLM2,
    GRAMMAR_LONGCAT,
    GRAMMAR_NEMOTRON2,
    GRAMMAR_APERTUS,
    GRAMMAR_LFM2,
    GRAMMAR_SEED_OSS,
    GRAMMAR_QWEN_XML, /* Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5 */
    GRAMMAR_HY3,
    GRAMMAR_GLM,
    GRAMMAR_MINICPM5,
    GRAMMAR_GIGACHAT3, /* 3.1 and later */
    GRAMMAR_GIGACHAT30,
    GRAMMAR_FUNCTIONARY32,
    GRAMMAR_FUNCTIONARY31,
    GRAMMAR_FUNCTOOLS,
    GRAMMAR_APRIEL,
    GRAMMAR_CALLS_ARRAY,
    GRAMMAR_XLAM,
    GRAMMAR_OLMO3,
    GRAMMAR_PYTHONIC,
    GRAMMAR_ERNIE,
    GRAMMAR_HERMES, /* also Qwen2.5 and Qwen3 */
    GRAMMAR_LLAMA3,
    GRAMMAR_LLAMA4,
    GRAMMAR_FORMAT_COUNT,
};

/* What stands between the marks of a call. */
enum grammar_shape {
    GRAMMAR_SHAPE_NONE,
    GRAMMAR_SHAPE_CHANNELS, /* Harmony */
    GRAMMAR_SHAPE_OBJECT,   /* begin {"name": N, "arguments": {...}} end */
    GRAMMAR_SHAPE_NAMED,    /* begin N name_end {...} end */
    GRAMMAR_SHAPE_ARRAY,    /* begin [{"name": N, "arguments": {...}}, ...] end */
    GRAMMAR_SHAPE_TAGGED,   /* begin N name_end (key K key_end value V value_end)* end */
    GRAMMAR_SHAPE_PYTHON,   /* begin [N(K=V, ...), ...] end */
    GRAMMAR_SHAPE_GEMMA,    /* begin N{K:V,...} end */
    GRAMMAR_SHAPE_NESTED,   /* as tagged, with values of tags */
};

enum {
    GRAMMAR_SIGNS_MAX = 3,
    GRAMMAR_DROPS_MAX = 6,
    GRAMMAR_SKIPPED_MAX = 4,
    GRAMMAR_NAME_MAX = 32
};

/* The marks around reasoning; the texts of control tokens or plain text. */
struct grammar_thought {
    struct lr_str begin, end;
};

struct grammar_form {
    const char *name;
    enum grammar_shape shape;
    struct lr_str section, section_end; /* around all calls of an answer; may be empty */
    struct lr_str section2;             /* another word for `section` */
    struct lr_str section2_end;
    struct lr_str begin; /* before each call; empty: calls are at the beginning of the answer */
    struct lr_str end;   /* after each call; may be empty */
    char between;        /* between two calls; '\0': only blanks */
    struct lr_str lead;  /* control token that may come before the first call; may be empty */
    /* the members of a JSON call; of a named call none */
    struct lr_str name_key, arguments;
    struct lr_str id_key;  /* empty: calls have no id */
    bool name_is_key;      /* {"N": {...}} */
    struct lr_str prefix;  /* before the name of a named call; may be missing in an answer */
    struct lr_str id_mark; /* between the name and the id of a named call */
    struct lr_str id_end;  /* between the id and the name, where the id comes first */
    bool name_is_id;       /* the id is what stands before `name_end`, "functions.N:0" */
    /* tagged calls; name_end also of named calls */
    struct lr_str name_end;
    struct lr_str name_close; /* ends the tag after the name and attributes; may be empty */
    struct lr_str key, key_end, key_close; /* of a parameter; likewise */
    struct lr_str value, value_end;
    struct lr_str string_attribute; /* in the key's tag: the value is a text; else it is JSON */
    bool has_attributes;            /* they say it, not the schema */
    bool strips_newline;            /* one on each side of a value is markup */
    bool has_index;                 /* a number of the call is an attribute behind its name */
    bool is_cdata;                  /* a value may be in <![CDATA[ ]]> */
    /* text from one mark to the other before content or calls, which means nothing */
    struct lr_str heading, heading_end;
    struct lr_str quote; /* around strings of Gemma's notation */
    bool is_lines;       /* Python calls are lines, not a list in brackets */
    bool is_fenced;      /* the JSON may be in a fence */
    bool is_begun;       /* the prompt ends with `begin` */
    struct lr_str said;  /* a name before content */
    bool one_by_one;     /* the template has one call a message */
    bool ends_content;   /* the marks around content end also before calls */
    struct lr_str skipped[GRAMMAR_SKIPPED_MAX]; /* marks between calls, which mean nothing */
    struct lr_str drops[GRAMMAR_DROPS_MAX];     /* marks around content, which mean nothing */
    struct grammar_thought thought; /* empty: what the template shows, as a rule <think> */
    bool thinks_anywhere;           /* reasoning may come after content, too */
    bool opens_thought; /* without a prompt to look at: the answer is in a thought */
    const char *signs[GRAMMAR_SIGNS_MAX];  /* in a template that has this form */
    const char *others[GRAMMAR_SIGNS_MAX]; /* not in it */
};

/* The row of a format; GRAMMAR_PLAIN and GRAMMAR_HARMONY have one, too. */
const struct grammar_form *grammar_form_of(enum grammar_format format);

/* The format that a chat template shows, Harmony or a form of calls; else GRAMMAR_PLAIN. */
enum grammar_format grammar_format_of_template(struct lr_str chat_template);

const char *grammar_format_name(enum grammar_format format);
/* False: this version knows no such format. */
bool grammar_format_find(struct lr_str name, enum grammar_format *out);

/* True for the formats that constraints of protocol 2 name (wire/link.h). */
bool grammar_format_is_old(enum grammar_format format);

/* True where a constraint can enforce calls of the form. */
bool grammar_form_is_enforced(enum grammar_format format);

/* The marks of reasoning that a format or a template has; begin and end are empty: none. */
struct grammar_thought grammar_thought_of(enum grammar_format format,
                                          struct lr_str chat_template);

/* ---- text in which a mark may begin ---- */

#define GRAMMAR_SCAN_FOUND UINT32_MAX       /* the byte completes the beginning of a call */
#define GRAMMAR_SCAN_NEVER (UINT32_MAX - 1) /* no call begins in the rest of the text */

static inline bool grammar_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The state after one more byte; 0 before the first byte.  The state is the number of bytes of
 * the mark that the text ends with.  An empty mark: the byte `first`, which only blanks
 * precede. */
uint32_t grammar_mark_scan(struct lr_str mark, char first, uint32_t state, char byte);

/* What a call, or the first of several, begins with. */
static inline struct lr_str grammar_form_trigger(const struct grammar_form *form)
{
    return form->section.len != 0 ? form->section : form->begin;
}

#endif
