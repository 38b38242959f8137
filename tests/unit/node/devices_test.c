/* Which devices a node computes on, by setting device and what the machine has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/models/devices.h"

static const struct wire_device GPU_0 = {.number = 0,
                                         .title = "A card",
                                         .type = "integrated",
                                         .uuid = "00112233-4455-6677-8899-aabbccddeeff",
                                         .memory = 1000,
                                         .budget = 900};
static const struct wire_device CPU_1 = {
    .number = 1, .title = "llvmpipe", .type = "cpu", .memory = 1000, .budget = 1000};
static const struct wire_device GPU_2 = {
    .number = 2, .title = "A chip", .type = "discrete", .memory = 1000, .budget = 800};

static const struct wire_device OLD_3 = {.number = 3,
                                         .title = "An old card",
                                         .type = "discrete",
                                         .memory = 1000,
                                         .budget = 800,
                                         .why = "its driver is older than Vulkan 1.1"};

struct row {
    const char *wanted;
    const char *has;    /* "n": an NVIDIA GPU, "c": one that cannot be opened, "m": Metal */
    const char *listed; /* digits: which of the four devices Vulkan lists */
    const char *result; /* "kind name gpus", or a part of the error's text */
    bool is_cpu;
};

static const struct row rows[] = {
    {"auto", "n", "012", "cuda cuda -", false},
    {"auto", "nm", "012", "cuda cuda -", false},
    {"auto", "m", "", "metal metal -", false},
    {"auto", "m", "012", "metal metal -", false},
    {"auto", "", "012", "vulkan vulkan 20", false},
    {"auto", "", "1", "which lists vulkan:1 (llvmpipe, type cpu)", false},
    {"auto", "", "", "and no GPU with Vulkan, which lists no device", false},
    {"auto", "", "032", "vulkan vulkan 20", false},
    {"auto", "", "3", "(An old card, type discrete; its driver is older than Vulkan 1.1)",
     false},
    {"vulkan:3", "", "03", "vulkan vulkan 3", false},
    {"cuda", "n", "", "cuda cuda -", false},
    {"cuda:3", "n", "", "cuda cuda -", false},
    {"cuda", "", "0", "no NVIDIA GPU", false},
    {"cuda", "c", "0", "no NVIDIA GPU was found (it is lost)", false},
    {"auto", "c", "", "no NVIDIA GPU was found (it is lost)", false},
    {"auto", "c", "0", "vulkan vulkan 0", false},
    {"vulkan", "n", "012", "vulkan vulkan 20", false},
    {"vulkan", "n", "1", "vulkan vulkan:1 -", true},
    {"vulkan", "", "", "Vulkan lists no device", false},
    {"vulkan:1", "n", "012", "vulkan vulkan:1 -", true},
    {"vulkan:2", "", "012", "vulkan vulkan 2", false},
    {"vulkan:7", "", "02", "no device vulkan:7; Vulkan lists vulkan:0 (A card", false},
    {"vulkan:A card", "", "012", "vulkan vulkan 0", false},
    {"vulkan:A c", "", "012", "vulkan vulkan 2", false},
    {"vulkan:llvm", "", "012", "vulkan vulkan:1 -", true},
    {"vulkan:00112233-4455-6677-8899-AABBCCDDEEFF", "", "012", "vulkan vulkan 0", false},
    {"vulkan:00112233445566778899aabbccddeeff", "", "012", "vulkan vulkan 0", false},
    {"vulkan:00112233445566778899aabbccddee", "", "012", "no device vulkan:0011", false},
    {"vulkan:", "", "012", "no device vulkan:", false},
    {"vulkan:A cat", "", "0", "Vulkan lists vulkan:0 (A card, type integrated): name one",
     false},
    {"vulkan", "", "", "on Debian and Ubuntu libvulkan1", false},
    {"vulkan", "", "", "on Windows the GPU maker's driver", false},
    {"metal", "m", "", "metal metal -", false},
    {"metal", "n", "02", "no device metal: Metal is part of macOS; on this system use --device",
     false},
    {"cpu", "n", "0", "cpu cpu -", true},
    {"cpu", "m", "0", "cpu cpu -", true},
    {"vulkan", "m", "0", "vulkan vulkan 0", false},
    {"cuda", "m", "0", "no NVIDIA GPU", false},
};

static void check(const struct row *row)
{
    static const struct wire_device *const all[] = {&GPU_0, &CPU_1, &GPU_2, &OLD_3};
    struct wire_device listed[4];
    struct node_devices d;
    struct lr_error err = {0};
    size_t count = 0;
    char got[200];
    for (const char *c = row->listed; *c != '\0'; c++)
        listed[count++] = *all[*c - '0'];
    const struct node_machine machine = {.has_nvidia = strchr(row->has, 'n') != NULL,
                                         .nvidia_closed =
                                             strchr(row->has, 'c') != NULL ? "it is lost" : "",
                                         .has_metal = strchr(row->has, 'm') != NULL,
                                         .vulkan = listed,
                                         .vulkan_count = count};
    if (node_devices_pick(row->wanted, &machine, &d, &err) != LR_OK) {
        assert_non_null(strstr(err.text, row->result));
        return;
    }
    size_t at =
        (size_t)snprintf(got, sizeof(got), "%s %s %s", d.kind, d.name, d.count == 0 ? "-" : "");
    for (uint32_t i = 0; i < d.count; i++)
        at += (size_t)snprintf(got + at, sizeof(got) - at, "%u", d.gpus[i].number);
    assert_string_equal(got, row->result);
    assert_int_equal(d.is_cpu, row->is_cpu);
}

static void
auto_takes_cuda_then_metal_then_vulkan_and_the_processor_only_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

static void a_list_of_devices_arrives_as_it_was_sent(void **state)
{
    (void)state;
    const struct wire_device sent[] = {GPU_0, CPU_1, GPU_2, OLD_3};
    struct wire_device got[WIRE_VULKAN_MAX];
    struct lr_buf text;
    struct lr_error err;
    size_t count;
    lr_buf_init(&text, 4096);
    wire_devices_write(&text, sent, 4);
    assert_int_equal(wire_devices_parse(lr_buf_str(&text), got, &count, &err), LR_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(got, sent, sizeof(sent));
    lr_buf_free(&text);
}

static void a_malformed_list_of_devices_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{}",
        "[1]",
        "[{\"number\":0}]",
        "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]",
        "[{\"number\":0,\"title\":\"t\",\"type\":\"a type of more than 15 letters\","
        "\"api\":\"1\",\"uuid\":\"\",\"memory\":1}]"};
    struct wire_device got[WIRE_VULKAN_MAX];
    struct lr_error err;
    size_t count;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_not_equal(wire_devices_parse(lr_str_z(texts[i]), got, &count, &err), LR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            auto_takes_cuda_then_metal_then_vulkan_and_the_processor_only_by_its_name),
        cmocka_unit_test(a_list_of_devices_arrives_as_it_was_sent),
        cmocka_unit_test(a_malformed_list_of_devices_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
