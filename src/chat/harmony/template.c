/* chat/harmony/template.c - see chat/harmony/template.h.
 *
 * One pass over the messages.  Our own text is written with control allowed, the client's text
 * without; numbers and punctuation made from the client's schema count as the client's.
 * Peculiarities of the official rendering (a comma after a default's comment, line breaks
 * inside nested types) are kept on purpose: the model was trained on them.
 */
#include "chat/harmony/template.h"

#include <stdio.h>

#include "chat/harmony/types.h"

static bool truthy(const struct lr_json *v)
{
    return chat_harmony_truthy(v);
}

static void ours(struct jinja_output *out, const char *text)
{
    jinja_output_add(out, lr_str_z(text), true);
}

static void theirs(struct jinja_output *out, struct lr_str text)
{
    jinja_output_add(out, text, false);
}

static struct lr_str string_of(const struct lr_json *v)
{
    struct lr_str s = {0};
    (void)lr_json_str(v, &s);
    return s;
}

/* ---- system message ---- */

static void add_date(struct jinja_output *out, const struct tm *now)
{
    struct tm local;
    char date[64];
    if (now == NULL) {
        time_t seconds = time(NULL);
        if (localtime_r(&seconds, &local) == NULL)
            local = (struct tm){.tm_year = 70, .tm_mday = 1};
        now = &local;
    }
    (void)snprintf(date, sizeof(date), "Current date: %d-%02d-%02d\n\n", now->tm_year + 1900,
                   now->tm_mon + 1, now->tm_mday);
    ours(out, date);
}

static lr_code harmony_template_add_system(struct jinja_output *out,
                                           const struct lr_json *context, const struct tm *now,
                                           struct lr_error *err)
{
    const struct lr_json *identity = lr_json_get(context, "model_identity");
    const struct lr_json *effort = lr_json_get(context, "reasoning_effort");
    if (identity != NULL && identity->type != LR_JSON_STRING)
        return lr_fail(err, LR_INVALID_ARGUMENT, "model_identity must be a string");
    if (effort != NULL && effort->type != LR_JSON_STRING)
        return lr_fail(err, LR_INVALID_ARGUMENT, "reasoning_effort must be a string");
    /* The description of those tools is its publisher's text and not part of this program. */
    if (truthy(lr_json_get(context, "builtin_tools")))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "builtin_tools need the model's own chat_template.jinja");
    ours(out, "<|start|>system<|message|>");
    if (identity != NULL)
        theirs(out, identity->text);
    else
        ours(out, "You are ChatGPT, a large language model trained by OpenAI.");
    ours(out, "\nKnowledge cutoff: 2024-06\n");
    add_date(out, now);
    ours(out, "Reasoning: ");
    if (effort != NULL)
        theirs(out, effort->text);
    else
        ours(out, "medium");
    ours(out, "\n\n");
    ours(out, "# Valid channels: analysis, commentary, final. "
              "Channel must be included for every message.");
    if (truthy(lr_json_get(context, "tools")))
        ours(out, "\nCalls to these tools must go to the commentary channel: 'functions'.");
    ours(out, "<|end|>");
    return LR_OK;
}

/* ---- developer message ---- */

static lr_code add_developer(struct jinja_output *out, const struct lr_json *instructions,
                             const struct lr_json *tools, struct lr_error *err)
{
    if (!truthy(instructions) && !truthy(tools))
        return LR_OK;
    ours(out, "<|start|>developer<|message|>");
    if (truthy(instructions)) {
        if (instructions->type != LR_JSON_STRING)
            return lr_fail(err, LR_INVALID_ARGUMENT, "messages[0].content must be a string");
        ours(out, "# Instructions\n\n");
        theirs(out, instructions->text);
        ours(out, "\n\n");
    }
    if (truthy(tools)) {
        ours(out, "# Tools\n\n");
        lr_code rc = chat_harmony_add_tools(out, tools, err);
        if (rc != LR_OK)
            return rc;
    }
    ours(out, "<|end|>");
    return LR_OK;
}

