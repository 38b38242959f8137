/* grammar/ref.c - see grammar/program.h: where a $ref leads.
 *
 * To a place within the document: a pointer from its root or from a part with an "$id" of its
 * own, an "$anchor", or such an "$id".  Nothing is fetched.
 */
#include "grammar/schema.h"

enum { NAMED_MAX = 4096, URI_MAX = 512 };

/* A part of the document that has a name. */
struct grammar_anchor {
    const struct lr_json *node;
    struct lr_str id;     /* "$id" without its fragment; empty: none */
    struct lr_str uri;    /* the "$id" made whole by those of the parts around it */
    struct lr_str anchor; /* "$anchor", or the fragment of an "$id" */
};

/* ---- names ---- */

/* As a browser would: a whole address stays, a path replaces the path, and a name the last
 * part.
 */
static struct lr_str resolved(struct lr_str base, struct lr_str name, char *out)
{
    size_t colon = lr_str_find_char(name, ':'), keep = 0;
    size_t scheme = lr_str_find(base, LR_STR_LIT("://"));
    while (lr_str_starts(name, "./"))
        name = lr_str_sub(name, 2, name.len);
    if (colon != LR_STR_NONE || base.len + name.len >= URI_MAX)
        return name;
    if (name.len > 0 && name.ptr[0] == '/' && scheme != LR_STR_NONE) {
        struct lr_str path = lr_str_sub(base, scheme + 3, base.len);
        size_t slash = lr_str_find_char(path, '/');
        keep = slash == LR_STR_NONE ? base.len : scheme + 3 + slash;
    } else {
        for (size_t i = 0; i < base.len; i++)
            if (base.ptr[i] == '/')
                keep = i + 1;
    }
    if (keep != 0)
        memcpy(out, base.ptr, keep);
    if (name.len != 0)
        memcpy(out + keep, name.ptr, name.len);
    return lr_str(out, keep + name.len);
}

/* ---- the named parts ---- */

static bool read_anchor(const struct lr_json *node, uint32_t draft, struct grammar_anchor *out)
{
    struct lr_str text;
    *out = (struct grammar_anchor){.node = node};
    if (draft <= 7 && lr_json_get(node, "$ref") != NULL)
        return false; /* nothing counts beside it */
    (void)lr_json_str(lr_json_get(node, "$anchor"), &out->anchor);
    if (!lr_json_str(lr_json_get(node, draft <= 4 ? "id" : "$id"), &text))
        return out->anchor.len != 0;
    size_t hash = lr_str_find_char(text, '#');
    out->id = hash == LR_STR_NONE ? text : lr_str_sub(text, 0, hash);
    if (hash != LR_STR_NONE && hash + 1 < text.len && draft <= 7)
        out->anchor = lr_str_sub(text, hash + 1, text.len);
    return out->id.len != 0 || out->anchor.len != 0;
}

static void gather(struct grammar_build *b, const struct lr_json *node, struct lr_str base)
{
    struct grammar_anchor one;
    char text[URI_MAX];
    if (node->type == LR_JSON_OBJECT && read_anchor(node, b->draft, &one)) {
        if (b->anchor_count == NAMED_MAX) {
            grammar_fail(b, LR_INVALID_ARGUMENT, "the schema has more than %d named parts",
                         NAMED_MAX);
            return;
        }
        if (one.id.len != 0) {
            one.uri = resolved(base, one.id, text);
            const char *copy = lr_arena_copy(&b->arena, one.uri);
            one.uri = lr_str(copy, copy != NULL ? one.uri.len : 0);
            base = one.uri;
        }
        b->anchors[b->anchor_count++] = one;
    }
    for (uint32_t i = 0; node->type >= LR_JSON_ARRAY && i < node->count; i++)
        gather(b, node->type == LR_JSON_OBJECT ? &node->members[i].value : &node->items[i],
               base);
}

static bool have_anchors(struct grammar_build *b)
{
    if (b->anchored == b->root)
        return true;
    b->anchors = grammar_schema_alloc(b, NAMED_MAX, sizeof(*b->anchors));
    b->anchor_count = 0;
    if (b->anchors == NULL)
        return false;
    gather(b, b->root, (struct lr_str){0});
    b->anchored = b->root;
    return b->code == LR_OK;
}

static bool ref_contains(const struct lr_json *node, const struct lr_json *wanted)
{
    if (node == wanted)
        return true;
    for (uint32_t i = 0; node->type >= LR_JSON_ARRAY && i < node->count; i++)
        if (ref_contains(node->type == LR_JSON_OBJECT ? &node->members[i].value
                                                      : &node->items[i],
                         wanted))
            return true;
    return false;
}

