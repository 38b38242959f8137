/* chat/template/manners.c - see chat/template/manners.h: changes of a conversation. */
#include "chat/template/manners.h"

#include "base/sha256.h"
#include "chat/template/object.h"

/* ---- messages ---- */

struct fitting {
    struct lr_arena *arena; /* borrowed */
    uint32_t manners;
    struct lr_json *items; /* in the arena */
    uint32_t count, room;
    struct lr_str waiting; /* text of system messages for the next user's message */
    bool failed;
};

static struct lr_str text_of(const struct lr_json *message, const char *key)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(message, key), &text);
    return text;
}

static bool is_of(const struct lr_json *message, const char *role)
{
    return message->type == LR_JSON_OBJECT && lr_str_eq_z(text_of(message, "role"), role);
}

/* Content that is not text yet cannot be joined. */
static bool has_text_only(const struct lr_json *message)
{
    const struct lr_json *content = lr_json_get(message, "content");
    return content == NULL || content->type == LR_JSON_NULL || content->type == LR_JSON_STRING;
}

static const struct lr_json *calls_of(const struct lr_json *message)
{
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    return lr_json_is(calls, LR_JSON_ARRAY) && calls->count != 0 ? calls : NULL;
}

static struct lr_str join(struct fitting *f, struct lr_str a, struct lr_str b)
{
    if (a.len == 0 || b.len == 0)
        return a.len != 0 ? a : b;
    char *both = lr_arena_alloc(f->arena, a.len + b.len + 2);
    f->failed = f->failed || both == NULL;
    if (both == NULL)
        return a;
    memcpy(both, a.ptr, a.len);
    memcpy(both + a.len, "\n\n", 2);
    memcpy(both + a.len + 2, b.ptr, b.len);
    return lr_str(both, a.len + b.len + 2);
}

static void manners_set(struct fitting *f, struct lr_json *message, const char *key,
                        struct lr_json value)
{
    struct chat_object o;
    if (!chat_object_begin(&o, f->arena, message, 1)) {
        f->failed = true;
        return;
    }
    chat_object_set(&o, key, value);
    *message = chat_object_json(&o);
}

static void set_text(struct fitting *f, struct lr_json *message, const char *key,
                     struct lr_str text)
{
    manners_set(f, message, key, chat_string_json(text));
}

static void append(struct fitting *f, struct lr_json message)
{
    if (f->count < f->room)
        f->items[f->count++] = message;
    else
        f->failed = true;
}

static struct lr_json make(struct fitting *f, const char *role, struct lr_str content)
{
    struct lr_json message = {.type = LR_JSON_OBJECT};
    set_text(f, &message, "role", lr_str_z(role));
    set_text(f, &message, "content", content);
    return message;
}

static struct lr_json *last(struct fitting *f)
{
    return f->count != 0 ? &f->items[f->count - 1] : NULL;
}

static bool wants(const struct fitting *f, uint32_t manner)
{
    return (f->manners & manner) != 0;
}

/* ---- one message ---- */

static void append_user(struct fitting *f, struct lr_json message)
{
    if (f->waiting.len != 0 && has_text_only(&message)) {
        set_text(f, &message, "content", join(f, f->waiting, text_of(&message, "content")));
        f->waiting = (struct lr_str){0};
    }
    struct lr_json *before = last(f);
    if (before != NULL && wants(f, CHAT_MANNER_ANSWERS) && is_of(before, "tool")) {
        append(f, make(f, "assistant",
                       wants(f, CHAT_MANNER_SAYS_OK) ? LR_STR_LIT("OK.") : LR_STR_LIT("")));
        before = last(f);
    }
    if (before != NULL && wants(f, CHAT_MANNER_ALTERNATES) && is_of(before, "user") &&
        has_text_only(before) && has_text_only(&message)) {
        set_text(f, before, "content",
                 join(f, text_of(before, "content"), text_of(&message, "content")));
        return;
    }
    append(f, message);
}

