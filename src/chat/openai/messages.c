/* chat/openai/messages.c - parses messages and tools of a request.
 *
 * The shape of OpenAI's members is checked here, so that templates get what they expect.  Other
 * members of a message are passed on, because some templates use their own ("thinking",
 * "tool_plan").
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/strmap.h"
#include "chat/openai/openai.h"
#include "chat/template/repair.h"

enum { NAME_MAX_BYTES = 256 };

enum role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_COUNT };
static const char *const role_names[] = {"system", "developer", "user", "assistant", "tool"};

/* The current position, for the param of an error; its text is written only for an error. */
struct place {
    uint32_t message;
    uint32_t last_user; /* the message whose images the client asks about; UINT32_MAX: none */
    const char *list;   /* "messages" or "tools" */
};

static lr_code openai_messages_fail_at(struct chat_parse *p, const struct place *at,
                                       const char *member, const char *code, lr_code status,
                                       const char *fmt, ...) LR_PRINTF(6, 7);

static lr_code openai_messages_fail_at(struct chat_parse *p, const struct place *at,
                                       const char *member, const char *code, lr_code status,
                                       const char *fmt, ...)
{
    char param[96];
    char text[320];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    snprintf(param, sizeof(param), "%s[%u]%s", at->list, at->message, member);
    return chat_parse_fail(p, param, code, status, "Invalid '%s': %s", param, text);
}

static lr_code type_at(struct chat_parse *p, const struct place *at, const char *member,
                       const char *wanted, const struct lr_json *value)
{
    return openai_messages_fail_at(p, at, member, "invalid_type", LR_INVALID_ARGUMENT,
                                   "expected %s, got %s.", wanted,
                                   value != NULL ? lr_json_type_name(value->type) : "nothing");
}

/* ---- content ---- */

/* The member with the text of a part; NULL: parts of this type have none. */
static const char *text_member(const struct chat_parse *p, struct lr_str type)
{
    static const char *const members[][2] = {{"text", "text"},
                                             {"input_text", "text"},
                                             {"output_text", "text"},
                                             {"refusal", "refusal"},
                                             {"thinking", "thinking"}};
    size_t count = p->is_strict ? 1 : sizeof(members) / sizeof(members[0]);
    for (size_t i = 0; i < count; i++)
        if (lr_str_eq_z(type, members[i][0]))
            return members[i][1];
    return NULL;
}

/* An attachment.  In the history it is a note for the model (chat/template/repair.h), because a
 * refusal would end the conversation; in the last message the client asks about it. */
static lr_code check_attachment(struct chat_parse *p, const struct place *at,
                                const char *member, const char *what)
{
    char param[96];
    if (at->message == at->last_user)
        return openai_messages_fail_at(p, at, member, "unsupported_value", LR_UNSUPPORTED,
                                       "this model cannot see %s; it takes text.", what);
    (void)snprintf(param, sizeof(param), "%s[%u]%s", at->list, at->message, member);
    return chat_parse_ignore(p, param, "unsupported_value", LR_UNSUPPORTED,
                             "Invalid '%s': this model cannot see %s; it takes text.", param,
                             what);
}

static lr_code check_part(struct chat_parse *p, const struct place *at, uint32_t index,
                          const struct lr_json *part)
{
    char member[48];
    const char *what;
    struct lr_str type;

    snprintf(member, sizeof(member), ".content[%u]", index);
    if (part->type == LR_JSON_STRING)
        return LR_OK;
    if (part->type != LR_JSON_OBJECT)
        return type_at(p, at, member, "an object", part);
    if (!lr_json_str(lr_json_get(part, "type"), &type))
        return openai_messages_fail_at(p, at, member, "missing_required_parameter",
                                       LR_INVALID_ARGUMENT, "'type' is missing.");
    if (chat_part_note(type, &what).len > 0)
        return check_attachment(p, at, member, what);
    const char *text = text_member(p, type);
    if (text == NULL)
        return openai_messages_fail_at(
            p, at, member, "unsupported_value", LR_UNSUPPORTED,
            "content of type '%.*s' is not supported; this server takes text.",
            type.len < 40 ? (int)type.len : 40, type.ptr);
    if (!lr_json_is(lr_json_get(part, text), LR_JSON_STRING))
        return openai_messages_fail_at(p, at, member, "invalid_type", LR_INVALID_ARGUMENT,
                                       "'%s' must be a string.", text);
    return LR_OK;
}

