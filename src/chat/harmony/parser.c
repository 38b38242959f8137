/* chat/harmony/parser.c - see chat/harmony/parser.h.
 *
 * The state machine.  Every decision depends on a byte or on a control token, never on where a
 * token ends, so that the result does not depend on how the text is split into tokens.
 */
#include "chat/harmony/parser.h"

#include "chat/harmony/header.h"

enum control {
    CONTROL_START,
    CONTROL_CHANNEL,
    CONTROL_MESSAGE,
    CONTROL_CONSTRAIN,
    CONTROL_END,
    CONTROL_CALL,
    CONTROL_STOP, /* <|return|>, <|endoftext|> */
    CONTROL_OTHER,
};

static enum control control_of(struct lr_str name)
{
    static const struct {
        struct lr_str name;
        enum control control;
    } table[] = {
        {{"<|channel|>", 11}, CONTROL_CHANNEL},
        {{"<|message|>", 11}, CONTROL_MESSAGE},
        {{"<|end|>", 7}, CONTROL_END},
        {{"<|start|>", 9}, CONTROL_START},
        {{"<|constrain|>", 13}, CONTROL_CONSTRAIN},
        {{"<|call|>", 8}, CONTROL_CALL},
        {{"<|return|>", 10}, CONTROL_STOP},
        {{"<|endoftext|>", 13}, CONTROL_STOP},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (lr_str_eq(name, table[i].name))
            return table[i].control;
    return CONTROL_OTHER;
}

static bool parser_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_blank_text(struct lr_str s)
{
    return lr_str_trim(s).len == 0;
}

/* ---- emitting ---- */

static void parser_give(struct chat_harmony *h, enum chat_delta_kind kind, struct lr_str text)
{
    struct chat_delta delta = {.kind = kind, .tool_index = h->tool_count, .text = text};
    h->gave_any = true;
    h->fn(h->ctx, &delta);
}

/* Emits reasoning or content, with a separator between two messages of the same class. */
static void give_text(struct chat_harmony *h, enum chat_harmony_class class, struct lr_str text)
{
    bool is_reasoning = class == CHAT_CLASS_REASONING;
    enum chat_delta_kind kind = is_reasoning ? CHAT_DELTA_REASONING : CHAT_DELTA_CONTENT;
    if (h->joint_due[class]) {
        h->joint_due[class] = false;
        parser_give(h, kind, is_reasoning ? LR_STR_LIT("\n") : LR_STR_LIT("\n\n"));
    }
    parser_give(h, kind, text);
}

/* Skips text before the JSON of a tool's arguments: words before the first brace are reasoning.
 * Returns how much of text it took. */
static size_t take_lead(struct chat_harmony *h, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        struct lr_str lead = {h->header, h->header_len};
        bool is_blank = is_blank_text(lead);
        bool is_json = c == '{' || (is_blank && (c == '[' || c == '"'));
        /* Keeps room for one character, so that no character is split. */
        bool is_full =
            h->header_len > CHAT_HARMONY_HEADER_MAX - 4 && ((unsigned char)c & 0xC0) != 0x80;
        if (is_json || is_full) {
            h->in_arguments = true;
            h->header_len = 0;
            if (is_full)
                parser_give(h, CHAT_DELTA_TOOL_ARGUMENTS, lead);
            else if (!is_blank)
                give_text(h, CHAT_CLASS_REASONING, lead);
            h->joint_due[CHAT_CLASS_REASONING] |= !is_full && !is_blank;
            return i;
        }
        h->header[h->header_len++] = c;
    }
    return text.len;
}

/* Complete characters of the current message's body. */
static void give_body(void *ctx, struct lr_str text)
{
    struct chat_harmony *h = ctx;
    if (h->body_class != CHAT_CLASS_TOOL) {
        give_text(h, h->body_class, text);
        h->body_started = true;
        return;
    }
    size_t taken = h->in_arguments ? 0 : take_lead(h, text);
    if (taken < text.len) {
        h->body_started = true;
        parser_give(h, CHAT_DELTA_TOOL_ARGUMENTS, lr_str_sub(text, taken, text.len));
    }
}

/* ---- messages ---- */

static void begin_header(struct chat_harmony *h, bool has_start)
{
    h->state = CHAT_HARMONY_HEADER;
    h->has_start = has_start;
    h->has_channel = false;
    h->header_len = 0;
    h->word_at = 0;
    h->channel_at = 0;
    h->constrain_at = CHAT_HARMONY_NO_CONSTRAIN;
}

void chat_harmony_init(struct chat_harmony *h, const struct chat_harmony_options *options,
                       chat_delta_fn fn, void *ctx)
{
    *h = (struct chat_harmony){.fn = fn, .ctx = ctx, .body_class = CHAT_CLASS_CONTENT};
    begin_header(
        h,
        false); /* the prompt ends with <|start|>assistant, so the answer begins in a header */
    if (options != NULL)
        h->options = *options;
}

