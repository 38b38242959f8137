/* chat/calls.c - see chat/calls.h.
 *
 * Every decision depends on a byte, never on where a token ends, so that the result does not
 * depend on how the text is split into tokens.  Each byte is looked at once or, where a call
 * turns out to be none, twice.
 */
#include "chat/calls.h"

static void chat_calls_give(struct chat_calls *p, enum chat_delta_kind kind, struct lr_str text)
{
    struct chat_delta delta = {.kind = kind, .tool_index = p->count, .text = text};
    bool is_text = kind == CHAT_DELTA_CONTENT || kind == CHAT_DELTA_TOOL_ARGUMENTS;
    if (!is_text || text.len != 0)
        p->fn(p->ctx, &delta);
}

static void give_held(struct chat_calls *p, enum chat_delta_kind kind)
{
    chat_calls_give(p, kind, lr_buf_str(&p->held));
    lr_buf_clear(&p->held);
}

/* ---- moves ---- */

static void begin_looking(struct chat_calls *p, bool is_blank)
{
    p->state = CHAT_CALLS_LOOKING;
    /* Other text ends the part of an answer in which calls without `begin` are. */
    p->scan = p->form->begin.len == 0 && !is_blank ? GRAMMAR_SCAN_NEVER : 0;
    p->is_blank = is_blank;
}

static void begin_object(struct chat_calls *p)
{
    p->state = CHAT_CALLS_OBJECT;
    p->json = (struct chat_json_scan){0};
    p->member = CHAT_CALLS_OTHER;
    p->key = p->name = p->arguments = (struct chat_calls_part){0};
    p->is_sent = false;
    p->end_seen = 0;
}

/* The held text is no call. */
static void chat_calls_give_up(struct chat_calls *p)
{
    give_held(p, CHAT_DELTA_CONTENT);
    begin_looking(p, false);
}

static void chat_calls_end_call(struct chat_calls *p, enum chat_calls_state state)
{
    give_held(p, CHAT_DELTA_TOOL_ARGUMENTS);
    chat_calls_give(p, CHAT_DELTA_TOOL_END, lr_str(NULL, 0));
    p->count++;
    p->is_sent = false;
    p->end_seen = 0;
    if (state == CHAT_CALLS_LOOKING)
        begin_looking(p, true);
    else
        p->state = state;
}

/* ---- text before a call ---- */

/* Gives all but the last `kept` bytes of the held text and `text`. */
static void give_but(struct chat_calls *p, struct lr_str text, size_t kept)
{
    if (kept > text.len) {
        size_t old = kept - text.len;
        chat_calls_give(p, CHAT_DELTA_CONTENT,
                        lr_str_sub(lr_buf_str(&p->held), 0, p->held.len - old));
        lr_buf_consume(&p->held, p->held.len - old);
        lr_buf_add_str(&p->held, text);
        return;
    }
    give_held(p, CHAT_DELTA_CONTENT);
    chat_calls_give(p, CHAT_DELTA_CONTENT, lr_str_sub(text, 0, text.len - kept));
    lr_buf_add_str(&p->held, lr_str_sub(text, text.len - kept, text.len));
}

/* These functions return how much of text they took; the rest is for the state that follows. */
static size_t chat_calls_look(struct chat_calls *p, struct lr_str text)
{
    bool has_begin = p->form->begin.len != 0;
    size_t i = 0;
    while (i < text.len && p->scan != GRAMMAR_SCAN_FOUND) {
        uint32_t before = p->scan;
        char c = text.ptr[i++];
        p->scan = grammar_form_scan(p->form, before, c);
        bool goes_on = p->scan == before + 1 || p->scan == GRAMMAR_SCAN_FOUND;
        p->is_blank = p->is_blank && p->held.len + i < CHAT_CALLS_HELD_MAX &&
                      (goes_on || (p->scan == 0 && before == 0 && grammar_is_blank(c)));
    }
    bool is_found = p->scan == GRAMMAR_SCAN_FOUND;
    size_t kept = 0; /* of the text: what may begin a call */
    if (is_found && !has_begin)
        i--; /* the brace belongs to the object */
    else if (has_begin)
        kept = is_found ? p->form->begin.len : p->scan;
    give_but(p, lr_str_sub(text, 0, i), p->is_blank ? p->held.len + i : kept);
    if (is_found && has_begin)
        p->state = CHAT_CALLS_BEGUN;
    else if (is_found)
        begin_object(p);
    return i;
}

