/* devices/vulkan/vulkan.h - Vulkan as a host of kernels (gpu/host.h).
 *
 * Plain C over the loader libvulkan, which is opened at run time.  Vulkan 1.1 with subgroup
 * arithmetic and shuffles is enough.  Thread: the engine's caller.
 */
#ifndef ENGINES_DEVICES_VULKAN_VULKAN_H
#define ENGINES_DEVICES_VULKAN_VULKAN_H

#include <stdatomic.h>

#include <vulkan/vulkan_core.h>

#include "base/fail.h"
#include "engines/devices/gpu/host.h"

/* Functions of an instance, and those of a device. */
#define VULKAN_INSTANCE_FUNCTIONS(X)                                                           \
    X(vkEnumeratePhysicalDevices)                                                              \
    X(vkGetPhysicalDeviceProperties2)                                                          \
    X(vkGetPhysicalDeviceFeatures2)                                                            \
    X(vkGetPhysicalDeviceMemoryProperties2)                                                    \
    X(vkGetPhysicalDeviceQueueFamilyProperties)                                                \
    X(vkEnumerateDeviceExtensionProperties)                                                    \
    X(vkCreateDevice)                                                                          \
    X(vkGetDeviceProcAddr)
#define VULKAN_DEVICE_FUNCTIONS(X)                                                             \
    X(vkDestroyDevice)                                                                         \
    X(vkGetDeviceQueue)                                                                        \
    X(vkDeviceWaitIdle)                                                                        \
    X(vkCreateBuffer)                                                                          \
    X(vkDestroyBuffer)                                                                         \
    X(vkGetBufferMemoryRequirements)                                                           \
    X(vkAllocateMemory)                                                                        \
    X(vkFreeMemory)                                                                            \
    X(vkBindBufferMemory)                                                                      \
    X(vkMapMemory)                                                                             \
    X(vkCreateShaderModule)                                                                    \
    X(vkDestroyShaderModule)                                                                   \
    X(vkCreateDescriptorSetLayout)                                                             \
    X(vkDestroyDescriptorSetLayout)                                                            \
    X(vkCreatePipelineLayout)                                                                  \
    X(vkDestroyPipelineLayout)                                                                 \
    X(vkCreatePipelineCache)                                                                   \
    X(vkDestroyPipelineCache)                                                                  \
    X(vkGetPipelineCacheData)                                                                  \
    X(vkCreateComputePipelines)                                                                \
    X(vkDestroyPipeline)                                                                       \
    X(vkCreateDescriptorPool)                                                                  \
    X(vkDestroyDescriptorPool)                                                                 \
    X(vkAllocateDescriptorSets)                                                                \
    X(vkUpdateDescriptorSets)                                                                  \
    X(vkCreateCommandPool)                                                                     \
    X(vkDestroyCommandPool)                                                                    \
    X(vkAllocateCommandBuffers)                                                                \
    X(vkFreeCommandBuffers)                                                                    \
    X(vkBeginCommandBuffer)                                                                    \
    X(vkEndCommandBuffer)                                                                      \
    X(vkCmdBindPipeline)                                                                       \
    X(vkCmdBindDescriptorSets)                                                                 \
    X(vkCmdPushConstants)                                                                      \
    X(vkCmdDispatch)                                                                           \
    X(vkCmdPipelineBarrier)                                                                    \
    X(vkCmdCopyBuffer)                                                                         \
    X(vkCmdFillBuffer)                                                                         \
    X(vkCreateFence)                                                                           \
    X(vkDestroyFence)                                                                          \
    X(vkResetFences)                                                                           \
    X(vkGetFenceStatus)                                                                        \
    X(vkWaitForFences)                                                                         \
    X(vkQueueSubmit)

/* The loader and an instance; one for the process, never unloaded. */
struct vulkan_library {
    VkInstance instance;
    PFN_vkGetInstanceProcAddr get;
#define X(name) PFN_##name name;
    VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
};

/* A physical device. */
struct vulkan_found {
    VkPhysicalDevice handle;
    uint32_t family;        /* of queues that compute */
    uint32_t required_size; /* of subgroups; 0: the device does not let us choose */
    uint8_t cache_uuid[VK_UUID_SIZE];
    struct gpu_limits limits;
};

enum { VULKAN_IN_FLIGHT = 8, VULKAN_BINDINGS_MAX = GPU_SPANS_MAX };

struct gpu_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t bytes;
    void *mapped;
    struct gpu_buffer *next, *previous;
};

struct gpu_pipeline {
    VkPipeline handle;
    uint32_t bindings, push_bytes;
    struct gpu_pipeline *next;
};

struct gpu_recording {
    VkCommandBuffer commands;
    VkDescriptorPool sets;
    struct gpu_recording *next, *previous;
};

