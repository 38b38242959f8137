/* The result of a registration for every kind of repository.  A row is a listing in short form;
 * the result is the manifest's names or the whole message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hub/manifest.h"

static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
static const char gptoss[] =
    "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\"}";

/* "config.json tokenizer.json model.safetensors": every file has 7 bytes and a hash. */
static struct hub_listing *make_listing(const char *repo, const char *names)
{
    struct lr_buf json;
    struct lr_str rest = lr_str_z(names), name;
    lr_buf_init(&json, 1 << 20);
    lr_buf_addf(&json, "{\"id\":\"%s\",\"sha\":\"%s\",\"siblings\":[", repo, commit);
    for (bool first = true; lr_str_split(&rest, ' ', &name); first = false)
        lr_buf_addf(&json,
                    "%s{\"rfilename\":\"%.*s\",\"size\":7,\"lfs\":{\"size\":7,\"sha256\":"
                    "\"%064d\"}}",
                    first ? "" : ",", LR_STR_ARG(name), (int)name.len);
    lr_buf_add_z(&json, "]}");
    struct hub_listing *listing = hub_listing_create(repo);
    struct lr_error err;
    assert_non_null(listing);
    if (hub_listing_add_json(listing, lr_buf_str(&json), &err) != LR_OK)
        fail_msg("%s", err.text);
    lr_buf_free(&json);
    return listing;
}

static void add_text(struct hub_listing *listing, const char *name, const char *text)
{
    assert_int_equal(hub_listing_add_text(listing, lr_str_z(name), lr_str_z(text), NULL),
                     LR_OK);
}

static struct hub_policy default_policy(void)
{
    struct hub_policy policy;
    assert_int_equal(hub_policy_init(&policy, NULL, NULL, 0, NULL), LR_OK);
    return policy;
}

/* The names of the manifest with '?' after optional ones, or the message. */
static const char *answer(const struct hub_listing *listing, const char *format,
                          const char *filename)
{
    static char out[2048];
    struct hub_policy policy = default_policy();
    struct hub_build_input in = {.policy = &policy, .listing = listing};
    struct hub_request request = {.filename = lr_str_z(filename)};
    struct hub_manifest *manifest;
    struct lr_error err = {0};
    if (format != NULL)
        assert_true(hub_format_find(lr_str_z(format), &request.format));
    lr_code code = hub_manifest_build(&in, &request, &manifest, &err);
    if (code != LR_OK) {
        (void)snprintf(out, sizeof(out), "%d %s", lr_code_http(code), err.text);
        return out;
    }
    size_t len = 0;
    for (size_t i = 0; i < manifest->file_count; i++)
        len +=
            (size_t)snprintf(out + len, sizeof(out) - len, "%s%s%s", i == 0 ? "" : " ",
                             manifest->files[i].name, manifest->files[i].optional ? "?" : "");
    hub_manifest_destroy(manifest);
    return out;
}

#define META "config.json tokenizer.json "
#define INDEX2                                                                                 \
    "{\"weight_map\":{\"a\":\"model-00000-of-00001.safetensors\",\"b\":"                       \
    "\"model-00001-of-00001.safetensors\",\"c\":\"model-00000-of-00001.safetensors\"}}"

