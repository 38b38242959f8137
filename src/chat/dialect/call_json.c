/* chat/dialect/call_json.c - see chat/dialect/reading.h: calls whose arguments are JSON. */
#include <stdio.h>

#include "chat/dialect/reading.h"

void chat_calls_object_begin(struct chat_calls *p)
{
    p->json = (struct chat_json_scan){0};
    p->member = CHAT_CALLS_OTHER;
    p->is_text = p->in_args = false;
    lr_buf_clear(&p->text);
}

/* The object is the arguments and not a call with a name in it. */
static bool is_bare(const struct chat_calls *p)
{
    return p->form->shape == GRAMMAR_SHAPE_NAMED && !p->in_array;
}

static void json_give_up(struct chat_calls *p)
{
    chat_calls_give_up(p, 1);
}

/* ---- members of a call ---- */

static bool is_either(struct lr_str key, struct lr_str one, const char *two, const char *three)
{
    return (one.len != 0 && lr_str_eq(key, one)) || lr_str_eq_z(key, two) ||
           (three != NULL && lr_str_eq_z(key, three));
}

/* The key of a member of the call has ended.  False: calls have no such member. */
static bool json_take_key(struct chat_calls *p)
{
    const struct grammar_form *f = p->form;
    struct lr_str key = lr_buf_str(&p->text);
    bool is_named = p->types != NULL;
    p->member = CHAT_CALLS_OTHER;
    if (f->name_is_key && !is_named) {
        p->member = CHAT_CALLS_ARGUMENTS;
        return chat_calls_take_name(p, key);
    }
    if (!is_named && is_either(key, f->name_key, "name", "function"))
        p->member = CHAT_CALLS_NAME;
    else if (!p->has_args && is_either(key, f->arguments, "arguments", "parameters"))
        p->member = CHAT_CALLS_ARGUMENTS;
    else if (is_either(key, f->id_key, "id", NULL))
        p->member = CHAT_CALLS_ID;
    else
        return lr_str_eq_z(key, "type") || lr_str_eq_z(key, "index");
    return true;
}

/* The byte began a value of the call.  False: the value has another type. */
static bool begin_value(struct chat_calls *p, char c)
{
    switch (p->member) {
    case CHAT_CALLS_NAME:
        return c == '"';
    case CHAT_CALLS_ARGUMENTS:
        p->is_text = c == '"';
        p->in_args = c == '{';
        lr_buf_clear(&p->text);
        return c == '"' || c == '{' || c == 'n'; /* null: no arguments */
    default:
        return true;
    }
}

/* Arguments that are a string with an object in it. */
static bool unpack(struct chat_calls *p)
{
    struct lr_arena arena;
    struct lr_buf quoted;
    const struct lr_json *string = NULL, *object = NULL;
    lr_buf_init(&quoted, p->text.len + 2);
    lr_buf_add_char(&quoted, '"');
    lr_buf_add_str(&quoted, lr_buf_str(&p->text));
    lr_buf_add_char(&quoted, '"');
    lr_arena_init(&arena, (64 << 10) + 32 * quoted.len);
    bool good = lr_json_parse(&arena, lr_buf_str(&quoted), NULL, &string, NULL) == LR_OK &&
                lr_json_parse(&arena, string->text, NULL, &object, NULL) == LR_OK &&
                object->type == LR_JSON_OBJECT;
    p->is_text = false;
    if (good) {
        chat_calls_repair(p, CHAT_REPAIR_STRING);
        chat_calls_args(p, lr_str_trim(string->text));
    }
    lr_arena_free(&arena);
    lr_buf_free(&quoted);
    return good;
}

/* A string at the level of the call has ended.  False: it cannot be one of a call. */
static bool end_string(struct chat_calls *p)
{
    if (p->member == CHAT_CALLS_NAME && p->types == NULL)
        return chat_calls_take_name(p, lr_buf_str(&p->name));
    if (p->member == CHAT_CALLS_ARGUMENTS && p->is_text)
        return unpack(p);
    return true;
}

