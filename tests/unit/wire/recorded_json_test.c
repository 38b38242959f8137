/* The JSON bodies of protocol 2 as this release sends them, recorded in tests/fixtures/wire: a
 * join, a join's reply, a heartbeat and a registry.  A later release must still read every
 * member, because the program at the other end may be one release older.  A release may send
 * further members, which an older program ignores, and the record then stays as it is.  When
 * the protocol changes, records of the new version are added (LR_RECORD=1 writes them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/fleet.h"
#include "wire/reply.h"

#define RECORDS LR_SOURCE_DIR "/tests/fixtures/wire/"

/* A constant, unlike LR_STR_LIT. */
/* clang-format off */
#define TEXT(literal) {(literal), sizeof(literal) - 1}
/* clang-format on */

enum {
    BODY_MAX = 1 << 14,
    FIGURES = WIRE_GPU_LAST_XID + 1, /* of a GPU, in the record */
};

static struct lr_arena arena;
static struct lr_buf body, record;
static struct lr_error err;

static int begin(void **state)
{
    (void)state;
    lr_arena_init(&arena, 8 << 20);
    lr_buf_init(&body, BODY_MAX);
    lr_buf_init(&record, BODY_MAX);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lr_arena_free(&arena);
    lr_buf_free(&body);
    lr_buf_free(&record);
    return 0;
}

/* ---- the bodies: every member is there, and no two numbers of one object are equal ---- */

static const struct wire_fleet_model models[] = {
    {
        .id = TEXT("openai/gpt-oss-20b"),
        .state = TEXT("ready"),
        .can_run = true,
        .is_loaded = true,
        .is_pinned = true,
        .slots = 32,
        .replicas = 2,
        .max_context = 65536,
        .requests = 1,
        .live = 3,
        .queued = 4,
        .kv_used = 1000000007,
        .kv_total = 8000000009,
        .load_ms = 5100,
        .prefill_us = 61,
        .step_us = 7200,
        .chat_template = TEXT("{{ messages }}\n"),
        .dialect = TEXT("harmony"),
        .bos_token = TEXT("<|startoftext|>"),
        .eos_token = TEXT("<|return|>"),
        .unk_token = TEXT("<unk>"),
        .pad_token = TEXT("<|endoftext|>"),
        .engine = TEXT("gptoss"),
        .runtime = TEXT("gptoss-cuda"),
        .architecture = TEXT("GptOssForCausalLM"),
        .format = TEXT("safetensors"),
        .context_tokens = 131072,
        .weight_bytes = 13761300984,
        .kv_bytes = 3221225472,
    },
    {
        .id = TEXT("BAAI/bge-reranker"),
        .state = TEXT("waiting"),
        .reason = TEXT("the worker ended with signal 11"),
        .requests = 6,
        .failures = 8,
        .next_try_ms = 9000,
    },
};

static struct wire_fleet_pool pools[] = {
    {.name = TEXT("ram"), .title = TEXT("RAM"), .total = 137438953472, .used = 4294967296},
    {.name = TEXT("GPU-1f"),
     .title = TEXT("NVIDIA H200"),
     .total = 150754820096,
     .used = 17179869184},
};

static const char *const event_texts[] = {"{\"event\":\"model.ready\",\"model\":\"a\"}",
                                          "{\"event\":\"model.failed\",\"model\":\"b\"}"};

static const struct wire_fleet_file files[] = {
    {TEXT("model.gguf"), TEXT("running"), TEXT("reset by peer"), 900, 400},
    {TEXT("config.json"), TEXT("done"), {0}, 12, 11},
};

static const struct wire_fleet_download downloads[] = {
    {TEXT("Qwen/Qwen3-8B"), 411, 912, 50, 10020, 1, 2, files, 2},
    {TEXT("Qwen/Qwen3-4B"), 0, 913, 0, UINT64_MAX, 0, 3, NULL, 0},
};

static struct wire_heartbeat heartbeat(void)
{
    for (uint32_t i = 0; i < FIGURES; i++)
        wire_gpu_set(&pools[1].gpu, i, 1001 + i);
    pools[1].gpu.is_faulty = true;
    return (struct wire_heartbeat){
        .is_draining = true,
        .models = models,
        .model_count = 2,
        .pools = pools,
        .pool_count = 2,
        .epoch = 1763450000123,
        .event_end = 77,
        .event_texts = event_texts,
        .event_count = 2,
        .downloads = downloads,
        .download_count = 2,
    };
}

