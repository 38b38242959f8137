/* The request log: bounded, updated while requests run, filtered, and cheap. */
#include "tests/unit/router/support.h"

#include <time.h>

#include "router/relay/journal.h"
#include "router/relay/texts.h"

#define STR(text)                                                                              \
    {                                                                                          \
        text, sizeof(text) - 1                                                                 \
    } /* a constant, where a literal is none */

static struct router_journal journal;

static void open_journal(size_t capacity)
{
    struct lr_error err;
    assert_int_equal(router_journal_init(&journal, capacity, 1000000, &err), LR_OK);
}

static uint64_t begin(const char *request_id, const char *model, const char *key)
{
    struct router_record *record = router_journal_begin(&journal);
    if (record == NULL)
        return 0;
    record->begun_ns = 1000000;
    LR_COPY(record->request_id, lr_str_z(request_id));
    LR_COPY(record->model, lr_str_z(model));
    LR_COPY(record->key, lr_str_z(key));
    uint64_t number = record->number;
    router_journal_leave(&journal);
    return number;
}

static void take_step(uint64_t number, enum router_step_kind kind, uint64_t at_ns)
{
    struct router_record *record = router_journal_enter(&journal, number);
    assert_non_null(record);
    *router_journal_step(record) = (struct router_step){.kind = kind, .at_ns = at_ns};
    router_journal_leave(&journal);
}

static void finish(uint64_t number, uint32_t status)
{
    struct router_record *record = router_journal_enter(&journal, number);
    assert_non_null(record);
    record->status = status;
    record->ended_ns = 5000000;
    router_journal_leave(&journal);
}

static const char *listed(struct lr_buf *out, struct router_journal_filter filter)
{
    struct lr_json_writer w;
    if (filter.limit == 0)
        filter.limit = 100;
    lr_buf_clear(out);
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    router_journal_write(&journal, &filter, 9000000, &w);
    lr_json_end_object(&w);
    return lr_buf_z(out);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void
newer_requests_take_the_places_of_the_oldest_and_an_update_of_those_does_nothing(void **state)
{
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    open_journal(3);
    uint64_t first = begin("req-0", "m", "k");
    for (int i = 1; i < 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "req-%d", i);
        (void)begin(id, "m", "k");
    }
    assert_null(router_journal_enter(&journal, first));
    const char *text = listed(&out, (struct router_journal_filter){0});
    assert_int_equal(count_of(text, "\"request_id\""), 3);
    assert_null(strstr(text, "req-1"));
    assert_contains(text, "\"kept\":3");
    assert_true(strstr(text, "req-4") < strstr(text, "req-3")); /* the newest first */
    router_journal_free(&journal);
    lr_buf_free(&out);
}

