/* Embeddings and reranking: requests, answers, and a turn of many texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/errors.h"
#include "base/file.h"
#include "chat/turn.h"
#include "chat/vectors/vectors.h"
#include "wire/bytes.h"

struct fixture {
    struct lr_arena arena;
    struct chat_turn turn;
    struct lr_buf bytes; /* the answer */
    uint32_t started[64], count, cancelled;
    lr_code status;
    bool is_ended;
};

static lr_code start(void *owner, uint32_t index, struct lr_error *err)
{
    struct fixture *f = owner;
    (void)err;
    assert_true(f->count < 64);
    f->started[f->count++] = index;
    return LR_OK;
}

static bool stop(void *owner, uint32_t index, struct chat_usage *usage)
{
    struct fixture *f = owner;
    (void)index;
    (void)usage;
    f->cancelled++;
    return true;
}

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    (void)owner;
    (void)bytes;
    fail_msg("a vector is no stream");
    return LR_OK;
}

static void finish(void *owner, lr_code status, struct lr_str bytes)
{
    struct fixture *f = owner;
    f->status = status;
    f->is_ended = true;
    lr_buf_add_str(&f->bytes, bytes);
}

static void fail_turn(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    finish(owner, err != NULL ? err->code : LR_CANCELLED, bytes);
}

static const struct chat_generator generator = {start, stop};
static const struct chat_sink sink = {
    .write = write_piece, .finish = finish, .fail = fail_turn};

static void begin(struct fixture *f, const struct chat_codec *codec, const char *body)
{
    struct lr_str model;
    *f = (struct fixture){0};
    lr_arena_init(&f->arena, 16 << 20);
    lr_buf_init(&f->bytes, 64 << 20);
    chat_turn_init(&f->turn, codec, &f->arena, &generator, &sink, f);
    if (chat_turn_read(&f->turn, lr_str_z(body), &model) && chat_turn_parse(&f->turn)) {
        struct chat_model none = {0};
        assert_true(chat_turn_prepare(&f->turn, &none, LR_STR_LIT("m")));
        assert_true(chat_turn_start(&f->turn));
    }
}

static void end(struct fixture *f)
{
    chat_turn_gone(&f->turn);
    lr_buf_free(&f->bytes);
    lr_arena_free(&f->arena);
}

static void give(struct fixture *f, uint32_t index, float a, float b, uint32_t tokens)
{
    struct lr_buf frame;
    struct wire_vector v;
    const float values[] = {a, b};
    struct chat_usage usage = {tokens, 0, 0};
    lr_buf_init(&frame, 4096);
    wire_vector_encode(&frame, 7, values, 2);
    assert_int_equal(wire_vector_decode(
                         lr_str_sub(lr_buf_str(&frame), WIRE_HEADER_LEN, frame.len), &v, NULL),
                     LR_OK);
    chat_turn_vector(&f->turn, index, &v);
    lr_buf_free(&frame);
    chat_turn_done(&f->turn, index, LR_FINISH_STOP, &usage);
    chat_turn_flush(&f->turn);
}

static void expect_body(struct fixture *f, const char *wanted)
{
    assert_true(f->is_ended);
    assert_string_equal(lr_buf_z(&f->bytes), wanted);
    end(f);
}

static void test_an_answer_has_the_vectors_in_order_and_the_sum_of_the_tokens(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, &chat_embeddings, "{\"model\":\"m\",\"input\":[\"a\",\"b\"],\"dimensions\":2}");
    give(&f, 1, 0.25f, -1.0f, 5);
    assert_false(f.is_ended);
    give(&f, 0, 0.1f, 1e-9f, 3);
    expect_body(&f, "{\"object\":\"list\",\"model\":\"m\",\"data\":["
                    "{\"object\":\"embedding\",\"index\":0,\"embedding\":[0.100000001,"
                    "9.99999972e-10]},"
                    "{\"object\":\"embedding\",\"index\":1,\"embedding\":[0.25,-1]}],"
                    "\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}}");
}

static void test_base64_is_the_little_endian_float32_values(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, &chat_embeddings,
          "{\"model\":\"m\",\"input\":\"a\",\"encoding_format\":\"base64\"}");
    give(&f, 0, 1.0f, -2.0f, 1); /* 00 00 80 3f 00 00 00 c0 */
    expect_body(&f, "{\"object\":\"list\",\"model\":\"m\",\"data\":[{\"object\":\"embedding\","
                    "\"index\":0,\"embedding\":\"AACAPwAAAMA=\"}],"
                    "\"usage\":{\"prompt_tokens\":1,\"total_tokens\":1}}");
}

