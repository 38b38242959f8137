/* chat/calls.c - see chat/calls.h: the stream, reasoning and the text around calls.
 * chat/dialect/call_*.c read the calls.
 *
 * Every byte is one step, so that the result does not depend on how the text is split into
 * tokens.  A step does a bounded amount of work; what is given up is looked at once more, and
 * only as far as it may be the beginning of a mark. */
#include "chat/calls.h"

#include "chat/dialect/reading.h"

const char *chat_repair_kind_name(enum chat_repair_kind kind)
{
    static const char *const names[] = {"newline",   "string",  "end",     "begin",
                                        "reasoning", "skipped", "rejected"};
    return names[kind];
}

/* ---- what is given ---- */

static void calls_flush(struct chat_calls *p)
{
    struct chat_delta delta = {
        .kind = p->out_kind, .tool_index = p->count, .text = lr_buf_str(&p->out)};
    if (p->out.len != 0)
        p->fn(p->ctx, &delta);
    lr_buf_clear(&p->out);
}

/* A delta that waits: kind and two lengths, then the texts. */
struct queued {
    uint32_t kind, len, id_len;
};

void chat_calls_give(struct chat_calls *p, enum chat_delta_kind kind, struct lr_str text,
                     struct lr_str id)
{
    bool is_text = kind != CHAT_DELTA_TOOL_BEGIN && kind != CHAT_DELTA_TOOL_END;
    if (is_text && text.len == 0)
        return;
    if (p->in_thought && kind != CHAT_DELTA_REASONING) {
        struct queued q = {(uint32_t)kind, (uint32_t)text.len, (uint32_t)id.len};
        lr_buf_add(&p->queue, &q, sizeof(q));
        lr_buf_add_str(&p->queue, text);
        lr_buf_add_str(&p->queue, id);
        return;
    }
    if (p->out_kind != kind)
        calls_flush(p);
    if (is_text) {
        p->out_kind = kind;
        lr_buf_add_str(&p->out, text);
        return;
    }
    calls_flush(p);
    struct chat_delta delta = {.kind = kind, .tool_index = p->count, .text = text, .id = id};
    p->fn(p->ctx, &delta);
}

static void give_char(struct chat_calls *p, enum chat_delta_kind kind, char c)
{
    if (p->out_kind != kind)
        calls_flush(p);
    p->out_kind = kind;
    lr_buf_add_char(&p->out, c);
}

static void give_blanks(struct chat_calls *p)
{
    chat_calls_give(p, p->in_thought ? CHAT_DELTA_REASONING : CHAT_DELTA_CONTENT,
                    lr_buf_str(&p->blanks), (struct lr_str){0});
    lr_buf_clear(&p->blanks);
}

/* ---- text ---- */

static void calls_say(struct chat_calls *p, char c)
{
    bool is_blank = grammar_is_blank(c);
    if (is_blank && (p->is_blank || p->in_thought)) {
        lr_buf_add_char(&p->blanks, c);
        if (p->blanks.len >= CHAT_CALLS_HELD_MAX && !(p->is_blank && p->drops_blanks)) {
            p->is_blank = p->is_blank && p->in_thought;
            give_blanks(p);
        }
        return;
    }
    if (p->is_blank && (p->drops_blanks || p->in_thought))
        lr_buf_clear(&p->blanks);
    give_blanks(p);
    p->is_blank = false;
    p->has_said = p->has_said || !p->in_thought;
    give_char(p, p->in_thought ? CHAT_DELTA_REASONING : CHAT_DELTA_CONTENT, c);
}

/* A mark or a call was here: blanks beside it mean nothing. */
static void after_mark(struct chat_calls *p)
{
    lr_buf_clear(&p->blanks);
    p->is_blank = p->drops_blanks = true;
}

static void begin_thought(struct chat_calls *p)
{
    after_mark(p);
    p->in_thought = true;
}

static void end_thought(struct chat_calls *p)
{
    after_mark(p);
    p->in_thought = false;
}

/* ---- marks ---- */

struct marks {
    struct lr_str text[CHAT_CALLS_MARKS_MAX];
    enum chat_calls_mark kind[CHAT_CALLS_MARKS_MAX];
    uint32_t count;
};

static void marks_add(struct marks *m, enum chat_calls_mark kind, struct lr_str text)
{
    if (text.len == 0 || text.len > CHAT_CALLS_MARK_MAX)
        return;
    m->kind[m->count] = kind;
    m->text[m->count++] = text;
}