/* ---- messages ---- */

struct render {
    struct jinja_output *out;
    const struct lr_json *messages;
    uint32_t first;      /* first message to render */
    uint32_t last_final; /* last assistant message without calls; UINT32_MAX: none */
    bool generate;
    struct lr_str last_call; /* name of the last call rendered; ptr NULL: none */
    struct lr_error *err;
};

static lr_code harmony_template_refuse(struct render *r, uint32_t i, const char *what)
{
    return lr_fail(r->err, LR_INVALID_ARGUMENT, "messages[%u]: %s", i, what);
}

static void add_json(struct render *r, const struct lr_json *v)
{
    struct lr_buf text;
    lr_buf_init(&text, r->out->bytes.limit);
    jinja_dumps(&text, v);
    if (text.failed)
        r->out->bytes.failed = true;
    theirs(r->out, lr_buf_str(&text));
    lr_buf_free(&text);
}

static bool holds_channel_tags(const struct lr_json *v)
{
    struct lr_str s = string_of(v);
    return lr_str_find(s, LR_STR_LIT("<|channel|>analysis<|message|>")) != LR_STR_NONE ||
           lr_str_find(s, LR_STR_LIT("<|channel|>final<|message|>")) != LR_STR_NONE;
}

static void add_analysis(struct render *r, struct lr_str text)
{
    ours(r->out, "<|start|>assistant<|channel|>analysis<|message|>");
    theirs(r->out, text);
    ours(r->out, "<|end|>");
}

static lr_code add_call(struct render *r, uint32_t i, const struct lr_json *m)
{
    const struct lr_json *calls = lr_json_get(m, "tool_calls");
    const struct lr_json *content = lr_json_get(m, "content");
    const struct lr_json *thinking = lr_json_get(m, "thinking");
    if (!lr_json_is(calls, LR_JSON_ARRAY) || calls->count == 0)
        return harmony_template_refuse(r, i, "tool_calls must be a list with one call");
    const struct lr_json *call = &calls->items[0];
    if (truthy(lr_json_get(call, "function")))
        call = lr_json_get(call, "function");
    struct lr_str name, type;
    const struct lr_json *content_type = lr_json_get(call, "content_type");
    const struct lr_json *arguments = lr_json_get(call, "arguments");
    if (!lr_json_str(lr_json_get(call, "name"), &name) || arguments == NULL)
        return harmony_template_refuse(r, i, "a tool call needs a name and arguments");
    if (truthy(content) && truthy(thinking))
        return harmony_template_refuse(
            r, i, "content and thinking beside a tool call: put one into the other");
    bool keep = r->last_final == UINT32_MAX || r->last_final < i;
    if (keep && truthy(content))
        add_analysis(r, string_of(content));
    else if (keep && truthy(thinking))
        add_analysis(r, string_of(thinking));
    ours(r->out, "<|start|>assistant to=functions.");
    theirs(r->out, name);
    ours(r->out, "<|channel|>commentary ");
    if (lr_json_str(content_type, &type))
        theirs(r->out, type);
    else
        ours(r->out, "json");
    ours(r->out, "<|message|>");
    add_json(r, arguments);
    ours(r->out, "<|call|>");
    r->last_call = name;
    return LR_OK;
}

static lr_code harmony_template_add_assistant(struct render *r, uint32_t i,
                                              const struct lr_json *m)
{
    const struct lr_json *content = lr_json_get(m, "content");
    const struct lr_json *thinking = lr_json_get(m, "thinking");
    if (holds_channel_tags(content) || holds_channel_tags(thinking))
        return harmony_template_refuse(
            r, i,
            "channel tags in the text: pass reasoning in \"thinking\" (or "
            "\"reasoning_content\") and the answer in \"content\"");
    if (lr_json_get(m, "tool_calls") != NULL)
        return add_call(r, i, m);
    if (!lr_json_is(content, LR_JSON_STRING))
        return harmony_template_refuse(r, i, "content must be a string");
    bool ends = i + 1 == r->messages->count && !r->generate;
    if (ends && thinking != NULL)
        add_analysis(r, string_of(thinking));
    ours(r->out, "<|start|>assistant<|channel|>final<|message|>");
    theirs(r->out, content->text);
    ours(r->out, ends ? "<|return|>" : "<|end|>");
    if (!ends)
        r->last_call = (struct lr_str){0};
    return LR_OK;
}

