/* chat/anthropic/content.c - the text of content blocks.
 *
 * Models here read text only.  A block without text becomes a note, so that the model knows of
 * it and the conversation goes on.
 */
#include "chat/anthropic/anthropic.h"

bool chat_anthropic_is(const struct lr_json *block, const char *type)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(block, "type"), &text) && lr_str_eq_z(text, type);
}

static bool is_note(const struct lr_json *block)
{
    const struct lr_json *source = lr_json_get(block, "source");
    if (chat_anthropic_is(block, "document"))
        return !chat_anthropic_is(source, "text") && !chat_anthropic_is(source, "content");
    return chat_anthropic_is(block, "image");
}

bool chat_anthropic_has_note(const struct lr_json *block)
{
    const struct lr_json *content = lr_json_get(block, "content");
    bool found = is_note(block);
    for (uint32_t i = 0; !found && lr_json_is(content, LR_JSON_ARRAY) && i < content->count;
         i++)
        found = is_note(&content->items[i]);
    return found;
}

static void add_document(const struct lr_json *block, struct lr_buf *out)
{
    const struct lr_json *source = lr_json_get(block, "source");
    struct lr_str title, data;
    if (lr_json_str(lr_json_get(block, "title"), &title) && title.len > 0)
        lr_buf_addf(out, LR_STR_FMT ":\n", LR_STR_ARG(title));
    if (chat_anthropic_is(source, "text") && lr_json_str(lr_json_get(source, "data"), &data))
        lr_buf_add_str(out, data);
    else if (!chat_anthropic_is(source, "content") ||
             !chat_anthropic_text(lr_json_get(source, "content"), out))
        lr_buf_add_z(out, "[A document. This model reads text only.]");
}

void chat_anthropic_block_text(const struct lr_json *block, struct lr_buf *out)
{
    struct lr_str text;
    if (block->type == LR_JSON_STRING) {
        lr_buf_add_str(out, block->text);
    } else if (chat_anthropic_is(block, "text")) {
        if (lr_json_str(lr_json_get(block, "text"), &text))
            lr_buf_add_str(out, text);
    } else if (chat_anthropic_is(block, "image")) {
        lr_buf_add_z(out, "[An image. This model reads text only.]");
    } else if (chat_anthropic_is(block, "document")) {
        add_document(block, out);
    } else if (chat_anthropic_is(block, "search_result")) {
        (void)chat_anthropic_text(lr_json_get(block, "content"), out);
    }
}

bool chat_anthropic_text(const struct lr_json *content, struct lr_buf *out)
{
    if (lr_json_is(content, LR_JSON_STRING)) {
        lr_buf_add_str(out, content->text);
        return true;
    }
    if (!lr_json_is(content, LR_JSON_ARRAY))
        return false;
    size_t begin = out->len;
    for (uint32_t i = 0; i < content->count; i++) {
        size_t before = out->len;
        if (before > begin)
            lr_buf_add_char(out, '\n');
        size_t at = out->len;
        chat_anthropic_block_text(&content->items[i], out);
        if (out->len == at && !out->failed)
            out->len = before; /* no text: no newline */
    }
    return true;
}
