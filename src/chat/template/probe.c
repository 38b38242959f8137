/* chat/template/probe.c - see chat/template/manners.h: what a template takes is found by short
 * conversations that it renders once. */
#include "chat/template/manners.h"
#include "chat/template/object.h"

enum { CHANGES_MAX = 8, PROBE_BYTES = 8 << 20 };

#define U(text)   "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text)   "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define SYS(text) "{\"role\":\"system\",\"content\":\"" text "\"}"
#define DEV(text) "{\"role\":\"developer\",\"content\":\"" text "\"}"
#define ID(n)     "call_00000000000000000000000" n
#define CALL(n, text)                                                                          \
    "{\"id\":\"" ID(n) "\",\"type\":\"function\",\"function\":{\"name\":\"qvprobe\","          \
                       "\"arguments\":{\"qvkey\":\"" text "\"}}}"
/* Ids of clients may be short. */
#define SHORT_CALL(text)                                                                       \
    "{\"id\":\"q1\",\"type\":\"function\",\"function\":{\"name\":\"qvprobe\","                 \
    "\"arguments\":{\"qvkey\":\"" text "\"}}}"
#define SHORT_RESULT(text)                                                                     \
    "{\"role\":\"tool\",\"tool_call_id\":\"q1\",\"name\":\"qvprobe\",\"content\":\"" text "\"" \
    "}"
#define CALLS(content, calls)                                                                  \
    "{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[" calls "]}"
#define RESULT(n, text)                                                                        \
    "{\"role\":\"tool\",\"tool_call_id\":\"" ID(n) "\",\"name\":\"qvprobe\",\"content\":"      \
                                                   "\"" text "\"}"
#define TOOLS                                                                                  \
    "[{\"type\":\"function\",\"function\":{\"name\":\"qvprobe\",\"description\":\"x\","        \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"qvkey\":{\"type\":\"string\","      \
    "\"description\":\"x\"}},\"required\":[\"qvkey\"]}}}]"

/* A conversation whose texts qvone, qvtwo, ... must all be in the prompt, and the changes to
 * try, in this order, where it fails. */
struct probe {
    const char *messages;
    uint32_t changes[CHANGES_MAX];
};

#define NO_SYSTEM  CHAT_MANNER_NO_SYSTEM
#define NO_DEV     CHAT_MANNER_NO_DEVELOPER
#define ALTERNATES CHAT_MANNER_ALTERNATES
#define EMPTY      CHAT_MANNER_EMPTY
#define TEXT       CHAT_MANNER_TEXT_ARGUMENTS
#define IDS        CHAT_MANNER_SHORT_IDS
#define ANSWERS    CHAT_MANNER_ANSWERS
#define AS_TEXT    (CHAT_MANNER_CALLS_AS_TEXT)
#define AS_USER    (CHAT_MANNER_CALLS_AS_TEXT | CHAT_MANNER_RESULTS_AS_USER)

static const struct probe probes[] = {
    {U("qvone"), {0}},
    {SYS("qvone") "," U("qvtwo"), {NO_SYSTEM}},
    {SYS("qvone"), {CHAT_MANNER_NEEDS_USER}},
    {DEV("qvone") "," U("qvtwo"), {NO_DEV}},
    {SYS("qvone") "," SYS("qvtwo") "," U("qvthree"), {CHAT_MANNER_ONE_SYSTEM}},
    {SYS("qvone") "," DEV("qvtwo") "," U("qvthree"),
     {CHAT_MANNER_ONE_SYSTEM, NO_DEV, CHAT_MANNER_ONE_SYSTEM | NO_DEV}},
    {U("qvone") "," A("qvtwo") "," U("qvthree"), {0}},
    {SYS("qvone") "," U("qvtwo") "," A("qvthree") "," SYS("qvfour") "," U("qvfive"),
     {CHAT_MANNER_NO_LATE_SYSTEM}},
    {U("qvone") "," A("qvtwo") "," DEV("qvthree") "," U("qvfour"),
     {NO_DEV, CHAT_MANNER_NO_LATE_SYSTEM, NO_DEV | CHAT_MANNER_NO_LATE_SYSTEM}},
    {U("qvone") "," U("qvtwo"), {ALTERNATES}},
    {U("qvone") "," A("qvtwo") "," A("qvthree") "," U("qvfour"), {ALTERNATES}},
    {A("qvone") "," U("qvtwo"), {CHAT_MANNER_USER_FIRST}},
    {U("qvone") "," CALLS("null", CALL("1", "qvtwo")) "," RESULT("1", "qvthree"),
     {EMPTY, TEXT, IDS, EMPTY | TEXT, EMPTY | IDS, TEXT | IDS, EMPTY | TEXT | IDS, AS_TEXT}},
    {U("qvone") "," CALLS("null", SHORT_CALL("qvtwo")) "," SHORT_RESULT("qvthree"), {IDS}},
    {U("qvone") "," CALLS("null", CALL("1", "qvtwo")) "," RESULT("1", "qvthree"),
     {AS_TEXT, AS_USER, AS_USER | EMPTY}},
    {SYS("qvone") "," U("qvtwo") "," CALLS("null", CALL("1", "qvthree")) "," RESULT("1",
                                                                                    "qvfour"),
     {NO_SYSTEM}},
    {U("qvone") "," CALLS("null", CALL("1", "qvtwo")) "," RESULT("1", "qvthree") "," A(
         "qvfour") "," U("qvfive"),
     {EMPTY, ALTERNATES}},
    {U("qvone") "," CALLS("null", CALL("1", "qvtwo")) "," RESULT("1",
                                                                 "qvthree") "," U("qvfour"),
     {ANSWERS, ALTERNATES, ANSWERS | ALTERNATES, ANSWERS | CHAT_MANNER_SAYS_OK}},
    {U("qvone") "," CALLS("\"qvtwo\"", CALL("1", "qvthree")) "," RESULT("1", "qvfour"),
     {CHAT_MANNER_CONTENT_APART, AS_TEXT}},
    {U("qvone") "," CALLS("null", CALL("1", "qvtwo") "," CALL("2", "qvthree")) "," RESULT(
         "1", "qvfour") "," RESULT("2", "qvfive"),
     {CHAT_MANNER_ONE_CALL}},
};

