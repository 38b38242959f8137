/* chat/dialect/call.c - see chat/dialect/reading.h: what calls of all forms have in common. */
#include "chat/dialect/reading.h"

static const struct lr_str nothing = {0};

void chat_calls_begin_call(struct chat_calls *p, enum chat_calls_state state, size_t len)
{
    p->raw_from = p->raw.len - len;
    if (p->after_call && !p->in_thought) {
        lr_buf_consume(&p->raw, p->raw_from);
        p->raw_from = 0;
    }
    struct lr_buf *const bufs[] = {&p->name, &p->id, &p->args, &p->text};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        lr_buf_clear(bufs[i]);
    p->types = NULL;
    p->is_begun = p->has_args = p->has_keys = p->is_text = p->in_args = false;
    p->state = state;
    if (state == CHAT_CALLS_OBJECT)
        chat_calls_object_begin(p);
}

void chat_calls_begin_mark(struct chat_calls *p)
{
    switch (p->form->shape) {
    case GRAMMAR_SHAPE_OBJECT:
    case GRAMMAR_SHAPE_ARRAY:
    case GRAMMAR_SHAPE_PYTHON:
        if (!p->in_thought)
            p->after_call = false;
        p->raw_from = p->raw.len - p->form->begin.len;
        break;
    default:
        chat_calls_begin_call(p, CHAT_CALLS_HEADER, p->form->begin.len);
        break;
    }
}

static const struct chat_declared *declared(const struct chat_calls *p, struct lr_str name)
{
    for (uint32_t i = 0; i < p->options.tool_count; i++)
        if (lr_str_eq(p->options.tools[i].name, name))
            return &p->options.tools[i];
    return NULL;
}

struct lr_str chat_calls_bare_name(struct lr_str name)
{
    static const char space[] = "functions."; /* as OpenAI's models write it */
    if (name.len > 2 && (name.ptr[0] == '"' || name.ptr[0] == '\'') &&
        name.ptr[name.len - 1] == name.ptr[0])
        name = lr_str_sub(name, 1, name.len - 1);
    return lr_str_starts(name, space) ? lr_str_sub(name, strlen(space), name.len) : name;
}

bool chat_calls_take_name(struct chat_calls *p, struct lr_str name)
{
    const struct chat_declared *tool = declared(p, name);
    if (tool == NULL) {
        name = chat_calls_bare_name(name);
        tool = declared(p, name);
    }
    if (tool == NULL)
        return false;
    lr_buf_clear(&p->name);
    lr_buf_add_str(&p->name, name);
    p->types = &tool->types;
    return true;
}

void chat_calls_begin(struct chat_calls *p)
{
    if (p->is_begun)
        return;
    p->is_begun = true;
    chat_calls_give(p, CHAT_DELTA_TOOL_BEGIN, lr_buf_str(&p->name), lr_buf_str(&p->id));
    chat_calls_give(p, CHAT_DELTA_TOOL_ARGUMENTS, lr_buf_str(&p->args), nothing);
    lr_buf_clear(&p->args);
    if (!p->in_thought)
        lr_buf_clear(&p->raw);
}

void chat_calls_args(struct chat_calls *p, struct lr_str text)
{
    p->has_args = true;
    if (p->is_begun)
        chat_calls_give(p, CHAT_DELTA_TOOL_ARGUMENTS, text, nothing);
    else
        lr_buf_add_str(&p->args, text);
}

void chat_calls_check_size(struct chat_calls *p)
{
    if (p->is_begun || p->in_thought)
        return;
    if (p->types != NULL && p->has_args && !p->is_text && p->raw.len >= CHAT_CALLS_WHOLE_MAX)
        chat_calls_begin(p);
    else if (p->types == NULL && p->raw.len >= CHAT_CALLS_HELD_MAX)
        chat_calls_give_up(p, 0);
}

void chat_calls_end_call(struct chat_calls *p, bool is_cut)
{
    if (!p->has_args && !is_cut)
        chat_calls_args(p, LR_STR_LIT("{}"));
    chat_calls_begin(p);
    chat_calls_give(p, CHAT_DELTA_TOOL_END, nothing, nothing);
    p->count++;
    p->is_begun = false;
    p->in_args = false;
    p->after_call = true;
    if (p->in_thought)
        p->queued++;
    else
        lr_buf_clear(&p->raw);
    p->state = CHAT_CALLS_BETWEEN;
}

