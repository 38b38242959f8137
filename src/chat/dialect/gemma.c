/* chat/dialect/gemma.c - see chat/dialect/values.h: Gemma's notation -> JSON.
 *
 * A string is between two marks, <|"|> or <escape>, and has no escapes, a key is bare or such a
 * string.  The models lose the first mark of a string now and then, so that a bare value may
 * end at a mark, and they write JSON's quotes in containers. */
#include "chat/dialect/values.h"

struct gemma {
    struct lr_str quote; /* the mark around strings */
    struct lr_str text;
    size_t at;
    uint32_t depth;
    struct lr_buf *out; /* borrowed */
};

static char gemma_peek(const struct gemma *g)
{
    return g->at < g->text.len ? g->text.ptr[g->at] : '\0';
}

static bool gemma_sees_quote(const struct gemma *g)
{
    return lr_str_eq(lr_str_sub(g->text, g->at, g->at + g->quote.len), g->quote);
}

static void gemma_skip_blanks(struct gemma *g)
{
    while (g->at < g->text.len && strchr(" \t\r\n", g->text.ptr[g->at]) != NULL)
        g->at++;
}

/* Up to the mark or quote that ends a string. */
static bool gemma_string(struct gemma *g)
{
    char quote = gemma_peek(g);
    struct lr_str mark = quote == '<' ? g->quote : lr_str(quote == '"' ? "\"" : "'", 1);
    g->at += mark.len;
    struct lr_str rest = lr_str_sub(g->text, g->at, g->text.len);
    size_t end = 0;
    if (quote == '<') {
        end = lr_str_find(rest, mark);
    } else {
        while (end < rest.len && rest.ptr[end] != quote)
            end += rest.ptr[end] == '\\' ? 2 : 1;
        end = end < rest.len ? end : LR_STR_NONE;
    }
    if (end == LR_STR_NONE)
        return false;
    g->at += end + mark.len;
    if (quote == '<')
        lr_json_quote(g->out, lr_str_sub(rest, 0, end));
    else
        return chat_value_python(lr_str(rest.ptr - 1, end + 2), g->out);
    return true;
}

static bool gemma_key(struct gemma *g)
{
    gemma_skip_blanks(g);
    if (gemma_sees_quote(g) || gemma_peek(g) == '"' || gemma_peek(g) == '\'')
        return gemma_string(g);
    size_t from = g->at;
    while (g->at < g->text.len && strchr(":={}[],", gemma_peek(g)) == NULL)
        g->at++;
    struct lr_str key = lr_str_trim(lr_str_sub(g->text, from, g->at));
    lr_json_quote(g->out, key);
    return key.len != 0;
}

/* A word, a number, or a string that has lost its first mark. */
static bool gemma_bare(struct gemma *g)
{
    size_t from = g->at;
    while (g->at < g->text.len && strchr(",}]", gemma_peek(g)) == NULL && !gemma_sees_quote(g))
        g->at++;
    struct lr_str word = lr_str_trim(lr_str_sub(g->text, from, g->at));
    if (gemma_sees_quote(g)) {
        g->at += g->quote.len;
        lr_json_quote(g->out, lr_str_sub(g->text, from, g->at - (g->quote.len)));
        return true;
    }
    if (word.len == 0)
        return false;
    if (!chat_value_python(word, g->out))
        lr_json_quote(g->out, word);
    return true;
}

static bool gemma_value(struct gemma *g);

static bool gemma_items(struct gemma *g, char end)
{
    bool is_object = end == '}';
    lr_buf_add_char(g->out, is_object ? '{' : '[');
    g->at++;
    for (uint32_t count = 0;; count++) {
        gemma_skip_blanks(g);
        if (gemma_peek(g) == ',') {
            g->at++;
            gemma_skip_blanks(g);
        }
        if (gemma_peek(g) == end || g->at >= g->text.len)
            break;
        if (count != 0)
            lr_buf_add_z(g->out, ", ");
        if (is_object) {
            if (!gemma_key(g))
                return false;
            gemma_skip_blanks(g);
            if (gemma_peek(g) != ':' && gemma_peek(g) != '=')
                return false;
            g->at++;
            lr_buf_add_z(g->out, ": ");
        }
        if (!gemma_value(g))
            return false;
    }
    if (gemma_peek(g) != end)
        return false;
    g->at++;
    lr_buf_add_char(g->out, end);
    return true;
}

static bool gemma_value(struct gemma *g)
{
    gemma_skip_blanks(g);
    char c = gemma_peek(g);
    if (c == '{' || c == '[') {
        if (++g->depth > CHAT_VALUE_DEPTH_MAX)
            return false;
        bool good = gemma_items(g, c == '{' ? '}' : ']');
        g->depth--;
        return good;
    }
    if (gemma_sees_quote(g) || c == '"' || c == '\'')
        return gemma_string(g);
    return gemma_bare(g);
}

bool chat_value_gemma(struct lr_str text, struct lr_str quote, struct lr_buf *out)
{
    struct gemma g = {.quote = quote, .text = text, .out = out};
    size_t before = out->len;
    bool good = gemma_value(&g);
    gemma_skip_blanks(&g);
    good = good && g.at == text.len;
    if (!good)
        out->len = before;
    return good;
}