static void append_system(struct fitting *f, struct lr_json message)
{
    struct lr_json *before = last(f);
    bool is_late = before != NULL && !is_of(before, "system") && !is_of(before, "developer");
    struct lr_str text = text_of(&message, "content");
    if (is_of(&message, "developer") && wants(f, CHAT_MANNER_NO_DEVELOPER))
        set_text(f, &message, "role", LR_STR_LIT("system"));
    if (!has_text_only(&message))
        append(f, message);
    else if (wants(f, CHAT_MANNER_NO_SYSTEM) ||
             (is_late && wants(f, CHAT_MANNER_NO_LATE_SYSTEM)))
        f->waiting = join(f, f->waiting, text);
    else if (before != NULL && !is_late && wants(f, CHAT_MANNER_ONE_SYSTEM) &&
             has_text_only(before))
        set_text(f, before, "content", join(f, text_of(before, "content"), text));
    else
        append(f, message);
}

/* A call as its model would write it: name and arguments, in JSON. */
static struct lr_str call_text(struct fitting *f, const struct lr_json *calls)
{
    struct lr_buf out;
    lr_buf_init(&out, JINJA_MAX_OUTPUT);
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct lr_json *function = lr_json_get(&calls->items[i], "function");
        const struct lr_json *call = function != NULL ? function : &calls->items[i];
        const struct lr_json *arguments = lr_json_get(call, "arguments");
        struct lr_str text;
        lr_buf_add_z(&out, i == 0 ? "[{\"name\": " : ", {\"name\": ");
        lr_json_quote(&out, text_of(call, "name"));
        lr_buf_add_z(&out, ", \"arguments\": ");
        if (lr_json_str(arguments, &text))
            lr_buf_add_str(&out, text);
        else if (arguments != NULL)
            jinja_dumps(&out, arguments);
        lr_buf_add_z(&out, "}");
    }
    lr_buf_add_z(&out, "]");
    const char *copy = out.failed ? NULL : lr_arena_copy(f->arena, lr_buf_str(&out));
    struct lr_str text = lr_str(copy, copy != NULL ? out.len : 0);
    f->failed = f->failed || copy == NULL;
    lr_buf_free(&out);
    return text;
}

static void write_calls_as_text(struct fitting *f, struct lr_json *message)
{
    struct chat_object o;
    struct lr_str text = join(f, text_of(message, "content"), call_text(f, calls_of(message)));
    if (!chat_object_begin(&o, f->arena, message, 1)) {
        f->failed = true;
        return;
    }
    chat_object_set(&o, "content", chat_string_json(text));
    chat_object_remove(&o, "tool_calls");
    *message = chat_object_json(&o);
}

static void append_assistant(struct fitting *f, struct lr_json message)
{
    const struct lr_json *calls = calls_of(&message);
    const struct lr_json *content = lr_json_get(&message, "content");
    bool is_null = content == NULL || content->type == LR_JSON_NULL;
    struct lr_json *before = last(f);
    if (f->count == 0 && wants(f, CHAT_MANNER_USER_FIRST))
        append(f, make(f, "user", (struct lr_str){0}));
    if (calls != NULL && wants(f, CHAT_MANNER_CALLS_AS_TEXT)) {
        write_calls_as_text(f, &message);
        calls = NULL;
    } else if (is_null && wants(f, CHAT_MANNER_EMPTY)) {
        set_text(f, &message, "content", (struct lr_str){0});
    }
    if (calls != NULL && wants(f, CHAT_MANNER_CONTENT_APART) &&
        text_of(&message, "content").len != 0) {
        append(f, make(f, "assistant", text_of(&message, "content")));
        set_text(f, &message, "content", (struct lr_str){0});
    } else if (calls == NULL && before != NULL && wants(f, CHAT_MANNER_ALTERNATES) &&
               is_of(before, "assistant") && calls_of(before) == NULL &&
               has_text_only(before) && has_text_only(&message)) {
        set_text(f, before, "content",
                 join(f, text_of(before, "content"), text_of(&message, "content")));
        return;
    }
    append(f, message);
}

static void append_any(struct fitting *f, struct lr_json message)
{
    struct lr_json result = message;
    if (is_of(&message, "system") || is_of(&message, "developer")) {
        append_system(f, message);
    } else if (is_of(&message, "user")) {
        append_user(f, message);
    } else if (is_of(&message, "assistant")) {
        append_assistant(f, message);
    } else if (is_of(&message, "tool") && wants(f, CHAT_MANNER_RESULTS_AS_USER)) {
        set_text(f, &result, "role", LR_STR_LIT("user"));
        append_user(f, result);
    } else {
        append(f, message);
    }
}

/* ---- calls ---- */

