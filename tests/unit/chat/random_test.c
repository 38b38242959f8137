/* Random and mutated Harmony streams: nothing crashes, no text is lost, the output is JSON
 * without control text, and neither the split of the text nor streaming changes the answer.
 *
 * 10,000 streams; 100,000 with LR_LONG=1.  LR_SEED=N repeats one series.
 */
#include "chat/response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "dialects.h"

enum { TOKENS_MAX = 64, TEXT_MAX = 24 };

struct token {
    bool special;
    char text[TEXT_MAX];
};

struct stream {
    struct token tokens[TOKENS_MAX];
    size_t count;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % n);
}

/* ---- streams ---- */

static const char *const controls[] = {"<|start|>",           "<|end|>",       "<|message|>",
                                       "<|channel|>",         "<|constrain|>", "<|call|>",
                                       "<|return|>",          "<|message|>",   "<|endoftext|>",
                                       "<|reserved_200014|>", "<|end|>",       "<|channel|>"};
static const char *const words[] = {
    "assistant", "analysis", "commentary",   "final",    " to=functions.f", " to=python",
    "json",      " code",    "{\"a\":",      "1}",       " to=user",        "to=",
    "user",      "? ?",      "\xE6\x97\xA5", "\xF0\x9F", "\x98\x80",        "\xFF",
    " ",         "\n",       "{}",           "\"",       "functions.g",     "<",
    "|>",        "\\"};
static const char *const shapes[] = {
    "<|channel|>analysis<|message|>#<|end|><|start|>assistant<|channel|>final<|message|>#"
    "<|return|>",
    "<|channel|>analysis<|message|>#<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.f <|constrain|>json<|message|>{\"a\":\"#\"}<|call|>",
    "<|channel|>commentary<|message|>#<|end|><|start|>assistant to=functions.f<|channel|>"
    "commentary json<|message|>{}<|call|>",
    "<|channel|>final <|constrain|>json<|message|>{\"a\":\"#\"}<|return|>",
    "#<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>#<|call|>"};

#define PICK(list) ((list)[random_below(sizeof(list) / sizeof((list)[0]))])

static void add(struct stream *s, const char *text, size_t len, bool special)
{
    if (s->count == TOKENS_MAX || len >= TEXT_MAX || len == 0)
        return;
    struct token *t = &s->tokens[s->count++];
    memcpy(t->text, text, len);
    t->text[len] = '\0';
    t->special = special;
}

/* A unique word, so that its presence in the answer can be checked. */
static void add_marker(struct stream *s)
{
    char text[TEXT_MAX];
    int n = snprintf(text, sizeof(text), "w%zux%u", s->count, random_below(1000));
    add(s, text, (size_t)n, false);
}

static void add_random(struct stream *s)
{
    uint32_t dice = random_below(10);
    const char *text = dice < 4 ? PICK(controls) : PICK(words);
    if (dice > 7)
        add_marker(s);
    else
        add(s, text, strlen(text), dice < 4);
}

/* A well-formed answer; # stands for a marker. */
static void add_shape(struct stream *s, const char *shape)
{
    while (*shape != '\0') {
        if (*shape == '#') {
            add_marker(s);
            shape++;
            continue;
        }
        const char *close = strncmp(shape, "<|", 2) == 0 ? strstr(shape, "|>") : NULL;
        size_t n = close != NULL ? (size_t)(close + 2 - shape) : strcspn(shape, "<#");
        n = n == 0 ? 1 : n;
        if (close == NULL && n > 12)
            n = 12;
        add(s, shape, n, close != NULL);
        shape += n;
    }
}

static void mutate(struct stream *s)
{
    size_t at = random_below((uint32_t)s->count);
    size_t other = random_below((uint32_t)s->count);
    struct token kept = s->tokens[at];
    switch (random_below(4)) {
    case 0: /* lose one */
        memmove(&s->tokens[at], &s->tokens[at + 1], (s->count - at - 1) * sizeof(kept));
        s->count--;
        break;
    case 1: /* swap two */
        s->tokens[at] = s->tokens[other];
        s->tokens[other] = kept;
        break;
    case 2: /* double one */
        add(s, kept.text, strlen(kept.text), kept.special);
        break;
    default: /* put something in its place */
        if (s->count < TOKENS_MAX) {
            add_random(s);
            s->tokens[at] = s->tokens[--s->count];
        }
        break;
    }
}

static void make(struct stream *s)
{
    s->count = 0;
    if (random_below(2) == 0) {
        for (uint32_t n = 1 + random_below(40); n > 0; n--)
            add_random(s);
        return;
    }
    add_shape(s, PICK(shapes));
    for (uint32_t n = random_below(5); n > 0 && s->count > 1; n--)
        mutate(s);
}

