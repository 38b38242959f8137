/* chat/responses/stored.c - stored responses: what a body refers to, how it joins the input,
 * and what is stored of a request.
 *
 * The id of an item contains the letters of its response's id, so that an item is found
 * without an index: "resp_LETTERS" has the items "rs_LETTERS0", "msg_LETTERS1", ... and the
 * input items "msg_LETTERSi0", ...
 */
#include "chat/responses/stored.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/strmap.h"
#include "chat/responses/build.h"

enum { ANSWERS_MAX = 1000 }; /* responses whose items one request may name */

/* ---- references ---- */

/* The id that an item refers to.  Some clients leave out the type. */
static bool reference(const struct lr_json *item, struct lr_str *id)
{
    struct lr_str type;
    const struct lr_json *given = lr_json_get(item, "type");
    if (given == NULL || given->type == LR_JSON_NULL)
        return lr_json_get(item, "role") == NULL && lr_json_str(lr_json_get(item, "id"), id);
    return lr_json_str(given, &type) && lr_str_eq_z(type, "item_reference") &&
           lr_json_str(lr_json_get(item, "id"), id);
}

/* The letters of the response that has the item; empty: no response of ours has it. */
static struct lr_str letters_of(struct lr_str id)
{
    size_t bar = lr_str_find_char(id, '_');
    struct lr_str letters = {0};
    if (bar != LR_STR_NONE)
        letters = lr_str_sub(id, bar + 1, bar + 1 + CHAT_LETTERS);
    return letters.len == CHAT_LETTERS && lr_str_is_plain(letters, "") ? letters
                                                                       : lr_str("", 0);
}

static lr_code fail_wanted(struct chat_error *e, lr_code code, const char *param,
                           const char *text)
{
    (void)snprintf(e->param, sizeof(e->param), "%s", param);
    if (code != LR_INVALID_ARGUMENT)
        return lr_fail(&e->error, code, "%s", text);
    e->code = "invalid_value";
    return lr_fail_as(&e->error, invalid_value, text);
}

static lr_code add_answer(struct lr_arena *arena, struct lr_strmap *known, struct lr_str id,
                          struct chat_wanted *out, struct chat_error *e)
{
    struct lr_str letters = letters_of(id);
    if (letters.len == 0 || lr_strmap_has(known, letters))
        return LR_OK;
    if (out->answer_count == ANSWERS_MAX)
        return fail_wanted(e, LR_INVALID_ARGUMENT, "input",
                           "'input' refers to items of more than 1000 responses; send the "
                           "items themselves.");
    if (out->answers == NULL)
        out->answers = lr_arena_array(arena, ANSWERS_MAX, sizeof(*out->answers));
    const char *answer = lr_arena_printf(arena, "resp_" LR_STR_FMT, LR_STR_ARG(letters));
    if (out->answers == NULL || answer == NULL || !lr_strmap_put(known, letters, known, NULL))
        return fail_wanted(e, LR_OUT_OF_RAM, "input", "no memory for 'input'");
    out->answers[out->answer_count++] = lr_str_z(answer);
    return LR_OK;
}

lr_code chat_responses_find_stored(struct lr_arena *arena, const struct lr_json *root,
                                   struct chat_wanted *out, struct chat_error *e)
{
    const struct lr_json *input = lr_json_get(root, "input");
    struct lr_strmap known;
    struct lr_str id;
    lr_code code = LR_OK;
    (void)lr_json_str(lr_json_get(root, "previous_response_id"), &out->previous);
    if (!lr_json_is(input, LR_JSON_ARRAY))
        return LR_OK;
    lr_strmap_init(&known);
    for (uint32_t i = 0; code == LR_OK && i < input->count; i++)
        if (reference(&input->items[i], &id))
            code = add_answer(arena, &known, id, out, e);
    lr_strmap_free(&known);
    return code;
}

/* ---- the input with what it refers to ---- */

struct join {
    struct chat_parse *p;
    struct lr_json *list; /* arena */
    uint32_t count;
    struct lr_strmap found; /* id -> stored item */
};

static lr_code stored_no_memory(struct chat_parse *p)
{
    return chat_parse_fail(p, "input", NULL, LR_OUT_OF_RAM,
                           "no memory for 'input' (limit %zu bytes)", p->arena->limit);
}