static struct wire_join join(void)
{
    return (struct wire_join){
        .protocol = 2,
        .version = TEXT("0.2.0"),
        .node_id = TEXT("node-3f2a"),
        .name = TEXT("gpu-machine"),
        .url = TEXT("https://gpu-machine:8444"),
        .port = 8444,
        .has_tls = true,
        .device = TEXT("cuda"),
        .secret = TEXT("lrn_secret"),
        .state = heartbeat(),
    };
}

static struct wire_fleet_reply join_reply(void)
{
    return (struct wire_fleet_reply){
        .node_id = TEXT("node-3f2a"),
        .protocol = 2,
        .version = TEXT("0.2.0"),
        .heartbeat_ms = 1000,
        .has_registry = true,
        .registry_version = 41,
        .must_join = true,
        .names_routers = true,
        .routers = {TEXT("https://router-a:8443"), TEXT("https://router-b:8443")},
        .router_count = 2,
    };
}

static const struct wire_registered registered[] = {
    {TEXT("Qwen/Qwen3-8B"), TEXT("hub"), TEXT("gguf"),
     TEXT("2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"), TEXT(""), 5},
    {TEXT("house"), TEXT("local"), TEXT("safetensors"), TEXT(""), TEXT("/models/house"), 6},
};
static const struct wire_registry registry = {42, registered, 2};

/* ---- this release sends them ---- */

/* Reads a record whole. */
static struct lr_str recorded(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), RECORDS "%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    lr_buf_clear(&record);
    lr_buf_commit(&record, fread(lr_buf_reserve(&record, BODY_MAX), 1, BODY_MAX, file));
    (void)fclose(file);
    return lr_buf_str(&record);
}

static const struct lr_json *tree(struct lr_str text)
{
    const struct lr_json *value;
    assert_int_equal(lr_json_parse(&arena, text, NULL, &value, &err), LR_OK);
    return value;
}

/* `now` has every member of `then` with the same value, and maybe further ones. */
static void expect_members(const struct lr_json *then, const struct lr_json *now,
                           const char *name)
{
    if (now == NULL || now->type != then->type)
        fail_msg("%s is no longer sent, or has another type", name);
    if (then->type == LR_JSON_STRING || then->type == LR_JSON_NUMBER) {
        if (!lr_str_eq(then->text, now->text))
            fail_msg("%s has another value", name);
    } else if (then->type == LR_JSON_BOOL) {
        assert_int_equal(then->boolean, now->boolean);
    } else if (then->type == LR_JSON_ARRAY) {
        assert_int_equal(then->count, now->count);
        for (uint32_t i = 0; i < then->count; i++)
            expect_members(&then->items[i], &now->items[i], name);
    } else if (then->type == LR_JSON_OBJECT) {
        for (uint32_t i = 0; i < then->count; i++) {
            const struct lr_json_member *m = &then->members[i];
            char key[64];
            (void)snprintf(key, sizeof(key), LR_STR_FMT, LR_STR_ARG(m->key));
            expect_members(&m->value, lr_json_get_str(now, m->key), key);
        }
    }
}

/* `body` is what this release sends. */
static void expect_sent(const char *name)
{
    if (getenv("LR_RECORD") != NULL) {
        char path[512];
        (void)snprintf(path, sizeof(path), RECORDS "%s", name);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(body.data, 1, body.len, file), body.len);
        (void)fclose(file);
    }
    expect_members(tree(recorded(name)), tree(lr_buf_str(&body)), name);
}

static void this_release_sends_every_member_of_a_recorded_join(void **state)
{
    struct wire_join sent = join();
    (void)state;
    wire_join_write(&body, &sent);
    expect_sent("join-2.json");
}

static void this_release_sends_every_member_of_a_recorded_heartbeat(void **state)
{
    struct wire_heartbeat sent = heartbeat();
    (void)state;
    wire_heartbeat_write(&body, &sent);
    expect_sent("heartbeat-2.json");
}

static void this_release_sends_every_member_of_a_recorded_reply_to_a_join(void **state)
{
    struct wire_fleet_reply sent = join_reply();
    (void)state;
    wire_fleet_reply_write(&body, &sent);
    expect_sent("join-reply-2.json");
}

