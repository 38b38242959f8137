#include "wire/sentences.h"

#include <string.h>

/* A hole takes the shortest text up to what follows it; a hole at the end takes all.  The
 * sentence is whole[from] to whole[to]. */
static bool sentence_fits(enum lr_error_id id, struct lr_str whole, size_t from, size_t to,
                          struct lr_spans *out)
{
    struct lr_str rest = lr_str_z(lr_error_rows[id].sentence);
    *out = (struct lr_spans){.id = id};
    while (rest.len != 0) {
        struct lr_error_piece piece = lr_error_next_piece(&rest), next;
        struct lr_str text = lr_str_sub(whole, from, to), after = rest;
        if (text.len < piece.words.len ||
            memcmp(text.ptr, piece.words.ptr, piece.words.len) != 0)
            return false;
        from += piece.words.len;
        if (piece.name.len == 0)
            break;
        text = lr_str_sub(whole, from, to);
        next = lr_error_next_piece(&after);
        size_t end = next.words.len == 0 ? text.len : lr_str_find(text, next.words);
        if (end == LR_STR_NONE)
            return false;
        out->holes[out->count].at = (uint16_t)from;
        out->holes[out->count++].len = (uint16_t)end;
        from += end;
    }
    return from == to;
}

/* The catalogue's first rows are what earlier releases knew. */
static bool find_sentence(struct lr_str whole, size_t from, size_t to, struct lr_spans *out)
{
    for (unsigned id = LR_ERROR_NONE + 1; id <= LR_ERROR_no_engine_here; id++)
        if (sentence_fits((enum lr_error_id)id, whole, from, to, out))
            return true;
    *out = (struct lr_spans){.id = LR_ERROR_NONE};
    return false;
}

void wire_sentence_know(struct lr_error *err)
{
    struct lr_identity identity;
    struct lr_str names[LR_ERROR_HOLES], text = lr_str_z(err->text);
    bool is_known = lr_error_read(err, &identity);
    enum lr_error_id id = identity.error.id;
    if (text.len == 0)
        return;
    /* The answer to a request says the id alone. */
    if (is_known ? identity.error.count != 0 || lr_error_holes(id, names) == 0 ||
                       !sentence_fits(id, text, 0, text.len, &identity.error)
                 : !find_sentence(text, 0, text.len, &identity.error))
        return;
    identity.cause.id = LR_ERROR_NONE;
    (void)lr_error_holes(identity.error.id, names);
    for (size_t i = 0; i < identity.error.count; i++)
        if (lr_str_eq_z(names[i], "cause"))
            (void)find_sentence(text, identity.error.holes[i].at,
                                (size_t)identity.error.holes[i].at +
                                    identity.error.holes[i].len,
                                &identity.cause);
    lr_error_write_identity(err->text, sizeof(err->text), &identity);
}