static void every_repository_gets_its_answer(void **state)
{
    static const struct {
        const char *files, *format, *filename, *index, *expected;
    } rows[] = {
        /* one file */
        {META "model.safetensors", NULL, NULL, NULL,
         "config.json tokenizer.json model.safetensors"},
        {META "model.safetensors generation_config.json tokenizer_config.json "
              "special_tokens_map.json chat_template.jinja README.md",
         "safetensors", NULL, NULL,
         "chat_template.jinja? config.json generation_config.json? special_tokens_map.json? "
         "tokenizer.json tokenizer_config.json? model.safetensors"},
        {META "model.safetensors", NULL, "model.safetensors", NULL,
         "config.json tokenizer.json model.safetensors"},
        /* the file that decides the tokenizer is required, others are left out */
        {"config.json tokenizer.model tekken.json vocab.txt model.safetensors", NULL, NULL,
         NULL, "config.json tokenizer.model model.safetensors"},
        {"config.json tekken.json model.safetensors", NULL, NULL, NULL,
         "config.json tekken.json model.safetensors"},
        {"config.json vocab.json merges.txt vocab.txt model.safetensors", NULL, NULL, NULL,
         "config.json merges.txt vocab.json model.safetensors"},
        {"config.json vocab.json vocab.txt model.safetensors", NULL, NULL, NULL,
         "config.json vocab.txt model.safetensors"},
        {META "tokenizer.model model.safetensors", NULL, NULL, NULL,
         "config.json tokenizer.json model.safetensors"},
        {"config.json merges.txt model.safetensors", NULL, NULL, NULL,
         "400 a/b lacks a tokenizer (tokenizer.json, tokenizer.model, tekken.json, vocab.json "
         "with merges.txt, or vocab.txt), which format=safetensors needs"},
        /* files that safetensors need */
        {"config.json model.safetensors", "safetensors", NULL, NULL,
         "400 a/b lacks a tokenizer (tokenizer.json, tokenizer.model, "
         "tekken.json, vocab.json with merges.txt, or vocab.txt), which format=safetensors "
         "needs"},
        {"tokenizer.json model.safetensors", NULL, NULL, NULL,
         "400 a/b lacks config.json, which format=safetensors needs"},
        {"model.safetensors", NULL, NULL, NULL,
         "400 a/b lacks config.json and a tokenizer (tokenizer.json, tokenizer.model, "
         "tekken.json, vocab.json with merges.txt, or vocab.txt), which format=safetensors "
         "needs"},
        {"model.safetensors original/config.json original/tokenizer.json", NULL, NULL, NULL,
         "400 a/b lacks config.json and a tokenizer (tokenizer.json, tokenizer.model, "
         "tekken.json, vocab.json with merges.txt, or vocab.txt), which format=safetensors "
         "needs"},
        /* an embedder: the folders of its modules */
        {META "1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors "
              "2_Dense/pytorch_model.bin modules.json model.safetensors onnx/config.json",
         NULL, NULL, NULL,
         "1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors config.json "
         "modules.json tokenizer.json model.safetensors"},
        {META "1_Pooling/config.json model.safetensors", NULL, NULL, NULL,
         "config.json tokenizer.json model.safetensors"},
        /* shards */
        {META "model-00000-of-00001.safetensors model-00001-of-00001.safetensors "
              "model.safetensors.index.json original/model.safetensors",
         NULL, NULL, INDEX2,
         "config.json tokenizer.json model.safetensors.index.json "
         "model-00000-of-00001.safetensors model-00001-of-00001.safetensors"},
        {META "model-00000-of-00001.safetensors model.safetensors.index.json", NULL, NULL,
         INDEX2, "400 a/b lacks shards that its index names: model-00001-of-00001.safetensors"},
        {META "model.safetensors.index.json original/model-00000-of-00001.safetensors", NULL,
         NULL, INDEX2,
         "400 a/b lacks shards that its index names: model-00000-of-00001.safetensors, "
         "model-00001-of-00001.safetensors"},
        {META "x.safetensors y.safetensors", NULL, NULL, NULL,
         "400 ambiguous: a/b holds several .safetensors files and no index: x.safetensors, "
         "y.safetensors"},
        {META "x.safetensors y.safetensors", NULL, "y.safetensors", NULL,
         "config.json tokenizer.json y.safetensors"},
        {META "model-00001-of-00003.safetensors", NULL, NULL, NULL,
         "400 ambiguous: a/b holds one shard of several and no index: "
         "model-00001-of-00003.safetensors"},
        {META "model-00000-of-00002.safetensors model-00001-of-00002.safetensors", NULL,
         "model-00001-of-00002.safetensors", NULL,
         "400 ambiguous: filename names one shard of many of a/b, which has no index for it: "
         "model-00000-of-00002.safetensors, model-00001-of-00002.safetensors"},
        {META "model-00000-of-00001.safetensors model-00001-of-00001.safetensors "
              "model.safetensors.index.json",
         NULL, "model-00000-of-00001.safetensors", INDEX2,
         "400 ambiguous: filename names one shard of many of a/b; leave it out or name the "
         "index. Shards: model-00000-of-00001.safetensors, model-00001-of-00001.safetensors"},
        {META "model-00000-of-00001.safetensors model-00001-of-00001.safetensors "
              "model.safetensors.index.json",
         NULL, "model.safetensors.index.json", INDEX2,
         "config.json tokenizer.json model.safetensors.index.json "
         "model-00000-of-00001.safetensors model-00001-of-00001.safetensors"},
        {META "m.safetensors a.safetensors.index.json model.safetensors.index.json", NULL, NULL,
         INDEX2,
         "400 ambiguous: a/b holds several indexes, set \"filename\" to one: "
         "a.safetensors.index.json, model.safetensors.index.json"},
        {META "m.safetensors model.safetensors.index.json", NULL, NULL, "{\"weight_map\":{}}",
         "400 a/b: model.safetensors.index.json has no \"weight_map\""},
        {META "m.safetensors model.safetensors.index.json", NULL, NULL,
         "{\"weight_map\":{\"a\":\"../../etc/passwd.safetensors\"}}",
         "400 a/b: model.safetensors.index.json names a shard that is no .safetensors file"},
        {META "model.safetensors", NULL, "other.safetensors", NULL,
         "400 filename \"other.safetensors\" is no .safetensors file or index in the root of "
         "a/b"},
        {META "model.safetensors", NULL, "../x", NULL,
         "400 filename is not a relative path within the repository"},
        {META "model.safetensors original/model.safetensors", NULL,
         "original/model.safetensors", NULL,
         "400 filename \"original/model.safetensors\" is no .safetensors file or index in the "
         "root of a/b"},
        {META "original/model.safetensors", "safetensors", NULL, NULL,
         "400 a/b holds neither .safetensors files (in its root) nor .gguf files"},
        /* formats */
        {META "model.safetensors x.gguf", NULL, NULL, NULL,
         "400 a/b holds both formats: set \"format\" to \"safetensors\" or \"gguf\""},
        {META "model.safetensors x.gguf", "safetensors", NULL, NULL,
         "config.json tokenizer.json model.safetensors"},
        {META "model.safetensors x.gguf", "gguf", NULL, NULL, "x.gguf"},
        {"x.gguf README.md", NULL, NULL, NULL, "x.gguf"},
        {"x.gguf", "safetensors", NULL, NULL,
         "400 a/b holds no .safetensors files in its root; its format is gguf"},
        {META "model.safetensors", "gguf", NULL, NULL,
         "400 a/b holds no .gguf files; its format is safetensors"},
        {"README.md", NULL, NULL, NULL,
         "400 a/b holds neither .safetensors files (in its root) nor .gguf files"},
        /* gguf */
        {"q4.gguf q8.gguf mmproj-f16.gguf", "gguf", NULL, NULL,
         "400 a/b holds several GGUF files, set \"filename\" to one of: q4.gguf, q8.gguf"},
        {"q4.gguf q8.gguf", "gguf", "q8.gguf", NULL, "q8.gguf"},
        {"q4.gguf mmproj-f16.gguf", NULL, NULL, NULL, "q4.gguf"},
        {"q4.gguf", "gguf", "q5.gguf", NULL,
         "400 filename \"q5.gguf\" is no .gguf file of a/b, which has: q4.gguf"},
        {"q8/m-00001-of-00002.gguf q8/m-00002-of-00002.gguf", NULL, NULL, NULL,
         "m-00001-of-00002.gguf m-00002-of-00002.gguf"},
        {"q8/m-00001-of-00003.gguf q8/m-00003-of-00003.gguf", NULL, NULL, NULL,
         "400 a/b lacks parts of a split GGUF file: q8/m-00002-of-00003.gguf"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_listing *listing = make_listing("a/b", rows[i].files);
        add_text(listing, "config.json", gptoss);
        if (rows[i].index != NULL) {
            add_text(listing, "model.safetensors.index.json", rows[i].index);
            add_text(listing, "a.safetensors.index.json", rows[i].index);
        }
        const char *got = answer(listing, rows[i].format, rows[i].filename);
        if (strcmp(got, rows[i].expected) != 0)
            fail_msg("row %zu (%s)\n  expected %s\n  got      %s", i, rows[i].files,
                     rows[i].expected, got);
        hub_listing_destroy(listing);
    }
}

static void missing_shards_are_named_as_far_as_a_message_holds(void **state)
{
    struct lr_buf index;
    (void)state;
    lr_buf_init(&index, 1 << 20);
    lr_buf_add_z(&index, "{\"weight_map\":{");
    for (int i = 0; i < 40; i++)
        lr_buf_addf(&index, "%s\"t%d\":\"model-%05d-of-00039.safetensors\"", i == 0 ? "" : ",",
                    i, i);
    lr_buf_add_z(&index, "}}");
    struct hub_listing *listing =
        make_listing("a/b", META "m.safetensors model.safetensors.index.json");
    add_text(listing, "config.json", gptoss);
    add_text(listing, "model.safetensors.index.json", lr_buf_z(&index));
    const char *got = answer(listing, NULL, NULL);
    assert_non_null(strstr(got, "model-00000-of-00039.safetensors, model-00001-of-00039"));
    assert_non_null(strstr(got, " and 29 more"));
    hub_listing_destroy(listing);
    lr_buf_free(&index);
}

static void runtimes_come_from_architectures_else_model_type(void **state)
{
    static const struct {
        const char *config, *runtime;
    } rows[] = {
        {"{\"architectures\":[\"GptOssForCausalLM\"]}", "gptoss"},
        {"{\"model_type\":\"gpt_oss\"}", "gptoss"},
        {"{\"architectures\":[],\"model_type\":\"gpt_oss\"}", "gptoss"},
        {"{\"architectures\":[\"NemotronForCausalLM\"],\"model_type\":\"nemotron\"}",
         "nemotron"},
        {"{\"architectures\":[\"NemotronForCausalLM\"],\"model_type\":\"gpt_oss\"}", "gpt_oss"},
        {"{\"architectures\":[\"EchoForTesting\"]}", "EchoForTesting"},
        {"{\"x\":1}", NULL},
        {"{\"model_type\":\"a b\"}", NULL},
        {"[]", NULL},
        {"{", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_listing *listing = make_listing("a/b", META "m.safetensors");
        struct hub_policy policy = default_policy();
        struct hub_build_input in = {.policy = &policy, .listing = listing};
        struct hub_request request = {0};
        struct hub_manifest *m = NULL;
        add_text(listing, "config.json", rows[i].config);
        lr_code code = hub_manifest_build(&in, &request, &m, NULL);
        assert_int_equal(code == LR_OK, rows[i].runtime != NULL);
        if (code == LR_OK)
            assert_string_equal(m->runtimes[0], rows[i].runtime);
        else
            assert_int_equal(lr_code_http(code), 400);
        hub_manifest_destroy(m);
        hub_listing_destroy(listing);
    }
}

static void the_manifest_pins_commit_size_and_hash(void **state)
{
    struct hub_listing *listing = make_listing("openai/m", META "model.safetensors");
    struct hub_policy policy = default_policy();
    struct hub_build_input in = {.policy = &policy, .listing = listing};
    struct hub_request request = {.name = LR_STR_LIT("My/Name")};
    struct hub_manifest *m;
    (void)state;
    add_text(listing, "config.json", gptoss);
    assert_int_equal(hub_manifest_build(&in, &request, &m, NULL), LR_OK);
    assert_string_equal(m->id, "My/Name");
    assert_string_equal(m->repo, "openai/m");
    assert_string_equal(m->revision, commit);
    assert_string_equal(m->runtimes[0], "gptoss");
    assert_null(m->runtimes[1]);
    assert_null(m->chat_template);
    const struct hub_manifest_file *file = &m->files[2];
    assert_string_equal(file->url,
                        "https://huggingface.co/openai/m/resolve/"
                        "0123456789abcdef0123456789abcdef01234567/model.safetensors");
    assert_int_equal(file->size, 7);
    assert_int_equal(strlen(file->sha256), 64);
    assert_int_equal(m->files[0].priority, 10);
    assert_string_equal(file->runtimes[0], "gptoss");
    hub_manifest_destroy(m);
    hub_listing_destroy(listing);
}

static void the_template_is_a_file_of_its_own_or_the_tokenizer_configs(void **state)
{
    static const struct {
        const char *files, *config, *expected;
    } rows[] = {
        {META "m.safetensors chat_template.jinja tokenizer_config.json",
         "{\"chat_template\":\"x\"}", "chat_template.jinja"},
        {META "m.safetensors tokenizer_config.json", "{\"chat_template\":\"x\"}",
         "tokenizer_config.json"},
        {META "m.safetensors tokenizer_config.json", "{\"chat_template\":null}", NULL},
        {META "m.safetensors tokenizer_config.json", "{", NULL},
        {META "m.safetensors", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_listing *listing = make_listing("a/b", rows[i].files);
        struct hub_policy policy = default_policy();
        struct hub_build_input in = {.policy = &policy, .listing = listing};
        struct hub_request request = {0};
        struct hub_manifest *m;
        add_text(listing, "config.json", gptoss);
        if (rows[i].config != NULL)
            add_text(listing, "tokenizer_config.json", rows[i].config);
        assert_int_equal(hub_manifest_build(&in, &request, &m, NULL), LR_OK);
        if (rows[i].expected == NULL)
            assert_null(m->chat_template);
        else
            assert_string_equal(m->chat_template, rows[i].expected);
        hub_manifest_destroy(m);
        hub_listing_destroy(listing);
    }
}

/* ---- artifacts ---- */

static const struct hub_manifest_file *find(const struct hub_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->file_count; i++) {
        if (strcmp(m->files[i].name, name) == 0)
            return &m->files[i];
    }
    return NULL;
}

static struct hub_manifest *build_with(const char *repo, const char *files,
                                       const char *supported_json,
                                       const struct hub_listing *other,
                                       const char *const *publishers)
{
    struct hub_listing *listing = make_listing(repo, files);
    struct hub_policy policy = default_policy();
    struct hub_supported *supported = NULL;
    struct lr_error err;
    if (supported_json != NULL &&
        hub_supported_parse(lr_str_z(supported_json), &supported, &err) != LR_OK)
        fail_msg("%s", err.text);
    struct hub_build_input in = {.policy = &policy,
                                 .listing = listing,
                                 .artifact_listings = &other,
                                 .artifact_listing_count = other != NULL,
                                 .supported = supported,
                                 .publishers = publishers};
    struct hub_request request = {0};
    struct hub_manifest *m;
    add_text(listing, "config.json", gptoss);
    if (hub_manifest_build(&in, &request, &m, &err) != LR_OK)
        fail_msg("%s", err.text);
    hub_supported_destroy(supported);
    hub_listing_destroy(listing);
    return m;
}

#define PLAIN META "m.safetensors "

static void artifacts_at_known_places_are_an_optional_cache(void **state)
{
    struct hub_manifest *m =
        build_with("openai/m", PLAIN "metal/model.bin model.dml.bin", NULL, NULL, NULL);
    const struct hub_manifest_file *metal = find(m, "metal/model.bin");
    (void)state;
    assert_non_null(metal);
    assert_true(metal->optional && metal->is_artifact);
    assert_string_equal(metal->backends[0], "metal");
    assert_string_equal(metal->runtimes[0], "gptoss");
    assert_string_equal(metal->repo, "openai/m");
    assert_string_equal(metal->revision, commit);
    assert_int_equal(metal->priority, 5);
    assert_string_equal(find(m, "model.dml.bin")->backends[0], "directml");
    assert_int_equal(m->format, HUB_FORMAT_SAFETENSORS);
    assert_non_null(find(m, "m.safetensors")); /* the original weights stay */
    hub_manifest_destroy(m);
}

static void a_publisher_off_the_allowlist_brings_no_artifact(void **state)
{
    static const char *const mine[] = {"me/*", "openai/other", NULL};
    struct hub_manifest *m = build_with("someone/m", PLAIN "metal/model.bin", NULL, NULL, NULL);
    (void)state;
    assert_null(find(m, "metal/model.bin"));
    hub_manifest_destroy(m);
    m = build_with("openai/m", PLAIN "metal/model.bin", NULL, NULL, mine);
    assert_null(find(m, "metal/model.bin"));
    hub_manifest_destroy(m);
    m = build_with("Me/m", PLAIN "metal/model.bin", NULL, NULL, mine);
    assert_non_null(find(m, "metal/model.bin"));
    hub_manifest_destroy(m);
}

static void an_artifact_may_lie_in_another_repository_of_the_publisher(void **state)
{
    static const char own[] =
        "[{\"repo\":\"openai/m\",\"artifacts\":[{\"name\":\"metal/model.bin\",\"repo\":"
        "\"openai/m-metal\",\"path\":\"out/model.bin\",\"backends\":[\"metal\"],"
        "\"runtimes\":[\"gptoss\"],\"priority\":7}]}]";
    static const char foreign[] =
        "[{\"repo\":\"openai/m\",\"artifacts\":[{\"name\":\"metal/model.bin\",\"repo\":"
        "\"nvidia/m-metal\",\"path\":\"out/model.bin\"}]}]";
    struct hub_listing *other = make_listing("openai/m-metal", "out/model.bin");
    struct hub_listing *alien = make_listing("nvidia/m-metal", "out/model.bin");
    (void)state;
    struct hub_manifest *m = build_with("openai/m", PLAIN, own, other, NULL);
    const struct hub_manifest_file *file = find(m, "metal/model.bin");
    assert_non_null(file);
    assert_string_equal(file->repo, "openai/m-metal");
    assert_string_equal(file->revision, commit);
    assert_non_null(strstr(file->url, "/openai/m-metal/resolve/"));
    assert_non_null(strstr(file->url, "/out/model.bin"));
    assert_int_equal(file->priority, 7);
    hub_manifest_destroy(m);
    m = build_with("openai/m", PLAIN, foreign, alien, NULL);
    assert_null(find(m, "metal/model.bin")); /* allowlisted, but not the model's publisher */
    hub_manifest_destroy(m);
    m = build_with("openai/m", PLAIN, own, NULL, NULL);
    assert_null(find(m, "metal/model.bin")); /* could not be listed: no error */
    hub_manifest_destroy(m);
    hub_listing_destroy(other);
    hub_listing_destroy(alien);
}

static void an_artifact_with_another_hash_than_the_list_says_is_left_out(void **state)
{
    static const char wrong[] =
        "[{\"repo\":\"openai/m\",\"artifacts\":[{\"name\":\"x.bin\",\"sha256\":"
        "\"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\"}]}]";
    struct hub_manifest *m = build_with("openai/m", PLAIN "x.bin", wrong, NULL, NULL);
    (void)state;
    assert_null(find(m, "x.bin"));
    hub_manifest_destroy(m);
}

static void a_broken_list_of_models_names_entry_and_member(void **state)
{
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"{}", "a list of models is expected"},
        {"[{}]", "[0].repo:"},
        {"[{\"repo\":\"x\"}]", "[0].repo: \"org/name\" is expected"},
        {"[{\"repo\":\"a/b\",\"artifacts\":[{}]}]", "[0].artifacts[0].name:"},
        {"[{\"repo\":\"a/b\",\"artifacts\":[{\"name\":\"../x\"}]}]",
         "[0].artifacts[0].name: a relative path"},
        {"[{\"repo\":\"a/b\",\"artifacts\":[{\"name\":\"x\",\"sha256\":\"12\"}]}]",
         "[0].artifacts[0].sha256: 64 hex"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_supported *supported;
        struct lr_error err;
        assert_int_equal(hub_supported_parse(lr_str_z(rows[i].json), &supported, &err),
                         LR_INVALID_ARGUMENT);
        if (strstr(err.text, rows[i].message) == NULL)
            fail_msg("expected %s in %s", rows[i].message, err.text);
    }
    struct hub_supported *builtin;
    assert_int_equal(hub_supported_parse((struct lr_str){0}, &builtin, NULL), LR_OK);
    assert_non_null(hub_supported_find(builtin, lr_str_z("OpenAI/gpt-oss-20b")));
    hub_supported_destroy(builtin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_repository_gets_its_answer),
        cmocka_unit_test(missing_shards_are_named_as_far_as_a_message_holds),
        cmocka_unit_test(runtimes_come_from_architectures_else_model_type),
        cmocka_unit_test(the_manifest_pins_commit_size_and_hash),
        cmocka_unit_test(the_template_is_a_file_of_its_own_or_the_tokenizer_configs),
        cmocka_unit_test(artifacts_at_known_places_are_an_optional_cache),
        cmocka_unit_test(a_publisher_off_the_allowlist_brings_no_artifact),
        cmocka_unit_test(an_artifact_may_lie_in_another_repository_of_the_publisher),
        cmocka_unit_test(an_artifact_with_another_hash_than_the_list_says_is_left_out),
        cmocka_unit_test(a_broken_list_of_models_names_entry_and_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
