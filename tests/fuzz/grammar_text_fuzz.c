/* LINK: grammar base */
/* Any bytes as an answer: bytes that the grammar of a JSON object accepts are a JSON object,
 * and illegal bytes leave the matcher unchanged. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool claim)
{
    if (!claim)
        abort();
}

static const char *const constraints[] = {
    "{\"format\":\"plain\",\"answer\":\"object\"}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{}}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":[\"array\",\"string\"],"
    "\"items\":{"
    "\"type\":\"number\",\"minimum\":-3},\"maxLength\":3}}",
};

static void check(struct lr_str text, bool is_object)
{
    struct lr_json_limits limits = {.max_depth = 200};
    struct lr_arena arena;
    struct lr_error err;
    const struct lr_json *root;
    lr_arena_init(&arena, 64 << 20);
    if (lr_json_parse(&arena, text, &limits, &root, &err) != LR_OK)
        demand(strstr(err.text, "twice") != NULL);
    else
        demand(!is_object || root->type == LR_JSON_OBJECT);
    lr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grammar_program *program;
    struct grammar_matcher *m;
    struct lr_error err;
    char taken[4096];
    size_t len = 0;
    if (size == 0)
        return 0;
    uint32_t which = data[0] % (sizeof(constraints) / sizeof(constraints[0]));
    demand(grammar_compile(lr_str_z(constraints[which]), &program, &err) == LR_OK);
    demand(grammar_matcher_create(program, NULL, &m, &err) == LR_OK);
    /* Illegal bytes are skipped, so that the answer goes deep. */
    for (size_t i = 1; i < size && len < sizeof(taken); i++)
        if (grammar_matcher_bytes(m, lr_str((const char *)data + i, 1), false))
            taken[len++] = (char)data[i];
    if (grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true)) {
        demand(grammar_matcher_is_complete(m));
        check(lr_str(taken, len), which == 0);
    }
    grammar_matcher_free(m);
    grammar_program_free(program);
    return 0;
}
