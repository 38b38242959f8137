/* grammar/strings.c - see grammar/schema.h: strings by patterns, formats and lengths. */
#include <stdlib.h>

#include "grammar/schema.h"

/* ---- what an alternative says about a string ---- */

static struct dfa_demand *add_demand(struct grammar_build *b, struct dfa_text *t, bool negative)
{
    if (t->count == DFA_DEMANDS_MAX) {
        grammar_fail(b, LR_UNSUPPORTED, "more than %d patterns for one string",
                     DFA_DEMANDS_MAX);
        return NULL;
    }
    struct dfa_demand *d = &t->demands[t->count++];
    *d = (struct dfa_demand){.negative = negative};
    return d;
}

static void add_pattern(struct grammar_build *b, struct dfa_text *t, struct lr_str pattern,
                        bool negative)
{
    struct lr_error err = {0};
    struct dfa_demand *d = add_demand(b, t, negative);
    if (d == NULL)
        return;
    lr_code code = grammar_regex_parse(&b->arena, pattern, &d->pattern, &err);
    if (code == LR_UNSUPPORTED && b->lenient)
        t->count--;
    else if (code != LR_OK)
        grammar_fail(b, code, "\"pattern\": %s", err.text);
}

static void add_format(struct grammar_build *b, struct dfa_text *t, const struct lr_json *v,
                       bool negative)
{
    struct lr_str name;
    const char *pattern = lr_json_str(v, &name) ? grammar_schema_format(b, name) : NULL;
    struct dfa_demand *d = pattern != NULL ? add_demand(b, t, negative) : NULL;
    if (d != NULL)
        (void)grammar_schema_format_demand(b, pattern, d);
}

/* The strings among some values. */
static void strings_add_values(struct grammar_build *b, struct dfa_text *t,
                               const struct lr_json *list, uint32_t count, bool negative)
{
    struct lr_str *texts = grammar_schema_alloc(b, count, sizeof(*texts));
    uint32_t used = 0;
    for (uint32_t i = 0; texts != NULL && i < count; i++)
        if (list[i].type == LR_JSON_STRING)
            texts[used++] = list[i].text;
    if (texts == NULL || used == 0)
        return;
    struct dfa_demand *d = add_demand(b, t, negative);
    if (d == NULL)
        return;
    d->pattern.tree = grammar_regex_of_texts(&b->arena, texts, used);
    if (d->pattern.tree == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for %u values", used);
}

static void add_lengths(struct grammar_build *b, struct dfa_text *t,
                        const struct schema_words *w)
{
    uint32_t min = grammar_schema_count(b, w, WORD_MIN_LENGTH, 0);
    uint32_t max = grammar_schema_count(b, w, WORD_MAX_LENGTH, DFA_UNBOUNDED);
    t->min = min > t->min ? min : t->min;
    t->max = max < t->max ? max : t->max;
}

static void strings_add_part(struct grammar_build *b, struct dfa_text *t,
                             const struct schema_part *p)
{
    struct schema_words w;
    struct lr_str text;
    bool negative = p->kind == PART_BREAKS;
    if (p->kind != PART_IS && p->kind != PART_BREAKS)
        return;
    grammar_schema_words_of(p->node, &w);
    for (uint32_t i = 0; negative && i < WORD_COUNT; i++)
        if (i != p->word)
            w.at[i] = NULL;
    if (w.at[WORD_PATTERN] != NULL) {
        if (!lr_json_str(w.at[WORD_PATTERN], &text))
            grammar_fail(b, LR_INVALID_ARGUMENT, "\"pattern\" must be a string");
        else
            add_pattern(b, t, text, negative);
    }
    if (w.at[WORD_FORMAT] != NULL)
        add_format(b, t, w.at[WORD_FORMAT], negative);
    if (!negative) {
        add_lengths(b, t, &w);
        return;
    }
    if (w.at[WORD_MIN_LENGTH] != NULL) {
        uint32_t n = grammar_schema_count(b, &w, WORD_MIN_LENGTH, 0);
        t->max = n - 1 < t->max ? n - 1 : t->max;
        t->min = n == 0 ? DFA_UNBOUNDED : t->min;
    }
    if (w.at[WORD_MAX_LENGTH] != NULL) {
        uint32_t n = grammar_schema_count(b, &w, WORD_MAX_LENGTH, 0) + 1;
        t->min = n > t->min ? n : t->min;
    }
    if (w.at[WORD_CONST] != NULL)
        strings_add_values(b, t, w.at[WORD_CONST], 1, true);
    if (w.at[WORD_ENUM] != NULL)
        strings_add_values(b, t, w.at[WORD_ENUM]->items, w.at[WORD_ENUM]->count, true);
}

bool grammar_schema_text(struct grammar_build *b, const struct schema_part *parts,
                         uint32_t count, struct dfa_text *out)
{
    out->count = out->min = 0;
    out->max = DFA_UNBOUNDED;
    for (uint32_t i = 0; i < count && b->code == LR_OK; i++)
        strings_add_part(b, out, &parts[i]);
    return b->code == LR_OK;
}

bool grammar_schema_text_with_values(struct grammar_build *b,
                                     const struct schema_alternative *a, struct dfa_text *out)
{
    uint32_t count;
    const struct lr_json *values = grammar_schema_values(b, a, &count);
    if (values == NULL)
        return b->code == LR_OK && grammar_schema_text(b, a->parts, a->count, out);
    out->count = out->min = 0;
    out->max = DFA_UNBOUNDED;
    strings_add_values(b, out, values, count, false);
    if (out->count == 0)
        out->max = 0, out->min = 1; /* none is left */
    return b->code == LR_OK;
}

uint32_t grammar_schema_string(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next)
{
    struct dfa_text *t = grammar_schema_alloc(b, 1, sizeof(*t));
    if (t == NULL || !grammar_schema_text(b, a->parts, a->count, t))
        return 0;
    if (t->max < t->min)
        return grammar_never(b);
    if (t->count == 0)
        return grammar_string(b, t->min, t->max, next);
    const struct dfa *d = grammar_schema_dfa(b, t);
    if (d == NULL)
        return 0;
    uint32_t end = grammar_byte(b, '"', '"', next);
    return grammar_byte(b, '"', '"', grammar_dfa(b, d, DFA_JSON, end));
}