static void marks_of_sections(const struct chat_calls *p, struct marks *m, bool with_ends)
{
    const struct grammar_form *f = p->form;
    if (p->options.tool_count == 0)
        return;
    marks_add(m, CHAT_MARK_SECTION, f->section);
    marks_add(m, CHAT_MARK_SECTION, f->section2);
    marks_add(m, CHAT_MARK_BEGIN, f->begin);
    if (!with_ends)
        return;
    for (uint32_t i = 0; i < GRAMMAR_SKIPPED_MAX; i++)
        marks_add(m, CHAT_MARK_SKIPPED, f->skipped[i]);
    marks_add(m, CHAT_MARK_SECTION_END, f->section_end);
    marks_add(m, CHAT_MARK_SECTION_END, f->section2_end);
    marks_add(m, CHAT_MARK_END, f->end);
}

/* The marks that mean something in the state. */
static void marks_of(const struct chat_calls *p, struct marks *m)
{
    const struct grammar_form *f = p->form;
    m->count = 0;
    switch (p->state) {
    case CHAT_CALLS_LOOKING:
        marks_add(m, CHAT_MARK_THOUGHT, p->options.thought.begin);
        marks_add(m, CHAT_MARK_THOUGHT_END, p->options.thought.end);
        marks_of_sections(p, m, false);
        for (uint32_t i = 0; i < GRAMMAR_DROPS_MAX; i++)
            marks_add(m, CHAT_MARK_DROP, f->drops[i]);
        if (!p->in_thought && p->is_blank)
            marks_add(m, CHAT_MARK_HEADING, f->heading);
        break;
    case CHAT_CALLS_HEADING:
        marks_add(m, CHAT_MARK_HEADING, f->heading_end);
        break;
    case CHAT_CALLS_BETWEEN:
        marks_of_sections(p, m, true);
        if (p->in_thought)
            marks_add(m, CHAT_MARK_THOUGHT_END, p->options.thought.end);
        break;
    case CHAT_CALLS_NAME_REST:
        marks_add(m, CHAT_MARK_CLOSE, f->name_close);
        break;
    case CHAT_CALLS_BODY:
        marks_add(m, CHAT_MARK_KEY, f->key);
        marks_add(m, CHAT_MARK_END, f->end);
        marks_add(m, CHAT_MARK_SECTION_END, f->section_end);
        marks_add(m, CHAT_MARK_SECTION_END, f->section2_end);
        marks_add(m, CHAT_MARK_BEGIN, f->begin);
        break;
    case CHAT_CALLS_KEY:
        marks_add(m, CHAT_MARK_KEY_END, f->key_end);
        break;
    case CHAT_CALLS_KEY_REST:
        marks_add(m, CHAT_MARK_CLOSE, f->key_close);
        break;
    case CHAT_CALLS_VALUE_MARK:
        marks_add(m, CHAT_MARK_VALUE, f->value);
        break;
    case CHAT_CALLS_VALUE:
        marks_add(m, CHAT_MARK_VALUE_END, f->value_end);
        if (f->strips_newline) /* the end of the value before is missing */
            marks_add(m, CHAT_MARK_KEY, f->key);
        break;
    case CHAT_CALLS_TEXT:
    case CHAT_CALLS_BROKEN:
    case CHAT_CALLS_SKIP:
        marks_add(m, CHAT_MARK_END, f->end);
        break;
    default:
        break;
    }
}

enum match { MATCH_NONE, MATCH_BEGUN, MATCH_FOUND };

static enum match marks_match(const struct marks *m, const char *text, uint32_t len,
                              enum chat_calls_mark *kind)
{
    enum match best = MATCH_NONE;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->text[i].len < len || memcmp(m->text[i].ptr, text, len) != 0)
            continue;
        if (m->text[i].len == len) {
            *kind = m->kind[i];
            return MATCH_FOUND;
        }
        best = MATCH_BEGUN;
    }
    return best;
}

/* ---- the beginning and the end of calls ---- */

void chat_calls_repair(struct chat_calls *p, enum chat_repair_kind kind)
{
    p->repairs[kind]++;
}

/* A section or a call begins in the text. */
static void begin_raw(struct chat_calls *p, struct lr_str mark)
{
    if (!p->in_thought)
        after_mark(p);
    lr_buf_clear(&p->raw);
    lr_buf_add_str(&p->raw, mark);
    p->queued = 0;
    p->has_leading = p->in_array = false;
    p->state = CHAT_CALLS_BETWEEN;
}

