/* chat/dialect/gemma.c - see chat/dialect/values.h: Gemma's notation -> JSON.
 *
 * A string is between two marks <|"|> and has no escapes, a key is bare or such a string.  The
 * models lose the first mark of a string now and then, so that a bare value may end at a mark,
 * and they write JSON's quotes in containers. */
#include "chat/dialect/values.h"

#define QUOTE "<|\"|>"

struct gemma {
    struct lr_str text;
    size_t at;
    uint32_t depth;
    struct lr_buf *out; /* borrowed */
};

static char gemma_peek(const struct gemma *g)
{
    return g->at < g->text.len ? g->text.ptr[g->at] : '\0';
}

static bool gemma_sees(const struct gemma *g, const char *mark)
{
    return lr_str_starts(lr_str_sub(g->text, g->at, g->text.len), mark);
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
    struct lr_str mark =
        quote == '<' ? LR_STR_LIT(QUOTE) : lr_str(quote == '"' ? "\"" : "'", 1);
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
    if (gemma_sees(g, QUOTE) || gemma_peek(g) == '"' || gemma_peek(g) == '\'')
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
    while (g->at < g->text.len && strchr(",}]", gemma_peek(g)) == NULL && !gemma_sees(g, QUOTE))
        g->at++;
    struct lr_str word = lr_str_trim(lr_str_sub(g->text, from, g->at));
    if (gemma_sees(g, QUOTE)) {
        g->at += sizeof(QUOTE) - 1;
        lr_json_quote(g->out, lr_str_sub(g->text, from, g->at - (sizeof(QUOTE) - 1)));
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
    if (gemma_sees(g, QUOTE) || c == '"' || c == '\'')
        return gemma_string(g);
    return gemma_bare(g);
}

bool chat_value_gemma(struct lr_str text, struct lr_buf *out)
{
    struct gemma g = {.text = text, .out = out};
    size_t before = out->len;
    bool good = gemma_value(&g);
    gemma_skip_blanks(&g);
    good = good && g.at == text.len;
    if (!good)
        out->len = before;
    return good;
}