static size_t after_begin(struct chat_calls *p, struct lr_str text)
{
    size_t i = 0;
    while (i < text.len && grammar_is_blank(text.ptr[i]))
        i++;
    lr_buf_add_str(&p->held, lr_str_sub(text, 0, i));
    if (p->held.len > CHAT_CALLS_HELD_MAX)
        chat_calls_give_up(p);
    else if (i < text.len && text.ptr[i] == '{')
        begin_object(p);
    else if (i < text.len)
        chat_calls_give_up(p);
    return i;
}

/* ---- a call ---- */

static struct lr_str part(const struct chat_calls *p, struct chat_calls_part range)
{
    return lr_str_sub(lr_buf_str(&p->held), range.from, range.to);
}

static bool is_declared(const struct chat_calls *p, struct lr_str name)
{
    for (uint32_t i = 0; i < p->options.tool_count; i++)
        if (lr_str_eq(p->options.tools[i], name))
            return true;
    return false;
}

/* Sends the call's name and its arguments so far. */
static void send_call(struct chat_calls *p)
{
    struct lr_str text = LR_STR_LIT("{}"); /* a call without arguments */
    if (p->arguments.from != 0)
        text = part(p, (struct chat_calls_part){p->arguments.from,
                                                p->arguments.to != 0 ? p->arguments.to
                                                                     : (uint32_t)p->held.len});
    chat_calls_give(p, CHAT_DELTA_TOOL_BEGIN, part(p, p->name));
    chat_calls_give(p, CHAT_DELTA_TOOL_ARGUMENTS, text);
    lr_buf_clear(&p->held);
    p->is_sent = true;
}

static bool in_arguments(const struct chat_calls *p)
{
    return p->arguments.from != 0 && p->arguments.to == 0;
}

static bool knows_name(const struct chat_calls *p)
{
    return p->name.to != 0;
}

/* The key of a member of the call has ended.  False: calls have no such member. */
static bool take_key(struct chat_calls *p)
{
    struct lr_str key = part(p, p->key);
    bool is_arguments = lr_str_eq_z(key, "arguments") || lr_str_eq_z(key, "parameters");
    p->member = CHAT_CALLS_OTHER;
    if (lr_str_eq_z(key, "name") && !knows_name(p))
        p->member = CHAT_CALLS_NAME;
    else if (is_arguments && p->arguments.from == 0)
        p->member = CHAT_CALLS_ARGUMENTS;
    else
        return lr_str_eq_z(key, "type") || lr_str_eq_z(key, "id");
    return true;
}

/* The byte at `at` began a value of the call.  False: the value has another type. */
static bool chat_calls_begin_value(struct chat_calls *p, char c, uint32_t at)
{
    if (p->member == CHAT_CALLS_NAME)
        p->name.from = at + 1;
    if (p->member == CHAT_CALLS_ARGUMENTS)
        p->arguments.from = at;
    return p->member == CHAT_CALLS_OTHER || c == (p->member == CHAT_CALLS_NAME ? '"' : '{');
}

/* One byte of a call that was not sent yet: it is the last of the held text.  False: the held
 * text is no call. */
