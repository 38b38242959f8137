/* Which of several engines runs a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/workers/engines.h"

static struct node_library library; /* any: the engine is not refused */

static void fill(struct node_engine *e, const char *id, int priority, const char *backends)
{
    char text[1024];
    struct lr_error err;

    snprintf(
        text, sizeof(text),
        "{\"engine_id\":\"%s\",\"engine_version\":\"1\",\"abi_version\":1,"
        "\"priority\":%d,\"runtimes\":[\"gptoss\",\"qwen3\"],\"formats\":[\"safetensors\"],"
        "\"architectures\":[\"A\"],\"backends\":[%s],\"library\":\"x.so\",\"license\":\"MIT\"}",
        id, priority, backends);
    memset(e, 0, sizeof(*e));
    snprintf(e->name, sizeof(e->name), "%s", id);
    if (plugin_manifest_parse(&e->manifest, lr_str_z(text), &err) != LR_OK)
        fail_msg("%s", err.text);
    e->library = &library;
}

static void of_two_engines_that_fit_the_larger_priority_is_taken_in_either_order(void **state)
{
    static struct node_engine wide, fast;
    const struct node_wish cpu = {"gptoss", "safetensors", NULL, "cpu", true};
    const struct node_wish cuda = {"gptoss", "safetensors", NULL, "cuda", true};
    const struct node_wish metal = {"gptoss", "safetensors", NULL, "metal", true};
    struct node_engine *found;
    struct lr_error err;

    (void)state;
    fill(&wide, "wide", -3, "\"cpu\"");
    fill(&fast, "fast", 10, "\"cpu\",\"cuda\"");
    for (int order = 0; order < 2; order++) {
        struct node_engines engines = {.first = order == 0 ? &wide : &fast};
        wide.next = order == 0 ? &fast : NULL;
        fast.next = order == 0 ? NULL : &wide;
        assert_int_equal(node_engines_resolve(&engines, &cpu, &found, &err), LR_OK);
        assert_ptr_equal(found, &fast);
        /* The device comes before the priority. */
        fast.manifest.priority = -10;
        assert_int_equal(node_engines_resolve(&engines, &cuda, &found, &err), LR_OK);
        assert_ptr_equal(found, &fast);
        assert_int_equal(node_engines_resolve(&engines, &cpu, &found, &err), LR_OK);
        assert_ptr_equal(found, &wide);
        fast.manifest.priority = 10;
        assert_int_equal(node_engines_resolve(&engines, &metal, &found, &err), LR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "\"fast\" has no metal backend"));
    }
    plugin_manifest_free(&wide.manifest);
    plugin_manifest_free(&fast.manifest);
}

/* A backend that no such device has run yet is for those who name the device. */
static void an_engine_on_trial_is_taken_only_where_an_operator_named_the_device(void **state)
{
    static struct node_engine trial;
    struct node_wish wish = {"qwen3", "safetensors", NULL, "vulkan", false};
    struct node_engines engines = {.first = &trial};
    struct node_engine *found;
    struct lr_error err;

    (void)state;
    fill(&trial, "trial", 0, "\"cpu\"],\"trial_backends\":[\"vulkan\"");
    assert_int_equal(node_engines_resolve(&engines, &wish, &found, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "start the node with --device vulkan to try it"));
    wish.is_named = true;
    assert_int_equal(node_engines_resolve(&engines, &wish, &found, &err), LR_OK);
    assert_ptr_equal(found, &trial);
    /* The same GPU by another driver is nobody's word for it. */
    wish.device = "cuda";
    assert_int_equal(node_engines_resolve(&engines, &wish, &found, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "start the node with --device vulkan to try it"));
    assert_false(node_resolve_by_vulkan(&engines, &wish, &found));
    wish.device = "metal";
    assert_int_equal(node_engines_resolve(&engines, &wish, &found, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "\"trial\" has no metal backend"));
    plugin_manifest_free(&trial.manifest);
}

static void an_engine_without_cuda_computes_on_the_same_gpu_through_vulkan(void **state)
{
    static struct node_engine vulkan;
    struct node_wish wish = {"qwen3", "safetensors", NULL, "cuda", false};
    struct node_engines engines = {.first = &vulkan};
    struct node_engine *found;

    (void)state;
    fill(&vulkan, "native", 0, "\"cpu\",\"vulkan\"");
    assert_true(node_resolve_by_vulkan(&engines, &wish, &found));
    assert_ptr_equal(found, &vulkan);
    wish.device = "metal";
    assert_false(node_resolve_by_vulkan(&engines, &wish, &found));
    plugin_manifest_free(&vulkan.manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_without_cuda_computes_on_the_same_gpu_through_vulkan),
        cmocka_unit_test(an_engine_on_trial_is_taken_only_where_an_operator_named_the_device),
        cmocka_unit_test(of_two_engines_that_fit_the_larger_priority_is_taken_in_either_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
