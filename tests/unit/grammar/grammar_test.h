/* Shared by the tests of grammars: constraints around schemas, and texts to match. */
#ifndef TESTS_GRAMMAR_TEST_H
#define TESTS_GRAMMAR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "grammar/grammar.h"

static inline struct grammar_program *compile_text(const char *constraint, struct lr_error *err)
{
    struct grammar_program *program = NULL;
    lr_code code = grammar_compile(lr_str_z(constraint), &program, err);
    assert_true((code == LR_OK) == (program != NULL));
    return program;
}

/* The program of a plain answer with this schema; NULL when it is refused. */
static inline struct grammar_program *compile_schema(const char *schema, struct lr_error *err)
{
    size_t room = strlen(schema) + 100;
    char *text = malloc(room);
    assert_non_null(text);
    (void)snprintf(text, room, "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":%s}",
                   schema);
    struct grammar_program *program = compile_text(text, err);
    free(text);
    return program;
}

static inline struct grammar_matcher *matcher_of(const struct grammar_program *program)
{
    struct grammar_matcher *m;
    struct lr_error err;
    assert_int_equal(grammar_matcher_create(program, NULL, &m, &err), LR_OK);
    return m;
}

/* How many bytes are legal; the length if all are. */
static inline size_t legal_bytes(struct grammar_matcher *m, struct lr_str text)
{
    size_t i = 0;
    while (i < text.len && grammar_matcher_bytes(m, lr_str(text.ptr + i, 1), false))
        i++;
    return i;
}

/* True when every byte of the text is legal and the answer may end there. */
static inline bool takes(const struct grammar_program *program, struct lr_str text)
{
    struct grammar_matcher *m = matcher_of(program);
    bool ok = legal_bytes(m, text) == text.len &&
              grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true) &&
              grammar_matcher_is_complete(m);
    grammar_matcher_free(m);
    return ok;
}

/* A schema with texts that fit it and texts that do not. */
struct schema_texts {
    const char *schema;
    const char *good[12];
    const char *bad[16];
};

static inline void check_schema_texts(const struct schema_texts *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct schema_texts *t = &tables[i];
        struct lr_error err = {0};
        struct grammar_program *program = compile_schema(t->schema, &err);
        if (program == NULL)
            fail_msg("%s: %s", t->schema, err.text);
        for (size_t k = 0; k < 12 && t->good[k] != NULL; k++)
            if (!takes(program, lr_str_z(t->good[k])))
                fail_msg("%s does not take %s", t->schema, t->good[k]);
        for (size_t k = 0; k < 16 && t->bad[k] != NULL; k++)
            if (takes(program, lr_str_z(t->bad[k])))
                fail_msg("%s takes %s", t->schema, t->bad[k]);
        grammar_program_free(program);
    }
}

#endif