static bool read_byte(struct chat_calls *p, const struct chat_json_scan *before, char c)
{
    uint32_t end = (uint32_t)p->held.len;
    const struct chat_json_scan *j = &p->json;
    if (j->depth == 1 && j->state == CHAT_JSON_STRING &&
        (before->state == CHAT_JSON_FIRST_KEY || before->state == CHAT_JSON_KEY))
        p->key.from = end;
    if (j->state == CHAT_JSON_COLON && before->state == CHAT_JSON_STRING && j->depth == 1) {
        p->key.to = end - 1;
        return take_key(p);
    }
    if (before->state == CHAT_JSON_VALUE && before->depth == 1 && !grammar_is_blank(c))
        return chat_calls_begin_value(p, c, end - 1);
    if (j->depth == 1 && j->state == CHAT_JSON_AFTER && before->state != CHAT_JSON_AFTER &&
        p->member == CHAT_CALLS_NAME && !knows_name(p)) {
        p->name.to = end - 1;
        if (!is_declared(p, part(p, p->name)))
            return false;
    }
    if (in_arguments(p) && j->depth == 1)
        p->arguments.to = end;
    bool is_whole = p->arguments.to != 0 || j->state == CHAT_JSON_DONE;
    if (knows_name(p) && is_whole)
        send_call(p);
    return p->is_sent || j->state != CHAT_JSON_DONE;
}

/* A character begins after a long text: the call is sent from here on, or given up while its
 * name is unknown. */
static void limit_held(struct chat_calls *p)
{
    if (knows_name(p) && in_arguments(p) && p->held.len >= CHAT_CALLS_WHOLE_MAX)
        send_call(p);
    else if (p->held.len >= CHAT_CALLS_HELD_MAX)
        chat_calls_give_up(p);
}

/* One byte of a call that the client has the beginning of. */
static void pass_byte(struct chat_calls *p, char c)
{
    if (!in_arguments(p))
        return;
    lr_buf_add_char(&p->held, c);
    if (p->json.depth == 1) {
        p->arguments.to = 1;
        give_held(p, CHAT_DELTA_TOOL_ARGUMENTS);
    }
}

static size_t in_object(struct chat_calls *p, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        struct chat_json_scan before = p->json;
        char c = text.ptr[i];
        if (!p->is_sent && ((unsigned char)c & 0xC0) != 0x80)
            limit_held(p);
        if (p->state != CHAT_CALLS_OBJECT)
            return i;
        if (!chat_json_step(&p->json, c)) {
            if (!p->is_sent)
                chat_calls_give_up(p);
            else if (in_arguments(p))
                p->state = CHAT_CALLS_BROKEN;
            else
                chat_calls_end_call(p, CHAT_CALLS_CLOSING);
            return i;
        }
        if (p->is_sent) {
            pass_byte(p, c);
        } else {
            lr_buf_add_char(&p->held, c);
            if (!read_byte(p, &before, c)) {
                chat_calls_give_up(p);
                return i + 1;
            }
        }
        if (p->json.state == CHAT_JSON_DONE) {
            chat_calls_end_call(p, CHAT_CALLS_CLOSING);
            return i + 1;
        }
    }
    if (p->is_sent)
        give_held(p, CHAT_DELTA_TOOL_ARGUMENTS);
    return text.len;
}

/* ---- after a call ---- */

/* True when c completes the form's `end`. */
static bool sees_end(struct chat_calls *p, char c)
{
    struct lr_str end = p->form->end;
    if (end.len == 0)
        return false;
    if (c != end.ptr[p->end_seen])
        p->end_seen = c == end.ptr[0] ? 1 : 0;
    else
        p->end_seen++;
    return p->end_seen == end.len;
}

static size_t feed_some(struct chat_calls *p, struct lr_str text);

static size_t close_call(struct chat_calls *p, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        uint32_t before = p->end_seen;
        if (sees_end(p, c)) {
            begin_looking(p, true);
            return i + 1;
        }
        if (p->end_seen == before + 1)
            continue;
        p->end_seen = 0;
        if (before == 0 && (grammar_is_blank(c) || c == '}')) /* some models close too much */
            continue;
        if (before == 0 && p->form->begin.len == 0 && (c == p->form->between || c == '{')) {
            p->state = CHAT_CALLS_BEGUN;
            return c == '{' ? i : i + 1;
        }
        begin_looking(p, true);
        if (before != 0)
            (void)feed_some(p, lr_str_sub(p->form->end, 0, before));
        else if (p->form->begin.len == 0)
            begin_looking(p, false);
        return i;
    }
    return text.len;
}