static void begin_body(struct chat_harmony *h, const struct chat_harmony_header *header)
{
    h->state = CHAT_HARMONY_BODY;
    h->body_class = header->class;
    h->body_started = false;
    h->in_arguments = header->is_code;
    if (header->class == CHAT_CLASS_TOOL)
        parser_give(h, CHAT_DELTA_TOOL_BEGIN, header->tool);
    h->header_len = 0;
}

/* is_cut: the stream ended inside the message. */
static void close_body(struct chat_harmony *h, bool is_cut)
{
    chat_utf8_flush(&h->utf8, give_body, h);
    if (h->body_class == CHAT_CLASS_TOOL) {
        struct lr_str lead = {h->header, h->header_len};
        if (!h->in_arguments && !is_blank_text(lead)) {
            h->body_started = true;
            parser_give(h, CHAT_DELTA_TOOL_ARGUMENTS, lead);
        }
        /* Clients parse the arguments as JSON, so a call without arguments gets "{}". */
        if (!h->body_started && !is_cut)
            parser_give(h, CHAT_DELTA_TOOL_ARGUMENTS, LR_STR_LIT("{}"));
        parser_give(h, CHAT_DELTA_TOOL_END, lr_str(NULL, 0));
        h->tool_count++;
    } else {
        h->joint_due[h->body_class] |= h->body_started;
    }
    h->header_len = 0;
}

static void begin_between(struct chat_harmony *h, bool after_call)
{
    h->state = CHAT_HARMONY_BETWEEN;
    h->after_call = after_call;
    h->header_len = 0;
}

/* Text outside of messages is kept as far as it fits and emitted if the stream gives nothing
 * else. */
static void drop(struct chat_harmony *h, struct lr_str text)
{
    size_t room = sizeof(h->lost) - h->lost_len;
    if (is_blank_text(text) || room < 2)
        return;
    if (h->lost_len > 0) {
        h->lost[h->lost_len++] = ' ';
        room--;
    }
    size_t n = text.len < room ? text.len : room;
    memcpy(h->lost + h->lost_len, text.ptr, n);
    h->lost_len += (uint32_t)n;
}

/* <|message|> never came: the words that are no header are the message's text. */
static void header_to_body(struct chat_harmony *h, const struct chat_harmony_header *header)
{
    char text[CHAT_HARMONY_HEADER_MAX]; /* begin_body reuses h->header */
    size_t len = h->header_len - header->text_at;
    memcpy(text, h->header + header->text_at, len);
    begin_body(h, header);
    chat_utf8_feed(&h->utf8, lr_str(text, len), give_body, h);
}

static struct lr_str header_text(const struct chat_harmony *h,
                                 const struct chat_harmony_header *header)
{
    return lr_str(h->header + header->text_at, h->header_len - header->text_at);
}

/* A control token that ends messages ended the header. */
static void end_header(struct chat_harmony *h)
{
    struct chat_harmony_header header = chat_harmony_header_read(h, false);
    if (header.class != CHAT_CLASS_TOOL && is_blank_text(header_text(h, &header)))
        return;
    header_to_body(h, &header);
    close_body(h, false);
}

/* Another header begins before this one ended.  A sentence or arguments were a message without
 * its marker; a word or two is noise and dropped. */
static void abandon_header(struct chat_harmony *h)
{
    struct chat_harmony_header header = chat_harmony_header_read(h, false);
    struct lr_str text = lr_str_trim(header_text(h, &header));
    bool is_sentence = text.len > 24 || lr_str_find_char(text, ' ') != LR_STR_NONE;
    bool is_arguments = header.class == CHAT_CLASS_TOOL && lr_str_starts(text, "{");
    if (is_arguments || (is_sentence && !chat_harmony_header_words_only(text))) {
        header_to_body(h, &header);
        close_body(h, false);
    } else {
        drop(h, text);
    }
}

/* ---- text ---- */

static void begin_content(struct chat_harmony *h)
{
    struct chat_harmony_header header = {.class = CHAT_CLASS_CONTENT};
    header_to_body(h, &header);
}

/* Both return how much of text they took; the rest is for the state that follows. */
static size_t text_in_header(struct chat_harmony *h, struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (h->header_len == CHAT_HARMONY_HEADER_MAX) {
            struct chat_harmony_header header = chat_harmony_header_read(h, false);
            header_to_body(h, &header);
            return i;
        }
        h->header[h->header_len++] = text.ptr[i];
        if (!h->has_channel && chat_harmony_header_is_text(h)) {
            struct chat_harmony_header header = chat_harmony_header_read(h, false);
            header_to_body(h, &header);
            return i + 1;
        }
        if (parser_is_blank(text.ptr[i]))
            h->word_at = h->header_len;
    }
    return text.len;
}

static size_t text_between(struct chat_harmony *h, struct lr_str text)
{
    size_t room = CHAT_HARMONY_HEADER_MAX - h->header_len;
    size_t n = text.len < room ? text.len : room;
    memcpy(h->header + h->header_len, text.ptr, n);
    h->header_len += (uint32_t)n;
    if (n < text.len)
        begin_content(h);
    return n;
}

