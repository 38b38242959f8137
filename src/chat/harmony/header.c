/* chat/harmony/header.c - see chat/harmony/header.h. */
#include "chat/harmony/header.h"

#include <ctype.h>

enum channel { CHANNEL_NONE, CHANNEL_ANALYSIS, CHANNEL_COMMENTARY, CHANNEL_FINAL };

static const char *const channel_names[] = {"", "analysis", "commentary", "final"};
static const char *const foreign_roles[] = {"user", "system", "developer", "tool"};
static const char *const type_words[] = {"json", "code", "text"};
static const char *const no_recipients[] = {"assistant", "user",   "all",
                                            "developer", "system", "channel"};
static const char *const builtins[] = {"python", "browser", "container"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Longer words are not looked at: "to=functions." and a tool's name of 128 letters. */
enum { WORD_MAX = 160 };

static bool harmony_header_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool header_is_name_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
           c == ':' || c == '/';
}

static bool harmony_header_is_one_of(struct lr_str word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (lr_str_eq_z(word, list[i]))
            return true;
    return false;
}

static size_t harmony_header_skip_blanks(struct lr_str s, size_t at)
{
    while (at < s.len && harmony_header_is_blank(s.ptr[at]))
        at++;
    return at;
}

static struct lr_str word_at(struct lr_str s, size_t at)
{
    size_t end = at;
    while (end < s.len && !harmony_header_is_blank(s.ptr[end]))
        end++;
    return lr_str(s.ptr + at, end - at);
}

/* Length of the prefix of s that is "assistant", once or repeated. */
static size_t assistant_prefix(struct lr_str s)
{
    size_t n = 0;
    while (lr_str_starts(lr_str(s.ptr + n, s.len - n), "assistant"))
        n += strlen("assistant");
    return n;
}

static bool starts_nocase(struct lr_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && lr_str_eq_nocase(lr_str(s.ptr, n), lr_str(prefix, n));
}

/* The channel whose name begins s; *len is the name's length.  A truncated name counts from
 * four letters on ("comment" is a token of its own). */
static enum channel channel_prefix(struct lr_str s, size_t *len)
{
    size_t letters = 0;
    while (letters < s.len && is_letter(s.ptr[letters]))
        letters++;
    for (size_t i = 1; i < COUNT(channel_names); i++) {
        size_t n = strlen(channel_names[i]);
        bool is_cut = letters >= 4 && letters < n;
        if (starts_nocase(s, channel_names[i])) {
            *len = n;
            return (enum channel)i;
        }
        if (is_cut &&
            lr_str_eq_nocase(lr_str(s.ptr, letters), lr_str(channel_names[i], letters))) {
            *len = letters;
            return (enum channel)i;
        }
    }
    *len = 0;
    return CHANNEL_NONE;
}

static bool is_channel(struct lr_str word)
{
    size_t n;
    return channel_prefix(word, &n) != CHANNEL_NONE && n == word.len;
}

static bool is_header_word(struct lr_str word)
{
    size_t role = assistant_prefix(word);
    if (role > 0) /* "assistantassistant", "assistantfinal" */
        return role == word.len || is_channel(lr_str_sub(word, role, word.len));
    return is_channel(word) || harmony_header_is_one_of(word, type_words, COUNT(type_words)) ||
           harmony_header_is_one_of(word, foreign_roles, COUNT(foreign_roles)) ||
           lr_str_starts(word, "functions.") || lr_str_starts(word, "to=");
}

bool chat_harmony_header_words_only(struct lr_str text)
{
    for (size_t at = harmony_header_skip_blanks(text, 0); at < text.len;) {
        struct lr_str word = word_at(text, at);
        if (!is_header_word(word))
            return false;
        at = harmony_header_skip_blanks(text, at + word.len);
    }
    return true;
}

bool chat_harmony_header_is_cut(const struct chat_harmony *h, struct lr_str text)
{
    struct lr_str word = lr_str_trim(text);
    if (!h->has_channel)
        return h->has_start && word.len < strlen("assistant") &&
               lr_str_eq(word, lr_str("assistant", word.len));
    for (size_t i = 1; i < COUNT(channel_names); i++)
        if (word.len <= strlen(channel_names[i]) &&
            lr_str_eq_nocase(word, lr_str(channel_names[i], word.len)))
            return true;
    return false;
}

bool chat_harmony_header_is_text(const struct chat_harmony *h)
{
    char last = h->header[h->header_len - 1];
    struct lr_str word = lr_str(h->header + h->word_at, h->header_len - h->word_at);
    if (((unsigned char)last & 0x80) != 0 || word.len > WORD_MAX)
        return true;
    if (!harmony_header_is_blank(last))
        return false;
    word.len--;
    return word.len > 0 && !is_header_word(word);
}

/* ---- recipients ---- */

/* The value behind "to=" at `at`; *end is where it stops. */
static struct lr_str recipient_value(struct lr_str s, size_t at, size_t *end)
{
    size_t from = harmony_header_skip_blanks(s, at + strlen("to="));
    size_t to = from;
    while (to < s.len && header_is_name_char(s.ptr[to]))
        to++;
    *end = to;
    while (to > from && !isalnum((unsigned char)s.ptr[to - 1]) && s.ptr[to - 1] != '_')
        to--;
    return lr_str(s.ptr + from, to - from);
}

/* The later recipient wins, but only a function replaces a function. */
static void offer_recipient(struct lr_str *best, struct lr_str candidate)
{
    if (candidate.len == 0 ||
        harmony_header_is_one_of(candidate, no_recipients, COUNT(no_recipients)))
        return;
    if (lr_str_starts(*best, "functions.") && !lr_str_starts(candidate, "functions."))
        return;
    *best = candidate;
}

