/* devices/vulkan/matrices.c - does a device have the cooperative matrices that the
 * kernels *_m use?  Headers of Vulkan before 1.3.255 do not know the extension. */
#include <stdlib.h>
#include <string.h>

#include "engines/devices/vulkan/vulkan.h"

enum { SIZES_MAX = 128, FLOAT16 = 0, FLOAT32 = 1, SCOPE_SUBGROUP = 3, SUBGROUP = 32 };
#define TYPE_FEATURES   ((VkStructureType)1000506000)
#define TYPE_PROPERTIES ((VkStructureType)1000506001)

/* VkCooperativeMatrixPropertiesKHR */
struct matrix_size {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* types of numbers */
    VkBool32 saturating;
    uint32_t scope;
};
typedef VkResult(VKAPI_PTR *get_sizes)(VkPhysicalDevice, uint32_t *, struct matrix_size *);

static bool has_size(const struct matrix_size *all, uint32_t count, uint32_t n)
{
    for (uint32_t i = 0; i < count; i++)
        if (all[i].m == 16 && all[i].n == n && all[i].k == 16 && all[i].a == FLOAT16 &&
            all[i].b == FLOAT16 && all[i].c == FLOAT32 && all[i].result == FLOAT32 &&
            all[i].scope == SCOPE_SUBGROUP)
            return true;
    return false;
}

static bool has_sizes(const struct vulkan_library *vk, VkPhysicalDevice device)
{
    struct matrix_size *all = calloc(SIZES_MAX, sizeof(*all));
    get_sizes get =
        (get_sizes)vk->get(vk->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    uint32_t count = SIZES_MAX;
    bool found = false;

    for (uint32_t i = 0; all != NULL && i < SIZES_MAX; i++)
        all[i].sType = TYPE_PROPERTIES;
    if (all != NULL && get != NULL && get(device, &count, all) >= 0)
        found = has_size(all, count, 8) && has_size(all, count, 16);
    free(all);
    return found;
}

void vulkan_matrices_chain(struct vulkan_matrices *m, void *next)
{
    m->float16 = (VkPhysicalDeviceShaderFloat16Int8Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, .pNext = next};
    m->model = (VkPhysicalDeviceVulkanMemoryModelFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
        .pNext = &m->float16};
    m->matrix = (struct vulkan_matrix_features){.sType = TYPE_FEATURES, .pNext = &m->model};
}

bool vulkan_has_matrices(const struct vulkan_library *vk, const struct vulkan_found *f)
{
#ifdef GPU_MATRICES
    static const char *const needed[] = {VULKAN_MATRIX_EXTENSIONS};
    struct vulkan_matrices m;
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &m.matrix};

    if (f->limits.subgroup != SUBGROUP)
        return false;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!vulkan_has_extension(vk, f->handle, needed[i]))
            return false;
    vulkan_matrices_chain(&m, NULL);
    vk->vkGetPhysicalDeviceFeatures2(f->handle, &has);
    return m.matrix.matrices && m.model.vulkanMemoryModel && m.float16.shaderFloat16 &&
           has_sizes(vk, f->handle);
#else
    (void)vk;
    (void)f;
    (void)has_sizes;
    return false;
#endif
}
