/* Shared by the tests of POST /v1/responses requests. */
#ifndef TESTS_RESPONSES_TEST_H
#define TESTS_RESPONSES_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/responses/responses.h"

struct parsed {
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    lr_code code;
};

/* {"model":"m",MEMBERS} */
static inline struct parsed parse_as(const char *members, bool is_strict)
{
    static char body[1 << 16];
    struct parsed p = {0};
    const struct lr_json *root;
    struct lr_str model;
    snprintf(body, sizeof(body), "{\"model\":\"m\",%s}", members);
    /* The limit that chat/codec.h documents as enough. */
    lr_arena_init(&p.arena, 16 * strlen(body) + (64 << 10));
    p.code = chat_request_read(&p.arena, lr_str_z(body), &root, &model, &p.e);
    if (p.code == LR_OK)
        p.code = chat_request_check(&p.arena, &chat_responses, root,
                                    &(struct chat_terms){.is_strict = is_strict}, &p.req, &p.e);
    assert_int_equal(p.req != NULL, p.code == LR_OK);
    return p;
}

static inline struct parsed parse(const char *members)
{
    return parse_as(members, false);
}

static inline struct parsed accept(const char *members)
{
    struct parsed p = parse(members);
    if (p.code != LR_OK)
        fail_msg("%s: %s", members, p.e.error.text);
    return p;
}

static inline void refuse(const char *members, const char *param, const char *code,
                          const char *says)
{
    struct parsed p = parse(members);
    if (p.code == LR_OK)
        fail_msg("accepted: %s", members);
    assert_int_equal(lr_code_http(p.code), 400);
    assert_string_equal(p.e.param, param);
    assert_string_equal(p.e.code, code);
    if (strstr(p.e.error.text, says) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", p.e.error.text, says);
    lr_arena_free(&p.arena);
}

static inline void expect_json(const struct lr_json *value, const char *wanted)
{
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, 1 << 20);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, value);
    assert_string_equal(lr_buf_z(&text), wanted);
    lr_buf_free(&text);
}

#endif
