/* chat/responses/items.c - deltas -> items of the Responses API: each a reasoning, a message or
 * a call, in the model's order.
 *
 * An item ends where another kind of text begins, so empty items are never created.  The input
 * of a custom tool is wrapped in JSON (chat/responses/function.c): the client gets it when the
 * call is complete.
 */
#include "chat/responses/answer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "chat/openai/openai.h"

/* ---- making and freeing ---- */

/* Copies the request's tools; false: no memory. */
static bool keep_tools(struct chat_items *items, const struct chat_request *req)
{
    uint32_t count = req->tools != NULL ? req->tools->count : 0;
    items->tools = calloc((size_t)count + 1, sizeof(*items->tools));
    for (uint32_t i = 0; items->tools != NULL && i < count; i++) {
        const struct chat_tool_origin *origin = &req->origins[i];
        struct chat_items_tool *tool = &items->tools[i];
        (void)snprintf(tool->name, sizeof(tool->name), LR_STR_FMT, LR_STR_ARG(origin->name));
        tool->space_len = origin->space_len;
        tool->is_custom = origin->is_custom;
    }
    items->tool_count = items->tools != NULL ? count : 0;
    return items->tools != NULL;
}

/* The tool that the model calls; NULL: not declared.  A model may leave out the namespace if
 * the name is unique. */
static const struct chat_items_tool *find_tool(const struct chat_items *items,
                                               struct lr_str name)
{
    const struct chat_items_tool *found = NULL;
    uint32_t namesakes = 0;
    for (uint32_t i = 0; i < items->tool_count; i++) {
        const struct chat_items_tool *tool = &items->tools[i];
        if (lr_str_eq_z(name, tool->name))
            return tool;
        if (tool->space_len > 0 && lr_str_eq_z(name, tool->name + tool->space_len + 1)) {
            found = tool;
            namesakes++;
        }
    }
    return namesakes == 1 ? found : NULL;
}

static lr_code items_open_writer(struct chat_response *r,
                                 const struct chat_response_options *options,
                                 struct lr_error *err)
{
    size_t limit = r->choices[0].content.limit;
    struct chat_items *items = calloc(1, sizeof(*items));
    r->own = items;
    if (items != NULL) {
        lr_buf_init(&items->items, limit);
        lr_buf_init(&items->text, limit);
        lr_buf_init(&items->logprobs, limit);
        items->has_summary = options->request->wants_summary;
        items->is_sealed = options->request->wants_sealed;
        struct lr_str id = options->id;
        LR_COPY(items->letters, lr_str_sub(id, strlen(r->codec->id_prefix), id.len));
        items->repeated = chat_items_repeated(
            options->request,
            options->sampling != NULL ? options->sampling : &options->request->sampling);
    }
    if (items == NULL || items->repeated == NULL || !keep_tools(items, options->request))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a response");
    return LR_OK;
}

static void items_close_writer(struct chat_response *r)
{
    struct chat_items *items = r->own;
    if (items == NULL)
        return;
    lr_buf_free(&items->items);
    lr_buf_free(&items->text);
    lr_buf_free(&items->logprobs);
    free(items->repeated);
    free(items->tools);
    free(items);
    r->own = NULL;
}

/* ---- items ---- */

static void open_item(struct chat_choice *c, enum chat_item kind)
{
    static const char *const prefixes[] = {[CHAT_ITEM_REASONING] = "rs_",
                                           [CHAT_ITEM_MESSAGE] = "msg_",
                                           [CHAT_ITEM_FUNCTION] = "fc_",
                                           [CHAT_ITEM_CUSTOM] = "ctc_"};
    struct chat_items *items = c->response->own;
    (void)snprintf(items->id, sizeof(items->id), "%s%s%u", prefixes[kind], items->letters,
                   items->index);
    items->open = kind;
    items->had[kind] = true;
    if (c->response->stream)
        chat_event_opened(c);
}

/* Appends the text in {"input": ...}; false if the text is no such object. */
static bool unwrap(struct lr_str text, struct lr_buf *out)
{
    struct lr_arena arena;
    const struct lr_json *call;
    struct lr_str input = {0};
    lr_arena_init(&arena, (64 << 10) + 16 * text.len);
    bool ok = lr_json_parse(&arena, text, NULL, &call, NULL) == LR_OK &&
              lr_json_str(lr_json_get(call, "input"), &input);
    if (ok)
        lr_buf_add_str(out, input);
    lr_arena_free(&arena);
    return ok;
}

/* A call that was truncated inside its string is closed after the last complete escape (at most
 * two escapes of six letters are dropped).  Any other text is given unchanged. */
static void unwrap_input(struct chat_items *items)
{
    enum { ESCAPES = 12 };
    struct lr_buf whole, input;
    lr_buf_init(&whole, items->text.limit + 2);
    lr_buf_init(&input, items->text.limit);
    bool ok = unwrap(lr_buf_str(&items->text), &input);
    for (size_t cut = 0; !ok && cut <= ESCAPES && cut < items->text.len; cut++) {
        lr_buf_clear(&whole);
        lr_buf_add(&whole, items->text.data, items->text.len - cut);
        lr_buf_add_z(&whole, "\"}");
        ok = unwrap(lr_buf_str(&whole), &input);
    }
    lr_buf_free(&whole);
    if (!ok) {
        lr_buf_free(&input);
        return;
    }
    input.failed = input.failed || items->text.failed;
    lr_buf_free(&items->text);
    items->text = input;
}