static void requests_are_found_by_key_model_status_and_text_and_paged(void **state)
{
    struct lr_buf out;
    struct lr_error err;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    open_journal(100);
    finish(begin("req-a", "Big", "key-1"), 200);
    finish(begin("req-b", "big", "key-2"), 503);
    uint64_t running = begin("req-c", "small", "key-1");
    const struct {
        struct router_journal_filter filter;
        size_t found;
    } cases[] = {
        {{.limit = 0}, 3},           {{.key = STR("key-1")}, 2},
        {{.model = STR("big")}, 2},  {{.status = STR("running")}, 1},
        {{.status = STR("ok")}, 1},  {{.status = STR("failed")}, 1},
        {{.status = STR("503")}, 1}, {{.status = STR("404")}, 0},
        {{.text = STR("EQ-B")}, 1},  {{.text = STR("smal")}, 1},
        {{.before = running}, 2},    {{.key = STR("key-1"), .limit = 1}, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(count_of(listed(&out, cases[i].filter), "\"request_id\""),
                         cases[i].found);
    assert_contains(lr_buf_z(&out), "\"more\":true");
    struct router_journal_filter wrong = {.status = STR("bad")};
    assert_int_equal(router_journal_check(&wrong, &err), LR_INVALID_ARGUMENT);
    router_journal_free(&journal);
    lr_buf_free(&out);
}

static void a_record_has_the_first_steps_and_the_last_whatever_comes(void **state)
{
    struct lr_buf out;
    struct lr_json_writer w;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    open_journal(2);
    uint64_t number = begin("req-x", "m", "");
    for (uint64_t i = 0; i < 50; i++)
        take_step(number, i == 49 ? ROUTER_STEP_FIRST_TOKEN : ROUTER_STEP_SENT,
                  1000000 * (i + 1));
    lr_json_writer_init(&w, &out);
    lr_json_begin_object(&w);
    assert_true(router_journal_write_one(&journal, LR_STR_LIT("req-x"), 0, true, &w));
    lr_json_end_object(&w);
    const char *text = lr_buf_z(&out);
    assert_int_equal(count_of(text, "\"at_ms\""), ROUTER_STEPS_MAX);
    assert_contains(text, "\"step\":\"first_token\",\"at_ms\":49");
    assert_contains(text, "\"steps_left_out\":34");
    assert_contains(text, "\"phase\":\"first_token\"");
    lr_buf_clear(&out);
    assert_false(router_journal_write_one(&journal, LR_STR_LIT("req-y"), 0, true, &w));
    router_journal_free(&journal);
    lr_buf_free(&out);
}

static void without_places_nothing_is_logged(void **state)
{
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    open_journal(0);
    assert_int_equal(begin("req-a", "m", ""), 0);
    assert_null(router_journal_enter(&journal, 0));
    assert_contains(listed(&out, (struct router_journal_filter){0}), "\"requests\":[]");
    router_journal_free(&journal);
    lr_buf_free(&out);
}

/* ---- texts ---- */

static void keep(uint64_t number, const char *prompt, const char *answer)
{
    struct lr_buf json;
    lr_buf_init(&json, 1 << 20);
    lr_buf_add_z(&json, prompt);
    router_journal_keep_prompt(&journal, number, &json);
    lr_buf_free(&json);
    lr_buf_init(&json, 1 << 20);
    lr_buf_add_z(&json, answer);
    router_journal_keep_answer(&journal, number, &json);
    lr_buf_free(&json);
}

static const char *shown(struct lr_buf *out, uint64_t number, bool shows_texts)
{
    struct lr_json_writer w;
    char id[24];
    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)number);
    lr_buf_clear(out);
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    assert_true(router_journal_write_one(&journal, lr_str_z(id), 0, shows_texts, &w));
    lr_json_end_object(&w);
    return lr_buf_z(out);
}

static void
texts_leave_with_their_record_or_their_key_and_when_newer_ones_need_room(void **state)
{
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    open_journal(4);
    uint64_t a = begin("req-a", "m", "key-1"), b = begin("req-b", "m", "key-2");
    keep(a, "{\"begin\":\"aaaa\"}", "[1]");
    keep(b, "{\"begin\":\"bbbb\"}", "[2]");
    assert_contains(shown(&out, a, true), "\"texts\":\"kept\",\"prompt\":{\"begin\":\"aaaa\"}");
    assert_contains(shown(&out, a, true), "\"answers\":[1]");
    assert_contains(shown(&out, a, false), "\"texts\":\"hidden\"");
    assert_null(strstr(shown(&out, a, false), "aaaa"));
    router_journal_forget(&journal, "key-1");
    assert_contains(shown(&out, a, true), "\"texts\":\"removed\"");
    assert_contains(shown(&out, b, true), "bbbb");
    keep(a, "{\"begin\":\"again\"}", "[3]"); /* of a request that ran meanwhile */
    assert_null(strstr(shown(&out, a, true), "again"));
    assert_int_equal(journal.text_bytes, strlen("{\"begin\":\"bbbb\"}[2]"));

    journal.text_limit = 50; /* room for two */
    uint64_t c = begin("req-c", "m", "key-2"), d = begin("req-d", "m", "key-2");
    keep(c, "{\"begin\":\"cccc\"}", "[4]");
    keep(d, "{\"begin\":\"dddd\"}", "[5]");
    assert_contains(shown(&out, b, true), "\"texts\":\"removed\"");
    assert_contains(shown(&out, c, true), "cccc");
    assert_contains(shown(&out, d, true), "dddd");
    for (int i = 0; i < 4; i++)
        (void)begin("req-e", "m", "");
    assert_int_equal(journal.text_bytes, 0);
    router_journal_free(&journal);
    lr_buf_free(&out);
}