static lr_code add_tool_result(struct render *r, uint32_t i, const struct lr_json *m)
{
    const struct lr_json *content = lr_json_get(m, "content");
    if (r->last_call.ptr == NULL)
        return harmony_template_refuse(
            r, i, "a tool message, but no assistant message with a tool call before");
    if (content == NULL)
        return harmony_template_refuse(r, i, "content is missing");
    ours(r->out, "<|start|>functions.");
    theirs(r->out, r->last_call);
    ours(r->out, " to=assistant<|channel|>commentary<|message|>");
    add_json(r, content);
    ours(r->out, "<|end|>");
    return LR_OK;
}

static lr_code harmony_template_add_message(struct render *r, uint32_t i)
{
    const struct lr_json *m = &r->messages->items[i];
    struct lr_str role = string_of(lr_json_get(m, "role"));
    const struct lr_json *content = lr_json_get(m, "content");
    if (lr_str_eq_z(role, "assistant"))
        return harmony_template_add_assistant(r, i, m);
    if (lr_str_eq_z(role, "tool"))
        return add_tool_result(r, i, m);
    if (!lr_str_eq_z(role, "user"))
        return LR_OK; /* later system messages are not rendered, like in the official template
                       */
    if (!lr_json_is(content, LR_JSON_STRING))
        return harmony_template_refuse(r, i, "content must be a string");
    ours(r->out, "<|start|>user<|message|>");
    theirs(r->out, content->text);
    ours(r->out, "<|end|>");
    return LR_OK;
}

static lr_code add_messages(struct render *r)
{
    r->last_final = UINT32_MAX;
    for (uint32_t i = r->first; i < r->messages->count; i++) {
        const struct lr_json *m = &r->messages->items[i];
        if (lr_str_eq_z(string_of(lr_json_get(m, "role")), "assistant") &&
            lr_json_get(m, "tool_calls") == NULL)
            r->last_final = i;
    }
    for (uint32_t i = r->first; i < r->messages->count; i++) {
        lr_code rc = harmony_template_add_message(r, i);
        if (rc != LR_OK)
            return rc;
    }
    return LR_OK;
}

lr_code chat_harmony_render(const struct lr_json *context, const struct tm *now,
                            struct jinja_output *out, struct lr_error *err)
{
    jinja_output_init(out, JINJA_MAX_OUTPUT);
    const struct lr_json *messages = lr_json_get(context, "messages");
    const struct lr_json *tools = lr_json_get(context, "tools");
    const struct lr_json *generate = lr_json_get(context, "add_generation_prompt");
    const struct lr_json *instructions = NULL;
    struct render r = {.out = out, .messages = messages, .err = err};
    if (!lr_json_is(messages, LR_JSON_ARRAY) || messages->count == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "messages must be a list of messages");
    r.generate = truthy(generate);
    struct lr_str role = string_of(lr_json_get(&messages->items[0], "role"));
    if (lr_str_eq_z(role, "system") || lr_str_eq_z(role, "developer")) {
        instructions = lr_json_get(&messages->items[0], "content");
        r.first = 1;
    }
    lr_code rc = harmony_template_add_system(out, context, now, err);
    if (rc == LR_OK)
        rc = add_developer(out, instructions, tools, err);
    if (rc == LR_OK)
        rc = add_messages(&r);
    if (rc == LR_OK && r.generate)
        ours(out, "<|start|>assistant");
    return rc == LR_OK ? jinja_output_finish(out, err) : rc;
}
