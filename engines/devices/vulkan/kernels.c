/* devices/vulkan/kernels.c - an engine's compiled kernels as pipelines, and the cache
 * of what the driver made of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "engines/devices/vulkan/vulkan.h"

/* ---- the cache ---- */

enum { CACHE_BYTES_MAX = 64 << 20 };

/* A file for each driver and device, in the engine's folder for temporary files. */
static bool cache_path(const struct gpu_device *d, char out[LR_PATH_MAX])
{
    const char *folder = getenv("TMPDIR");
    int n = 0;

    if (folder == NULL || folder[0] == '\0')
        return false;
    n = snprintf(out, LR_PATH_MAX, "%s/%s-vulkan-", folder, d->programs->owner);
    for (size_t i = 0; i < VK_UUID_SIZE && n > 0 && n < LR_PATH_MAX - 16; i++)
        n += snprintf(out + n, LR_PATH_MAX - (size_t)n, "%02x", d->found.cache_uuid[i]);
    if (n > 0 && n < LR_PATH_MAX - 16)
        n += snprintf(out + n, LR_PATH_MAX - (size_t)n, ".cache");
    return n > 0 && n < LR_PATH_MAX;
}

static lr_code open_cache(struct gpu_device *d, struct lr_error *err)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    struct lr_arena arena;
    struct lr_str bytes = {0};
    char path[LR_PATH_MAX];

    lr_arena_init(&arena, CACHE_BYTES_MAX);
    if (cache_path(d, path) &&
        lr_file_read(&arena, path, CACHE_BYTES_MAX / 2, &bytes, NULL) == LR_OK) {
        info.initialDataSize = bytes.len; /* the driver refuses what is not its own */
        info.pInitialData = bytes.ptr;
    }
    VkResult result = d->vkCreatePipelineCache(d->handle, &info, NULL, &d->cache);
    lr_arena_free(&arena);
    return result == VK_SUCCESS ? LR_OK : vulkan_fail(d, result, "vkCreatePipelineCache", err);
}

void vulkan_cache_save(struct gpu_device *d)
{
    char path[LR_PATH_MAX];
    size_t bytes = 0;

    if (!d->cache_is_new)
        return;
    d->cache_is_new = false;
    if (!cache_path(d, path) ||
        d->vkGetPipelineCacheData(d->handle, d->cache, &bytes, NULL) != VK_SUCCESS ||
        bytes == 0 || bytes > CACHE_BYTES_MAX / 2)
        return;
    char *data = malloc(bytes);
    if (data != NULL &&
        d->vkGetPipelineCacheData(d->handle, d->cache, &bytes, data) == VK_SUCCESS)
        /* Without the file the next start compiles again. */
        (void)!lr_file_write_atomic(path, (struct lr_str){data, bytes}, 0600, NULL);
    free(data);
}

/* ---- layouts ---- */

lr_code vulkan_kernels_open(struct gpu_device *d, struct lr_error *err)
{
    VkDescriptorSetLayoutBinding bindings[VULKAN_BINDINGS_MAX];
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, GPU_PUSH_MAX};

    for (uint32_t i = 0; i < VULKAN_BINDINGS_MAX; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    for (uint32_t n = 1; n <= VULKAN_BINDINGS_MAX; n++) {
        const VkDescriptorSetLayoutCreateInfo set = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
            .bindingCount = n,
            .pBindings = bindings};
        VULKAN_TRY(d, vkCreateDescriptorSetLayout(d->handle, &set, NULL, &d->set_layouts[n]),
                   err);
        const VkPipelineLayoutCreateInfo layout = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
            .setLayoutCount = 1,
            .pSetLayouts = &d->set_layouts[n],
            .pushConstantRangeCount = 1,
            .pPushConstantRanges = &range};
        VULKAN_TRY(d, vkCreatePipelineLayout(d->handle, &layout, NULL, &d->layouts[n]), err);
    }
    return open_cache(d, err);
}

void vulkan_kernels_close(struct gpu_device *d)
{
    if (d->cache != VK_NULL_HANDLE)
        vulkan_cache_save(d);
    for (struct gpu_pipeline *p = d->pipelines, *next; p != NULL; p = next) {
        next = p->next;
        d->vkDestroyPipeline(d->handle, p->handle, NULL);
        free(p);
    }
    d->vkDestroyPipelineCache(d->handle, d->cache, NULL);
    for (uint32_t n = 1; n <= VULKAN_BINDINGS_MAX; n++) {
        d->vkDestroyPipelineLayout(d->handle, d->layouts[n], NULL);
        d->vkDestroyDescriptorSetLayout(d->handle, d->set_layouts[n], NULL);
    }
}

/* ---- pipelines ---- */

static VkResult create_pipeline(struct gpu_device *d, VkShaderModule module,
                                const uint32_t constants[GPU_CONSTANTS], uint32_t bindings,
                                VkPipeline *out)
{
    const VkSpecializationMapEntry entries[GPU_CONSTANTS] = {{0, 0, 4}, {1, 4, 4}};
    const VkSpecializationInfo special = {GPU_CONSTANTS, entries, GPU_CONSTANTS * 4, constants};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = d->found.required_size};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = d->layouts[bindings]};

    if (d->found.required_size != 0) {
        info.stage.pNext = &size;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    return d->vkCreateComputePipelines(d->handle, d->cache, 1, &info, NULL, out);
}

lr_code vulkan_pipeline(struct gpu_device *d, uint32_t kernel, uint32_t threads, uint32_t mode,
                        struct gpu_pipeline **out, struct lr_error *err)
{
    const struct gpu_program *program = &d->programs->at[kernel];
    const uint32_t constants[GPU_CONSTANTS] = {threads, mode};
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = program->spirv_bytes,
                                           .pCode = program->spirv};
    struct gpu_pipeline *p = calloc(1, sizeof(*p));
    VkShaderModule module = VK_NULL_HANDLE;

    *out = NULL;
    if (p == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a kernel");
    p->bindings = program->bindings;
    p->push_bytes = program->push_bytes;
    VkResult result = d->vkCreateShaderModule(d->handle, &info, NULL, &module);
    if (result == VK_SUCCESS)
        result = create_pipeline(d, module, constants, p->bindings, &p->handle);
    d->vkDestroyShaderModule(d->handle, module, NULL);
    if (result != VK_SUCCESS) {
        free(p);
        (void)vulkan_fail(d, result, "vkCreateComputePipelines", err);
        return lr_fail_prefix(err, "kernel %s", program->name);
    }
    p->next = atomic_load(&d->pipelines);
    while (!atomic_compare_exchange_weak(&d->pipelines, &p->next, p))
        ;
    d->cache_is_new = true;
    *out = p;
    return LR_OK;
}