/* ---- names ---- */

/* "functions.N:0 <mark>", "N[CALL_ID]id[ARGS]", "function<sep>N\n```json\n": what stands before
 * the arguments of a named call. */
static bool take_header(struct chat_calls *p)
{
    const struct grammar_form *f = p->form;
    struct lr_str header = lr_buf_str(&p->text), id = {0};
    struct lr_str name_end = lr_str_trim(f->name_end);
    size_t at = name_end.len != 0 ? lr_str_find(header, name_end) : LR_STR_NONE;
    if (at != LR_STR_NONE)
        header = lr_str_sub(header, 0, at);
    at = f->id_end.len != 0 ? lr_str_find(header, f->id_end) : LR_STR_NONE;
    if (at != LR_STR_NONE) {
        id = lr_str_trim(lr_str_sub(header, 0, at));
        header = lr_str_sub(header, at + f->id_end.len, header.len);
    }
    at = f->id_mark.len != 0 ? lr_str_find(header, f->id_mark) : LR_STR_NONE;
    if (at != LR_STR_NONE) {
        id = lr_str_trim(lr_str_sub(header, at + f->id_mark.len, header.len));
        header = lr_str_sub(header, 0, at);
    }
    header = lr_str_trim(header);
    if (f->name_is_id)
        id = header;
    if (f->prefix.len != 0 && header.len >= f->prefix.len &&
        memcmp(header.ptr, f->prefix.ptr, f->prefix.len) == 0)
        header = lr_str_sub(header, f->prefix.len, header.len);
    size_t digits = header.len;
    while (f->name_is_id && digits != 0 && header.ptr[digits - 1] >= '0' &&
           header.ptr[digits - 1] <= '9')
        digits--;
    bool is_numbered = digits != 0 && digits != header.len && header.ptr[digits - 1] == ':';
    if (is_numbered)
        header = lr_str_sub(header, 0, digits - 1);
    lr_buf_clear(&p->id);
    lr_buf_add_str(&p->id, id);
    return chat_calls_take_name(p, header);
}

/* A line that must be a name: of a tool, or before content. */
static void named_line(struct chat_calls *p)
{
    struct lr_str name = lr_str_trim(lr_buf_str(&p->text));
    if (lr_str_eq(name, p->form->said)) {
        chat_calls_drop(p);
    } else if (!chat_calls_take_name(p, name)) {
        if (!p->has_said && p->count == 0) /* the prompt has it, not the answer */
            lr_buf_consume(&p->raw, p->form->begin.len);
        chat_calls_give_up(p, 0);
    }
}

static void named_byte(struct chat_calls *p, char c)
{
    if (c != '{') {
        lr_buf_add_char(&p->text, c);
        if (c == '\n' && p->form->said.len != 0) {
            named_line(p);
            return;
        }
        if (p->text.len > CHAT_CALLS_HEADER_MAX)
            chat_calls_give_up(p, 0);
        return;
    }
    if (p->form->id_key.len != 0 && lr_str_eq_z(lr_str_trim(lr_buf_str(&p->text)), "[")) {
        p->in_array = true; /* Mistral's older form */
        chat_calls_begin_call(p, CHAT_CALLS_OBJECT, p->raw.len - p->raw_from);
        chat_calls_object_byte(p, c);
    } else if (take_header(p)) {
        p->state = CHAT_CALLS_OBJECT;
        chat_calls_object_begin(p);
        p->in_args = true;
        chat_calls_object_byte(p, c);
    } else if (!p->in_thought && p->form->name_is_id &&
               lr_str_find(lr_buf_str(&p->id), LR_STR_LIT(":")) == LR_STR_NONE) {
        chat_calls_repair(p, CHAT_REPAIR_SKIPPED);
        p->state = CHAT_CALLS_SKIP;
    } else {
        chat_calls_give_up(p, 1);
    }
}

static bool call_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
}