static void find_recipients(struct lr_str s, struct lr_str *best)
{
    size_t at = 0;
    for (;;) {
        size_t found = lr_str_find(lr_str_sub(s, at, s.len), LR_STR_LIT("to="));
        if (found == LR_STR_NONE)
            return;
        offer_recipient(best, recipient_value(s, at + found, &at));
    }
}

bool chat_harmony_is_builtin(struct lr_str name)
{
    struct lr_str space = lr_str_sub(name, 0, lr_str_find_char(name, '.'));
    return harmony_header_is_one_of(space, builtins, COUNT(builtins));
}

static bool is_builtin(const struct chat_harmony *h, struct lr_str name)
{
    for (uint32_t i = 0; i < h->options.builtin_tool_count; i++)
        if (lr_str_eq(h->options.builtin_tools[i], name))
            return false;
    return chat_harmony_is_builtin(name);
}

/* Sets class and tool when the recipient is a function or a built-in tool. */
static bool apply_recipient(const struct chat_harmony *h, struct lr_str recipient,
                            struct chat_harmony_header *out)
{
    bool is_function = false;
    while (lr_str_starts(recipient, "functions.")) {
        recipient = lr_str_sub(recipient, strlen("functions."), recipient.len);
        is_function = true;
    }
    if (recipient.len == 0 || lr_str_eq_z(recipient, "functions"))
        return false;
    out->class = CHAT_CLASS_TOOL;
    if (h->options.no_tool_calls || (!is_function && is_builtin(h, recipient)))
        out->class = CHAT_CLASS_REASONING;
    out->tool = recipient;
    return true;
}

/* ---- the whole header ---- */

struct reading {
    struct lr_str text;
    enum channel channel;
    struct lr_str recipient;
    bool is_code;
    bool is_foreign;
    size_t at;
};

/* Reads the role and moves r->at behind it. */
static void harmony_header_read_role(const struct chat_harmony *h, struct reading *r)
{
    if (!h->has_start)
        return;
    r->at = harmony_header_skip_blanks(r->text, 0);
    struct lr_str rest = lr_str_sub(r->text, r->at, r->text.len);
    size_t own = assistant_prefix(rest);
    struct lr_str word = word_at(r->text, r->at);
    if (own > 0) {
        r->at += own;
    } else if (harmony_header_is_one_of(word, foreign_roles, COUNT(foreign_roles)) ||
               lr_str_starts(word, "functions.")) {
        r->is_foreign = true;
        r->at += word.len;
    }
}

/* "json" of "json{...}": a model that left out <|message|> may leave out the blank too. */
static struct lr_str type_word(struct lr_str word)
{
    size_t brace = lr_str_find_char(word, '{');
    return brace == LR_STR_NONE ? word : lr_str_sub(word, 0, brace);
}

/* Reads recipients and a content type, in any order. */
static void read_tail(const struct chat_harmony *h, struct reading *r)
{
    bool type_due = h->constrain_at != CHAT_HARMONY_NO_CONSTRAIN;
    for (;;) {
        size_t at = harmony_header_skip_blanks(r->text, r->at);
        struct lr_str rest = lr_str_sub(r->text, at, r->text.len);
        struct lr_str word = type_word(word_at(r->text, at));
        if (lr_str_starts(rest, "to=")) {
            offer_recipient(&r->recipient, recipient_value(r->text, at, &r->at));
        } else if (word.len > 0 &&
                   (harmony_header_is_one_of(word, type_words, COUNT(type_words)) ||
                    (type_due && at >= h->constrain_at))) {
            type_due = type_due && at < h->constrain_at;
            r->is_code = r->is_code || lr_str_eq_z(word, "code");
            r->at = at + word.len;
        } else {
            r->at = at;
            return;
        }
    }
}

static void read_channel(const struct chat_harmony *h, struct reading *r)
{
    size_t n;
    r->at = harmony_header_skip_blanks(r->text, h->channel_at);
    r->channel = channel_prefix(lr_str_sub(r->text, r->at, r->text.len), &n);
    r->at += n;
    if (r->channel != CHANNEL_NONE || lr_str_starts(word_at(r->text, r->at), "to="))
        read_tail(h, r);
}

/* All words belong to the header: searches the rest for known words. */
static void read_rest(struct reading *r)
{
    find_recipients(lr_str_sub(r->text, r->at, r->text.len), &r->recipient);
    for (size_t at = harmony_header_skip_blanks(r->text, r->at); at < r->text.len;) {
        struct lr_str word = word_at(r->text, at);
        size_t n;
        if (r->channel == CHANNEL_NONE && is_channel(word))
            r->channel = channel_prefix(word, &n);
        r->is_code = r->is_code || lr_str_eq_z(word, "code");
        at = harmony_header_skip_blanks(r->text, at + word.len);
    }
}

struct chat_harmony_header chat_harmony_header_read(const struct chat_harmony *h,
                                                    bool has_message)
{
    struct reading r = {.text = lr_str(h->header, h->header_len)};

    harmony_header_read_role(h, &r);
    if (h->has_channel) {
        find_recipients(lr_str_sub(r.text, r.at, h->channel_at), &r.recipient);
        read_channel(h, &r);
    } else {
        /* Without any marker the text is kept unchanged, with its blanks. */
        size_t before = r.at;
        read_tail(h, &r);
        if (!h->has_start && r.recipient.len == 0)
            r.at = before;
    }
    if (has_message)
        read_rest(&r);

    struct chat_harmony_header out = {
        .class = CHAT_CLASS_CONTENT, .is_code = r.is_code, .text_at = r.at};
    if (r.channel == CHANNEL_ANALYSIS || r.is_foreign)
        out.class = CHAT_CLASS_REASONING;
    if (!r.is_foreign)
        apply_recipient(h, r.recipient, &out);
    return out;
}
