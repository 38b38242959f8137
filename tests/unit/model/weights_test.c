/* model/weights: index and shards form one model, no file outside the folder is opened, and
 * every mismatch is named. */
#include "model/weights.h"

#include "tests/unit/model/support.h"

#define INDEX "model.safetensors.index.json"
#define A     "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[0,16]}}"
#define B     "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static struct lr_error err;

static void refuses(lr_code code, const char *part, const char *also)
{
    struct model_weights *w;
    memset(&err, 0, sizeof(err));
    assert_int_equal(model_weights_open(folder, &w, &err), code);
    assert_null(w);
    assert_says(&err, part);
    assert_says(&err, also);
}

static void a_single_file_of_any_name_is_the_model(void **state)
{
    (void)state;
    struct model_weights *w;
    write_safetensors("weights.safetensors", A, 16);
    write_text("notes.txt", "x");
    assert_int_equal(mkdir(in_folder("original"), 0700), 0);
    write_safetensors("original/other.safetensors", B, 4);
    assert_int_equal(model_weights_open(folder, &w, &err), LR_OK);
    assert_int_equal(model_weights_count(w), 1);
    assert_int_equal(model_weights_bytes(w), 16);
    assert_non_null(model_weights_find(w, "a"));
    assert_null(model_weights_find(w, "b"));
    model_weights_close(w);
}

static void the_real_repository_numbering_works(void **state)
{
    (void)state;
    struct model_weights *w;
    const struct model_tensor *t;
    /* Three shards "of-00002", as openai/gpt-oss-20b numbers them. */
    write_safetensors("model-00000-of-00002.safetensors", A, 16);
    write_safetensors("model-00001-of-00002.safetensors", B, 4);
    write_safetensors("model-00002-of-00002.safetensors",
                      "{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    write_text(INDEX, "{\"metadata\":{\"total_size\":22},\"weight_map\":{"
                      "\"c\":\"model-00002-of-00002.safetensors\","
                      "\"a\":\"model-00000-of-00002.safetensors\","
                      "\"b\":\"model-00001-of-00002.safetensors\"}}");
    assert_int_equal(model_weights_open(folder, &w, &err), LR_OK);
    assert_int_equal(model_weights_count(w), 3);
    assert_int_equal(
        model_weights_expect(w, "a", MODEL_DTYPE_BF16, MODEL_SHAPE(2, 4), &t, &err), LR_OK);
    model_weights_advise(w, MODEL_ADVICE_SEQUENTIAL);
    model_weights_advise(w, MODEL_ADVICE_WILLNEED);
    model_weights_advise(w, MODEL_ADVICE_DONTNEED);
    assert_int_equal(((const unsigned char *)t->data)[15], 15);
    model_weights_close(w);
}

static void the_wrong_dtype_or_shape_is_named_with_both_values(void **state)
{
    (void)state;
    struct model_weights *w;
    const struct model_tensor *t;
    write_safetensors("weights.safetensors", A, 16);
    assert_int_equal(model_weights_open(folder, &w, &err), LR_OK);
    assert_int_equal(model_weights_expect(w, "a", MODEL_DTYPE_F32, MODEL_SHAPE(2, 4), &t, &err),
                     LR_MODEL_CORRUPT);
    assert_null(t);
    assert_says(&err, "\"a\" is BF16, expected F32");
    assert_int_equal(
        model_weights_expect(w, "a", MODEL_DTYPE_BF16, MODEL_SHAPE(4, 2), &t, &err),
        LR_MODEL_CORRUPT);
    assert_says(&err, "[2, 4]");
    assert_says(&err, "[4, 2]");
    assert_int_equal(model_weights_expect(w, "a", MODEL_DTYPE_BF16, MODEL_SHAPE(8), &t, &err),
                     LR_MODEL_CORRUPT);
    assert_int_equal(model_weights_expect(w, "zz", MODEL_DTYPE_BF16, MODEL_SHAPE(8), &t, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "\"zz\" is missing");
    model_weights_close(w);
}

static void a_tensor_at_an_odd_byte_is_refused_where_it_is_used(void **state)
{
    (void)state;
    struct model_weights *w;
    const struct model_tensor *t;
    write_safetensors("weights.safetensors",
                      "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                      "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[1,5]}} ",
                      5);
    assert_int_equal(model_weights_open(folder, &w, &err), LR_OK);
    assert_int_equal(model_weights_find(w, "a")->offset % 2, 1);
    assert_int_equal(model_weights_expect(w, "a", MODEL_DTYPE_BF16, MODEL_SHAPE(2), &t, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "\"a\" begins at byte");
    model_weights_close(w);
}

static void missing_shards_are_all_named(void **state)
{
    (void)state;
    write_safetensors("s1.safetensors", A, 16);
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\","
                      "\"c\":\"s3.safetensors\"}}");
    refuses(LR_MODEL_CORRUPT, "s2.safetensors", "s3.safetensors");
    assert_null(strstr(err.text, "s1.safetensors"));
}

static void shard_names_that_leave_the_folder_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..\\\\x.safetensors",
        "C:x.safetensors",
        ".hidden.safetensors",
        "passwd",
        "",
        "x\\u0000.safetensors",
        "./x.safetensors",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), "{\"weight_map\":{\"tensor.a\":\"%s\"}}", names[i]);
        write_text(INDEX, text);
        refuses(LR_MODEL_CORRUPT, "plain *.safetensors name", "tensor.a");
    }
}

static void a_tensor_in_another_shard_than_the_index_says_is_refused(void **state)
{
    (void)state;
    write_safetensors("s1.safetensors", A, 16);
    write_safetensors("s2.safetensors", B, 4);
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}}");
    refuses(LR_MODEL_CORRUPT, "places it in s2.safetensors", "lies in s1.safetensors");
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"q\":\"s2.safetensors\"}}");
    refuses(LR_MODEL_CORRUPT, "\"q\"", "s2.safetensors, which lacks it");
}