static void add(struct router_kept_answer *answer, uint32_t choice, enum chat_delta_kind kind,
                struct lr_str text)
{
    router_kept_answer_add(answer, choice, &(struct chat_delta){.kind = kind, .text = text});
}

static void an_answer_has_its_parts_and_is_cut_at_a_character(void **state)
{
    struct lr_buf out;
    static char big[ROUTER_TEXT_MAX];
    (void)state;
    lr_buf_init(&out, ROUTER_TEXT_JSON);
    struct router_kept_answer *answer = router_kept_answer_new(2);
    assert_non_null(answer);
    add(answer, 0, CHAT_DELTA_REASONING, LR_STR_LIT("hm"));
    add(answer, 0, CHAT_DELTA_CONTENT, LR_STR_LIT("a"));
    add(answer, 0, CHAT_DELTA_CONTENT, LR_STR_LIT("b"));
    add(answer, 0, CHAT_DELTA_TOOL_BEGIN, LR_STR_LIT("find"));
    add(answer, 0, CHAT_DELTA_TOOL_ARGUMENTS, LR_STR_LIT("{}"));
    add(answer, 9, CHAT_DELTA_CONTENT, LR_STR_LIT("no such choice"));
    router_kept_answer_write(answer, &out);
    assert_string_equal(lr_buf_z(&out),
                        "[{\"parts\":[{\"kind\":\"reasoning\",\"text\":\"hm\"},{\"kind\":"
                        "\"content\",\"text\":\"ab\"},{\"kind\":\"tool_call\",\"name\":"
                        "\"find\",\"text\":\"{}\"}],\"left_out\":0},{\"parts\":[],"
                        "\"left_out\":0}]");
    memset(big, 'x', sizeof(big));
    memcpy(big + ROUTER_TEXT_MAX - 11, "\xc3\xa9", 2); /* only its first half has room */
    add(answer, 1, CHAT_DELTA_CONTENT, lr_str(big, sizeof(big)));
    add(answer, 1, CHAT_DELTA_CONTENT, LR_STR_LIT("after a gap"));
    lr_buf_clear(&out);
    router_kept_answer_write(answer, &out);
    assert_false(out.failed);
    assert_contains(lr_buf_z(&out), "xxx\"}],\"left_out\":22}]");
    assert_null(strstr(lr_buf_z(&out), "after a gap"));
    router_kept_answer_free(answer);
    answer = router_kept_answer_new(1);
    assert_non_null(answer);
    for (uint32_t i = 0; i < 2 * ROUTER_TEXT_PARTS; i++)
        add(answer, 0, i % 2 ? CHAT_DELTA_CONTENT : CHAT_DELTA_REASONING, LR_STR_LIT("y"));
    assert_int_equal(answer->choices[0].part_count, ROUTER_TEXT_PARTS);
    assert_int_equal(answer->choices[0].left_out, ROUTER_TEXT_PARTS);
    router_kept_answer_free(answer);
    lr_buf_free(&out);
}

/* Microseconds of processor time for a request with six steps: the log must not be felt. */
static void a_request_costs_a_few_microseconds(void **state)
{
    enum { REQUESTS = 20000, LIMIT_US = 60 }; /* a sanitizer makes copies slow */
    (void)state;
    open_journal(2000);
    clock_t begun = clock();
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t number = begin("req-a", "m", "k");
        for (int s = 0; s < 6; s++)
            take_step(number, ROUTER_STEP_SENT, 0);
        finish(number, 200);
    }
    double us = (double)(clock() - begun) * 1e6 / CLOCKS_PER_SEC / REQUESTS;
    print_message("request log: %.2f us for a request\n", us);
    assert_true(us < LIMIT_US);
    router_journal_free(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            newer_requests_take_the_places_of_the_oldest_and_an_update_of_those_does_nothing),
        cmocka_unit_test(requests_are_found_by_key_model_status_and_text_and_paged),
        cmocka_unit_test(a_record_has_the_first_steps_and_the_last_whatever_comes),
        cmocka_unit_test(without_places_nothing_is_logged),
        cmocka_unit_test(
            texts_leave_with_their_record_or_their_key_and_when_newer_ones_need_room),
        cmocka_unit_test(an_answer_has_its_parts_and_is_cut_at_a_character),
        cmocka_unit_test(a_request_costs_a_few_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