/* N( or N{ */
static void bare_name_byte(struct chat_calls *p, char c)
{
    bool is_python = p->form->shape == GRAMMAR_SHAPE_PYTHON;
    if (c == (is_python ? '(' : '{')) {
        if (!chat_calls_take_name(p, lr_str_trim(lr_buf_str(&p->text)))) {
            chat_calls_give_up(p, 1);
            return;
        }
        lr_buf_clear(&p->text);
        p->state = is_python ? CHAT_CALLS_PYTHON : CHAT_CALLS_TEXT;
        p->quote = '\0';
        p->is_escape = false;
        p->depth = 0;
        if (!is_python)
            lr_buf_add_char(&p->text, c);
        return;
    }
    lr_buf_add_char(&p->text, c);
    if (!call_is_name_char(c) || p->text.len > CHAT_CALLS_HEADER_MAX)
        chat_calls_give_up(p, 1);
}

static bool ends_with(const struct lr_buf *text, struct lr_str end)
{
    return end.len != 0 && text->len >= end.len &&
           memcmp(text->data + text->len - end.len, end.ptr, end.len) == 0;
}

static void after_name(struct chat_calls *p, uint32_t kept)
{
    if (!chat_calls_take_name(p, lr_str_trim(lr_buf_str(&p->text)))) {
        chat_calls_give_up(p, kept);
        return;
    }
    lr_buf_clear(&p->text);
    p->state = p->form->name_close.len != 0 ? CHAT_CALLS_NAME_REST : CHAT_CALLS_BODY;
    if (kept != 0)
        chat_calls_again(p, '<');
}

static void tagged_name_byte(struct chat_calls *p, char c)
{
    struct lr_str end = p->form->name_end;
    if (end.len == 0 && (c == '\n' || c == '<')) {
        if (lr_str_trim(lr_buf_str(&p->text)).len == 0 && c == '\n')
            return;
        after_name(p, c == '<' ? 1 : 0);
        return;
    }
    lr_buf_add_char(&p->text, c);
    if (ends_with(&p->text, end)) {
        p->text.len -= end.len;
        after_name(p, 0);
    } else if (p->text.len > CHAT_CALLS_HEADER_MAX ||
               (end.len == 1 && (c == '\n' || c == '<'))) {
        chat_calls_give_up(p, 1);
    }
}

void chat_calls_header_byte(struct chat_calls *p, char c)
{
    switch (p->form->shape) {
    case GRAMMAR_SHAPE_NAMED:
        named_byte(p, c);
        break;
    case GRAMMAR_SHAPE_PYTHON:
    case GRAMMAR_SHAPE_GEMMA:
        bare_name_byte(p, c);
        break;
    default:
        tagged_name_byte(p, c);
        break;
    }
}

/* ---- the end of the answer ---- */

/* True when nothing but marks is missing. */
static bool is_as_good_as_whole(struct chat_calls *p)
{
    switch (p->state) {
    case CHAT_CALLS_HEADER:
        return p->form->shape == GRAMMAR_SHAPE_NAMED && take_header(p);
    case CHAT_CALLS_BODY:
        return true;
    case CHAT_CALLS_OBJECT:
        return chat_calls_has_arguments(p);
    case CHAT_CALLS_TEXT:
        return chat_calls_take_text(p);
    default:
        return false;
    }
}

/* True when a cut call has a name that cannot go on. */
static bool has_whole_name(const struct chat_calls *p)
{
    bool is_json = p->state == CHAT_CALLS_OBJECT;
    return p->types != NULL && (!is_json || p->has_args || p->json.state == CHAT_JSON_KEY);
}

void chat_calls_end_open(struct chat_calls *p, bool is_cut)
{
    bool is_tagged = p->form->shape == GRAMMAR_SHAPE_TAGGED;
    if (p->in_thought) {
        if (!is_cut && is_as_good_as_whole(p)) {
            if (is_tagged)
                chat_calls_tag_close(p);
            chat_calls_end_call(p, false);
        } else if (p->queued == 0) {
            chat_calls_give_up(p, 0);
        }
        return;
    }
    if (!is_cut && is_as_good_as_whole(p)) {
        chat_calls_repair(p, CHAT_REPAIR_END);
        if (is_tagged)
            chat_calls_tag_close(p);
        chat_calls_end_call(p, false);
    } else if (p->is_begun || (is_cut && has_whole_name(p))) {
        if (!is_cut && is_tagged)
            chat_calls_tag_close(p);
        chat_calls_end_call(p, is_cut);
    } else {
        chat_calls_give_up(p, 0);
    }
}