struct prober {
    const struct jinja_template *tmpl;
    const struct jinja_var *trusted;
    size_t trusted_count;
    bool is_over; /* the template needs too much: nothing more is learnt */
};

/* Every text of the conversation is in the prompt. */
static bool has_all(const char *messages, struct lr_str prompt)
{
    static const char *const words[] = {"qvone", "qvtwo", "qvthree", "qvfour", "qvfive"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(messages, words[i]) != NULL &&
            lr_str_find(prompt, lr_str_z(words[i])) == LR_STR_NONE)
            return false;
    return true;
}

static bool works(struct prober *p, const char *messages, uint32_t manners)
{
    struct lr_arena arena;
    struct lr_json *root = NULL;
    const struct lr_json *parsed = NULL;
    struct jinja_output out;
    struct chat_object o;
    jinja_output_init(&out, JINJA_MAX_OUTPUT);
    lr_arena_init(&arena, PROBE_BYTES);
    char *text = lr_arena_printf(
        &arena, "{\"messages\":[%s],\"tools\":" TOOLS ",\"add_generation_prompt\":true}",
        messages);
    bool good = text != NULL &&
                lr_json_parse(&arena, lr_str_z(text), NULL, &parsed, NULL) == LR_OK &&
                chat_object_begin(&o, &arena, parsed, 0);
    if (good)
        good = chat_manners_apply(&arena, manners, &chat_object_find(&o, "messages")->value);
    root = good ? lr_arena_alloc(&arena, sizeof(*root)) : NULL;
    if (root != NULL) {
        *root = chat_object_json(&o);
        struct jinja_input input = {
            .context = root, .trusted = p->trusted, .trusted_count = p->trusted_count};
        lr_code code = jinja_render(p->tmpl, &input, &out, NULL);
        p->is_over = code != LR_OK && code != LR_INVALID_ARGUMENT;
        good = code == LR_OK && has_all(messages, out.text);
    }
    jinja_output_free(&out);
    lr_arena_free(&arena);
    return good && root != NULL;
}

static uint32_t learn(struct prober *p, const struct probe *probe, uint32_t manners)
{
    if (works(p, probe->messages, manners))
        return manners;
    for (size_t i = 0; i < CHANGES_MAX && probe->changes[i] != 0 && !p->is_over; i++)
        if (works(p, probe->messages, manners | probe->changes[i]))
            return manners | probe->changes[i];
    return manners;
}

uint32_t chat_manners_of(const struct jinja_template *tmpl, const struct jinja_var *trusted,
                         size_t trusted_count)
{
    struct prober p = {.tmpl = tmpl, .trusted = trusted, .trusted_count = trusted_count};
    uint32_t manners = 0;
    if (!works(&p, probes[0].messages, 0)) /* it takes something else than messages */
        return 0;
    for (size_t i = 1; i < sizeof(probes) / sizeof(probes[0]) && !p.is_over; i++)
        manners = learn(&p, &probes[i], manners);
    return manners;
}

struct lr_str chat_manners_ending(const struct jinja_template *tmpl,
                                  const struct jinja_var *trusted, size_t trusted_count,
                                  char out[CHAT_ENDING_MAX])
{
    static const char text[] =
        "{\"messages\":[" U("qvone") "," A("qvtwo") "],"
                                                    "\"add_generation_prompt\":false}";
    struct lr_arena arena;
    struct jinja_output prompt;
    struct jinja_input input = {.trusted = trusted, .trusted_count = trusted_count};
    struct lr_str ending = {0};
    jinja_output_init(&prompt, JINJA_MAX_OUTPUT);
    lr_arena_init(&arena, PROBE_BYTES);
    bool good = lr_json_parse(&arena, lr_str_z(text), NULL, &input.context, NULL) == LR_OK &&
                jinja_render(tmpl, &input, &prompt, NULL) == LR_OK;
    for (size_t i = 1; good && i < prompt.count; i++)
        if (!prompt.segments[i - 1].control && prompt.segments[i].control &&
            lr_str_find(prompt.segments[i - 1].text, LR_STR_LIT("qvtwo")) != LR_STR_NONE)
            ending = lr_str_sub(lr_str_trim(prompt.segments[i].text), 0, CHAT_ENDING_MAX);
    if (ending.len != 0)
        memcpy(out, ending.ptr, ending.len);
    ending.ptr = out;
    jinja_output_free(&prompt);
    lr_arena_free(&arena);
    return ending;
}