/* Reads stored items; a row that is damaged is an error of the server. */
static lr_code read_items(struct chat_parse *p, struct lr_str text, const struct lr_json **out)
{
    struct lr_error err;
    char *list = lr_arena_alloc(p->arena, text.len + 2);
    if (list == NULL)
        return stored_no_memory(p);
    list[0] = '[';
    if (text.len > 0)
        memcpy(list + 1, text.ptr, text.len);
    list[text.len + 1] = ']';
    lr_code code = lr_json_parse(p->arena, lr_str(list, text.len + 2), NULL, out, &err);
    return code == LR_OK ? LR_OK
                         : chat_parse_fail(p, NULL, NULL, LR_INTERNAL,
                                           "a stored response cannot be read: %s", err.text);
}

static lr_code add_own(struct join *j, const struct lr_json *item, uint32_t index)
{
    struct lr_str id;
    if (!reference(item, &id)) {
        j->list[j->count++] = *item;
        return LR_OK;
    }
    if (j->p->stored == NULL) {
        char param[40];
        (void)snprintf(param, sizeof(param), "input[%u].type", index);
        return chat_parse_fail(j->p, param, "unsupported_value", LR_UNSUPPORTED,
                               "Invalid '%s': 'item_reference' is not supported, since this "
                               "server stores no responses; send the item itself.",
                               param);
    }
    const struct lr_json *stored = lr_strmap_get(&j->found, id);
    if (stored == NULL)
        return chat_parse_fail(j->p, "input", "item_not_found", LR_NOT_FOUND,
                               "Item with id '%.*s' not found. Items are not persisted when "
                               "`store` is set to false. Try again with `store` set to true, "
                               "or remove this item from your input.",
                               id.len < 64 ? (int)id.len : 64, id.ptr);
    j->list[j->count++] = *stored;
    return LR_OK;
}

static lr_code find_items(struct join *j, const struct lr_json *items)
{
    struct lr_str id;
    for (uint32_t i = 0; i < items->count; i++)
        if (lr_json_str(lr_json_get(&items->items[i], "id"), &id) &&
            !lr_strmap_put(&j->found, id, (void *)(uintptr_t)&items->items[i], NULL))
            return stored_no_memory(j->p);
    return LR_OK;
}

/* A string is the content of one message. */
static lr_code stored_add_text(struct join *j, const struct lr_json *input)
{
    struct chat_object o;
    if (!chat_object_begin(&o, j->p->arena, NULL, 3))
        return stored_no_memory(j->p);
    chat_object_set(&o, "type", chat_string_json(LR_STR_LIT("message")));
    chat_object_set(&o, "role", chat_string_json(LR_STR_LIT("user")));
    chat_object_set(&o, "content", *input);
    j->list[j->count++] = chat_object_json(&o);
    return LR_OK;
}

static lr_code join_lists(struct join *j, const struct lr_json *earlier,
                          const struct lr_json *items)
{
    struct chat_responses_parse *r = chat_responses_parse_of(j->p);
    const struct lr_json *input = r->input;
    size_t count = (size_t)earlier->count + (input->type == LR_JSON_ARRAY ? input->count : 1);
    struct lr_json *whole = lr_arena_alloc(j->p->arena, 2 * sizeof(*whole));
    j->list = lr_arena_array(j->p->arena, count, sizeof(*j->list));
    if (whole == NULL || (j->list == NULL && count > 0))
        return stored_no_memory(j->p);
    if (earlier->count > 0)
        memcpy(j->list, earlier->items, earlier->count * sizeof(*j->list));
    j->count = earlier->count;
    lr_code code = find_items(j, items);
    if (code == LR_OK && input->type == LR_JSON_STRING)
        code = stored_add_text(j, input);
    for (uint32_t i = 0; code == LR_OK && input->type == LR_JSON_ARRAY && i < input->count; i++)
        code = add_own(j, &input->items[i], i);
    whole[0] = (struct lr_json){.type = LR_JSON_ARRAY, .count = j->count, .items = j->list};
    whole[1] = (struct lr_json){.type = LR_JSON_ARRAY,
                                .count = j->count - earlier->count,
                                .items = j->list + earlier->count};
    r->input = &whole[0];
    r->earlier = earlier->count;
    j->p->req->input = &whole[1];
    return code;
}

static bool has_references(const struct lr_json *input)
{
    struct lr_str id;
    for (uint32_t i = 0; input->type == LR_JSON_ARRAY && i < input->count; i++)
        if (reference(&input->items[i], &id))
            return true;
    return false;
}

