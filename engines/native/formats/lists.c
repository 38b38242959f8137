/* native/formats/lists.c - the config's lists of modules that are not quantized.
 *
 * The tensors decide what a matrix is; the lists are often missing, or their rules hit more
 * than was meant (a prefix, "re:" without an end).  So only what leaves no doubt is checked: a
 * whole name, a name with "*", and false of MLX.  A module that is listed so and has codes
 * nevertheless was written by a tool that computes something else.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

enum { WILD_MAX = 64 };

static int by_name(const void *a, const void *b)
{
    return lr_str_cmp(*(const struct lr_str *)a, *(const struct lr_str *)b);
}

/* "*" is any text, also with dots.  Each star begins anew behind the last one, so the work is
 * at most the product of both lengths. */
static bool fits(struct lr_str name, struct lr_str pattern)
{
    size_t n = 0, p = 0, star = SIZE_MAX, from = 0;

    while (n < name.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = p++;
            from = n;
        } else if (p < pattern.len && pattern.ptr[p] == name.ptr[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

static uint32_t entries_of(const struct native_quant *q, struct lr_str *names)
{
    static const char *const keys[] = {"modules_to_not_convert", "ignore", "exclude_modules",
                                       "exclude", "llm_int8_skip_modules"};
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct lr_json *list = lr_json_get(q->config, keys[i]);
        for (uint32_t k = 0; lr_json_is(list, LR_JSON_ARRAY) && k < list->count; k++) {
            struct lr_str text;
            if (!lr_json_str(&list->items[k], &text) || lr_str_starts(text, "re:"))
                continue;
            if (names != NULL)
                names[count] = text;
            count++;
        }
    }
    return count;
}

lr_code native_lists_open(struct native_quant *q, struct lr_arena *arena, struct lr_error *err)
{
    uint32_t count = entries_of(q, NULL), wild = 0, kept = 0;
    struct lr_str *names = lr_arena_array(arena, count + 1, sizeof(*names));

    if (names == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the lists of %s", q->file);
    entries_of(q, names);
    /* Names with "*" to the front: few of them, each of which is tried. */
    for (uint32_t i = 0; i < count; i++)
        if (memchr(names[i].ptr, '*', names[i].len) != NULL) {
            struct lr_str text = names[i];
            names[i] = names[wild];
            names[wild++] = text;
        }
    kept = wild < WILD_MAX ? wild : WILD_MAX;
    q->wild = names;
    q->wild_count = kept;
    q->names = names + wild;
    q->name_count = count - wild;
    if (q->name_count > 0)
        qsort(names + wild, q->name_count, sizeof(*names), by_name);
    return LR_OK;
}

static bool is_listed(const struct native_quant *q, struct lr_str module)
{
    if (q->name_count > 0 &&
        bsearch(&module, q->names, q->name_count, sizeof(*q->names), by_name) != NULL)
        return true;
    for (uint32_t i = 0; i < q->wild_count; i++)
        if (fits(module, q->wild[i]))
            return true;
    return false;
}

lr_code native_lists_check(const struct native_stored *s)
{
    const struct lr_json *own = lr_json_get_str(s->quant->config, s->module);
    bool is_false = own != NULL && own->type == LR_JSON_BOOL && !own->boolean;

    if (!is_false && !is_listed(s->quant, s->module))
        return LR_OK;
    return lr_fail(s->err, LR_MODEL_CORRUPT,
                   "%s: tensor \"%.*s\" is %s, but %s says that \"%.*s\" is not quantized",
                   s->codes->file, MODEL_QUOTE(s->codes->name),
                   model_dtype_name(s->codes->dtype), s->quant->file, MODEL_QUOTE(s->module));
}
