/* grammar/texts.c - see grammar/texts.h. */
#include "grammar/texts.h"

#include "base/utf8.h"

enum {
    SMALL_STATES = 1024,
    SMALL_WORK = 1 << 13, /* for one automaton of a grammar: about half a millisecond */
};

/* Anchors at both ends: an automaton is of texts that a tree is found in. */
static const struct regex *grammar_texts_whole(struct grammar_build *b,
                                               const struct regex *tree)
{
    struct regex *nodes = lr_arena_array(&b->arena, 4, sizeof(*nodes));
    if (nodes == NULL)
        return NULL;
    nodes[0] = (struct regex){.op = REGEX_BEGIN};
    nodes[1] = (struct regex){.op = REGEX_END};
    nodes[2] = (struct regex){.op = REGEX_CAT, .a = &nodes[0], .b = tree};
    nodes[3] = (struct regex){.op = REGEX_CAT, .a = &nodes[2], .b = &nodes[1]};
    return &nodes[3];
}

static const struct dfa *grammar_texts_build(struct grammar_build *b, struct dfa_text *text,
                                             uint32_t *work, struct lr_error *err)
{
    struct dfa_result result[DFA_RESULTS_MAX];
    uint32_t count;
    text->count = 1;
    text->max = DFA_UNBOUNDED;
    text->demands[0].pattern.tree = grammar_texts_whole(b, text->demands[0].pattern.tree);
    if (text->demands[0].pattern.tree == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return NULL;
    }
    return grammar_dfa_build(&b->program->arena, text, 0, work, result, &count, err) == LR_OK
               ? result[0].dfa
               : NULL;
}

const struct dfa *grammar_text_small_dfa(struct grammar_build *b, const struct regex *tree)
{
    struct dfa_text text = {.states_max = SMALL_STATES};
    uint32_t allowed = *b->work < SMALL_WORK ? *b->work : SMALL_WORK, left = allowed;
    struct lr_error err = {0};
    text.demands[0].pattern.tree = tree;
    const struct dfa *d = grammar_texts_build(b, &text, &left, &err);
    *b->work -= allowed - left;
    if (d == NULL && err.code == LR_OUT_OF_RAM)
        grammar_fail(b, LR_OUT_OF_RAM, "%s", err.text);
    return d;
}

uint32_t grammar_text_dfa(struct grammar_build *b, const struct dfa *dfa, uint32_t next)
{
    uint32_t at = grammar_dfa(b, dfa, DFA_RAW, next);
    if (b->code == LR_OK && dfa->states != 0)
        b->program->steps[at].high = GRAMMAR_DFA_OF_TEXT;
    return at;
}

uint32_t grammar_text_regex(struct grammar_build *b, struct lr_str pattern, uint32_t next)
{
    struct dfa_text text = {0};
    struct lr_error err = {0};
    b->subject = "regular expression";
    lr_code code = grammar_regex_parse(&b->arena, pattern, &text.demands[0].pattern, &err);
    const struct dfa *d = code == LR_OK ? grammar_texts_build(b, &text, b->work, &err) : NULL;
    if (d == NULL)
        grammar_fail(b, err.code, "%s", err.text);
    else if (d->states == 0)
        grammar_fail(b, LR_INVALID_ARGUMENT, "no text matches the regular expression");
    return d != NULL ? grammar_text_dfa(b, d, next) : 0;
}

uint32_t grammar_text_choice(struct grammar_build *b, const struct lr_json *list, uint32_t next)
{
    struct grammar_choice *choices =
        list->count != 0 ? lr_arena_array(&b->arena, list->count, sizeof(*choices)) : NULL;
    b->subject = "list of choices";
    if (list->count == 0)
        grammar_fail(b, LR_INVALID_ARGUMENT, "the list of choices is empty");
    else if (choices == NULL)
        grammar_fail(b, LR_INVALID_ARGUMENT, "the list of choices is too large");
    for (uint32_t i = 0; i < list->count && b->code == LR_OK; i++)
        choices[i] = (struct grammar_choice){list->items[i].text, next};
    return b->code == LR_OK ? grammar_choose(b, choices, list->count) : 0;
}
