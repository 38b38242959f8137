/* chat/responses/events.c - the stream of the Responses API: named, numbered SSE events.
 * Written with plain appends, like the chunks of the chat API. */
#include "chat/responses/answer.h"

#include <stdio.h>

#include "base/json.h"
#include "chat/codec.h"
#include "chat/openai/openai.h"

#define ADD(buf, literal) lr_buf_add((buf), (literal), sizeof(literal) - 1)

/* event: NAME\ndata: {"type":"NAME","sequence_number":N */
static struct lr_buf *events_begin(struct chat_response *r, const char *name)
{
    struct lr_buf *out = r->out;
    ADD(out, "event: ");
    lr_buf_add_z(out, name);
    ADD(out, "\ndata: {\"type\":\"");
    lr_buf_add_z(out, name);
    lr_buf_addf(out, "\",\"sequence_number\":%llu",
                (unsigned long long)chat_items_of(r)->sequence++);
    return out;
}

static void events_end(struct lr_buf *out)
{
    ADD(out, "}\n\n");
}

/* Begins an event about the current item. */
static struct lr_buf *begin_item(struct chat_response *r, const char *name)
{
    struct lr_buf *out = events_begin(r, name);
    lr_buf_addf(out, ",\"output_index\":%u", chat_items_of(r)->index);
    return out;
}

static bool has_parts(const struct chat_items *items)
{
    return items->open == CHAT_ITEM_REASONING || items->open == CHAT_ITEM_MESSAGE;
}

static bool is_summary(const struct chat_items *items)
{
    return items->open == CHAT_ITEM_REASONING && items->has_summary;
}

static struct lr_buf *begin_text(struct chat_response *r, const char *name)
{
    struct lr_buf *out = begin_item(r, name);
    ADD(out, ",\"item_id\":\"");
    lr_buf_add_z(out, chat_items_of(r)->id);
    lr_buf_add_char(out, '"');
    if (has_parts(r->own))
        lr_buf_addf(out, ",\"%s_index\":0", is_summary(r->own) ? "summary" : "content");
    return out;
}

static void write_response(struct chat_response *r, const char *event, const char *status,
                           const struct lr_error *error)
{
    struct lr_buf *out = events_begin(r, event);
    ADD(out, ",\"response\":");
    chat_items_response(r, status, error, out);
    events_end(out);
}

void chat_event_begin(struct chat_response *r)
{
    write_response(r, "response.created", "in_progress", NULL);
    write_response(r, "response.in_progress", "in_progress", NULL);
}

static void write_part(struct chat_response *r, const char *event, bool with_text)
{
    struct lr_buf *out = begin_text(r, event);
    ADD(out, ",\"part\":");
    chat_part_write(r->own, with_text, out);
    events_end(out);
}

void chat_event_opened(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    struct lr_buf *out = begin_item(r, "response.output_item.added");
    ADD(out, ",\"item\":");
    chat_item_write(c, "in_progress", false, out);
    events_end(out);
    if (has_parts(chat_items_of(r)))
        write_part(r,
                   is_summary(r->own) ? "response.reasoning_summary_part.added"
                                      : "response.content_part.added",
                   false);
}

void chat_event_delta(struct chat_choice *c, struct lr_str text, struct lr_str logprobs)
{
    static const char *const names[] = {
        [CHAT_ITEM_REASONING] = "response.reasoning_text.delta",
        [CHAT_ITEM_MESSAGE] = "response.output_text.delta",
        [CHAT_ITEM_FUNCTION] = "response.function_call_arguments.delta",
        [CHAT_ITEM_CUSTOM] = "response.custom_tool_call_input.delta"};
    struct chat_response *r = c->response;
    struct lr_buf *out =
        begin_text(r, is_summary(r->own) ? "response.reasoning_summary_text.delta"
                                         : names[chat_items_of(r)->open]);
    if (chat_items_of(r)->open == CHAT_ITEM_MESSAGE) {
        ADD(out, ",\"logprobs\":[");
        lr_buf_add_str(out, logprobs);
        lr_buf_add_char(out, ']');
    }
    ADD(out, ",\"delta\":");
    lr_json_quote(out, text);
    events_end(out);
}

static void write_text_done(struct chat_response *r)
{
    static const char *const names[] = {
        [CHAT_ITEM_REASONING] = "response.reasoning_text.done",
        [CHAT_ITEM_MESSAGE] = "response.output_text.done",
        [CHAT_ITEM_FUNCTION] = "response.function_call_arguments.done",
        [CHAT_ITEM_CUSTOM] = "response.custom_tool_call_input.done"};
    const struct chat_items *items = r->own;
    struct lr_buf *out = begin_text(
        r, is_summary(items) ? "response.reasoning_summary_text.done" : names[items->open]);
    if (items->open == CHAT_ITEM_MESSAGE) {
        ADD(out, ",\"logprobs\":[");
        lr_buf_add_str(out, lr_buf_str(&items->logprobs));
        lr_buf_add_char(out, ']');
    }
    if (items->open == CHAT_ITEM_FUNCTION) {
        ADD(out, ",\"name\":");
        lr_json_quote(out, lr_str_z(items->name));
    }
    lr_buf_add_z(out, has_parts(items)                    ? ",\"text\":"
                      : items->open == CHAT_ITEM_FUNCTION ? ",\"arguments\":"
                                                          : ",\"input\":");
    lr_json_quote(out, lr_buf_str(&items->text));
    events_end(out);
}

void chat_event_closed(struct chat_choice *c, struct lr_str item)
{
    struct chat_response *r = c->response;
    if (chat_items_of(r)->open == CHAT_ITEM_CUSTOM && chat_items_of(r)->text.len > 0)
        chat_event_delta(c, lr_buf_str(&chat_items_of(r)->text), LR_STR_LIT(""));
    write_text_done(r);
    if (has_parts(chat_items_of(r)))
        write_part(r,
                   is_summary(r->own) ? "response.reasoning_summary_part.done"
                                      : "response.content_part.done",
                   true);
    struct lr_buf *out = begin_item(r, "response.output_item.done");
    ADD(out, ",\"item\":");
    lr_buf_add_str(out, item);
    events_end(out);
}

/* Some clients read the event `error`, others response.failed: both are sent. */
static void events_write_error(struct chat_response *r, const struct lr_error *error)
{
    const char *param = NULL, *word = chat_error_word(r->codec, error, &param);
    struct lr_error told = chat_openai_error_told(error);
    char own[LR_CODE_WORD];
    struct lr_buf *out = events_begin(r, "error");
    ADD(out, ",\"code\":");
    lr_json_quote(out, lr_str_z(word != NULL ? word : lr_code_word(error->code, own)));
    ADD(out, ",\"message\":");
    lr_json_quote(out, lr_str_z(told.text));
    ADD(out, ",\"param\":");
    if (param != NULL)
        lr_json_quote(out, lr_str_z(param));
    else
        ADD(out, "null");
    events_end(out);
}

void chat_event_end(struct chat_response *r, const char *status, const struct lr_error *error)
{
    char name[40];
    (void)snprintf(name, sizeof(name), "response.%s", status);
    if (error != NULL)
        events_write_error(r, error);
    write_response(r, name, status, error);
}