/* Blanks after calls belong to the text that follows, if there is any. */
static void leave_calls(struct chat_calls *p)
{
    lr_buf_clear(&p->raw);
    p->queued = 0;
    p->in_array = false;
    p->state = CHAT_CALLS_LOOKING;
    after_mark(p);
    p->drops_blanks = false;
}

void chat_calls_drop(struct chat_calls *p)
{
    leave_calls(p);
    p->drops_blanks = true;
}

/* The calls inside reasoning are calls, and end it. */
static void commit_queue(struct chat_calls *p)
{
    struct queued q;
    struct lr_buf queue = p->queue;
    lr_buf_init(&p->queue, queue.limit);
    p->count -= p->queued;
    p->queued = 0;
    end_thought(p);
    lr_buf_consume(&p->raw, p->raw_from);
    p->raw_from = 0;
    chat_calls_repair(p, CHAT_REPAIR_REASONING);
    for (size_t at = 0; at + sizeof(q) <= queue.len;) {
        memcpy(&q, queue.data + at, sizeof(q));
        at += sizeof(q);
        chat_calls_give(p, (enum chat_delta_kind)q.kind, lr_str(queue.data + at, q.len),
                        lr_str(queue.data + at + q.len, q.id_len));
        at += q.len + q.id_len;
        if (q.kind == CHAT_DELTA_TOOL_END)
            p->count++;
    }
    lr_buf_free(&queue);
}

static void calls_byte(struct chat_calls *p, char c);
static void calls_step(struct chat_calls *p, char c);

static void read_again(struct chat_calls *p, char c, void (*step)(struct chat_calls *p, char c))
{
    char rest[CHAT_CALLS_MARK_MAX];
    uint32_t len = p->mark_len;
    memcpy(rest, p->mark, len);
    p->mark_len = 0;
    step(p, c);
    for (uint32_t i = 0; i < len; i++)
        step(p, rest[i]);
}

void chat_calls_again(struct chat_calls *p, char c)
{
    /* the text of a call that was given is kept no longer */
    read_again(p, c, p->raw.len == 0 ? calls_byte : calls_step);
}

/* The same for bytes that p->raw has not. */
static void look_again(struct chat_calls *p, char c)
{
    read_again(p, c, calls_byte);
}

void chat_calls_give_up(struct chat_calls *p, uint32_t kept)
{
    char again[2 * CHAT_CALLS_MARK_MAX];
    struct lr_buf raw = p->raw;
    kept += p->mark_len;
    kept = kept < raw.len ? kept : (uint32_t)raw.len;
    size_t len = raw.len - kept;
    memcpy(again, raw.data + len, kept);
    lr_buf_init(&p->raw, raw.limit);
    p->count -= p->queued;
    p->queued = 0;
    lr_buf_clear(&p->queue);
    p->mark_len = 0;
    p->is_begun = false;
    p->in_array = false;
    p->state = CHAT_CALLS_LOOKING;
    chat_calls_repair(p, CHAT_REPAIR_REJECTED);
    if (!p->in_thought) {
        give_blanks(p);
        p->has_said = true;
    }
    for (size_t i = 0; i < len; i++)
        calls_say(p, raw.data[i]);
    lr_buf_free(&raw);
    for (uint32_t i = 0; i < kept; i++)
        calls_byte(p, again[i]);
}

/* ---- between calls ---- */

static bool is_separator(const struct chat_calls *p, char c)
{
    const struct grammar_form *f = p->form;
    if (grammar_is_blank(c))
        return true;
    if (f->is_fenced && (c == '`' || (!p->after_call && strchr("json", c) != NULL)))
        return true;
    if (f->shape == GRAMMAR_SHAPE_OBJECT && f->begin.len != 0 && strchr("[,]", c) != NULL)
        return true;
    if (f->shape == GRAMMAR_SHAPE_ARRAY || p->in_array)
        return c == ',' || c == ']' || c == '[' || c == '}';
    if (f->shape == GRAMMAR_SHAPE_PYTHON)
        return c == ',' || c == ']' || c == '[';
    /* some models close too much; a fence is around the JSON of others */
    return p->after_call && (c == '}' || (f->between != '\0' && c == f->between) ||
                             (f->shape == GRAMMAR_SHAPE_NAMED && (c == '`' || c == ';')));
}