static void this_release_sends_every_member_of_a_recorded_registry(void **state)
{
    (void)state;
    wire_registry_write(&body, &registry);
    expect_sent("registry-2.json");
}

/* ---- this release reads them ---- */

#define EXPECT_TEXT(member)   assert_true(lr_str_eq(got->member, want->member))
#define EXPECT_NUMBER(member) assert_true(got->member == want->member)

static void expect_model(const struct wire_fleet_model *got,
                         const struct wire_fleet_model *want, bool is_join)
{
    static const struct wire_fleet_model none;
    EXPECT_TEXT(id);
    EXPECT_TEXT(state);
    EXPECT_TEXT(reason);
    EXPECT_NUMBER(can_run);
    EXPECT_NUMBER(is_loaded);
    EXPECT_NUMBER(is_pinned);
    EXPECT_NUMBER(slots);
    EXPECT_NUMBER(replicas);
    EXPECT_NUMBER(max_context);
    EXPECT_NUMBER(requests);
    EXPECT_NUMBER(live);
    EXPECT_NUMBER(queued);
    EXPECT_NUMBER(kv_used);
    EXPECT_NUMBER(kv_total);
    EXPECT_NUMBER(failures);
    EXPECT_NUMBER(next_try_ms);
    EXPECT_NUMBER(load_ms);
    EXPECT_NUMBER(prefill_us);
    EXPECT_NUMBER(step_us);
    if (!is_join)
        want = &none; /* the following members are sent in a join only */
    EXPECT_TEXT(chat_template);
    EXPECT_TEXT(dialect);
    EXPECT_TEXT(bos_token);
    EXPECT_TEXT(eos_token);
    EXPECT_TEXT(unk_token);
    EXPECT_TEXT(pad_token);
    EXPECT_TEXT(engine);
    EXPECT_TEXT(runtime);
    EXPECT_TEXT(architecture);
    EXPECT_TEXT(format);
    EXPECT_NUMBER(context_tokens);
    EXPECT_NUMBER(weight_bytes);
    EXPECT_NUMBER(kv_bytes);
}

static void expect_pool(const struct wire_fleet_pool *got, const struct wire_fleet_pool *want)
{
    EXPECT_TEXT(name);
    EXPECT_TEXT(title);
    EXPECT_NUMBER(total);
    EXPECT_NUMBER(used);
    EXPECT_NUMBER(gpu.reported);
    EXPECT_NUMBER(gpu.is_faulty);
    for (uint32_t i = 0; i < FIGURES; i++)
        EXPECT_NUMBER(gpu.figures[i]);
}

/* What a join and a heartbeat have in common. */
static void expect_state(const struct wire_heartbeat *got, bool is_join)
{
    struct wire_heartbeat all = heartbeat();
    const struct wire_heartbeat *want = &all;
    assert_null(got->ignored);
    EXPECT_NUMBER(epoch);
    EXPECT_NUMBER(is_draining);
    assert_int_equal(got->model_count, want->model_count);
    for (size_t i = 0; i < want->model_count; i++)
        expect_model(&got->models[i], &want->models[i], is_join);
    assert_int_equal(got->pool_count, want->pool_count);
    for (size_t i = 0; i < want->pool_count; i++)
        expect_pool(&got->pools[i], &want->pools[i]);
}

static void expect_file(const struct wire_fleet_file *got, const struct wire_fleet_file *want)
{
    EXPECT_TEXT(name);
    EXPECT_TEXT(state);
    EXPECT_TEXT(reason);
    EXPECT_NUMBER(size);
    EXPECT_NUMBER(done);
}

static void expect_download(const struct wire_fleet_download *got,
                            const struct wire_fleet_download *want)
{
    EXPECT_TEXT(id);
    EXPECT_NUMBER(done_bytes);
    EXPECT_NUMBER(total_bytes);
    EXPECT_NUMBER(rate);
    EXPECT_NUMBER(remaining_ms);
    EXPECT_NUMBER(files_done);
    EXPECT_NUMBER(files);
    assert_int_equal(got->file_count, want->file_count);
    for (size_t i = 0; i < want->file_count; i++)
        expect_file(&got->file[i], &want->file[i]);
}

