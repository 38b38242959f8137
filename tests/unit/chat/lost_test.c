/* Parts of a request that a rendered prompt lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "chat/template/families.h"
#include "chat/template/lost.h"

static void lacks(const char *messages, const char *tools, const char *prompt,
                  const char *names)
{
    struct lr_arena arena;
    const struct lr_json *list, *declared = NULL;
    char out[CHAT_LOST_MAX];
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(lr_json_parse(&arena, lr_str_z(messages), NULL, &list, NULL), LR_OK);
    if (tools != NULL)
        assert_int_equal(lr_json_parse(&arena, lr_str_z(tools), NULL, &declared, NULL), LR_OK);
    chat_lost_find(list, declared, lr_str_z(prompt), out);
    assert_string_equal(out, names);
    lr_arena_free(&arena);
}

#define ALL                                                                                    \
    "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"developer\",\"content\":"    \
    "[{\"type\":\"text\",\"text\":\"In verse.\"}]},{\"role\":\"user\",\"content\":\"Look\"},"  \
    "{\"role\":\"assistant\",\"content\":\"<think>no</think>Well\",\"reasoning_content\":"     \
    "\"Hmm\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"place\":1}}}]},"   \
    "{\"role\":\"tool\",\"content\":\"rain\"}]"
#define TOOLS "[{\"function\":{\"name\":\"f\",\"description\":\"The weather\"}}]"

static void each_part_that_is_not_in_the_prompt_is_named(void **state)
{
    (void)state;
    lacks(ALL, TOOLS, "weather: The. brief, verse. Look Hmm Well place rain", "");
    lacks(ALL, TOOLS, "",
          "tools, messages.system, messages.developer, messages.user, "
          "messages.assistant, messages.tool, messages.tool_calls, "
          "messages.reasoning_content");
    lacks(ALL, NULL, "brief Look Well place rain Hmm", "messages.developer");
    lacks(ALL, TOOLS, "rain Hmm Well place Look verse weather brief", "");
}

static void a_text_without_letters_and_earlier_reasoning_are_not_named(void **state)
{
    (void)state;
    lacks("[{\"role\":\"user\",\"content\":\"?!\"}]", NULL, "", "");
    lacks("[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"Hmm\"},"
          "{\"role\":\"user\",\"content\":\"b\"}]",
          NULL, "a b", "");
}

static double cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* A prompt of `n` texts in another order than the messages. */
static double cost_of(uint32_t n)
{
    struct lr_arena arena;
    struct lr_buf prompt, messages;
    const struct lr_json *list;
    char out[CHAT_LOST_MAX];
    lr_arena_init(&arena, 1 << 30);
    lr_buf_init(&prompt, 1 << 28);
    lr_buf_init(&messages, 1 << 28);
    for (uint32_t i = 0; i < n; i++) {
        lr_buf_addf(&prompt, "%07uaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ", (i + n / 2) % n);
        lr_buf_addf(
            &messages,
            "%s{\"role\":\"user\",\"content\":\"%07uaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
            i == 0 ? "[" : ",", i);
    }
    lr_buf_add_char(&messages, ']');
    assert_int_equal(lr_json_parse(&arena, lr_buf_str(&messages), NULL, &list, NULL), LR_OK);
    double begin = cpu_ns();
    chat_lost_find(list, NULL, lr_buf_str(&prompt), out);
    double ns = cpu_ns() - begin;
    assert_string_equal(out, "");
    lr_buf_free(&prompt);
    lr_buf_free(&messages);
    lr_arena_free(&arena);
    return ns / n;
}

static void the_cost_of_a_text_does_not_grow_with_their_number(void **state)
{
    (void)state;
    double few = cost_of(2000), many = cost_of(20000);
    if (many > 4 * few + 1000)
        fail_msg("%.0f ns a text of 2,000, %.0f of 20,000", few, many);
}

static bool has(const void *ctx, struct lr_str token)
{
    for (const char *const *t = ctx; *t != NULL; t++)
        if (lr_str_eq_z(token, *t))
            return true;
    return false;
}

static void the_marks_of_a_vocabulary_decide_over_the_family(void **state)
{
    const struct {
        const char *tokens[4];
        enum chat_family family;
        const char *part; /* of the template */
    } cases[] = {
        {{"<|endoftext|>"}, CHAT_FAMILY_NONE, ""},
        {{"<|im_start|>", "<|im_end|>"}, CHAT_FAMILY_CHATML, ""},
        {{"<|im_start|>"}, CHAT_FAMILY_NONE, ""},
        {{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
         CHAT_FAMILY_OWN,
         "ipython"},
        {{"<start_of_turn>", "<end_of_turn>"}, CHAT_FAMILY_OWN, "<start_of_turn>model"},
        {{"<|user|>", "<|assistant|>", "<|end|>"}, CHAT_FAMILY_OWN, "<|end|>"},
        {{"<|user|>", "<|assistant|>", "<|observation|>"}, CHAT_FAMILY_OWN, "gMASK"},
        {{"<|user|>", "<|assistant|>"}, CHAT_FAMILY_OWN, "eos_token"},
        {{"[INST]", "[/INST]"}, CHAT_FAMILY_OWN, "'[INST] '"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_str text;
        const struct chat_vocabulary v = {has, cases[i].tokens};
        assert_int_equal(chat_family_of(&v, &text), cases[i].family);
        assert_true(lr_str_find(text, lr_str_z(cases[i].part)) != LR_STR_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_that_is_not_in_the_prompt_is_named),
        cmocka_unit_test(a_text_without_letters_and_earlier_reasoning_are_not_named),
        cmocka_unit_test(the_cost_of_a_text_does_not_grow_with_their_number),
        cmocka_unit_test(the_marks_of_a_vocabulary_decide_over_the_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