static bool begins_python(const struct chat_calls *p, char c)
{
    return p->form->shape == GRAMMAR_SHAPE_PYTHON &&
           ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_');
}

static bool begins_object(const struct chat_calls *p, char c)
{
    enum grammar_shape shape = p->form->shape;
    return c == '{' &&
           (shape == GRAMMAR_SHAPE_OBJECT || shape == GRAMMAR_SHAPE_ARRAY || p->in_array);
}

/* A byte in a section that belongs to no call. */
static void byte_between(struct chat_calls *p, char c)
{
    bool is_sent = p->raw.len == 0 || p->queued != 0;
    if (p->form->name_end.len != 0 && c == '[' && p->form->shape == GRAMMAR_SHAPE_NAMED &&
        p->form->id_key.len != 0)
        p->in_array = true; /* Mistral's older form */
    if (begins_object(p, c)) {
        chat_calls_begin_call(p, CHAT_CALLS_OBJECT, 1 + p->mark_len);
        chat_calls_object_byte(p, c);
    } else if (begins_python(p, c)) {
        chat_calls_begin_call(p, CHAT_CALLS_HEADER, 1 + p->mark_len);
        chat_calls_header_byte(p, c);
    } else if (is_separator(p, c)) {
        p->in_array = p->in_array && c != ']';
        if (p->raw.len > CHAT_CALLS_HELD_MAX && !is_sent)
            chat_calls_give_up(p, 0);
    } else if (p->in_thought || !p->after_call) {
        chat_calls_give_up(p, 1);
    } else {
        bool needs_begin = p->form->begin.len == 0;
        leave_calls(p);
        p->has_said = p->has_said || needs_begin;
        look_again(p, c);
    }
}

/* ---- steps ---- */

static bool is_early(const struct chat_calls *p, char c)
{
    return p->form->begin.len == 0 && p->options.tool_count != 0 && !p->in_thought &&
           p->is_blank && !p->has_said &&
           ((p->form->shape == GRAMMAR_SHAPE_OBJECT && c == '{') ||
            (p->form->shape == GRAMMAR_SHAPE_ARRAY && c == '[') ||
            (p->form->is_fenced && c == '`') ||
            (p->form->shape == GRAMMAR_SHAPE_PYTHON && c == '['));
}

/* A byte that belongs to no mark. */
static void plain_byte(struct chat_calls *p, char c)
{
    switch (p->state) {
    case CHAT_CALLS_LOOKING:
        if (is_early(p, c)) {
            begin_raw(p, lr_str(&c, 1));
            p->after_call = false;
            if (c == '{')
                byte_between(p, c);
        } else {
            calls_say(p, c);
        }
        return;
    case CHAT_CALLS_BETWEEN:
        byte_between(p, c);
        return;
    case CHAT_CALLS_HEADER:
        chat_calls_header_byte(p, c);
        return;
    case CHAT_CALLS_OBJECT:
        chat_calls_object_byte(p, c);
        return;
    case CHAT_CALLS_PYTHON:
        chat_calls_python_byte(p, c);
        return;
    case CHAT_CALLS_BROKEN:
        chat_calls_broken_byte(p, c);
        return;
    case CHAT_CALLS_SKIP:
        return;
    case CHAT_CALLS_HEADING:
        if (c == '\n' || p->raw.len > CHAT_CALLS_HEADER_MAX)
            chat_calls_give_up(p, 0);
        return;
    default:
        chat_calls_tag_byte(p, c);
        return;
    }
}

static void looking_mark(struct chat_calls *p, enum chat_calls_mark kind, struct lr_str mark)
{
    bool may_think = p->in_thought ? p->is_blank : !p->has_said || p->form->thinks_anywhere;
    bool may_end = p->in_thought || p->is_blank || p->form->thinks_anywhere;
    switch (kind) {
    case CHAT_MARK_THOUGHT:
        if (may_think && (p->is_blank || p->form->thinks_anywhere)) {
            begin_thought(p);
            return;
        }
        break;
    case CHAT_MARK_THOUGHT_END:
        if (may_end) {
            if (p->in_thought || p->is_blank)
                end_thought(p);
            return;
        }
        break;
    case CHAT_MARK_DROP:
        /* an answer that begins without the reasoning that the prompt opened */
        if (p->in_thought && !(p->form->thinks_anywhere && p->is_blank))
            break;
        end_thought(p);
        return;
    case CHAT_MARK_HEADING:
        begin_raw(p, mark);
        p->state = CHAT_CALLS_HEADING;
        return;
    case CHAT_MARK_SECTION:
    case CHAT_MARK_BEGIN:
        begin_raw(p, mark);
        p->after_call = false;
        if (kind == CHAT_MARK_BEGIN) {
            if (p->form->section.len != 0)
                chat_calls_repair(p, CHAT_REPAIR_BEGIN);
            chat_calls_begin_mark(p);
        }
        return;
    default:
        break;
    }
    for (size_t i = 0; i < mark.len; i++)
        calls_say(p, mark.ptr[i]);
}