static void every_member_of_a_join_of_protocol_2_is_read(void **state)
{
    struct wire_join all = join(), parsed;
    const struct wire_join *want = &all, *got = &parsed;
    (void)state;
    assert_int_equal(wire_join_parse(&arena, recorded("join-2.json"), &parsed, &err), LR_OK);
    EXPECT_NUMBER(protocol);
    EXPECT_TEXT(version);
    EXPECT_TEXT(node_id);
    EXPECT_TEXT(name);
    EXPECT_TEXT(url);
    EXPECT_NUMBER(port);
    EXPECT_NUMBER(has_tls);
    EXPECT_TEXT(device);
    EXPECT_TEXT(secret);
    expect_state(&got->state, true);
}

static void every_member_of_a_heartbeat_of_protocol_2_is_read(void **state)
{
    struct wire_heartbeat all = heartbeat(), parsed;
    const struct wire_heartbeat *want = &all, *got = &parsed;
    (void)state;
    assert_int_equal(wire_heartbeat_parse(&arena, recorded("heartbeat-2.json"), &parsed, &err),
                     LR_OK);
    expect_state(got, false);
    EXPECT_NUMBER(event_end);
    assert_int_equal(got->event_count, want->event_count);
    for (size_t i = 0; i < want->event_count; i++) {
        struct lr_json_writer w;
        lr_buf_clear(&body);
        lr_json_writer_init(&w, &body);
        lr_json_put_value(&w, got->events[i]);
        assert_string_equal(lr_buf_z(&body), event_texts[i]);
    }
    assert_int_equal(got->download_count, want->download_count);
    for (size_t i = 0; i < want->download_count; i++)
        expect_download(&got->downloads[i], &want->downloads[i]);
}

static void every_member_of_a_reply_to_a_join_of_protocol_2_is_read(void **state)
{
    struct wire_fleet_reply all = join_reply(), parsed;
    const struct wire_fleet_reply *want = &all, *got = &parsed;
    (void)state;
    assert_int_equal(
        wire_fleet_reply_parse(&arena, recorded("join-reply-2.json"), &parsed, &err), LR_OK);
    EXPECT_TEXT(node_id);
    EXPECT_NUMBER(protocol);
    EXPECT_TEXT(version);
    EXPECT_NUMBER(heartbeat_ms);
    EXPECT_NUMBER(has_registry);
    EXPECT_NUMBER(registry_version);
    EXPECT_NUMBER(must_join);
    EXPECT_NUMBER(names_routers);
    EXPECT_NUMBER(router_count);
    for (size_t i = 0; i < want->router_count; i++)
        EXPECT_TEXT(routers[i]);
}

static void every_member_of_a_registry_of_protocol_2_is_read(void **state)
{
    struct wire_registry list;
    (void)state;
    assert_int_equal(wire_registry_parse(&arena, recorded("registry-2.json"), &list, &err),
                     LR_OK);
    assert_int_equal(list.version, registry.version);
    assert_int_equal(list.count, registry.count);
    for (size_t i = 0; i < list.count; i++) {
        const struct wire_registered *got = &list.models[i], *want = &registered[i];
        EXPECT_TEXT(id);
        EXPECT_TEXT(source);
        EXPECT_TEXT(format);
        EXPECT_TEXT(manifest_sha256);
        EXPECT_TEXT(path);
        EXPECT_NUMBER(generation);
    }
}

/* ---- llm-router 0.1.0, which spoke protocol 1 ---- */

static void a_join_of_protocol_1_is_refused_and_told_to_upgrade_the_node(void **state)
{
    struct wire_join refused;
    (void)state;
    assert_int_equal(wire_join_parse(&arena, recorded("join-1.json"), &refused, &err),
                     LR_UNSUPPORTED);
    assert_string_equal(err.text, "the node (llm-router 0.1.0) speaks protocol 1, this router "
                                  "protocol 3: upgrade the node");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(this_release_sends_every_member_of_a_recorded_join),
        TEST(this_release_sends_every_member_of_a_recorded_heartbeat),
        TEST(this_release_sends_every_member_of_a_recorded_reply_to_a_join),
        TEST(this_release_sends_every_member_of_a_recorded_registry),
        TEST(every_member_of_a_join_of_protocol_2_is_read),
        TEST(every_member_of_a_heartbeat_of_protocol_2_is_read),
        TEST(every_member_of_a_reply_to_a_join_of_protocol_2_is_read),
        TEST(every_member_of_a_registry_of_protocol_2_is_read),
        TEST(a_join_of_protocol_1_is_refused_and_told_to_upgrade_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