static void close_item(struct chat_choice *c, const char *status, bool tells)
{
    struct chat_items *items = c->response->own;
    if (items->open == CHAT_ITEM_NONE)
        return;
    if (items->open == CHAT_ITEM_CUSTOM)
        unwrap_input(items);
    if (items->items.len > 0)
        lr_buf_add_char(&items->items, ',');
    size_t at = items->items.len;
    chat_item_write(c, status, true, &items->items);
    if (tells && c->response->stream && !items->items.failed)
        chat_event_closed(c, lr_str(items->items.data + at, items->items.len - at));
    items->open = CHAT_ITEM_NONE;
    items->index++;
    bool failed = items->text.failed || items->logprobs.failed;
    lr_buf_clear(&items->text);
    lr_buf_clear(&items->logprobs);
    c->response->lost = c->response->lost || failed;
}

/* ---- the writer ---- */

static void items_begin(struct chat_choice *c)
{
    if (c->response->stream)
        chat_event_begin(c->response);
}

/* The Harmony parser separates two messages of a class by newlines, for APIs that join them.
 * Here they are separate items if another item is between them. */
static struct lr_str without_joint(enum chat_item kind, struct lr_str text)
{
    size_t joint = kind == CHAT_ITEM_MESSAGE ? 2 : 1;
    if (lr_str_starts(text, kind == CHAT_ITEM_MESSAGE ? "\n\n" : "\n"))
        return lr_str_sub(text, joint, text.len);
    return text;
}

static void items_add_text(struct chat_choice *c, enum chat_item kind, struct lr_str text)
{
    struct chat_response *r = c->response;
    struct chat_items *items = r->own;
    if (items->open != kind) {
        close_item(c, "completed", true);
        if (items->had[kind])
            text = without_joint(kind, text);
        if (text.len == 0)
            return;
        open_item(c, kind);
    }
    size_t at = items->logprobs.len;
    lr_buf_add_str(&items->text, text);
    if (kind == CHAT_ITEM_MESSAGE && r->logprobs) {
        struct lr_buf entries;
        lr_buf_init(&entries, items->logprobs.limit);
        chat_logprobs_entries(c, &entries);
        if (at > 0 && entries.len > 0)
            lr_buf_add_char(&items->logprobs, ',');
        at = items->logprobs.len;
        lr_buf_add_str(&items->logprobs, lr_buf_str(&entries));
        lr_buf_free(&entries);
    }
    if (r->stream)
        chat_event_delta(c, text,
                         lr_str_sub(lr_buf_str(&items->logprobs), at, items->logprobs.len));
}

static void items_write_text(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                             struct lr_str text)
{
    struct chat_items *items = c->response->own;
    (void)tool; /* the open call is always the last */
    if (kind == CHAT_DELTA_CONTENT) {
        items_add_text(c, CHAT_ITEM_MESSAGE, text);
    } else if (kind == CHAT_DELTA_REASONING) {
        items_add_text(c, CHAT_ITEM_REASONING, text);
    } else {
        lr_buf_add_str(&items->text, text);
        if (c->response->stream && items->open == CHAT_ITEM_FUNCTION)
            chat_event_delta(c, text, LR_STR_LIT(""));
    }
}

static void items_write_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    struct chat_items *items = c->response->own;
    close_item(c, "completed", true);
    items->tool = tool;
    const struct chat_items_tool *known = find_tool(items, name);
    uint32_t space = known != NULL ? known->space_len : 0;
    if (space > 0)
        name = lr_str_z(known->name + space + 1);
    (void)snprintf(items->space, sizeof(items->space), "%.*s", (int)space,
                   space > 0 ? known->name : "");
    (void)snprintf(items->name, sizeof(items->name), LR_STR_FMT, LR_STR_ARG(name));
    open_item(c, known != NULL && known->is_custom ? CHAT_ITEM_CUSTOM : CHAT_ITEM_FUNCTION);
}

static void items_end_call(struct chat_choice *c)
{
    /* At the end of a stream the parser also closes an incomplete call. */
    if (!c->truncated)
        close_item(c, "completed", true);
}

static void items_finish(struct chat_choice *c)
{
    close_item(c, c->truncated ? "incomplete" : "completed", true);
}

static void items_fail(struct chat_response *r, const struct lr_error *error)
{
    if (!r->stream) {
        chat_openai_error(r->out, r->codec, &(struct chat_error){.error = *error});
        return;
    }
    struct chat_choice *c = &r->choices[0];
    if (!c->began)
        items_begin(c);
    close_item(c, "incomplete", false);
    chat_event_end(r, "failed", error);
}

const char *chat_items_status(const struct chat_response *r)
{
    return r->choices[0].truncated ? "incomplete" : "completed";
}

static void items_complete(struct chat_response *r)
{
    const char *status = chat_items_status(r);
    if (r->lost || chat_items_of(r)->items.failed || r->choices[0].logprobs.failed) {
        struct lr_error error;
        r->status = lr_fail(&error, LR_OUT_OF_RAM,
                            "the answer is larger than %zu bytes; ask for fewer tokens",
                            chat_items_of(r)->items.limit);
        lr_buf_clear(&chat_items_of(r)->items);
        items_fail(r, &error);
    } else if (r->stream) {
        chat_event_end(r, status, NULL);
    } else {
        chat_items_response(r, status, NULL, r->out);
    }
}

const struct chat_writer chat_items_writer = {.head = chat_items_head,
                                              .open = items_open_writer,
                                              .close = items_close_writer,
                                              .begin = items_begin,
                                              .text = items_write_text,
                                              .call = items_write_call,
                                              .call_end = items_end_call,
                                              .finish = items_finish,
                                              .complete = items_complete,
                                              .fail = items_fail,
                                              .record = chat_items_record};