static void a_tensor_in_two_shards_is_refused(void **state)
{
    (void)state;
    write_safetensors("s1.safetensors", A, 16);
    write_safetensors("s2.safetensors",
                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                      2);
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}");
    refuses(LR_MODEL_CORRUPT, "\"a\" is in two files", "s2.safetensors");
}

static void several_files_without_an_index_are_ambiguous(void **state)
{
    (void)state;
    write_safetensors("s1.safetensors", A, 16);
    write_safetensors("s2.safetensors", B, 4);
    refuses(LR_MODEL_CORRUPT, "ambiguous", "s1.safetensors, s2.safetensors");
}

static void two_indexes_are_ambiguous(void **state)
{
    (void)state;
    write_text(INDEX, "{}");
    write_text("other.safetensors.index.json", "{}");
    refuses(LR_MODEL_CORRUPT, "ambiguous", "other.safetensors.index.json");
}

static void one_shard_alone_asks_for_the_index(void **state)
{
    (void)state;
    write_safetensors("model-00001-of-00002.safetensors", A, 16);
    refuses(LR_MODEL_CORRUPT, "index.json is missing", "model-00001-of-00002.safetensors");
}

static void no_weights_and_no_folder_are_told_apart(void **state)
{
    (void)state;
    struct model_weights *w;
    refuses(LR_MODEL_CORRUPT, "no weights", folder);
    assert_int_equal(model_weights_open("/nonexistent-model", &w, &err), LR_INVALID_ARGUMENT);
    assert_says(&err, "/nonexistent-model");
}

static void broken_indexes_are_refused(void **state)
{
    (void)state;
    write_text(INDEX, "{\"weight_map\":{}}");
    refuses(LR_MODEL_CORRUPT, INDEX, "empty");
    write_text(INDEX, "{\"weight_map\":[]}");
    refuses(LR_MODEL_CORRUPT, INDEX, "weight_map");
    write_text(INDEX, "{\"weight_map\":{\"a\":7}}");
    refuses(LR_MODEL_CORRUPT, "\"a\"", "string");
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s.safetensors\",\"a\":\"s.safetensors\"}}");
    refuses(LR_MODEL_CORRUPT, "twice", "\"a\"");
    write_text(INDEX, "{\"weight_map\":");
    refuses(LR_MODEL_CORRUPT, INDEX, "JSON");
}

static void an_index_of_a_million_tensors_is_refused_with_the_limit(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder(INDEX), "wb");
    assert_non_null(file);
    fputs("{\"weight_map\":{", file);
    for (int i = 0; i < 1000001; i++)
        fprintf(file, "%s\"%d\":\"s.safetensors\"", i != 0 ? "," : "", i);
    fputs("}}", file);
    assert_int_equal(fclose(file), 0);
    refuses(LR_MODEL_CORRUPT, "1000001 tensors", "1000000");
}

static void a_shard_above_four_gib_is_read_right(void **state)
{
    (void)state;
    static const char header[] =
        "{\"large\":{\"dtype\":\"U8\",\"shape\":[5,1073741824],\"data_offsets\":[0,5368709120]}"
        ","
        "\"last\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5368709120,5368709123]}}";
    struct model_weights *w;
    write_safetensors("weights.safetensors", header, 0);
    FILE *file = fopen(in_folder("weights.safetensors"), "r+b"); /* sparse: takes no room */
    assert_non_null(file);
    off_t data = (off_t)(8 + strlen(header));
    assert_int_equal(fseeko(file, data + 5368709120, SEEK_SET), 0);
    assert_int_equal(fwrite("end", 1, 3, file), 3);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(model_weights_open(folder, &w, &err), LR_OK);
    assert_memory_equal(model_weights_find(w, "last")->data, "end", 3);
    assert_int_equal(model_weights_find(w, "large")->bytes, 5368709120);
    model_weights_close(w);
    assert_int_equal(truncate(in_folder("weights.safetensors"), data + 5368709122), 0);
    refuses(LR_MODEL_CORRUPT, "\"last\"", "holds 5368709122");
}

static void the_demo_model_opens_whole(void **state)
{
    (void)state;
    struct model_weights *w;
    assert_int_equal(model_weights_open(LR_SOURCE_DIR "/models/demo", &w, &err), LR_OK);
    assert_int_equal(model_weights_bytes(w), 8139392); /* total_size of its index */
    assert_int_equal(model_weights_count(w), 4 * 19 + 3);
    model_weights_close(w);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_single_file_of_any_name_is_the_model),
        IN_FOLDER(the_real_repository_numbering_works),
        IN_FOLDER(the_wrong_dtype_or_shape_is_named_with_both_values),
        IN_FOLDER(a_tensor_at_an_odd_byte_is_refused_where_it_is_used),
        IN_FOLDER(missing_shards_are_all_named),
        IN_FOLDER(shard_names_that_leave_the_folder_are_refused),
        IN_FOLDER(a_tensor_in_another_shard_than_the_index_says_is_refused),
        IN_FOLDER(a_tensor_in_two_shards_is_refused),
        IN_FOLDER(several_files_without_an_index_are_ambiguous),
        IN_FOLDER(two_indexes_are_ambiguous),
        IN_FOLDER(one_shard_alone_asks_for_the_index),
        IN_FOLDER(no_weights_and_no_folder_are_told_apart),
        IN_FOLDER(broken_indexes_are_refused),
        IN_FOLDER(an_index_of_a_million_tensors_is_refused_with_the_limit),
        IN_FOLDER(a_shard_above_four_gib_is_read_right),
        cmocka_unit_test(the_demo_model_opens_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