static lr_code check_content(struct chat_parse *p, const struct place *at, enum role role,
                             const struct lr_json *content)
{
    if (content == NULL || content->type == LR_JSON_NULL) {
        if (role == ROLE_ASSISTANT || (role == ROLE_TOOL && !p->is_strict))
            return LR_OK;
        return openai_messages_fail_at(
            p, at, ".content", "missing_required_parameter", LR_INVALID_ARGUMENT,
            "a message of role '%s' needs content.", role_names[role]);
    }
    if (content->type == LR_JSON_STRING)
        return LR_OK;
    if (content->type != LR_JSON_ARRAY)
        return type_at(p, at, ".content", "a string or an array of parts", content);
    for (uint32_t i = 0; i < content->count; i++) {
        lr_code code = check_part(p, at, i, &content->items[i]);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

/* ---- tool calls of the history ---- */

static lr_code check_call(struct chat_parse *p, const struct place *at, uint32_t index,
                          const struct lr_json *call)
{
    char member[48];
    struct lr_str name;
    struct lr_str type;

    snprintf(member, sizeof(member), ".tool_calls[%u]", index);
    if (call->type != LR_JSON_OBJECT)
        return type_at(p, at, member, "an object", call);
    if (lr_json_str(lr_json_get(call, "type"), &type) && !lr_str_eq_z(type, "function"))
        return openai_messages_fail_at(p, at, member, "unsupported_value", LR_UNSUPPORTED,
                                       "only calls of type 'function' are supported.");
    const struct lr_json *function = lr_json_get(call, "function");
    if (!lr_json_str(lr_json_get(function, "name"), &name) || name.len == 0)
        return openai_messages_fail_at(p, at, member, "missing_required_parameter",
                                       LR_INVALID_ARGUMENT, "'function.name' is missing.");
    const struct lr_json *arguments = lr_json_get(function, "arguments");
    if (arguments != NULL && arguments->type != LR_JSON_STRING &&
        arguments->type != LR_JSON_OBJECT && arguments->type != LR_JSON_NULL)
        return openai_messages_fail_at(
            p, at, member, "invalid_type", LR_INVALID_ARGUMENT,
            "'function.arguments' must be a string that holds JSON.");
    return LR_OK;
}

static lr_code check_assistant(struct chat_parse *p, const struct place *at,
                               const struct lr_json *message)
{
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    const struct lr_json *legacy = lr_json_get(message, "function_call");
    if (legacy != NULL && legacy->type != LR_JSON_NULL)
        return openai_messages_fail_at(p, at, ".function_call", "unsupported_parameter",
                                       LR_UNSUPPORTED,
                                       "'function_call' is not supported; use 'tool_calls'.");
    if (calls == NULL || calls->type == LR_JSON_NULL)
        return LR_OK;
    if (calls->type != LR_JSON_ARRAY)
        return type_at(p, at, ".tool_calls", "an array", calls);
    for (uint32_t i = 0; i < calls->count; i++) {
        lr_code code = check_call(p, at, i, &calls->items[i]);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

static lr_code openai_messages_read_role(struct chat_parse *p, const struct place *at,
                                         const struct lr_json *message, enum role *out)
{
    const struct lr_json *value = lr_json_get(message, "role");
    struct lr_str role;
    if (!lr_json_str(value, &role))
        return value == NULL
                   ? openai_messages_fail_at(p, at, ".role", "missing_required_parameter",
                                             LR_INVALID_ARGUMENT, "'role' is missing.")
                   : type_at(p, at, ".role", "a string", value);
    for (int i = 0; i < ROLE_COUNT; i++) {
        if (lr_str_eq_z(role, role_names[i])) {
            *out = (enum role)i;
            return LR_OK;
        }
    }
    return openai_messages_fail_at(
        p, at, ".role", "invalid_value", LR_INVALID_ARGUMENT,
        "'%.*s' is none of 'system', 'developer', 'user', 'assistant', 'tool'.",
        role.len < 40 ? (int)role.len : 40, role.ptr);
}

static lr_code check_message(struct chat_parse *p, const struct place *at,
                             const struct lr_json *message)
{
    enum role role = ROLE_USER;
    lr_code code;

    if (message->type != LR_JSON_OBJECT)
        return type_at(p, at, "", "an object", message);
    if ((code = openai_messages_read_role(p, at, message, &role)) != LR_OK ||
        (code = check_content(p, at, role, lr_json_get(message, "content"))) != LR_OK)
        return code;

    const struct lr_json *name = lr_json_get(message, "name");
    if (name != NULL && name->type != LR_JSON_NULL &&
        (name->type != LR_JSON_STRING || name->text.len > NAME_MAX_BYTES))
        return openai_messages_fail_at(p, at, ".name", "invalid_value", LR_INVALID_ARGUMENT,
                                       "expected a string of at most %d bytes.",
                                       NAME_MAX_BYTES);
    if (role == ROLE_ASSISTANT)
        return check_assistant(p, at, message);
    const struct lr_json *id = lr_json_get(message, "tool_call_id");
    if (role == ROLE_TOOL && !lr_json_is(id, LR_JSON_STRING))
        return openai_messages_fail_at(
            p, at, ".tool_call_id", id == NULL ? "missing_required_parameter" : "invalid_type",
            LR_INVALID_ARGUMENT, "a tool message needs the id of its call.");
    return LR_OK;
}

static uint32_t last_user(const struct lr_json *messages)
{
    struct lr_str role;
    for (uint32_t i = messages->count; i > 0; i--)
        if (lr_json_str(lr_json_get(&messages->items[i - 1], "role"), &role) &&
            lr_str_eq_z(role, role_names[ROLE_USER]))
            return i - 1;
    return UINT32_MAX;
}

lr_code chat_openai_messages(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of messages", value);
    if (value->count == 0 || value->count > CHAT_MESSAGES_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'messages' has %u entries; 1 to %d are taken.", value->count,
                               CHAT_MESSAGES_MAX);
    struct place at = {.list = name, .last_user = last_user(value)};
    for (; at.message < value->count; at.message++) {
        lr_code code = check_message(p, &at, &value->items[at.message]);
        if (code != LR_OK)
            return code;
    }
    p->req->messages = value;
    chat_openai_parse_of(p)->has_messages = true;
    return LR_OK;
}

/* ---- tools ---- */

static lr_code check_function(struct chat_parse *p, const struct place *at,
                              const struct lr_json *function)
{
    struct lr_str name;
    if (!lr_json_is(function, LR_JSON_OBJECT))
        return type_at(p, at, ".function", "an object", function);
    int longest = p->is_strict ? CHAT_TOOL_NAME_STRICT : CHAT_TOOL_NAME_MAX;
    if (!lr_json_str(lr_json_get(function, "name"), &name) || !chat_is_tool_name(name) ||
        name.len > (size_t)longest)
        return openai_messages_fail_at(
            p, at, ".function.name", "invalid_value", LR_INVALID_ARGUMENT,
            "a name has 1 to %d letters, digits, '_', '-' or '.'.", longest);
    const struct lr_json *about = lr_json_get(function, "description");
    if (about != NULL && about->type != LR_JSON_STRING && about->type != LR_JSON_NULL)
        return type_at(p, at, ".function.description", "a string", about);
    const struct lr_json *parameters = lr_json_get(function, "parameters");
    if (parameters != NULL && parameters->type != LR_JSON_OBJECT &&
        parameters->type != LR_JSON_NULL)
        return type_at(p, at, ".function.parameters", "an object", parameters);
    return LR_OK;
}

/* names: of the tools before this one; this one is added. */
static lr_code check_tool(struct chat_parse *p, const struct place *at,
                          const struct lr_json *tool, struct lr_strmap *names)
{
    struct lr_str type;
    if (tool->type != LR_JSON_OBJECT)
        return type_at(p, at, "", "an object", tool);
    if (!lr_json_str(lr_json_get(tool, "type"), &type))
        return openai_messages_fail_at(p, at, ".type", "missing_required_parameter",
                                       LR_INVALID_ARGUMENT, "'type' is missing.");
    if (!lr_str_eq_z(type, "function"))
        return openai_messages_fail_at(
            p, at, ".type", "unsupported_value", LR_UNSUPPORTED,
            "tools of type '%.*s' are not supported; use 'function'.",
            type.len < 40 ? (int)type.len : 40, type.ptr);
    const struct lr_json *function = lr_json_get(tool, "function");
    lr_code code = check_function(p, at, function);
    if (code != LR_OK)
        return code;

    struct lr_str name = lr_json_get(function, "name")->text;
    if (lr_strmap_has(names, name))
        return openai_messages_fail_at(p, at, ".function.name", "invalid_value",
                                       LR_INVALID_ARGUMENT, "'%.*s' is declared twice.",
                                       (int)name.len, name.ptr);
    return lr_strmap_put(names, name, NULL, NULL)
               ? LR_OK
               : chat_parse_fail(p, at->list, NULL, LR_OUT_OF_RAM, "no memory for 'tools'");
}

lr_code chat_openai_tools(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of tools", value);
    if (value->count > CHAT_TOOLS_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'tools' has %u entries, the limit is %d.", value->count,
                               CHAT_TOOLS_MAX);
    struct place at = {.list = name};
    struct lr_strmap names;
    lr_code code = LR_OK;
    lr_strmap_init(&names);
    for (; code == LR_OK && at.message < value->count; at.message++)
        code = check_tool(p, &at, &value->items[at.message], &names);
    lr_strmap_free(&names);
    if (code != LR_OK)
        return code;
    p->req->tools = value->count > 0 ? value : NULL;
    return LR_OK;
}

/* {"type": "function", "function": {"name": ...}} */
static lr_code parse_named_tool(struct chat_parse *p, const struct lr_json *value)
{
    struct lr_str type;
    if (!lr_json_str(lr_json_get(value, "type"), &type) || !lr_str_eq_z(type, "function"))
        return chat_parse_fail(p, "tool_choice.type", "unsupported_value", LR_UNSUPPORTED,
                               "'tool_choice' as an object takes the type 'function'.");
    if (!lr_json_str(lr_json_get(lr_json_get(value, "function"), "name"),
                     &p->req->required_tool) ||
        p->req->required_tool.len == 0)
        return chat_parse_fail(p, "tool_choice.function.name", "missing_required_parameter",
                               LR_INVALID_ARGUMENT,
                               "'tool_choice.function' needs the 'name' of a tool.");
    p->req->requires_tool_call = true;
    return LR_OK;
}

lr_code chat_openai_tool_choice(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    struct lr_str word;
    if (!lr_json_str(value, &word)) {
        if (value->type != LR_JSON_OBJECT)
            return chat_parse_type(p, name, "a string or an object", value);
        return parse_named_tool(p, value);
    }
    p->tool_choice_none = lr_str_eq_z(word, "none");
    p->req->requires_tool_call = lr_str_eq_z(word, "required");
    if (!p->tool_choice_none && !p->req->requires_tool_call && !lr_str_eq_z(word, "auto"))
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for 'tool_choice': expected 'auto', 'none', "
                               "'required' or the name of a function.");
    return LR_OK;
}