/* Arguments that are not JSON, up to the end of the call. */
static size_t in_broken(struct chat_calls *p, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        lr_buf_add_char(&p->held, text.ptr[i]);
        if (sees_end(p, text.ptr[i])) {
            p->held.len -= p->form->end.len;
            chat_calls_end_call(p, CHAT_CALLS_LOOKING);
            return i + 1;
        }
    }
    size_t ready = p->held.len - p->end_seen;
    chat_calls_give(p, CHAT_DELTA_TOOL_ARGUMENTS, lr_str_sub(lr_buf_str(&p->held), 0, ready));
    lr_buf_consume(&p->held, ready);
    return text.len;
}

/* ---- the stream ---- */

static size_t feed_some(struct chat_calls *p, struct lr_str text)
{
    switch (p->state) {
    case CHAT_CALLS_LOOKING:
        return chat_calls_look(p, text);
    case CHAT_CALLS_BEGUN:
        return after_begin(p, text);
    case CHAT_CALLS_OBJECT:
        return in_object(p, text);
    case CHAT_CALLS_CLOSING:
        return close_call(p, text);
    case CHAT_CALLS_BROKEN:
        return in_broken(p, text);
    }
    return text.len;
}

/* Complete characters. */
static void feed(void *ctx, struct lr_str text)
{
    struct chat_calls *p = ctx;
    if (p->form == NULL) {
        chat_calls_give(p, CHAT_DELTA_CONTENT, text);
        return;
    }
    while (text.len != 0)
        text = lr_str_sub(text, feed_some(p, text), text.len);
}

void chat_calls_init(struct chat_calls *p, const struct chat_calls_options *options,
                     chat_delta_fn fn, void *ctx)
{
    *p = (struct chat_calls){.fn = fn, .ctx = ctx, .options = *options};
    lr_buf_init(&p->held, 2 * CHAT_CALLS_HELD_MAX + (64 << 20)); /* and a token's text */
    if (options->tool_count != 0)
        p->form = grammar_form_of(options->format);
    if (p->form != NULL)
        begin_looking(p, true);
}

void chat_calls_free(struct chat_calls *p)
{
    lr_buf_free(&p->held);
}

void chat_calls_token(struct chat_calls *p, struct lr_str bytes, bool special)
{
    if (!special || (p->form != NULL &&
                     (lr_str_eq(bytes, p->form->begin) || lr_str_eq(bytes, p->form->end)))) {
        chat_utf8_feed(&p->utf8, bytes, feed, p);
        return;
    }
    /* A call may follow the lead, as it may begin the answer. */
    if (p->form != NULL && bytes.len != 0 && lr_str_eq(bytes, p->form->lead) &&
        p->state == CHAT_CALLS_LOOKING && p->is_blank)
        p->state = CHAT_CALLS_BEGUN;
}

void chat_calls_end(struct chat_calls *p, bool is_cut)
{
    chat_utf8_flush(&p->utf8, feed, p);
    if (p->form == NULL)
        return;
    bool is_blank = p->state == CHAT_CALLS_LOOKING && p->is_blank && p->scan == 0;
    if (p->state == CHAT_CALLS_OBJECT && !p->is_sent && is_cut && knows_name(p) &&
        p->arguments.from != 0)
        send_call(p);
    if (p->is_sent)
        chat_calls_end_call(p, CHAT_CALLS_LOOKING);
    if (is_blank && p->count != 0)
        lr_buf_clear(&p->held);
    give_held(p, CHAT_DELTA_CONTENT);
}
