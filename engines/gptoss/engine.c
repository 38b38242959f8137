/* gptoss/engine.c - the engine for gpt-oss: its facts, its loader and its devices. */
#include "engines/gptoss/engine.h"

#include "engines/gptoss/backend/adapter.h"
#include "engines/gptoss/model/loader.h"
#include "engines/serving/engine.h"

static const char *const runtimes[] = {"gptoss", NULL};
static const char *const formats[] = {"safetensors", NULL};
static const char *const architectures[] = {"GptOssForCausalLM", NULL};
static const char *const backends[] = {"cpu",
#ifdef GPTOSS_CUDA
                                       "cuda",
#endif
#ifdef GPTOSS_VULKAN
                                       "vulkan",
#endif
#ifdef GPTOSS_METAL
                                       "metal",
#endif
                                       NULL};

static const struct lr_engine_facts facts = {
    .size = sizeof(facts),
    .id = "gptoss",
    .version = GPTOSS_VERSION,
    .runtimes = runtimes,
    .formats = formats,
    .architectures = architectures,
    .backends = backends,
};

static const struct serving_device devices[] = {
    {"cpu", &gptoss_serving_cpu, NULL},
#ifdef GPTOSS_CUDA
    {"cuda", &gptoss_serving_cuda, NULL},
#else
    {"cuda", NULL,
     "this engine was built without CUDA; build it where nvcc is installed, or use --device "
     "cpu"},
#endif
#ifdef GPTOSS_VULKAN
    {"vulkan", &gptoss_serving_vulkan, NULL},
#else
    {"vulkan", NULL,
     "this engine was built without Vulkan; build it where glslc and Vulkan's headers are "
     "installed (Debian: glslc, libvulkan-dev), or use --device cpu"},
#endif
#ifdef GPTOSS_METAL
    {"metal", &gptoss_serving_metal, NULL},
#else
    {"metal", NULL,
     "this engine was built without Metal, which is part of macOS; on other systems use "
     "--device cuda, vulkan or cpu"},
#endif
    {NULL, NULL, NULL},
};

static const struct serving_engine engine = {&facts, &gptoss_loader, devices};

SERVING_ENGINE(gptoss_engine_api, &engine)