struct gpu_device {
    const struct vulkan_library *vk;
    const struct gpu_programs *programs; /* borrowed until close */
    struct vulkan_found found;
    VkDevice handle;
    VkQueue queue;
    VkCommandPool pool;
    VkPhysicalDeviceMemoryProperties memory;
    VkDescriptorSetLayout set_layouts[VULKAN_BINDINGS_MAX + 1]; /* by number of bindings */
    VkPipelineLayout layouts[VULKAN_BINDINGS_MAX + 1];
    VkPipelineCache cache;
    atomic_bool cache_is_new; /* pipelines were added that are not in the file */
    VkFence fences[VULKAN_IN_FLIGHT];
    uint64_t submitted, ended;  /* counts of submissions */
    struct gpu_buffer *buffers; /* owned lists */
    _Atomic(struct gpu_pipeline *) pipelines;
    struct gpu_recording *recordings;
#define X(name) PFN_##name name;
    VULKAN_DEVICE_FUNCTIONS(X)
#undef X
};

/* ---- library.c ---- */

/* UNSUPPORTED: no loader or no driver; says what to install. */
lr_code vulkan_library_get(const struct vulkan_library **out, struct lr_error *err);
/* "VK_ERROR_DEVICE_LOST" and so on become a sentence and a code. */
lr_code vulkan_fail(const struct gpu_device *d, VkResult result, const char *call,
                    struct lr_error *err);

/* ---- device.c ---- */
lr_code vulkan_find(const struct vulkan_library *vk, const char *name, struct vulkan_found *out,
                    struct lr_error *err);
lr_code vulkan_describe(const char *device, struct gpu_limits *out, struct lr_error *err);
lr_code vulkan_open(const char *device, const struct gpu_programs *programs,
                    struct gpu_device **out, struct lr_error *err);
void vulkan_close(struct gpu_device *d);

bool vulkan_has_extension(const struct vulkan_library *vk, VkPhysicalDevice device,
                          const char *name);

/* ---- matrices.c ---- */
#define VULKAN_MATRIX_EXTENSIONS                                                               \
    "VK_KHR_cooperative_matrix", VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,                    \
        VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME

/* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
struct vulkan_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 matrices, robust;
};
/* Features that the kernels with cooperative matrices need, as a chain that begins with
 * `matrix`. */
struct vulkan_matrices {
    struct vulkan_matrix_features matrix;
    VkPhysicalDeviceVulkanMemoryModelFeatures model;
    VkPhysicalDeviceShaderFloat16Int8Features float16;
};
void vulkan_matrices_chain(struct vulkan_matrices *m, void *next);
/* With f's subgroup size. */
bool vulkan_has_matrices(const struct vulkan_library *vk, const struct vulkan_found *f);

/* ---- memory.c ---- */
lr_code vulkan_allocate(struct gpu_device *d, uint64_t bytes, enum gpu_place place,
                        struct gpu_buffer **out, struct lr_error *err);
void *vulkan_mapped(const struct gpu_buffer *buffer);
void vulkan_release(struct gpu_device *d, struct gpu_buffer *buffer);

/* ---- kernels.c ---- */
lr_code vulkan_pipeline(struct gpu_device *d, uint32_t kernel, uint32_t threads, uint32_t mode,
                        struct gpu_pipeline **out, struct lr_error *err);
/* Layouts and the pipeline cache from its file; the latter is only a matter of time. */
lr_code vulkan_kernels_open(struct gpu_device *d, struct lr_error *err);
void vulkan_kernels_close(struct gpu_device *d);
void vulkan_cache_save(struct gpu_device *d);

/* ---- record.c ---- */
lr_code vulkan_record(struct gpu_device *d, const struct gpu_command *commands, uint32_t count,
                      struct gpu_recording **out, struct lr_error *err);
void vulkan_forget(struct gpu_device *d, struct gpu_recording *recording);
lr_code vulkan_submit(struct gpu_device *d, struct gpu_recording *recording, uint64_t *ticket,
                      struct lr_error *err);
lr_code vulkan_wait(struct gpu_device *d, uint64_t ticket, struct lr_error *err);

/* A struct gpu_host with the kernels of an engine. */
#define VULKAN_HOST(kernels)                                                                   \
    {                                                                                          \
        .name = "vulkan", .programs = (kernels), .describe = vulkan_describe,                  \
        .open = vulkan_open, .close = vulkan_close, .allocate = vulkan_allocate,               \
        .mapped = vulkan_mapped, .release = vulkan_release, .pipeline = vulkan_pipeline,       \
        .record = vulkan_record, .forget = vulkan_forget, .submit = vulkan_submit,             \
        .wait = vulkan_wait,                                                                   \
    }

#define VULKAN_TRY(d, call, err)                                                               \
    do {                                                                                       \
        VkResult result_ = (d)->call;                                                          \
        if (result_ != VK_SUCCESS)                                                             \
            return vulkan_fail((d), result_, #call, (err));                                    \
    } while (0)

#endif
