/* grammar/build.c - see grammar/program.h: creating steps, and checks of a whole program. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "grammar/program.h"

/* Where in a document a part of it is, as "properties.a.items"; false: nowhere. */
static bool find_place(const struct lr_json *at, const struct lr_json *wanted, char *path,
                       size_t room, size_t len)
{
    if (at == wanted)
        return true;
    for (uint32_t i = 0; at->type >= LR_JSON_ARRAY && i < at->count; i++) {
        bool object = at->type == LR_JSON_OBJECT;
        const struct lr_json *below = object ? &at->members[i].value : &at->items[i];
        struct lr_str key = object ? lr_str_sub(at->members[i].key, 0, 64) : lr_str("", 0);
        if (below->type < LR_JSON_ARRAY && below != wanted)
            continue;
        int n = object ? snprintf(path + len, room - len, "%s" LR_STR_FMT, len != 0 ? "." : "",
                                  LR_STR_ARG(key))
                       : snprintf(path + len, room - len, "[%u]", i);
        size_t end = n > 0 && len + (size_t)n < room ? len + (size_t)n : len;
        if (find_place(below, wanted, path, room, end))
            return true;
        path[len] = '\0';
    }
    return false;
}

lr_code grammar_fail(struct grammar_build *b, lr_code code, const char *fmt, ...)
{
    char text[400], place[200] = "";
    va_list args;
    if (b->code != LR_OK)
        return b->code;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    b->code = code;
    if (b->place != NULL && b->root != NULL && !b->lenient)
        (void)find_place(b->root, b->place, place, sizeof(place), 0);
    return lr_fail(b->err, code, "%.*s%s%s%s%s", (int)b->path_len, b->path,
                   b->path_len != 0 && place[0] != '\0' ? "." : "", place,
                   b->path_len != 0 || place[0] != '\0' ? ": " : "", text);
}

bool grammar_charge(struct grammar_build *b, uint32_t work)
{
    if (b->code == LR_OK && *b->work < work)
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "the schemas or grammars of this request need more than %d steps of work "
                     "together; make them smaller",
                     GRAMMAR_WORK_MAX);
    if (b->code != LR_OK)
        return false;
    *b->work -= work;
    return true;
}

uint32_t grammar_enter(struct grammar_build *b, const char *word, struct lr_str name)
{
    uint32_t mark = b->path_len;
    size_t room = sizeof(b->path) - mark;
    int n = snprintf(b->path + mark, room, "%s%s" LR_STR_FMT, mark != 0 ? "." : "", word,
                     LR_STR_ARG(lr_str_sub(name, 0, 64)));
    b->path_len += n > 0 && (size_t)n < room ? (uint32_t)n : 0;
    return mark;
}

void grammar_leave(struct grammar_build *b, uint32_t mark)
{
    b->path_len = mark;
}

uint32_t grammar_step(struct grammar_build *b, enum grammar_op op, uint32_t next,
                      uint32_t other)
{
    struct grammar_program *p = b->program;
    if (!grammar_charge(b, 1))
        return 0;
    if (p->count == GRAMMAR_STEPS_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "the %s is too large: it needs more than %d steps; bounds of lengths "
                     "and counts are what makes it grow",
                     b->subject, GRAMMAR_STEPS_MAX);
        return 0;
    }
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity != 0 ? 2 * p->capacity : 1024;
        struct grammar_step *grown = realloc(p->steps, capacity * sizeof(*grown));
        if (grown == NULL) {
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
            return 0;
        }
        p->steps = grown;
        p->capacity = capacity;
    }
    p->steps[p->count] = (struct grammar_step){.op = (uint8_t)op, .next = next, .other = other};
    return p->count++;
}

uint32_t grammar_byte(struct grammar_build *b, char low, char high, uint32_t next)
{
    uint32_t at = grammar_step(b, GRAMMAR_BYTE, next, 0);
    if (b->code != LR_OK)
        return 0;
    b->program->steps[at].low = (uint8_t)low;
    b->program->steps[at].high = (uint8_t)high;
    return at;
}

uint32_t grammar_literal(struct grammar_build *b, struct lr_str text, uint32_t next)
{
    for (size_t i = text.len; i-- > 0;)
        next = grammar_byte(b, text.ptr[i], text.ptr[i], next);
    return next;
}