static void test_results_are_sorted_and_cut_and_show_their_documents(void **state)
{
    (void)state;
    struct fixture f;
    struct wire_generate ask;
    begin(&f, &chat_rerank,
          "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",{\"text\":\"b\"},\"c\",\"\"],"
          "\"top_n\":3,\"return_documents\":true}");
    chat_turn_ask(&f.turn, 1, &ask);
    assert_int_equal(ask.kind, LR_REQUEST_RERANK);
    assert_memory_equal(ask.segments[0].text, "q", 1);
    assert_memory_equal(ask.document[0].text, "b", 1);
    assert_int_equal(ask.document[0].control, 0);
    give(&f, 3, 0.5f, 0, 1);
    give(&f, 2, 0.5f, 0, 1);
    give(&f, 0, 0.25f, 0, 1);
    give(&f, 1, 0.75f, 0, 1);
    struct lr_str text = lr_buf_str(&f.bytes);
    size_t at = lr_str_find_char(text, ',');
    assert_non_null(
        strstr(lr_buf_z(&f.bytes) + at,
               "\"results\":[{\"index\":1,\"relevance_score\":0.75,\"document\":"
               "{\"text\":\"b\"}},{\"index\":2,\"relevance_score\":0.5,"
               "\"document\":{\"text\":\"c\"}},{\"index\":3,\"relevance_score\":"
               "0.5,\"document\":{\"text\":\"\"}}],\"usage\":{\"prompt_tokens\":4,"));
    end(&f);
}

static void test_of_many_texts_only_some_run_at_once(void **state)
{
    (void)state;
    struct fixture f;
    struct lr_buf body;
    lr_buf_init(&body, 4096);
    lr_buf_add_z(&body, "{\"model\":\"m\",\"input\":[\"a\"");
    for (int i = 1; i < 40; i++)
        lr_buf_add_z(&body, ",\"a\"");
    lr_buf_add_z(&body, "]}");
    begin(&f, &chat_embeddings, lr_buf_z(&body));
    assert_int_equal(f.count, 32);
    give(&f, 5, 1, 0, 1);
    assert_int_equal(f.count, 33);
    assert_int_equal(f.started[32], 32);
    for (uint32_t i = 0; i < 40; i++)
        if (i != 5)
            give(&f, i, 1, 0, 1);
    assert_int_equal(f.count, 40);
    assert_true(f.is_ended);
    assert_int_equal(f.status, LR_OK);
    end(&f);
    begin(&f, &chat_embeddings, lr_buf_z(&body));
    chat_turn_gone(&f.turn);
    assert_int_equal(f.cancelled, 32); /* those that never began are not stopped */
    end(&f);
    lr_buf_free(&body);
}

static void test_a_second_vector_of_a_text_replaces_the_first(void **state)
{
    (void)state;
    struct fixture f;
    const float lost[] = {9, 9};
    struct lr_buf frame;
    struct wire_vector v;
    begin(&f, &chat_embeddings, "{\"model\":\"m\",\"input\":\"a\"}");
    lr_buf_init(&frame, 4096);
    wire_vector_encode(&frame, 7, lost, 2);
    assert_int_equal(wire_vector_decode(
                         lr_str_sub(lr_buf_str(&frame), WIRE_HEADER_LEN, frame.len), &v, NULL),
                     LR_OK);
    chat_turn_vector(&f.turn, 0, &v); /* and the node dies */
    lr_buf_free(&frame);
    give(&f, 0, 1, 0, 1);
    expect_body(&f, "{\"object\":\"list\",\"model\":\"m\",\"data\":[{\"object\":\"embedding\","
                    "\"index\":0,\"embedding\":[1,0]}],"
                    "\"usage\":{\"prompt_tokens\":1,\"total_tokens\":1}}");
}

static void test_an_end_without_a_vector_is_an_error_and_no_empty_answer(void **state)
{
    (void)state;
    struct fixture f;
    struct chat_usage usage = {1, 0, 0};
    begin(&f, &chat_embeddings, "{\"model\":\"m\",\"input\":\"a\"}");
    chat_turn_done(&f.turn, 0, LR_FINISH_STOP, &usage);
    chat_turn_flush(&f.turn);
    assert_int_equal(f.status, LR_INTERNAL);
    assert_non_null(strstr(lr_buf_z(&f.bytes), "without a result"));
    end(&f);
}

static void test_of_several_texts_the_wrong_one_is_named(void **state)
{
    (void)state;
    struct fixture f;
    struct lr_error err;
    begin(&f, &chat_embeddings, "{\"model\":\"m\",\"input\":[\"a\",\"b\"]}");
    (void)lr_fail_as(&err, text_too_long, 9, "tokens", 8);
    chat_turn_fail_at(&f.turn, 1, &err);
    assert_non_null(strstr(lr_buf_z(&f.bytes),
                           "maximum context length is 8 tokens. However, input[1]: the text "
                           "has 9 tokens: send a shorter text."));
    end(&f);
}

static void expect_page(const struct chat_fields *fields)
{
    struct lr_buf wanted, page;
    lr_buf_init(&wanted, 1 << 20);
    lr_buf_init(&page, 1 << 20);
    chat_vectors_fields_markdown(fields, &wanted);
    assert_int_equal(lr_file_read_buf(LR_SOURCE_DIR "/docs/embeddings.md", &page, NULL), LR_OK);
    if (strstr(lr_buf_z(&page), lr_buf_z(&wanted)) == NULL)
        fail_msg("docs/embeddings.md lacks these lists:\n%s", lr_buf_z(&wanted));
    lr_buf_free(&wanted);
    lr_buf_free(&page);
}

static void test_the_page_of_the_api_has_the_table_of_fields(void **state)
{
    (void)state;
    expect_page(&chat_embeddings_fields);
    expect_page(&chat_rerank_fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_has_the_vectors_in_order_and_the_sum_of_the_tokens),
        cmocka_unit_test(test_base64_is_the_little_endian_float32_values),
        cmocka_unit_test(test_results_are_sorted_and_cut_and_show_their_documents),
        cmocka_unit_test(test_of_many_texts_only_some_run_at_once),
        cmocka_unit_test(test_a_second_vector_of_a_text_replaces_the_first),
        cmocka_unit_test(test_an_end_without_a_vector_is_an_error_and_no_empty_answer),
        cmocka_unit_test(test_of_several_texts_the_wrong_one_is_named),
        cmocka_unit_test(test_the_page_of_the_api_has_the_table_of_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
