/* LINK: grammar base */
/* Any text as a regular expression: refused with a reason, or an automaton of which every state
 * leads to an accepted text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/dfa.h"
#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES = 64 << 20, TEXT_MAX = 4096, WALKS = 4, WANDER = 40 };

static void demand(bool claim)
{
    if (!claim)
        abort();
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* States that are fewest characters away from an end, by distance. */
static uint32_t *distances(const struct dfa *d)
{
    uint32_t *far = calloc((size_t)d->states + 1, sizeof(*far));
    bool changed = true;
    demand(far != NULL);
    for (uint32_t i = 0; i < d->states; i++)
        far[i] = d->accept[i] ? 0 : UINT32_MAX;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < d->states; i++)
            for (uint32_t c = 0; c < d->classes; c++) {
                uint32_t to = d->next[(size_t)i * d->classes + c];
                if (to == DFA_DEAD || far[to] == UINT32_MAX || far[to] + 1 >= far[i])
                    continue;
                far[i] = far[to] + 1;
                changed = true;
            }
    }
    return far;
}

/* The first character of a class that is no surrogate; false: it has none. */
static bool character_of(const struct dfa *d, uint32_t class_id, uint32_t *code)
{
    for (uint32_t i = 0; i < d->ranges; i++) {
        uint32_t end = i + 1 < d->ranges ? d->starts[i + 1] : REGEX_CODE_MAX + 1;
        *code = d->starts[i];
        if (*code >= 0xD800 && *code < 0xE000)
            *code = 0xE000;
        if (d->range_class[i] == class_id && *code < end)
            return true;
    }
    return false;
}

/* The class to go on with: any, or (home) one that leads to an end the shortest way. */
static uint32_t choose(const struct dfa *d, const uint32_t *far, uint32_t state, bool home,
                       uint32_t from)
{
    uint32_t best = d->classes, code;
    for (uint32_t i = 0; i < d->classes; i++) {
        uint32_t c = (from + i) % d->classes;
        uint32_t to = d->next[(size_t)state * d->classes + c];
        if (to == DFA_DEAD || !character_of(d, c, &code))
            continue;
        if (!home)
            return c;
        if (best == d->classes || far[to] < far[d->next[(size_t)state * d->classes + best]])
            best = c;
    }
    return best;
}

/* Wanders, then goes home by the shortest way: what was written is accepted. */
static void walk(const struct dfa *d, const uint32_t *far, uint32_t seed)
{
    char text[TEXT_MAX];
    size_t len = 0;
    uint32_t state = 0, code = 0;
    for (uint32_t steps = 0; len + 4 < sizeof(text); steps++) {
        bool home = steps >= WANDER;
        if (home && d->accept[state])
            break;
        uint32_t c = choose(d, far, state, home, draw(&seed));
        if (c == d->classes || !character_of(d, c, &code))
            break;
        len += lr_utf8_encode(code, text + len);
        state = d->next[(size_t)state * d->classes + c];
    }
    if (d->accept[state])
        demand(grammar_dfa_accepts(d, DFA_RAW, lr_str(text, len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dfa_text text = {.count = 1, .max = DFA_UNBOUNDED};
    struct dfa_result results[DFA_RESULTS_MAX];
    struct lr_error err = {0};
    struct lr_arena arena;
    uint32_t work = GRAMMAR_WORK_MAX, count;
    struct lr_str pattern = lr_str((const char *)data, size);
    if (size > 1000 || !lr_utf8_valid(pattern))
        return 0;
    lr_arena_init(&arena, ARENA_BYTES);
    lr_code code = grammar_regex_parse(&arena, pattern, &text.demands[0].pattern, &err);
    if (code == LR_OK)
        code = grammar_dfa_build(&arena, &text, 0, &work, results, &count, &err);
    demand(code == LR_OK || err.text[0] != '\0');
    const struct dfa *d = code == LR_OK ? results[0].dfa : NULL;
    if (d != NULL && d->states != 0 && d->states < 2000) {
        uint32_t *far = distances(d);
        for (uint32_t i = 0; i < d->states; i++)
            demand(far[i] != UINT32_MAX);
        for (uint32_t seed = 0; seed < WALKS; seed++)
            walk(d, far, seed);
        free(far);
    }
    lr_arena_free(&arena);
    return 0;
}