static void on_text(struct chat_harmony *h, struct lr_str text)
{
    while (text.len > 0 && h->state != CHAT_HARMONY_BODY) {
        size_t n =
            h->state == CHAT_HARMONY_HEADER ? text_in_header(h, text) : text_between(h, text);
        text = lr_str(text.ptr + n, text.len - n);
    }
    if (text.len > 0)
        chat_utf8_feed(&h->utf8, text, give_body, h);
}

/* ---- control tokens ---- */

/* A control token separates words. */
static void header_gap(struct chat_harmony *h)
{
    if (h->header_len < CHAT_HARMONY_HEADER_MAX && h->header_len > 0)
        h->header[h->header_len++] = ' ';
    h->word_at = h->header_len;
}

/* <|message|>: every word before it belongs to the header, known or not. */
static void message_begins(struct chat_harmony *h)
{
    struct chat_harmony_header words = chat_harmony_header_read(h, false);
    struct chat_harmony_header header = chat_harmony_header_read(h, true);
    drop(h, header_text(h, &words));
    begin_body(h, &header);
}

static void control_in_header(struct chat_harmony *h, enum control control)
{
    switch (control) {
    case CONTROL_MESSAGE:
        message_begins(h);
        break;
    case CONTROL_CHANNEL:
        /* The last channel counts; recipients before it are kept. */
        abandon_header(h);
        if (h->state != CHAT_HARMONY_HEADER)
            begin_header(h, false);
        header_gap(h);
        h->has_channel = true;
        h->channel_at = h->header_len;
        break;
    case CONTROL_CONSTRAIN:
        header_gap(h);
        h->constrain_at = h->header_len;
        break;
    case CONTROL_START:
        abandon_header(h);
        begin_header(h, true);
        break;
    case CONTROL_END:
    case CONTROL_CALL:
    case CONTROL_STOP:
        end_header(h);
        begin_between(h, control == CONTROL_CALL);
        break;
    case CONTROL_OTHER:
        header_gap(h);
        break;
    }
}

static void control_in_body(struct chat_harmony *h, enum control control)
{
    switch (control) {
    case CONTROL_END:
    case CONTROL_CALL:
    case CONTROL_STOP:
        close_body(h, false);
        begin_between(h, control == CONTROL_CALL);
        break;
    case CONTROL_START:
    case CONTROL_CHANNEL:
        close_body(h, false);
        begin_header(h, control == CONTROL_START);
        h->has_channel = control == CONTROL_CHANNEL;
        break;
    case CONTROL_MESSAGE:
    case CONTROL_CONSTRAIN:
    case CONTROL_OTHER:
        break;
    }
}

static void control_between(struct chat_harmony *h, enum control control)
{
    struct lr_str text = {h->header, h->header_len};
    switch (control) {
    case CONTROL_START:
    case CONTROL_CHANNEL:
        drop(h, text);
        begin_header(h, control == CONTROL_START);
        h->has_channel = control == CONTROL_CHANNEL;
        break;
    case CONTROL_MESSAGE: /* a header without its <|start|> */
        begin_header(h, true);
        h->header_len = (uint32_t)text.len;
        message_begins(h);
        break;
    case CONTROL_CALL:
    case CONTROL_END:
    case CONTROL_STOP:
    case CONTROL_CONSTRAIN:
    case CONTROL_OTHER:
        h->after_call |= control == CONTROL_CALL;
        header_gap(h);
        break;
    }
}

void chat_harmony_token(struct chat_harmony *h, struct lr_str bytes, bool special)
{
    if (!special) {
        on_text(h, bytes);
        return;
    }
    enum control control = control_of(bytes);
    switch (h->state) {
    case CHAT_HARMONY_HEADER:
        control_in_header(h, control);
        break;
    case CHAT_HARMONY_BODY:
        control_in_body(h, control);
        break;
    case CHAT_HARMONY_BETWEEN:
        control_between(h, control);
        break;
    }
}

/* The stream ended inside a header: a truncated name is no call, a truncated channel no
 * text. */
static void end_in_header(struct chat_harmony *h)
{
    struct chat_harmony_header header = chat_harmony_header_read(h, false);
    struct lr_str text = header_text(h, &header);
    if (is_blank_text(text) || chat_harmony_header_is_cut(h, text))
        return;
    header_to_body(h, &header);
    close_body(h, true);
}

void chat_harmony_end(struct chat_harmony *h)
{
    struct lr_str text = {h->header, h->header_len};
    switch (h->state) {
    case CHAT_HARMONY_HEADER:
        end_in_header(h);
        break;
    case CHAT_HARMONY_BODY:
        close_body(h, true);
        break;
    case CHAT_HARMONY_BETWEEN:
        if (!is_blank_text(text) && !(h->after_call && chat_harmony_header_words_only(text))) {
            begin_content(h);
            close_body(h, true);
        }
        break;
    }
    begin_between(h, false);

    struct lr_str lost = {h->lost, h->lost_len};
    if (!h->gave_any && !is_blank_text(lost) && !chat_harmony_header_words_only(lost)) {
        struct chat_harmony_header content = {.class = CHAT_CLASS_CONTENT};
        begin_body(h, &content);
        chat_utf8_feed(&h->utf8, lost, give_body, h);
        close_body(h, true);
        begin_between(h, false);
    }
    h->lost_len = 0;
}