uint32_t grammar_fork(struct grammar_build *b, uint32_t one, uint32_t two)
{
    return grammar_step(b, GRAMMAR_FORK, one, two);
}

void grammar_patch(struct grammar_build *b, uint32_t fork, uint32_t one, uint32_t two)
{
    if (b->code != LR_OK)
        return;
    b->program->steps[fork].next = one;
    b->program->steps[fork].other = two;
}

uint32_t grammar_space(struct grammar_build *b, uint32_t next)
{
    return grammar_step(b, GRAMMAR_SPACE, next, 0);
}

uint32_t grammar_token_if_any(struct grammar_build *b, enum grammar_control control,
                              uint32_t next)
{
    uint32_t at = grammar_step(b, GRAMMAR_CONTROL, next, 0);
    if (b->code != LR_OK)
        return 0;
    b->program->steps[at].low = (uint8_t)control;
    return at;
}

uint32_t grammar_token(struct grammar_build *b, enum grammar_control control, uint32_t next)
{
    b->program->controls |= 1u << control;
    return grammar_token_if_any(b, control, next);
}

uint32_t grammar_named(struct grammar_build *b, struct lr_str name, uint32_t next)
{
    struct grammar_program *p = b->program;
    uint32_t i = 0;
    while (i < p->named_count && !lr_str_eq(p->named[i], name))
        i++;
    if (i == GRAMMAR_NAMED_MAX) {
        grammar_fail(b, LR_UNSUPPORTED, "more than %d marks", GRAMMAR_NAMED_MAX);
        return 0;
    }
    if (i == p->named_count) {
        const char *copy = lr_arena_copy(&p->arena, name);
        if (copy == NULL) {
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
            return 0;
        }
        p->named[p->named_count++] = lr_str(copy, name.len);
    }
    uint32_t at = grammar_step(b, GRAMMAR_CONTROL, next, 0);
    if (b->code != LR_OK)
        return 0;
    p->steps[at].low = (uint8_t)(GRAMMAR_CONTROL_COUNT + i);
    return at;
}

static uint64_t build_mark_id(struct lr_str mark, char first)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325) ^ (unsigned char)first;
    for (size_t i = 0; i < mark.len; i++)
        h = (h ^ (unsigned char)mark.ptr[i]) * UINT64_C(0x100000001B3);
    return h | UINT64_C(1) << 63; /* beside those of automata */
}

uint32_t grammar_until(struct grammar_build *b, struct lr_str mark, char first, uint32_t next,
                       uint32_t found)
{
    struct grammar_program *p = b->program;
    uint64_t id = build_mark_id(mark, first);
    uint32_t i = 0;
    while (i < p->mark_count && p->marks[i].id != id)
        i++;
    if (i == GRAMMAR_MARKS_MAX) {
        grammar_fail(b, LR_UNSUPPORTED, "more than %d marks", GRAMMAR_MARKS_MAX);
        return 0;
    }
    if (i == p->mark_count) {
        const char *copy = lr_arena_copy(&p->arena, mark);
        if (copy == NULL) {
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
            return 0;
        }
        p->marks[p->mark_count++] = (struct grammar_mark){lr_str(copy, mark.len), first, id};
    }
    uint32_t at = grammar_step(b, GRAMMAR_UNTIL, next, found);
    if (b->code != LR_OK)
        return 0;
    p->steps[at].low = (uint8_t)i;
    return at;
}

uint32_t grammar_rule_add(struct grammar_build *b, const struct schema_part *parts,
                          uint32_t count)
{
    struct grammar_program *p = b->program;
    if (b->code != LR_OK)
        return 0;
    if (p->rule_count == GRAMMAR_RULES_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "the %s is too large: more than %d rules",
                     b->subject, GRAMMAR_RULES_MAX);
        return 0;
    }
    if (p->rule_count == p->rule_capacity) {
        uint32_t capacity = p->rule_capacity != 0 ? 2 * p->rule_capacity : 16;
        struct grammar_rule *grown = realloc(p->rules, capacity * sizeof(*grown));
        if (grown == NULL) {
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
            return 0;
        }
        p->rules = grown;
        p->rule_capacity = capacity;
    }
    p->rules[p->rule_count] =
        (struct grammar_rule){.parts = parts, .part_count = count, .root = b->root};
    return p->rule_count++;
}