/* ---- answers ---- */

static const struct chat_request *requests[2]; /* whole, stream */

enum pieces { AS_IS, JOINED, SPLIT };

static void feed(struct chat_response *r, const struct stream *s, enum pieces pieces,
                 struct lr_buf *out)
{
    char joined[TOKENS_MAX * TEXT_MAX];
    size_t len = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct token *t = &s->tokens[i];
        size_t n = strlen(t->text);
        struct wire_token token = {.bytes = {t->text, n}, .special = t->special};
        if (pieces == AS_IS || t->special) {
            chat_response_on_token(r, 0, &token, out);
        } else if (pieces == SPLIT) {
            for (size_t at = 0; at < n;) {
                size_t step = 1 + random_below((uint32_t)(n - at));
                token.bytes = lr_str(t->text + at, step);
                chat_response_on_token(r, 0, &token, out);
                at += step;
            }
        } else {
            memcpy(joined + len, t->text, n);
            len += n;
            if (i + 1 == s->count || s->tokens[i + 1].special) {
                token.bytes = lr_str(joined, len);
                chat_response_on_token(r, 0, &token, out);
                len = 0;
            }
        }
    }
    struct chat_usage usage = {0};
    chat_response_on_done(r, 0, LR_FINISH_STOP, &usage, out);
    assert_true(chat_response_is_complete(r));
}

static void answer(const struct stream *s, bool stream, enum pieces pieces, struct lr_buf *out)
{
    struct chat_response *r;
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {
        .request = requests[stream], .id = LR_STR_LIT("x"), .dialect = &dialect};
    assert_int_equal(chat_response_create(&o, &r, NULL), LR_OK);
    lr_buf_clear(out);
    feed(r, s, pieces, out);
    chat_response_destroy(r);
}

/* The content of an answer as one text: reasoning, content, then each call. */
struct said {
    struct lr_buf reasoning;
    struct lr_buf content;
    struct lr_buf calls;
};

static void said_init(struct said *s)
{
    lr_buf_init(&s->reasoning, 1 << 20);
    lr_buf_init(&s->content, 1 << 20);
    lr_buf_init(&s->calls, 1 << 20);
}

static void said_free(struct said *s)
{
    lr_buf_free(&s->reasoning);
    lr_buf_free(&s->content);
    lr_buf_free(&s->calls);
}

static void said_add(struct said *s, const struct lr_json *message)
{
    struct lr_str text;
    if (lr_json_str(lr_json_get(message, "reasoning_content"), &text))
        lr_buf_add_str(&s->reasoning, text);
    if (lr_json_str(lr_json_get(message, "content"), &text))
        lr_buf_add_str(&s->content, text);
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++) {
        const struct lr_json *function = lr_json_get(&calls->items[i], "function");
        if (lr_json_str(lr_json_get(&calls->items[i], "id"), &text))
            lr_buf_add_str(&s->calls, text);
        if (lr_json_str(lr_json_get(function, "name"), &text))
            lr_buf_add_str(&s->calls, text);
        assert_true(lr_json_str(lr_json_get(function, "arguments"), &text));
        lr_buf_add_str(&s->calls, text);
    }
}

static const struct lr_json *first_choice(struct lr_arena *arena, struct lr_str json)
{
    const struct lr_json *root;
    struct lr_error err;
    if (lr_json_parse(arena, json, NULL, &root, &err) != LR_OK)
        fail_msg("%s: %.*s", err.text, (int)json.len, json.ptr);
    const struct lr_json *choices = lr_json_get(root, "choices");
    assert_int_equal(choices->count, 1);
    return &choices->items[0];
}

static void read_body(struct lr_str body, struct said *said)
{
    struct lr_arena arena;
    lr_arena_init(&arena, 4 << 20);
    said_add(said, lr_json_get(first_choice(&arena, body), "message"));
    lr_arena_free(&arena);
}

static void read_events(struct lr_str events, struct said *said)
{
    bool is_done = false;
    while (events.len > 0) {
        size_t end = lr_str_find(events, LR_STR_LIT("\n\n"));
        struct lr_str event = lr_str_sub(events, 6, end);
        assert_false(is_done);
        is_done = lr_str_eq_z(event, "[DONE]");
        if (!is_done) {
            struct lr_arena arena;
            lr_arena_init(&arena, 4 << 20);
            said_add(said, lr_json_get(first_choice(&arena, event), "delta"));
            lr_arena_free(&arena);
        }
        events = lr_str_sub(events, end + 2, events.len);
    }
    assert_true(is_done);
}

/* ---- checks ---- */