/* The innermost part with an "$id" that a $ref stands in: parts within others come later.  uri:
 * its name, or empty. */
static const struct lr_json *home_of(struct grammar_build *b, const struct lr_json *ref,
                                     struct lr_str *uri)
{
    const struct lr_json *home = b->root;
    *uri = (struct lr_str){0};
    for (uint32_t i = 0; i < b->anchor_count; i++)
        if (b->anchors[i].id.len != 0 && ref_contains(b->anchors[i].node, ref)) {
            home = b->anchors[i].node;
            *uri = b->anchors[i].uri;
        }
    return home;
}

static const struct lr_json *by_id(struct grammar_build *b, struct lr_str base,
                                   struct lr_str name)
{
    char text[URI_MAX];
    struct lr_str wanted = resolved(base, name, text);
    for (uint32_t i = 0; i < b->anchor_count; i++)
        if (b->anchors[i].id.len != 0 && lr_str_eq(b->anchors[i].uri, wanted))
            return b->anchors[i].node;
    return NULL;
}

static const struct lr_json *by_anchor(struct grammar_build *b, const struct lr_json *home,
                                       struct lr_str name)
{
    struct lr_str ignored;
    for (uint32_t i = 0; i < b->anchor_count; i++)
        if (lr_str_eq(b->anchors[i].anchor, name) &&
            home_of(b, b->anchors[i].node, &ignored) == home)
            return b->anchors[i].node;
    return NULL;
}

/* ---- pointers ---- */

/* The next part of a JSON pointer, with ~0, ~1 and %XX undone. */
static bool pointer_part(struct lr_str *rest, char *out, size_t room, struct lr_str *part)
{
    struct lr_str raw;
    size_t len = 0;
    if (!lr_str_split(rest, '/', &raw))
        return false;
    for (size_t i = 0; i < raw.len && len < room; i++) {
        char c = raw.ptr[i];
        if (c == '%' && i + 2 < raw.len && lr_hex_digit(raw.ptr[i + 1]) >= 0 &&
            lr_hex_digit(raw.ptr[i + 2]) >= 0) {
            c = (char)(lr_hex_digit(raw.ptr[i + 1]) * 16 + lr_hex_digit(raw.ptr[i + 2]));
            i += 2;
        }
        out[len++] = c;
    }
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        char c = out[i];
        if (c == '~' && i + 1 < len && (out[i + 1] == '0' || out[i + 1] == '1'))
            c = out[++i] == '0' ? '~' : '/';
        out[used++] = c;
    }
    *part = lr_str(out, used);
    return true;
}

static const struct lr_json *by_pointer(const struct lr_json *at, struct lr_str pointer)
{
    struct lr_str rest = lr_str_sub(pointer, 1, pointer.len), part;
    char text[256];
    uint64_t index;
    while (at != NULL && pointer_part(&rest, text, sizeof(text), &part)) {
        if (at->type == LR_JSON_ARRAY)
            at = lr_str_u64(part, &index) && index < at->count ? &at->items[index] : NULL;
        else
            at = lr_json_get_str(at, part);
    }
    return at;
}

const struct lr_json *grammar_resolve(struct grammar_build *b, const struct lr_json *ref)
{
    struct lr_str text, name, base, fragment = {0};
    if (!lr_json_str(ref, &text)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"$ref\" must be a string");
        return NULL;
    }
    if (!have_anchors(b) || !grammar_charge(b, 1 + b->anchor_count))
        return NULL;
    size_t hash = lr_str_find_char(text, '#');
    name = hash == LR_STR_NONE ? text : lr_str_sub(text, 0, hash);
    if (hash != LR_STR_NONE)
        fragment = lr_str_sub(text, hash + 1, text.len);
    const struct lr_json *home = home_of(b, ref, &base);
    const struct lr_json *at = name.len == 0 ? home : by_id(b, base, name);
    if (at != NULL && fragment.len != 0)
        at = fragment.ptr[0] == '/' ? by_pointer(at, fragment) : by_anchor(b, at, fragment);
    if (at == NULL)
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "$ref \"" LR_STR_FMT "\" leads nowhere; it names a part of the schema, "
                     "such as \"#/$defs/name\"",
                     LR_STR_ARG(lr_str_sub(text, 0, 100)));
    return at;
}