/* Keeps a byte of the string that is being read at the level of the call. */
static void keep_byte(struct chat_calls *p, const struct chat_json_scan *before, char c)
{
    if (before->is_key)
        lr_buf_add_char(&p->text, c);
    else if (p->member == CHAT_CALLS_NAME && p->types == NULL)
        lr_buf_add_char(&p->name, c);
    else if (p->member == CHAT_CALLS_ID)
        lr_buf_add_char(&p->id, c);
    else if (p->member == CHAT_CALLS_ARGUMENTS && p->is_text)
        lr_buf_add_char(&p->text, c);
}

static bool in_quotes(enum chat_json_state state)
{
    return state == CHAT_JSON_STRING || state == CHAT_JSON_ESCAPE || state == CHAT_JSON_HEX;
}

/* A byte at the level of the call, beside its arguments.  False: this is no call. */
static bool member_byte(struct chat_calls *p, const struct chat_json_scan *before, char c)
{
    const struct chat_json_scan *j = &p->json;
    if (before->state == CHAT_JSON_VALUE && before->depth == 1 && !grammar_is_blank(c))
        return begin_value(p, c);
    if (!in_quotes(before->state) && j->state == CHAT_JSON_STRING && j->is_key)
        lr_buf_clear(&p->text);
    if (before->depth != 1 || !in_quotes(before->state))
        return true;
    if (in_quotes(j->state)) {
        keep_byte(p, before, c);
        return p->name.len <= CHAT_CALLS_HEADER_MAX && p->id.len <= CHAT_CALLS_HEADER_MAX &&
               p->text.len <= (p->is_text ? CHAT_CALLS_HELD_MAX : CHAT_CALLS_HEADER_MAX);
    }
    return before->is_key ? json_take_key(p) : end_string(p);
}

/* ---- bytes ---- */

bool chat_calls_has_arguments(const struct chat_calls *p)
{
    return p->types != NULL && p->has_args && !p->in_args && !p->is_text;
}

static void not_json(struct chat_calls *p, char c)
{
    if (chat_calls_has_arguments(p)) { /* the brace of the call is missing */
        chat_calls_repair(p, CHAT_REPAIR_END);
        chat_calls_end_call(p, false);
        chat_calls_again(p, c);
        return;
    }
    if (!p->is_begun) {
        json_give_up(p);
        return;
    }
    p->state = CHAT_CALLS_BROKEN;
    chat_calls_broken_byte(p, c);
}

/* One byte of JSON, which may be a part of a raw byte's escape. */
static void json_byte(struct chat_calls *p, char c)
{
    struct chat_json_scan before = p->json;
    if (!chat_json_step(&p->json, c)) {
        not_json(p, c);
        return;
    }
    bool is_args = p->in_args;
    if (!is_bare(p) && !is_args && !member_byte(p, &before, c)) {
        if (p->is_begun)
            chat_calls_end_call(p, false);
        else
            json_give_up(p);
        return;
    }
    if (p->in_args)
        chat_calls_args(p, lr_str(&c, 1));
    if (p->in_args && !is_bare(p) && p->json.depth == 1 && is_args)
        p->in_args = false;
    if (p->json.state != CHAT_JSON_DONE) {
        chat_calls_check_size(p);
        return;
    }
    if (p->types != NULL)
        chat_calls_end_call(p, false);
    else
        chat_calls_give_up(p, 0);
}

void chat_calls_object_byte(struct chat_calls *p, char c)
{
    static const char letters[] = "\b\f\n\r\t", names[] = "bfnrt";
    char escape[8];
    bool is_raw = (unsigned char)c < 0x20 && p->json.state == CHAT_JSON_STRING;
    if (!is_raw) {
        json_byte(p, c);
        return;
    }
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    if (found != NULL)
        (void)snprintf(escape, sizeof(escape), "\\%c", names[found - letters]);
    else
        (void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);
    chat_calls_repair(p, CHAT_REPAIR_NEWLINE);
    for (size_t i = 0; escape[i] != '\0' && p->state == CHAT_CALLS_OBJECT; i++)
        json_byte(p, escape[i]);
}

void chat_calls_broken_byte(struct chat_calls *p, char c)
{
    chat_calls_args(p, lr_str(&c, 1));
}
