/* A manifest reads back as it was written, and a bad one is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hub/manifest.h"

#define FILE_OF(members)                                                                       \
    "{\"name\":\"config.json\",\"url\":\"https://huggingface.co/x\"," members "}"
#define MANIFEST_OF(files)                                                                     \
    "{\"version\":1,\"id\":\"a/b\",\"repo\":\"a/b\",\"format\":\"safetensors\","               \
    "\"revision\":\"r\",\"runtimes\":[\"gptoss\"],\"chat_template\":null,\"files\":[" files    \
    "]}"

static void what_was_written_reads_back_alike(void **state)
{
    static const char text[] = MANIFEST_OF(
        "{\"name\":\"config.json\",\"url\":\"https://huggingface.co/x\",\"size\":1806,"
        "\"priority\":10,\"optional\":false,\"runtimes\":[\"gptoss\"]},"
        "{\"name\":\"metal/model.bin\",\"url\":\"https://huggingface.co/y\","
        "\"size\":13750886400,\"sha256\":"
        "\"725b7f996b5a226d922f034a731aefc398652f670dcafc2efd78620509a0fef1\",\"priority\":5,"
        "\"optional\":true,\"runtimes\":[\"gptoss\"],\"kind\":\"artifact\",\"backends\":"
        "[\"metal\"],\"repo\":\"openai/gpt-oss-20b\",\"revision\":\"abc\"}");
    struct hub_manifest *m;
    struct lr_error err;
    struct lr_buf out;
    (void)state;
    if (hub_manifest_decode(lr_str_z(text), &m, &err) != LR_OK)
        fail_msg("%s", err.text);
    lr_buf_init(&out, 1 << 20);
    hub_manifest_encode(m, &out);
    assert_string_equal(lr_buf_z(&out), text);
    lr_buf_free(&out);
    hub_manifest_destroy(m);
}

static void a_bad_manifest_names_the_member(void **state)
{
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"{", "manifest: "},
        {"{}", "version"},
        {"{\"version\":2,\"id\":\"a\"}", "version: only 1 is supported, not 2"},
        {"{\"version\":1}", "id: "},
        {MANIFEST_OF(""), "files: a list of 1 to 4096"},
        {MANIFEST_OF(FILE_OF("\"size\":-1")), "files[0].size"},
        {MANIFEST_OF(FILE_OF("\"size\":1e400")), "files[0].size"},
        {MANIFEST_OF(FILE_OF("\"size\":1,\"sha256\":\"xyz\"")), "files[0].sha256"},
        {MANIFEST_OF(FILE_OF("\"size\":1,\"optional\":1")), "files[0].optional"},
        {MANIFEST_OF(FILE_OF("\"size\":1,\"backends\":[\"a/b\"]")), "files[0].backends"},
        {MANIFEST_OF(FILE_OF("\"size\":1,\"priority\":99999999999")), "files[0].priority"},
        {MANIFEST_OF("{\"name\":\"../x\",\"url\":\"https://a/\",\"size\":1}"), "files[0].name"},
        {MANIFEST_OF("{\"name\":\"/etc/x\",\"url\":\"https://a/\",\"size\":1}"),
         "files[0].name"},
        {MANIFEST_OF("{\"name\":\".download/lock\",\"url\":\"https://a/\",\"size\":1}"),
         "files[0].name"},
        {MANIFEST_OF("{\"name\":\"a\\u0000b\",\"url\":\"https://a/\",\"size\":1}"),
         "files[0].name"},
        {MANIFEST_OF("{\"name\":\"x\",\"url\":\"file:///etc/passwd\",\"size\":1}"),
         "files[0].url"},
        {MANIFEST_OF("{\"name\":\"x\",\"url\":\"https://u:p@a/\",\"size\":1}"), "files[0].url"},
        {MANIFEST_OF(
             "{\"name\":\"x\",\"url\":\"https://a/\",\"size\":1},{\"name\":\"X\",\"url\":"
             "\"https://a/\",\"size\":1}"),
         "files[1].name: \"X\" occurs twice"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_manifest *m;
        struct lr_error err;
        assert_int_equal(hub_manifest_decode(lr_str_z(rows[i].json), &m, &err),
                         LR_INVALID_ARGUMENT);
        assert_null(m);
        if (strstr(err.text, rows[i].message) == NULL)
            fail_msg("row %zu: expected %s in %s", i, rows[i].message, err.text);
    }
}

static uint64_t wanted_bytes(const struct hub_manifest *m, const struct hub_filter *filter)
{
    uint64_t total = 0;
    for (size_t i = 0; i < m->file_count; i++)
        total += hub_manifest_file_wanted(m, &m->files[i], filter) ? m->files[i].size : 0;
    return total;
}

static void a_node_downloads_the_files_that_its_engines_and_backends_can_use(void **state)
{
    static const char text[] = MANIFEST_OF(
        "{\"name\":\"a\",\"url\":\"https://h/\",\"size\":1},"
        "{\"name\":\"m\",\"url\":\"https://h/\",\"size\":10,\"optional\":true,\"kind\":"
        "\"artifact\",\"backends\":[\"metal\"]},"
        "{\"name\":\"o\",\"url\":\"https://h/\",\"size\":100,\"runtimes\":[\"other\"]}");
    static const char *const gptoss[] = {"gptoss", NULL}, *const llama[] = {"llama_cpp", NULL};
    static const char *const cuda[] = {"cuda", NULL}, *const metal[] = {"cpu", "metal", NULL};
    struct hub_filter on_cuda = {.runtimes = gptoss, .backends = cuda};
    struct hub_filter on_metal = {.runtimes = gptoss, .backends = metal};
    struct hub_filter plain = {.runtimes = gptoss, .backends = metal, .no_artifacts = true};
    struct hub_filter alien = {.runtimes = llama};
    struct hub_manifest *m;
    struct lr_error err;
    (void)state;
    assert_int_equal(hub_manifest_decode(lr_str_z(text), &m, NULL), LR_OK);
    assert_int_equal(wanted_bytes(m, NULL), 111);
    assert_int_equal(wanted_bytes(m, &on_cuda), 1);
    assert_int_equal(wanted_bytes(m, &on_metal), 11);
    assert_int_equal(wanted_bytes(m, &plain), 1);
    assert_int_equal(hub_manifest_wanted(m, &on_cuda, &err), LR_OK);
    assert_int_equal(hub_manifest_wanted(m, &alien, &err), LR_UNSUPPORTED);
    assert_string_equal(err.text, "a/b: no engine here for runtime gptoss");
    hub_manifest_destroy(m);
}

static void a_listing_keeps_sizes_and_hashes_and_leaves_out_unsafe_names(void **state)
{
    static const char page[] =
        "{\"id\":\"OpenAI/"
        "M\",\"sha\":\"0123456789abcdef0123456789abcdef01234567\",\"siblings\":["
        "{\"rfilename\":\"z\",\"size\":3},{\"rfilename\":\"../x\",\"size\":3},"
        "{\"rfilename\":\"a\",\"size\":130,\"lfs\":{\"size\":9999999999,\"sha256\":"
        "\"725B7f996b5a226d922f034a731aefc398652f670dcafc2efd78620509a0fef1\"}},"
        "{\"rfilename\":\"z\",\"size\":4},{\"no\":1},7,{\"rfilename\":\"n\"}]}";
    struct hub_listing *listing = hub_listing_create("openai/m");
    struct lr_error err;
    (void)state;
    if (hub_listing_add_json(listing, lr_str_z(page), &err) != LR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(listing->repo, "OpenAI/M");
    assert_int_equal(listing->file_count, 3);
    const struct hub_file *file = hub_listing_find(listing, LR_STR_LIT("a"));
    assert_true(file->has_size && file->size == 9999999999);
    assert_string_equal(file->sha256,
                        "725b7f996b5a226d922f034a731aefc398652f670dcafc2efd78620509a0fef1");
    assert_false(hub_listing_find(listing, LR_STR_LIT("n"))->has_size);
    assert_null(hub_listing_find(listing, LR_STR_LIT("../x")));

    /* A second page must be of the same commit. */
    assert_int_equal(
        hub_listing_add_json(listing,
                             LR_STR_LIT("{\"sha\":\"1123456789abcdef0123456789abcdef01234567\","
                                        "\"siblings\":[]}"),
                             &err),
        LR_UPSTREAM);
    assert_non_null(strstr(err.text, "changed while it was listed"));
    hub_listing_destroy(listing);
}

static void an_answer_that_makes_no_sense_is_the_hubs_fault(void **state)
{
    static const char *const bad[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"sha\":\"main\",\"siblings\":[]}",
        "{\"sha\":\"0123456789abcdef0123456789abcdef01234567\"}",
        "{\"sha\":\"0123456789abcdef0123456789abcdef01234567\",\"siblings\":{}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hub_listing *listing = hub_listing_create("a/b");
        struct lr_error err;
        assert_int_equal(hub_listing_add_json(listing, lr_str_z(bad[i]), &err), LR_UPSTREAM);
        assert_non_null(strstr(err.text, "a/b"));
        hub_listing_destroy(listing);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_reads_back_alike),
        cmocka_unit_test(a_bad_manifest_names_the_member),
        cmocka_unit_test(a_node_downloads_the_files_that_its_engines_and_backends_can_use),
        cmocka_unit_test(a_listing_keeps_sizes_and_hashes_and_leaves_out_unsafe_names),
        cmocka_unit_test(an_answer_that_makes_no_sense_is_the_hubs_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
