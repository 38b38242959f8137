/* grammar/ref.c - see grammar/program.h: resolves a $ref. */
#include "grammar/program.h"

/* The next part of a JSON pointer, with ~0 and ~1 decoded. */
static bool pointer_part(struct lr_str *rest, char *out, size_t room, struct lr_str *part)
{
    struct lr_str raw;
    size_t len = 0;
    if (!lr_str_split(rest, '/', &raw))
        return false;
    for (size_t i = 0; i < raw.len && len < room; i++) {
        char c = raw.ptr[i];
        if (c == '~' && i + 1 < raw.len && (raw.ptr[i + 1] == '0' || raw.ptr[i + 1] == '1'))
            c = raw.ptr[++i] == '0' ? '~' : '/';
        out[len++] = c;
    }
    *part = lr_str(out, len);
    return true;
}

const struct lr_json *grammar_resolve(struct grammar_build *b, struct lr_str ref)
{
    const struct lr_json *at = b->root;
    struct lr_str rest = lr_str_sub(ref, 2, ref.len), part;
    char text[256];
    uint64_t index;
    if (lr_str_eq_z(ref, "#"))
        return at;
    if (lr_str_starts(ref, "#/"))
        while (at != NULL && pointer_part(&rest, text, sizeof(text), &part)) {
            if (at->type == LR_JSON_ARRAY)
                at = lr_str_u64(part, &index) && index < at->count ? &at->items[index] : NULL;
            else
                at = lr_json_get_str(at, part);
        }
    else
        at = NULL;
    if (at == NULL)
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "$ref \"" LR_STR_FMT "\" leads nowhere; it is a pointer within the "
                     "schema, such as \"#/$defs/name\"",
                     LR_STR_ARG(lr_str_sub(ref, 0, 100)));
    return at;
}