static void between_mark(struct chat_calls *p, enum chat_calls_mark kind)
{
    switch (kind) {
    case CHAT_MARK_BEGIN:
        if (!p->after_call && p->form->section.len == 0)
            chat_calls_give_up(p, (uint32_t)p->form->begin.len);
        else
            chat_calls_begin_mark(p);
        return;
    case CHAT_MARK_SECTION:
        p->after_call = p->after_call && p->in_thought;
        return;
    case CHAT_MARK_SKIPPED:
        return;
    case CHAT_MARK_THOUGHT_END:
        if (p->queued != 0) {
            commit_queue(p);
        } else {
            chat_calls_give_up(p, (uint32_t)p->options.thought.end.len);
            return;
        }
        leave_calls(p);
        return;
    default: /* an end */
        if (!p->after_call && !p->in_thought) {
            chat_calls_give_up(p, 0);
            return;
        }
        p->in_array = false;
        if (!p->in_thought && (kind != CHAT_MARK_END || p->form->section.len == 0))
            leave_calls(p);
        return;
    }
}

static void calls_mark(struct chat_calls *p, enum chat_calls_mark kind, struct lr_str mark)
{
    if (p->state == CHAT_CALLS_LOOKING) {
        looking_mark(p, kind, mark);
    } else if (p->state == CHAT_CALLS_BETWEEN) {
        between_mark(p, kind);
    } else if (p->state == CHAT_CALLS_HEADING) {
        bool is_thought = lr_str_eq(lr_buf_str(&p->raw), p->options.thought.begin);
        chat_calls_drop(p);
        if (is_thought)
            begin_thought(p);
    } else if (p->state == CHAT_CALLS_SKIP) {
        lr_buf_clear(&p->raw);
        p->state = CHAT_CALLS_BETWEEN;
        p->after_call = true;
    } else {
        chat_calls_tag_mark(p, kind, mark);
    }
}

/* Inside reasoning the end of reasoning ends everything, because a quoted call may be one that
 * never ends. */
static bool ends_thought(struct chat_calls *p)
{
    struct lr_str end = p->options.thought.end;
    return p->in_thought && p->state != CHAT_CALLS_BETWEEN && end.len != 0 &&
           p->raw.len >= end.len && p->raw.data[p->raw.len - 1] == end.ptr[end.len - 1] &&
           memcmp(p->raw.data + p->raw.len - end.len, end.ptr, end.len) == 0;
}

/* False: the byte was given up with the rest. */
static bool check_limits(struct chat_calls *p)
{
    if (ends_thought(p)) {
        p->mark_len = 0; /* the end of reasoning is what is looked at anew */
        chat_calls_give_up(p, (uint32_t)p->options.thought.end.len);
        return false;
    }
    if (p->raw.len < CHAT_CALLS_HELD_MAX)
        return true;
    if (p->queued != 0) {
        commit_queue(p);
        return true;
    }
    p->mark_len = 0;
    chat_calls_give_up(p, 0);
    return false;
}

static void calls_byte(struct chat_calls *p, char c)
{
    if (p->state != CHAT_CALLS_LOOKING) {
        if (p->state != CHAT_CALLS_SKIP && (!p->is_begun || p->in_thought))
            lr_buf_add_char(&p->raw, c);
        if (p->in_thought && !check_limits(p))
            return;
    }
    calls_step(p, c);
}