uint32_t grammar_call(struct grammar_build *b, uint32_t rule, uint32_t next)
{
    return grammar_step(b, GRAMMAR_CALL, next, rule);
}

/* ---- steps with something to look at ---- */

uint32_t grammar_never(struct grammar_build *b)
{
    return grammar_step(b, GRAMMAR_NEVER, 0, 0);
}

/* Room for one more in a list of the program. */
static bool grammar_build_grow(struct grammar_build *b, void **items, uint32_t count,
                               uint32_t *capacity, size_t size)
{
    if (b->code != LR_OK)
        return false;
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity != 0 ? 2 * *capacity : 8;
    void *grown = realloc(*items, wanted * size);
    if (grown == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

uint32_t grammar_dfa(struct grammar_build *b, const struct dfa *dfa, enum dfa_spelling spelling,
                     uint32_t next)
{
    struct grammar_program *p = b->program;
    void *items = p->dfas;
    if (dfa->states == 0)
        return grammar_never(b);
    bool ok = grammar_build_grow(b, &items, p->dfa_count, &p->dfa_capacity, sizeof(*p->dfas));
    p->dfas = items;
    uint32_t at = grammar_step(b, GRAMMAR_DFA, next, p->dfa_count);
    if (!ok || b->code != LR_OK)
        return 0;
    p->steps[at].low = (uint8_t)spelling;
    p->dfas[p->dfa_count++] = dfa;
    return at;
}

uint32_t grammar_key(struct grammar_build *b, const struct dfa *dfa, const struct lr_str *taken,
                     uint32_t count, uint32_t next)
{
    struct grammar_program *p = b->program;
    void *items = p->keys;
    if (dfa->states == 0)
        return grammar_never(b);
    bool ok = grammar_build_grow(b, &items, p->key_count, &p->key_capacity, sizeof(*p->keys));
    p->keys = items;
    uint32_t at = grammar_step(b, GRAMMAR_KEY, next, p->key_count);
    if (!ok || b->code != LR_OK)
        return 0;
    p->keys[p->key_count++] = (struct grammar_key){dfa, taken, count};
    return at;
}

uint32_t grammar_check(struct grammar_build *b, const struct grammar_check *check,
                       uint32_t next)
{
    struct grammar_program *p = b->program;
    void *items = p->checks;
    bool ok =
        grammar_build_grow(b, &items, p->check_count, &p->check_capacity, sizeof(*p->checks));
    p->checks = items;
    uint32_t at = grammar_step(b, GRAMMAR_CHECK, next, p->check_count);
    if (!ok || b->code != LR_OK)
        return 0;
    p->checks[p->check_count++] = *check;
    return at;
}

uint32_t grammar_add(struct grammar_build *b, const struct grammar_name *name, uint32_t next)
{
    const struct grammar_check check = {.absent = name, .rule = GRAMMAR_NO_RULE};
    uint32_t at = grammar_check(b, &check, next);
    if (b->code == LR_OK)
        b->program->steps[at].op = GRAMMAR_ADD;
    return at;
}

uint32_t grammar_chars(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next)
{
    struct grammar_program *p = b->program;
    void *items = p->lengths;
    bool ok = grammar_build_grow(b, &items, p->length_count, &p->length_capacity,
                                 sizeof(*p->lengths));
    p->lengths = items;
    uint32_t at = grammar_step(b, GRAMMAR_CHARS, next, p->length_count);
    if (!ok || b->code != LR_OK)
        return 0;
    p->lengths[p->length_count++] = (struct grammar_length){min, max};
    return at;
}

/* ---- choices ---- */

static int grammar_build_by_text(const void *a, const void *b)
{
    return lr_str_cmp(((const struct grammar_choice *)a)->text,
                      ((const struct grammar_choice *)b)->text);
}

/* list[0..count) is sorted and agrees in the first `depth` bytes: makes one step for each
 * different next byte. */
static uint32_t grammar_build_choose(struct grammar_build *b, const struct grammar_choice *list,
                                     size_t count, size_t depth)
{
    uint32_t result = 0;
    bool is_first = true;
    for (size_t i = 0; i < count && b->code == LR_OK;) {
        uint32_t branch;
        size_t end = i + 1;
        if (list[i].text.len == depth) {
            branch = list[i].next;
        } else {
            char c = list[i].text.ptr[depth];
            size_t same = depth + 1;
            while (end < count && list[end].text.len > depth && list[end].text.ptr[depth] == c)
                end++;
            /* The common prefix becomes one run, so that long texts need no recursion for each
             * byte. */
            while (list[i].text.len > same && list[end - 1].text.len > same &&
                   list[i].text.ptr[same] == list[end - 1].text.ptr[same])
                same++;
            uint32_t tail = grammar_build_choose(b, list + i, end - i, same);
            branch = grammar_literal(b, lr_str_sub(list[i].text, depth, same), tail);
        }
        result = is_first ? branch : grammar_fork(b, result, branch);
        is_first = false;
        i = end;
    }
    return result;
}

uint32_t grammar_choose(struct grammar_build *b, struct grammar_choice *list, size_t count)
{
    qsort(list, count, sizeof(*list), grammar_build_by_text);
    return grammar_build_choose(b, list, count, 0);
}

/* ---- the whole program ---- */

enum colour { UNSEEN, OPEN, CLOSED };

/* The steps reached from `at` without consuming input. */
static uint32_t silent(const struct grammar_program *p, uint32_t at, uint32_t out[2])
{
    const struct grammar_step *s = &p->steps[at];
    out[0] = s->next;
    switch ((enum grammar_op)s->op) {
    case GRAMMAR_FORK:
        out[1] = s->other;
        return 2;
    case GRAMMAR_SPACE:
    case GRAMMAR_COUNT:
    case GRAMMAR_ADD:
    case GRAMMAR_CHECK:
    case GRAMMAR_CHARS:
    case GRAMMAR_DFA:
    case GRAMMAR_UNTIL:
        return 1;
    case GRAMMAR_CALL: /* every rule consumes input before it returns */
        out[0] = p->rules[s->other].entry;
        return 1;
    default:
        return 0;
    }
}

/* Depth-first search over steps that consume nothing; an edge back to an open step is a rule
 * that begins with itself. */
static bool is_circular(const struct grammar_program *p, uint8_t *colours, uint32_t *stack)
{
    for (uint32_t start = 0; start < p->count; start++) {
        uint32_t depth = 0;
        if (colours[start] != UNSEEN)
            continue;
        stack[depth++] = start;
        while (depth != 0) {
            uint32_t at = stack[depth - 1], to[2];
            uint32_t n = silent(p, at, to), i = 0;
            if (colours[at] == UNSEEN)
                colours[at] = OPEN;
            while (i < n && colours[to[i]] == CLOSED)
                i++;
            if (i == n) {
                colours[at] = CLOSED;
                depth--;
            } else if (colours[to[i]] == OPEN) {
                return true;
            } else {
                stack[depth++] = to[i];
            }
        }
    }
    return false;
}

lr_code grammar_finish(struct grammar_build *b)
{
    struct grammar_program *p = b->program;
    if (b->code != LR_OK)
        return b->code;
    if (!grammar_measure(p))
        return grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    if (p->steps[p->start].height > GRAMMAR_CALLS_MAX)
        return grammar_fail(b, LR_INVALID_ARGUMENT,
                            "no value fits the %s: each one would contain another without "
                            "end (or be nested deeper than %d)",
                            b->subject, GRAMMAR_DEPTH_MAX);
    uint8_t *colours = calloc(p->count, 1);
    uint32_t *stack = calloc(p->count, sizeof(*stack));
    if (colours == NULL || stack == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    for (uint32_t i = b->checked_from; colours != NULL && i < b->checked_to; i++)
        colours[i] = CLOSED;
    if (b->code == LR_OK && is_circular(p, colours, stack))
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "a $ref leads back to itself with nothing in between");
    free(colours);
    free(stack);
    return b->code;
}

void grammar_program_free(struct grammar_program *program)
{
    if (program == NULL)
        return;
    free(program->steps);
    free(program->rules);
    free(program->dfas);
    free(program->lengths);
    free(program->keys);
    free(program->checks);
    lr_arena_free(&program->arena);
    free(program);
}
