/* model/fingerprint: equal for copies of the same files, another for other weights. */
#include "model/fingerprint.h"

#include "tests/unit/model/support.h"

enum { TENSOR_BYTES = 3 << 20 };

static char bytes[TENSOR_BYTES];

static void write_snapshot(void)
{
    char header[128];
    struct lr_buf file;
    (void)snprintf(header, sizeof(header),
                   "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                   TENSOR_BYTES, TENSOR_BYTES);
    uint64_t len = strlen(header);
    lr_buf_init(&file, TENSOR_BYTES + 1024);
    lr_buf_add(&file, &len, sizeof(len)); /* little-endian on every machine that tests */
    lr_buf_add(&file, header, (size_t)len);
    lr_buf_add(&file, bytes, TENSOR_BYTES);
    write_bytes("model.safetensors", file.data, file.len);
    lr_buf_free(&file);
    write_text("config.json", "{\"architectures\":[\"NemotronForCausalLM\"],"
                              "\"model_type\":\"nemotron\",\"max_position_embeddings\":4096}");
    write_text("tokenizer.json", "{}");
}

static void take(char out[MODEL_FINGERPRINT_LEN + 1])
{
    struct lr_error err;
    assert_int_equal(model_fingerprint_of(folder, MODEL_FORMAT_SAFETENSORS, NULL, out, &err),
                     LR_OK);
    assert_int_equal(strlen(out), MODEL_FINGERPRINT_LEN);
}

static void copies_of_the_same_files_have_the_same_fingerprint(void **state)
{
    char one[MODEL_FINGERPRINT_LEN + 1], two[MODEL_FINGERPRINT_LEN + 1];
    write_snapshot();
    take(one);
    assert_int_equal(remove_folder(state), 0);
    assert_int_equal(make_folder(state), 0); /* another path, another time */
    write_snapshot();
    write_text("README.md", "words");
    write_text("chat_template.jinja", "{{ messages }}");
    write_text("tokenizer_config.json", "{\"chat_template\":\"{{ messages }}\"}");
    take(two);
    assert_string_equal(one, two);
}

static void expect_other(const char *than)
{
    char now[MODEL_FINGERPRINT_LEN + 1];
    take(now);
    assert_string_not_equal(now, than);
}

static void what_decides_tokens_decides_the_fingerprint(void **state)
{
    char first[MODEL_FINGERPRINT_LEN + 1];
    (void)state;
    write_snapshot();
    take(first);
    bytes[0] = 1; /* the beginning of the tensors */
    write_snapshot();
    expect_other(first);
    bytes[0] = 0;
    bytes[TENSOR_BYTES - 1] = 1; /* and their end */
    write_snapshot();
    expect_other(first);
    bytes[TENSOR_BYTES - 1] = 0;
    write_snapshot();
    write_text("tokenizer.json", "{\"model\":{}}");
    expect_other(first);
    write_snapshot();
    write_text("config.json", "{\"architectures\":[\"NemotronForCausalLM\"],"
                              "\"model_type\":\"nemotron\",\"max_position_embeddings\":8192}");
    expect_other(first);
    write_snapshot();
    char again[MODEL_FINGERPRINT_LEN + 1];
    take(again);
    assert_string_equal(again, first);
}

/* The folders that modules.json names decide what an embedder computes. */
static void pooling_and_dense_layers_of_an_embedder_decide_the_fingerprint(void **state)
{
    char first[MODEL_FINGERPRINT_LEN + 1];
    (void)state;
    write_snapshot();
    assert_int_equal(lr_dir_create(in_folder("1_Pooling"), NULL), LR_OK);
    assert_int_equal(lr_dir_create(in_folder("2_Dense"), NULL), LR_OK);
    write_text("modules.json", "[{\"path\":\"\"},{\"path\":\"1_Pooling\"},"
                               "{\"path\":\"2_Dense\"},{\"path\":\"../other\"},{}]");
    write_text("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\":true}");
    write_text("2_Dense/model.safetensors", "one");
    take(first);
    write_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\":true}");
    expect_other(first);
    write_text("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\":true}");
    write_text("2_Dense/model.safetensors", "two");
    expect_other(first);
    write_text("2_Dense/model.safetensors", "one");
    char again[MODEL_FINGERPRINT_LEN + 1];
    take(again);
    assert_string_equal(again, first);
}

/* Another set of weights differs everywhere, and is seen wherever it is looked at. */
static void other_weights_between_the_ends_are_seen(void **state)
{
    char first[MODEL_FINGERPRINT_LEN + 1];
    (void)state;
    write_snapshot();
    take(first);
    memset(bytes + TENSOR_BYTES / 3, 7, TENSOR_BYTES / 3);
    write_snapshot();
    expect_other(first);
    memset(bytes, 0, sizeof(bytes));
}

static void a_file_that_is_gone_is_named(void **state)
{
    char out[MODEL_FINGERPRINT_LEN + 1];
    struct model_descriptor *d;
    struct lr_error err;
    (void)state;
    write_snapshot();
    assert_int_equal(model_descriptor_open(folder, MODEL_FORMAT_SAFETENSORS, NULL, &d, &err),
                     LR_OK);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    assert_int_equal(model_fingerprint(d, out, &err), LR_MODEL_CORRUPT);
    assert_non_null(strstr(err.text, "model.safetensors"));
    assert_string_equal(out, "");
    model_descriptor_close(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(copies_of_the_same_files_have_the_same_fingerprint),
        TEST(what_decides_tokens_decides_the_fingerprint),
        TEST(pooling_and_dense_layers_of_an_embedder_decide_the_fingerprint),
        TEST(other_weights_between_the_ends_are_seen),
        TEST(a_file_that_is_gone_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