static void show(const struct stream *s)
{
    for (size_t i = 0; i < s->count; i++)
        fprintf(stderr, "[%s]", s->tokens[i].text);
    fprintf(stderr, "\n");
}

static void expect_same(const struct stream *s, const struct said *a, const struct said *b,
                        const char *what)
{
    if (lr_str_eq(lr_buf_str(&a->reasoning), lr_buf_str(&b->reasoning)) &&
        lr_str_eq(lr_buf_str(&a->content), lr_buf_str(&b->content)) &&
        lr_str_eq(lr_buf_str(&a->calls), lr_buf_str(&b->calls)))
        return;
    show(s);
    fail_msg("%s changes the answer", what);
}

static bool is_in(const struct said *said, struct lr_str word)
{
    return lr_str_find(lr_buf_str(&said->reasoning), word) != LR_STR_NONE ||
           lr_str_find(lr_buf_str(&said->content), word) != LR_STR_NONE ||
           lr_str_find(lr_buf_str(&said->calls), word) != LR_STR_NONE;
}

/* Every marker inside a message, after <|message|>, is in the answer. */
static void expect_nothing_lost(const struct stream *s, const struct said *said)
{
    bool in_message = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct token *t = &s->tokens[i];
        if (t->special) {
            if (strcmp(t->text, "<|message|>") == 0)
                in_message = true;
            else if (strcmp(t->text, "<|constrain|>") != 0 &&
                     strncmp(t->text, "<|reserved", 10) != 0)
                in_message = false;
            continue;
        }
        if (in_message && t->text[0] == 'w' && !is_in(said, lr_str_z(t->text))) {
            show(s);
            fail_msg("%s is lost", t->text);
        }
    }
}

static void expect_no_control_text(const struct stream *s, const struct said *said)
{
    static const char *const names[] = {"<|start|>",    "<|end|>",  "<|message|>",
                                        "<|channel|>",  "<|call|>", "<|return|>",
                                        "<|constrain|>"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is_in(said, lr_str_z(names[i]))) {
            show(s);
            fail_msg("%s leaked", names[i]);
        }
    }
}

/* With a single marker that cannot be a recipient or a content type, the answer is not
 * empty. */
static void expect_not_empty(const struct stream *s, const struct said *said)
{
    bool has_text = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct token *t = &s->tokens[i];
        bool is_alone = (i == 0 || s->tokens[i - 1].special) &&
                        (i + 1 == s->count || s->tokens[i + 1].special);
        has_text = has_text || (is_alone && !t->special && t->text[0] == 'w');
        if (strcmp(t->text, "<|constrain|>") == 0 || strcmp(t->text, "to=") == 0)
            return;
    }
    if (has_text && said->reasoning.len + said->content.len + said->calls.len == 0) {
        show(s);
        fail_msg("tokens were produced, and nothing came out");
    }
}

static void check_stream(const struct stream *s, struct lr_buf *out)
{
    struct said whole, other;
    said_init(&whole);
    answer(s, false, AS_IS, out);
    read_body(lr_buf_str(out), &whole);
    expect_nothing_lost(s, &whole);
    expect_no_control_text(s, &whole);
    expect_not_empty(s, &whole);

    static const char *const names[] = {"streaming", "joining text", "splitting text"};
    for (int pieces = AS_IS; pieces <= SPLIT; pieces++) {
        said_init(&other);
        answer(s, pieces == AS_IS, (enum pieces)pieces, out);
        if (pieces == AS_IS)
            read_events(lr_buf_str(out), &other);
        else
            read_body(lr_buf_str(out), &other);
        expect_same(s, &whole, &other, names[pieces]);
        said_free(&other);
    }
    said_free(&whole);
}

static void random_streams_keep_every_promise(void **state)
{
    (void)state;
    struct lr_arena arena;
    struct lr_buf out;
    struct chat_error e;
    const char *seed = getenv("LR_SEED");
    int count = getenv("LR_LONG") != NULL ? 100000 : 10000;

    random_state = seed != NULL ? strtoull(seed, NULL, 10) : 20261115;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&out, 16 << 20);
#define BODY(s)                                                                                \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"stream\":" s "}"
    assert_int_equal(chat_request_parse(&arena, &chat_openai_chat, LR_STR_LIT(BODY("false")),
                                        &requests[0], &e),
                     LR_OK);
    assert_int_equal(chat_request_parse(&arena, &chat_openai_chat, LR_STR_LIT(BODY("true")),
                                        &requests[1], &e),
                     LR_OK);
    for (int i = 0; i < count; i++) {
        struct stream s;
        make(&s);
        check_stream(&s, &out);
    }
    lr_buf_free(&out);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_streams_keep_every_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
