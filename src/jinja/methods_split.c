/* jinja/methods_split.c - methods of str that split. */
#include "jinja/builtins.h"
#include "jinja/text_ops.h"
#include "jinja/unicode.h"

static bool push_part(struct run *run, struct list *list, const struct text *t, size_t from,
                      size_t to)
{
    return jinja_charge(run, 1) &&
           jinja_list_push(run, list, value_text(jinja_text_sub(run, t, from, to)));
}

static bool split_blanks(struct run *run, const struct text *t, int64_t most, struct list *out)
{
    size_t at = jinja_lstrip_len(text_str(t));
    while (at < t->len) {
        if (most == 0)
            return push_part(run, out, t, at, t->len);
        size_t end = at;
        while (end < t->len && jinja_space_len(t->ptr + end, t->len - end) == 0)
            end++;
        if (!push_part(run, out, t, at, end))
            return false;
        most--;
        at = end + jinja_lstrip_len(lr_str(t->ptr + end, t->len - end));
    }
    return true;
}

static bool split_on(struct run *run, const struct text *t, struct lr_str sep, int64_t most,
                     struct list *out)
{
    size_t at = 0;
    while (most != 0) {
        size_t found = jinja_find(lr_str(t->ptr + at, t->len - at), sep);
        if (found == LR_STR_NONE)
            break;
        if (!push_part(run, out, t, at, at + found))
            return false;
        at += found + sep.len;
        most--;
    }
    return push_part(run, out, t, at, t->len);
}

/* Splits from the right: finds the parts backwards and then reverses their order. */
static bool rsplit_on(struct run *run, const struct text *t, struct lr_str sep, int64_t most,
                      struct list *out)
{
    struct backwards b;
    size_t end = t->len;
    if (!jinja_backwards(run, text_str(t), sep, &b))
        return false;
    for (; most != 0 && jinja_find_before(&b); most--) {
        if (!push_part(run, out, t, b.at + sep.len, end))
            return false;
        end = b.at;
    }
    return push_part(run, out, t, 0, end);
}

static bool rsplit_blanks(struct run *run, const struct text *t, int64_t most, struct list *out)
{
    size_t end = jinja_rstrip_len(text_str(t));
    while (end > 0) {
        size_t start = end;
        if (most == 0)
            return push_part(run, out, t, 0, end);
        while (start > 0) {
            size_t stripped = jinja_rstrip_len(lr_str(t->ptr, start));
            if (stripped < start)
                break;
            start--;
        }
        if (!push_part(run, out, t, start, end))
            return false;
        most--;
        end = jinja_rstrip_len(lr_str(t->ptr, start));
    }
    return true;
}

static void turn_round(struct list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct value other = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = other;
    }
}

static struct value methods_split_this(struct run *run, struct value self,
                                       const struct value *args, bool right)
{
    struct text *sep = NULL;
    int64_t most;
    struct list *out = jinja_list_new(run, 4);
    if (out == NULL || !jinja_arg_int(run, args[1], -1, &most) ||
        !jinja_charge_bytes(run, self.text->len * 2))
        return V_FAIL;
    if (is_given(args[0]) && args[0].kind != K_NONE &&
        !jinja_arg_text(run, args[0], "split() separator", &sep))
        return V_FAIL;
    if (sep != NULL && sep->len == 0)
        return jinja_error(run, "empty separator");
    bool ok;
    if (right)
        ok = sep != NULL ? rsplit_on(run, self.text, text_str(sep), most, out)
                         : rsplit_blanks(run, self.text, most, out);
    else
        ok = sep != NULL ? split_on(run, self.text, text_str(sep), most, out)
                         : split_blanks(run, self.text, most, out);
    if (!ok)
        return V_FAIL;
    if (right)
        turn_round(out);
    return tainted(value_list(K_LIST, out), self.untrusted);
}

METHOD_IS(method_split, methods_split_this(run, self, args, false))
METHOD_IS(method_rsplit, methods_split_this(run, self, args, true))

METHOD(method_splitlines)
{
    struct list *out = jinja_list_new(run, 4);
    bool keep = jinja_arg_bool(args[0], false);
    struct line line = {0};
    if (out == NULL || !jinja_charge_bytes(run, self.text->len))
        return V_FAIL;
    while (jinja_next_line(self.text, &line))
        if (!push_part(run, out, self.text, line.start, keep ? line.next : line.end))
            return V_FAIL;
    return tainted(value_list(K_LIST, out), self.untrusted);
}

static struct value partition(struct run *run, struct value self, const struct value *args,
                              bool right)
{
    struct text *t = self.text, *sep;
    if (!jinja_arg_text(run, args[0], "partition() separator", &sep) ||
        !jinja_charge_bytes(run, t->len))
        return V_FAIL;
    if (sep->len == 0)
        return jinja_error(run, "empty separator");
    size_t at = LR_STR_NONE;
    if (!right)
        at = jinja_find(text_str(t), text_str(sep));
    struct backwards b;
    if (right && !jinja_backwards(run, text_str(t), text_str(sep), &b))
        return V_FAIL;
    if (right && jinja_find_before(&b))
        at = b.at;
    struct list *out = jinja_list_new(run, 3);
    if (out == NULL)
        return V_FAIL;
    size_t cut = at != LR_STR_NONE ? at : right ? 0 : t->len;
    size_t rest = at != LR_STR_NONE ? at + sep->len : cut;
    if (!push_part(run, out, t, 0, cut) || !push_part(run, out, t, cut, rest) ||
        !push_part(run, out, t, rest, t->len))
        return V_FAIL;
    return value_list(K_TUPLE, out);
}

METHOD_IS(method_partition, partition(run, self, args, false))
METHOD_IS(method_rpartition, partition(run, self, args, true))

const struct builtin_row jinja_methods_text_split[] = {
    {"split", {.fn = method_split, .params = {"sep", "maxsplit"}}},
    {"rsplit", {.fn = method_rsplit, .params = {"sep", "maxsplit"}}},
    {"splitlines", {.fn = method_splitlines, .params = {"keepends"}}},
    {"partition",
     {.fn = method_partition, .required = 1, .positional_only = true, .params = {"sep"}}},
    {"rpartition",
     {.fn = method_rpartition, .required = 1, .positional_only = true, .params = {"sep"}}},
    {NULL, {0}},
};