/* A byte that p->raw has. */
static void calls_step(struct chat_calls *p, char c)
{
    struct marks marks;
    enum chat_calls_mark kind;
    marks_of(p, &marks);
    p->mark[p->mark_len++] = c;
    while (p->mark_len != 0) {
        enum match match = marks_match(&marks, p->mark, p->mark_len, &kind);
        if (match == MATCH_BEGUN)
            return;
        if (match == MATCH_FOUND) {
            char found[CHAT_CALLS_MARK_MAX];
            uint32_t len = p->mark_len;
            memcpy(found, p->mark, len);
            p->mark_len = 0;
            calls_mark(p, kind, lr_str(found, len));
            return;
        }
        char first = p->mark[0];
        enum chat_calls_state before = p->state;
        memmove(p->mark, p->mark + 1, --p->mark_len);
        plain_byte(p, first);
        if (p->state != before)
            marks_of(p, &marks);
    }
}

/* ---- the stream ---- */

static void calls_feed(void *ctx, struct lr_str text)
{
    struct chat_calls *p = ctx;
    for (size_t i = 0; i < text.len; i++)
        calls_byte(p, text.ptr[i]);
}

void chat_calls_init(struct chat_calls *p, const struct chat_calls_options *options,
                     chat_delta_fn fn, void *ctx)
{
    size_t limit = (64 << 20) + 2 * CHAT_CALLS_HELD_MAX; /* a token's text, and what waits */
    *p = (struct chat_calls){.fn = fn, .ctx = ctx, .options = *options};
    struct lr_buf *const bufs[] = {&p->blanks, &p->raw, &p->queue, &p->out,
                                   &p->name,   &p->id,  &p->args,  &p->text};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        lr_buf_init(bufs[i], limit);
    p->form = grammar_form_of(options->format);
    p->in_thought = options->is_opened && options->thought.end.len != 0;
    p->is_blank = true;
    p->drops_blanks = p->in_thought;
    if (p->form->is_begun && options->tool_count != 0 && options->thought.end.len == 0)
        calls_feed(p, p->form->begin);
}

void chat_calls_free(struct chat_calls *p)
{
    struct lr_buf *const bufs[] = {&p->blanks, &p->raw, &p->queue, &p->out,
                                   &p->name,   &p->id,  &p->args,  &p->text};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        lr_buf_free(bufs[i]);
}

static bool has_part(struct lr_str mark, struct lr_str part)
{
    return mark.len != 0 && lr_str_find(mark, part) != LR_STR_NONE;
}

/* True for the name of a control token that a mark of the form has in it. */
static bool is_mark_token(const struct chat_calls *p, struct lr_str name)
{
    const struct grammar_form *f = p->form;
    const struct lr_str marks[] = {
        p->options.thought.begin,
        p->options.thought.end,
        f->section,
        f->section_end,
        f->section2,
        f->section2_end,
        f->begin,
        f->end,
        f->name_end,
        f->name_close,
        f->id_mark,
        f->key,
        f->key_close,
        f->value,
        f->value_end,
        f->prefix,
        f->key_end,
        f->id_end,
        f->quote,
        f->heading_end,
    };
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (has_part(marks[i], name))
            return true;
    for (uint32_t i = 0; i < GRAMMAR_DROPS_MAX; i++)
        if (has_part(f->drops[i], name))
            return true;
    for (uint32_t i = 0; i < GRAMMAR_SKIPPED_MAX; i++)
        if (has_part(f->skipped[i], name))
            return true;
    return false;
}

void chat_calls_token(struct chat_calls *p, struct lr_str bytes, bool special)
{
    if (!special || (bytes.len != 0 && is_mark_token(p, bytes)))
        chat_utf8_feed(&p->utf8, bytes, calls_feed, p);
    calls_flush(p);
}

static void end_looking(struct chat_calls *p)
{
    for (uint32_t i = 0; i < p->mark_len; i++)
        calls_say(p, p->mark[i]);
    p->mark_len = 0;
    if (!p->in_thought && !(p->is_blank && (p->drops_blanks || p->count != 0)))
        give_blanks(p);
}

void chat_calls_end(struct chat_calls *p, bool is_cut)
{
    chat_utf8_flush(&p->utf8, calls_feed, p);
    if (p->state != CHAT_CALLS_LOOKING && p->state != CHAT_CALLS_BETWEEN &&
        p->state != CHAT_CALLS_SKIP)
        chat_calls_end_open(p, is_cut);
    if (p->in_thought && p->queued != 0)
        commit_queue(p);
    if (p->state == CHAT_CALLS_BETWEEN && !p->after_call) {
        p->mark_len = 0;
        chat_calls_give_up(p, 0);
    }
    if (p->state == CHAT_CALLS_LOOKING)
        end_looking(p);
    calls_flush(p);
}
