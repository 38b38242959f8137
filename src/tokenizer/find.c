/* tokenizer/find.c - see find.h. */
#include "tokenizer/find.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/chars.h"

enum {
    MATCH_LIMIT = 50 << 20,
    JIT_STACK_FIRST = 32 << 10,
    JIT_STACK_MAX = 4 << 20,
};

static lr_code prepare(struct finder *f, struct lr_error *err)
{
    if (f->match != NULL)
        return LR_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_jit_stack *stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (match == NULL || context == NULL) {
        pcre2_match_data_free(match);
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to match the tokenizer's pattern");
    }
    (void)pcre2_set_match_limit(context, MATCH_LIMIT);
    pcre2_jit_stack_assign(context, NULL, stack);
    *f = (struct finder){match, context, stack};
    return LR_OK;
}

void tokenizer_finder_free(struct finder *f)
{
    pcre2_match_data_free(f->match);
    pcre2_match_context_free(f->context);
    pcre2_jit_stack_free(f->stack);
    *f = (struct finder){0};
}

static lr_code match_failed(int rc, struct lr_error *err)
{
    PCRE2_UCHAR text[160];
    (void)pcre2_get_error_message(rc, text, sizeof(text));
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "the tokenizer's pattern gives up on this text: %s", (const char *)text);
}

lr_code tokenizer_find_next(struct finder *f, const void *code, struct lr_str text,
                            struct found *m, struct lr_error *err)
{
    lr_code rc = prepare(f, err);
    if (rc != LR_OK)
        return rc;
    while (m->next <= text.len) {
        /* Most matches are a few bytes long, and the checks of pcre2_match cost as much. */
        int found = pcre2_jit_match(code, (PCRE2_SPTR)text.ptr, text.len, m->next, 0, f->match,
                                    f->context);
        if (found == PCRE2_ERROR_JIT_BADOPTION) /* no JIT on this machine */
            found = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, m->next,
                                PCRE2_NO_UTF_CHECK, f->match, f->context);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0)
            return match_failed(found, err);
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(f->match);
        size_t start = where[0], end = where[1];
        if (start >= end && m->any && m->end == end) {
            m->next += m->next < text.len ? char_width(text.ptr[m->next]) : 1;
            continue;
        }
        *m = (struct found){start, end > start ? end : start, end, true, false};
        return LR_OK;
    }
    m->at_end = true;
    return LR_OK;
}