lr_code chat_responses_join(struct chat_parse *p)
{
    struct chat_responses_parse *r = chat_responses_parse_of(p);
    const struct chat_stored *stored = p->stored;
    const struct lr_json *earlier, *items;
    struct join j = {.p = p};
    p->req->input = r->input;
    if (p->req->previous.len == 0 && !has_references(r->input))
        return LR_OK;
    if (p->req->previous.len > 0 && stored == NULL)
        return chat_parse_fail(p, "previous_response_id", "unsupported_parameter",
                               LR_UNSUPPORTED,
                               "Unsupported parameter: 'previous_response_id'. This server "
                               "stores no responses: send the whole conversation in `input`.");
    if (stored != NULL && stored->missing.len > 0)
        return chat_parse_fail(
            p, "previous_response_id", "previous_response_not_found", LR_INVALID_ARGUMENT,
            "Previous response with id '%.*s' not found.",
            stored->missing.len < 64 ? (int)stored->missing.len : 64, stored->missing.ptr);
    lr_code code = read_items(p, stored != NULL ? stored->earlier : lr_str("", 0), &earlier);
    if (code == LR_OK)
        code = read_items(p, stored != NULL ? stored->items : lr_str("", 0), &items);
    lr_strmap_init(&j.found);
    if (code == LR_OK)
        code = join_lists(&j, earlier, items);
    lr_strmap_free(&j.found);
    return code;
}

/* ---- what is stored of a request ---- */

static void put_text_part(struct lr_json_writer *w, bool is_assistant, struct lr_str text)
{
    lr_json_begin_array(w);
    LR_JSON_ITEM(w, LR_TEXT("type", is_assistant ? "output_text" : "input_text"),
                 LR_STR("text", text));
    lr_json_end_array(w);
}

/* The prefix of an item's id, by its type. */
static const char *prefix_of(const struct lr_json *item)
{
    static const char *const prefixes[][2] = {
        {"function_call", "fc"}, {"function_call_output", "fco"},
        {"reasoning", "rs"},     {"custom_tool_call", "ctc"},
        {"message", "msg"},      {"custom_tool_call_output", "ctco"},
    };
    struct lr_str type = LR_STR_LIT("message");
    (void)lr_json_str(lr_json_get(item, "type"), &type);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (lr_str_eq_z(type, prefixes[i][0]))
            return prefixes[i][1];
    return "item";
}

/* Writes an item as OpenAI's server lists it: with an id, a type, and the content as parts. */
static void put_item(struct lr_json_writer *w, const struct lr_json *item,
                     struct lr_str letters, uint32_t index)
{
    struct lr_str id = {0}, role = {0}, text;
    char own[CHAT_ITEM_ID_MAX];
    (void)lr_json_str(lr_json_get(item, "role"), &role);
    (void)snprintf(own, sizeof(own), "%s_" LR_STR_FMT "i%u", prefix_of(item),
                   LR_STR_ARG(letters), index);
    bool has_id = lr_json_str(lr_json_get(item, "id"), &id) && id.len > 0;
    lr_json_begin_object(w);
    lr_json_member_str(w, "id", has_id ? id : lr_str_z(own));
    if (!lr_json_is(lr_json_get(item, "type"), LR_JSON_STRING))
        lr_json_member_z(w, "type", "message");
    for (uint32_t i = 0; i < item->count; i++) {
        const struct lr_json_member *m = &item->members[i];
        if (lr_str_eq_z(m->key, "id") || m->value.type == LR_JSON_NULL)
            continue;
        lr_json_key_str(w, m->key);
        if (lr_str_eq_z(m->key, "content") && role.len > 0 && lr_json_str(&m->value, &text))
            put_text_part(w, lr_str_eq_z(role, "assistant"), text);
        else
            lr_json_put_value(w, &m->value);
    }
    lr_json_end_object(w);
}

void chat_responses_put_input(struct lr_buf *out, const struct lr_json *input,
                              struct lr_str letters)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_array(&w);
    for (uint32_t i = 0; input->type == LR_JSON_ARRAY && i < input->count; i++)
        put_item(&w, &input->items[i], letters, i);
    if (input->type == LR_JSON_STRING) {
        const struct lr_json_member members[] = {
            {LR_STR_LIT("role"), {.type = LR_JSON_STRING, .text = LR_STR_LIT("user")}},
            {LR_STR_LIT("content"), *input}};
        put_item(&w, &(struct lr_json){.type = LR_JSON_OBJECT, .count = 2, .members = members},
                 letters, 0);
    }
    lr_json_end_array(&w);
}