/* Nine letters and digits that follow from the id. */
static struct lr_str short_id(struct fitting *f, struct lr_str id)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    unsigned char hash[LR_SHA256_LEN];
    struct lr_sha256 h;
    char *out = lr_arena_alloc(f->arena, 9);
    bool fits = id.len == 9;
    for (size_t i = 0; i < id.len && fits; i++)
        fits = (id.ptr[i] >= '0' && id.ptr[i] <= '9') ||
               ((id.ptr[i] | 32) >= 'a' && (id.ptr[i] | 32) <= 'z');
    if (fits)
        return id;
    f->failed = f->failed || out == NULL;
    if (out == NULL)
        return id;
    lr_sha256_init(&h);
    lr_sha256_add(&h, id.ptr, id.len);
    lr_sha256_end(&h, hash);
    for (size_t i = 0; i < 9; i++)
        out[i] = letters[hash[i] % 36];
    return lr_str(out, 9);
}

static void write_as_text(struct fitting *f, struct lr_json *function)
{
    const struct lr_json *arguments = lr_json_get(function, "arguments");
    struct lr_buf text;
    if (arguments == NULL || arguments->type == LR_JSON_STRING)
        return;
    lr_buf_init(&text, JINJA_MAX_OUTPUT);
    jinja_dumps(&text, arguments);
    const char *copy = text.failed ? NULL : lr_arena_copy(f->arena, lr_buf_str(&text));
    f->failed = f->failed || copy == NULL;
    if (copy != NULL)
        set_text(f, function, "arguments", lr_str(copy, text.len));
    lr_buf_free(&text);
}

static void fit_calls(struct fitting *f, struct lr_json *message)
{
    const struct lr_json *calls = calls_of(message);
    struct lr_json *items = lr_arena_array(f->arena, calls->count, sizeof(*items));
    f->failed = f->failed || items == NULL;
    for (uint32_t i = 0; items != NULL && i < calls->count; i++) {
        const struct lr_json *function = lr_json_get(&calls->items[i], "function");
        items[i] = calls->items[i];
        if (items[i].type != LR_JSON_OBJECT)
            continue;
        if (wants(f, CHAT_MANNER_SHORT_IDS))
            set_text(f, &items[i], "id", short_id(f, text_of(&items[i], "id")));
        if (wants(f, CHAT_MANNER_TEXT_ARGUMENTS) && lr_json_is(function, LR_JSON_OBJECT)) {
            struct lr_json written = *function;
            write_as_text(f, &written);
            manners_set(f, &items[i], "function", written);
        }
    }
    if (items != NULL)
        manners_set(
            f, message, "tool_calls",
            (struct lr_json){.type = LR_JSON_ARRAY, .count = calls->count, .items = items});
}

bool chat_manners_apply(struct lr_arena *arena, uint32_t manners, struct lr_json *messages)
{
    struct fitting f = {.arena = arena, .manners = manners};
    if (manners == 0)
        return true;
    if (wants(&f, CHAT_MANNER_ONE_CALL) && !chat_repair_split_calls(arena, messages))
        return false;
    f.room = 3 * messages->count + 2;
    f.items = lr_arena_array(arena, f.room, sizeof(*f.items));
    if (f.items == NULL)
        return false;
    bool has_user = false;
    for (uint32_t i = 0; i < messages->count; i++)
        has_user = has_user || is_of(&messages->items[i], "user");
    if (!has_user && wants(&f, CHAT_MANNER_NEEDS_USER))
        f.manners |= CHAT_MANNER_NO_SYSTEM;
    for (uint32_t i = 0; i < messages->count; i++)
        append_any(&f, messages->items[i]);
    if (f.waiting.len != 0) /* no user's message follows */
        append_user(&f, make(&f, "user", (struct lr_str){0}));
    bool fits_calls = wants(&f, CHAT_MANNER_SHORT_IDS) || wants(&f, CHAT_MANNER_TEXT_ARGUMENTS);
    for (uint32_t i = 0; fits_calls && i < f.count; i++) {
        if (calls_of(&f.items[i]) != NULL)
            fit_calls(&f, &f.items[i]);
        if (wants(&f, CHAT_MANNER_SHORT_IDS) && is_of(&f.items[i], "tool"))
            set_text(&f, &f.items[i], "tool_call_id",
                     short_id(&f, text_of(&f.items[i], "tool_call_id")));
    }
    *messages = (struct lr_json){.type = LR_JSON_ARRAY, .count = f.count, .items = f.items};
    return !f.failed;
}
