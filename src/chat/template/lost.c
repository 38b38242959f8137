/* chat/template/lost.c - see chat/template/lost.h. */
#include "chat/template/lost.h"

#include <stdio.h>

enum {
    SAMPLE_MAX = 48,   /* bytes that are looked for */
    SAMPLED_MAX = 512, /* bytes of a text among which the sample is chosen */
    /* Searches from the prompt's beginning, because texts have moved; then all texts are taken
     * for there. */
    RESTARTS_MAX = 32,
};

enum part { TOOLS, SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL, CALLS, REASONING, PARTS };

static const char *const names[PARTS] = {
    [TOOLS] = "tools",
    [SYSTEM] = "messages.system",
    [DEVELOPER] = "messages.developer",
    [USER] = "messages.user",
    [ASSISTANT] = "messages.assistant",
    [TOOL] = "messages.tool",
    [CALLS] = "messages.tool_calls",
    [REASONING] = "messages.reasoning_content",
};

struct search {
    struct lr_str prompt;
    size_t at; /* behind the last text that was found */
    uint32_t restarts;
    bool is_lost[PARTS];
};

/* Templates may escape or trim all other bytes. */
static bool is_kept(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80;
}

/* The longest run of letters and digits near the beginning; empty: there is none. */
static struct lr_str sample_of(struct lr_str text)
{
    struct lr_str best = {0};
    size_t end = text.len < SAMPLED_MAX ? text.len : SAMPLED_MAX;
    for (size_t i = 0; i < end; i++) {
        size_t from = i;
        while (i < end && i - from < SAMPLE_MAX && is_kept(text.ptr[i]))
            i++;
        if (i - from > best.len)
            best = lr_str_sub(text, from, i);
    }
    return best;
}

static bool lost_has(struct search *s, struct lr_str sample)
{
    if (s->restarts == RESTARTS_MAX)
        return true;
    size_t hit = lr_str_find(lr_str_sub(s->prompt, s->at, s->prompt.len), sample);
    if (hit != LR_STR_NONE) {
        s->at += hit + sample.len;
        return true;
    }
    s->restarts++;
    return lr_str_find(s->prompt, sample) != LR_STR_NONE;
}

static void look(struct search *s, enum part part, struct lr_str text)
{
    struct lr_str sample = s->is_lost[part] ? (struct lr_str){0} : sample_of(text);
    if (sample.len != 0 && !lost_has(s, sample))
        s->is_lost[part] = true;
}

static struct lr_str lost_text(const struct lr_json *object, const char *key)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(object, key), &text);
    return text;
}

/* What a template may take for reasoning is no content. */
static struct lr_str behind_thought(struct lr_str text)
{
    const struct lr_str end = LR_STR_LIT("</think>");
    size_t at;
    while ((at = lr_str_find(text, end)) != LR_STR_NONE)
        text = lr_str_sub(text, at + end.len, text.len);
    return text;
}

static void look_content(struct search *s, enum part part, const struct lr_json *message)
{
    const struct lr_json *content = lr_json_get(message, "content");
    struct lr_str text;
    if (lr_json_str(content, &text))
        look(s, part, part == ASSISTANT ? behind_thought(text) : text);
    for (uint32_t i = 0; lr_json_is(content, LR_JSON_ARRAY) && i < content->count; i++)
        look(s, part, lost_text(&content->items[i], "text"));
}

/* A text of the arguments, else the name. */
static struct lr_str text_of_call(const struct lr_json *call)
{
    const struct lr_json *function = lr_json_get(call, "function");
    const struct lr_json *from = function != NULL ? function : call;
    const struct lr_json *arguments = lr_json_get(from, "arguments");
    struct lr_str text = lost_text(from, "arguments");
    for (uint32_t i = 0; lr_json_is(arguments, LR_JSON_OBJECT) && i < arguments->count; i++)
        if (sample_of(text).len == 0)
            text = arguments->members[i].key;
    return sample_of(text).len != 0 ? text : lost_text(from, "name");
}

static void look_message(struct search *s, const struct lr_json *message, bool is_new)
{
    static const struct {
        const char *role;
        enum part part;
    } roles[] = {{"system", SYSTEM},
                 {"developer", DEVELOPER},
                 {"user", USER},
                 {"assistant", ASSISTANT},
                 {"tool", TOOL}};
    struct lr_str role = lost_text(message, "role");
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    if (is_new)
        look(s, REASONING, lost_text(message, "reasoning_content"));
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (lr_str_eq_z(role, roles[i].role))
            look_content(s, roles[i].part, message);
    for (uint32_t i = 0; lr_json_is(calls, LR_JSON_ARRAY) && i < calls->count; i++)
        look(s, CALLS, text_of_call(&calls->items[i]));
}

/* The description of the first tool that has one, because its name may be in a call, too. */
static void look_tools(struct search *s, const struct lr_json *tools)
{
    struct lr_str name = {0};
    for (uint32_t i = 0; lr_json_is(tools, LR_JSON_ARRAY) && i < tools->count; i++) {
        const struct lr_json *function = lr_json_get(&tools->items[i], "function");
        const struct lr_json *tool = function != NULL ? function : &tools->items[i];
        struct lr_str about = lost_text(tool, "description");
        name = name.len == 0 ? lost_text(tool, "name") : name;
        if (sample_of(about).len == 0)
            continue;
        name = about;
        break;
    }
    look(s, TOOLS, name);
}

void chat_lost_find(const struct lr_json *messages, const struct lr_json *tools,
                    struct lr_str prompt, char out[CHAT_LOST_MAX])
{
    struct search s = {.prompt = prompt};
    uint32_t last_user = 0;
    size_t len = 0;
    if (tools != NULL)
        look_tools(&s, tools);
    s.at = 0;
    for (uint32_t i = 0; i < messages->count; i++)
        if (lr_str_eq_z(lost_text(&messages->items[i], "role"), "user"))
            last_user = i;
    for (uint32_t i = 0; i < messages->count; i++)
        look_message(&s, &messages->items[i], i > last_user);
    out[0] = '\0';
    for (enum part p = TOOLS; p < PARTS; p++)
        if (s.is_lost[p])
            len += (size_t)snprintf(out + len, CHAT_LOST_MAX - len, "%s%s", len > 0 ? ", " : "",
                                    names[p]);
}
