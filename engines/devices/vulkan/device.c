/* devices/vulkan/device.c - finds, describes, opens and closes a device. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/memory.h"
#include "engines/devices/vulkan/vulkan.h"

enum { DEVICES_MAX = 16, FAMILIES_MAX = 32, EXTENSIONS_MAX = 512, WANTED_SUBGROUP = 32 };

/* ---- find ---- */

/* The order in which `vulkan` without a number prefers types. */
static int vulkan_device_rank(VkPhysicalDeviceType type)
{
    return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU     ? 0
           : type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 1
           : type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU    ? 2
           : type == VK_PHYSICAL_DEVICE_TYPE_CPU            ? 4
                                                            : 3;
}

static bool uuid_is(const uint8_t uuid[VK_UUID_SIZE], const char *text)
{
    char hex[2 * VK_UUID_SIZE + 1];
    size_t n = 0;

    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
    for (; *text != '\0'; text++) {
        if (*text == '-')
            continue;
        if (n == 2 * VK_UUID_SIZE || tolower((unsigned char)*text) != hex[n++])
            return false;
    }
    return n == 2 * VK_UUID_SIZE;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

bool vulkan_has_extension(const struct vulkan_library *vk, VkPhysicalDevice device,
                          const char *name)
{
    VkExtensionProperties *all = calloc(EXTENSIONS_MAX, sizeof(*all));
    uint32_t count = EXTENSIONS_MAX;
    bool found = false;

    if (all != NULL && vk->vkEnumerateDeviceExtensionProperties(device, NULL, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found = found || strcmp(all[i].extensionName, name) == 0;
    free(all);
    return found;
}

/* The largest heap of the device's own, and what this process may still use of it. */
static void vulkan_device_read_memory(const struct vulkan_library *vk, struct vulkan_found *f)
{
    static const struct lr_memory_roots roots = {.proc = "/proc", .cgroup = "/sys/fs/cgroup"};
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    bool has_budget = vulkan_has_extension(vk, f->handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    uint64_t total, used;

    if (has_budget)
        all.pNext = &budget;
    vk->vkGetPhysicalDeviceMemoryProperties2(f->handle, &all);
    for (uint32_t i = 0; i < all.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &all.memoryProperties.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0 ||
            heap->size <= f->limits.total_bytes)
            continue;
        f->limits.total_bytes = f->limits.free_bytes = heap->size;
        if (has_budget)
            f->limits.free_bytes = budget.heapBudget[i] > budget.heapUsage[i]
                                       ? budget.heapBudget[i] - budget.heapUsage[i]
                                       : 0;
    }
    if (f->limits.is_cpu && lr_memory_read(&roots, &total, &used)) {
        f->limits.total_bytes = total;
        f->limits.free_bytes = total > used ? total - used : 0;
    }
}

static lr_code check_subgroups(const VkPhysicalDeviceSubgroupProperties *s, const char *name,
                               struct lr_error *err)
{
    VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                    VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                    VK_SUBGROUP_FEATURE_SHUFFLE_BIT;

    if ((s->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
        (s->supportedOperations & needed) == needed)
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s cannot be used: its driver has no subgroup arithmetic and shuffles in "
                   "compute shaders; update the driver",
                   name);
}

/* True: the driver lets us choose the size of subgroups, and fills them. */
static bool sizes_subgroups(const struct vulkan_library *vk, VkPhysicalDevice device)
{
    VkPhysicalDeviceSubgroupSizeControlFeatures size = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &size};

    vk->vkGetPhysicalDeviceFeatures2(device, &has);
    return size.subgroupSizeControl && size.computeFullSubgroups;
}

static lr_code vulkan_device_describe(const struct vulkan_library *vk, struct vulkan_found *f,
                                      struct lr_error *err)
{
    VkPhysicalDeviceSubgroupSizeControlProperties size = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties maintenance = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &maintenance};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &subgroup};
    const VkPhysicalDeviceLimits *l = &all.properties.limits;
    VkQueueFamilyProperties families[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX;

    if (vulkan_has_extension(vk, f->handle, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        maintenance.pNext = &size;
    vk->vkGetPhysicalDeviceProperties2(f->handle, &all);
    lr_code code = all.properties.apiVersion >= VK_API_VERSION_1_1
                       ? check_subgroups(&subgroup, all.properties.deviceName, err)
                       : lr_fail(err, LR_UNSUPPORTED,
                                 "%s cannot be used: its driver is older than Vulkan 1.1",
                                 all.properties.deviceName);
    if (code != LR_OK)
        return code;
    f->limits = (struct gpu_limits){
        .is_cpu = all.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU,
        .binding_bytes = l->maxStorageBufferRange,
        .allocation_bytes = maintenance.maxMemoryAllocationSize,
        .alignment = (uint32_t)l->minStorageBufferOffsetAlignment,
        .subgroup = subgroup.subgroupSize,
        .threads = l->maxComputeWorkGroupInvocations < l->maxComputeWorkGroupSize[0]
                       ? l->maxComputeWorkGroupInvocations
                       : l->maxComputeWorkGroupSize[0],
        .shared_bytes = l->maxComputeSharedMemorySize,
    };
    f->limits.unified =
        f->limits.is_cpu || all.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    (void)snprintf(f->limits.name, sizeof(f->limits.name), "%s", all.properties.deviceName);
    memcpy(f->cache_uuid, all.properties.pipelineCacheUUID, VK_UUID_SIZE);
    if ((size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
        sizes_subgroups(vk, f->handle)) {
        uint32_t n = WANTED_SUBGROUP;
        n = n < size.minSubgroupSize ? size.minSubgroupSize : n;
        f->required_size = n > size.maxSubgroupSize ? size.maxSubgroupSize : n;
        f->limits.subgroup = f->required_size;
    }
    f->limits.matrices = vulkan_has_matrices(vk, f);
    vk->vkGetPhysicalDeviceQueueFamilyProperties(f->handle, &count, families);
    f->family = count;
    for (uint32_t i = count; i-- > 0;)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0)
            f->family = i;
    if (f->family == count)
        return lr_fail(err, LR_UNSUPPORTED, "%s has no queue that computes", f->limits.name);
    vulkan_device_read_memory(vk, f);
    return LR_OK;
}

/* Which of the devices `wanted` means: a number, a UUID, a part of the name, or "" for the
 * best. */
static uint32_t vulkan_device_choose(const struct vulkan_library *vk,
                                     const VkPhysicalDevice *all, uint32_t count,
                                     const char *wanted)
{
    uint32_t best = count;
    int best_rank = 9;

    if (is_number(wanted)) {
        unsigned long n = strtoul(wanted, NULL, 10);
        return n < count ? (uint32_t)n : count;
    }
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceIDProperties id = {.sType =
                                               VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
        VkPhysicalDeviceProperties2 p = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
        vk->vkGetPhysicalDeviceProperties2(all[i], &p);
        bool meant = wanted[0] == '\0' || uuid_is(id.deviceUUID, wanted) ||
                     strstr(p.properties.deviceName, wanted) != NULL;
        if (meant && vulkan_device_rank(p.properties.deviceType) < best_rank) {
            best_rank = vulkan_device_rank(p.properties.deviceType);
            best = i;
        }
    }
    return best;
}

lr_code vulkan_find(const struct vulkan_library *vk, const char *name, struct vulkan_found *out,
                    struct lr_error *err)
{
    VkPhysicalDevice all[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    const char *wanted = name != NULL && strncmp(name, "vulkan:", 7) == 0 ? name + 7 : "";
    VkResult result = vk->vkEnumeratePhysicalDevices(vk->instance, &count, all);

    *out = (struct vulkan_found){0};
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        count = 0;
    if (count == 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "Vulkan finds no device: is the GPU's driver installed, and may this "
                       "user open /dev/dri?");
    uint32_t i = vulkan_device_choose(vk, all, count, wanted);
    if (i == count)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "device \"%s\": Vulkan has %u device%s, vulkan:0 and so on, and `llm-router "
            "doctor` lists them; for an NVIDIA GPU in a container set "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics",
            name, count, count == 1 ? "" : "s");
    out->handle = all[i];
    return vulkan_device_describe(vk, out, err);
}

lr_code vulkan_describe(const char *device, struct gpu_limits *out, struct lr_error *err)
{
    const struct vulkan_library *vk;
    struct vulkan_found found;
    lr_code code = vulkan_library_get(&vk, err);

    if (code == LR_OK)
        code = vulkan_find(vk, device, &found, err);
    if (code == LR_OK)
        *out = found.limits;
    return code;
}

/* ---- open ---- */

static lr_code create_device(struct gpu_device *d, struct lr_error *err)
{
    float priority = 1;
    const char *extensions[8];
    struct vulkan_matrices matrices;
    static const char *const for_matrices[] = {VULKAN_MATRIX_EXTENSIONS};
    uint32_t extension_count = 0;
    VkPhysicalDeviceSubgroupSizeControlFeatures size = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE};
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = d->found.family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .ppEnabledExtensionNames = extensions};

    if (d->found.required_size != 0) {
        extensions[extension_count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
        info.pNext = &size;
    }
    if (d->found.limits.matrices) {
        vulkan_matrices_chain(&matrices, (void *)(uintptr_t)info.pNext);
        matrices.matrix.matrices = matrices.model.vulkanMemoryModel =
            matrices.float16.shaderFloat16 = VK_TRUE;
        info.pNext = &matrices.matrix;
        for (size_t i = 0; i < sizeof(for_matrices) / sizeof(for_matrices[0]); i++)
            extensions[extension_count++] = for_matrices[i];
    }
    info.enabledExtensionCount = extension_count;
    VkResult result = d->vk->vkCreateDevice(d->found.handle, &info, NULL, &d->handle);
    if (result != VK_SUCCESS)
        return vulkan_fail(d, result, "vkCreateDevice", err);
#define X(call)                                                                                \
    d->call = (PFN_##call)d->vk->vkGetDeviceProcAddr(d->handle, #call);                        \
    if (d->call == NULL)                                                                       \
        return lr_fail(err, LR_UNSUPPORTED, "the driver of %s has no %s",                      \
                       d->found.limits.name, #call);
    VULKAN_DEVICE_FUNCTIONS(X)
#undef X
    d->vkGetDeviceQueue(d->handle, d->found.family, 0, &d->queue);
    return LR_OK;
}

static lr_code vulkan_device_prepare(struct gpu_device *d, struct lr_error *err)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = d->found.family};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};

    d->vk->vkGetPhysicalDeviceMemoryProperties2(d->found.handle, &memory);
    d->memory = memory.memoryProperties;
    VULKAN_TRY(d, vkCreateCommandPool(d->handle, &pool, NULL, &d->pool), err);
    for (uint32_t i = 0; i < VULKAN_IN_FLIGHT; i++)
        VULKAN_TRY(d, vkCreateFence(d->handle, &fence, NULL, &d->fences[i]), err);
    return vulkan_kernels_open(d, err);
}

lr_code vulkan_open(const char *device, const struct gpu_programs *programs,
                    struct gpu_device **out, struct lr_error *err)
{
    struct gpu_device *d = calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a device");
    d->programs = programs;
    lr_code code = vulkan_library_get(&d->vk, err);
    if (code == LR_OK)
        code = vulkan_find(d->vk, device, &d->found, err);
    if (code == LR_OK)
        code = create_device(d, err);
    if (code == LR_OK)
        code = vulkan_device_prepare(d, err);
    if (code != LR_OK) {
        vulkan_close(d);
        return code;
    }
    *out = d;
    return LR_OK;
}

void vulkan_close(struct gpu_device *d)
{
    if (d == NULL)
        return;
    if (d->vkDestroyDevice != NULL && d->pool != VK_NULL_HANDLE) {
        (void)d->vkDeviceWaitIdle(d->handle);
        while (d->recordings != NULL)
            vulkan_forget(d, d->recordings);
        while (d->buffers != NULL)
            vulkan_release(d, d->buffers);
        vulkan_kernels_close(d);
        for (uint32_t i = 0; i < VULKAN_IN_FLIGHT; i++)
            d->vkDestroyFence(d->handle, d->fences[i], NULL);
        d->vkDestroyCommandPool(d->handle, d->pool, NULL);
    }
    if (d->vkDestroyDevice != NULL)
        d->vkDestroyDevice(d->handle, NULL);
    free(d);
}
