/* LINK: grammar base */
/* Any constraint: refused with a reason, or compiled into a program whose every answer can be
 * completed, and is JSON if JSON was asked for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "llm-router/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 256, CONTROLS = 7, TOKENS = BYTES + CONTROLS, ANSWER_MAX = 400 };

static const char *const controls[CONTROLS] = {"<|channel|>", "<|message|>", "<|constrain|>",
                                               "<|end|>",     "<|start|>",   "<|call|>",
                                               "<|return|>"};

static void demand(bool claim)
{
    if (!claim)
        abort();
}

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char all[BYTES];
    (void)ctx;
    if (id >= TOKENS)
        return false;
    *flags = 0;
    if (id < BYTES) {
        all[id] = (char)(unsigned char)id;
        *bytes = lr_str(&all[id], 1);
        return true;
    }
    *bytes = lr_str_z(controls[id - BYTES]);
    *flags = LR_VOCAB_SPECIAL | (id - BYTES >= 5 ? LR_VOCAB_STOP : 0);
    return true;
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Chooses a legal token; after a while prefers tokens that end the answer. */
static uint32_t choose(const uint32_t *mask, uint32_t *seed, bool hurry)
{
    static const char ends[] = "\"}]0,:";
    for (uint32_t id = BYTES; hurry && id < TOKENS; id++)
        if ((mask[id >> 5] >> (id & 31) & 1u) != 0)
            return id;
    for (size_t i = 0; hurry && i < sizeof(ends) - 1; i++) {
        uint32_t id = (unsigned char)ends[i];
        if ((mask[id >> 5] >> (id & 31) & 1u) != 0)
            return id;
    }
    uint32_t id = draw(seed) % TOKENS;
    while ((mask[id >> 5] >> (id & 31) & 1u) == 0)
        id = (id + 1) % TOKENS;
    return id;
}

static void check_json(struct lr_str text)
{
    struct lr_json_limits limits = {.max_depth = 200};
    struct lr_arena arena;
    struct lr_error err;
    const struct lr_json *root;
    lr_arena_init(&arena, 8 << 20);
    /* Free names may be repeated, which our own parser refuses. */
    if (lr_json_parse(&arena, text, &limits, &root, &err) != LR_OK)
        demand(strstr(err.text, "twice") != NULL);
    lr_arena_free(&arena);
}

static void answer(const struct grammar_program *program, const struct grammar_vocab *vocab,
                   bool is_json, uint32_t seed)
{
    struct grammar_matcher *m;
    struct lr_error err;
    uint32_t mask[(TOKENS + 31) / 32];
    char text[ANSWER_MAX];
    size_t len = 0;
    demand(grammar_matcher_create(program, vocab, &m, &err) == LR_OK);
    while (!grammar_matcher_is_complete(m) && len < ANSWER_MAX) {
        demand(grammar_matcher_mask(m, mask, sizeof(mask) / sizeof(mask[0]), &err) == LR_OK);
        uint32_t id = choose(mask, &seed, len > 40);
        demand(grammar_matcher_token(m, id));
        text[len++] = (char)id;
    }
    if (is_json && grammar_matcher_is_complete(m))
        check_json(lr_str(text, len - 1));
    grammar_matcher_free(m);
}

/* True when the whole answer is JSON: no Harmony around it, and no text answer. */
static bool asks_for_json(struct lr_str constraint)
{
    struct lr_arena arena;
    const struct lr_json *root;
    struct lr_str format, kind;
    lr_arena_init(&arena, 64 << 20);
    bool is_json =
        lr_json_parse(&arena, constraint, NULL, &root, NULL) == LR_OK &&
        lr_json_str(lr_json_get(root, "format"), &format) && lr_str_eq_z(format, "plain") &&
        lr_json_str(lr_json_get(root, "answer"), &kind) && !lr_str_eq_z(kind, "text");
    lr_arena_free(&arena);
    return is_json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct grammar_vocab *vocab;
    const struct grammar_tokens tokens = {NULL, token};
    struct lr_str text = lr_str((const char *)data, size);
    struct grammar_program *program;
    struct lr_error err = {0};
    if (vocab == NULL)
        demand(grammar_vocab_create(&tokens, &vocab, &err) == LR_OK);
    lr_code code = grammar_compile(text, &program, &err);
    demand((code == LR_OK) == (program != NULL));
    demand(code == LR_OK || err.text[0] != '\0');
    if (code != LR_OK)
        return 0;
    bool is_json = asks_for_json(text);
    for (uint32_t seed = 0; seed < 3; seed++)
        answer(program, vocab, is_json, seed + (uint32_t)size);
    grammar_program_free(program);
    return 0;
}
