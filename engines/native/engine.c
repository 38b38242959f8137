/* native/engine.c - the engine for every architecture of arch/: its facts, its loader and its
 * devices. */
#include "engines/native/engine.h"

#include "engines/native/cpu/cpu.h"
#include "engines/native/model.h"
#include "engines/serving/engine.h"

enum { NAMES_MAX = 192 };

/* The names of all families, as the manifest lists them; a test compares both. */
static const struct lr_engine_facts *native_facts(void)
{
    static const char *const formats[] = {"safetensors", NULL};
    static const char *const backends[] = {"cpu", NULL};
    static const char *runtimes[NAMES_MAX], *architectures[NAMES_MAX];
    static const struct lr_engine_facts facts = {
        .size = sizeof(facts),
        .id = "native",
        .version = NATIVE_VERSION,
        .runtimes = runtimes,
        .formats = formats,
        .architectures = architectures,
        .backends = backends,
    };
    size_t types = 0, classes = 0;

    runtimes[types++] = "gptoss"; /* what the registry calls gpt_oss */
    for (size_t i = 0; native_archs[i] != NULL; i++) {
        for (const char *const *n = native_archs[i]->model_types; *n && types + 1 < NAMES_MAX;
             n++)
            runtimes[types++] = *n;
        for (const char *const *n = native_archs[i]->architectures;
             *n && classes + 1 < NAMES_MAX; n++)
            architectures[classes++] = *n;
    }
    return &facts;
}

static const struct serving_engine *native_engine(void)
{
    static struct serving_device devices[5];
    static struct serving_engine engine;

    devices[0] = (struct serving_device){"cpu", native_backend_cpu(), NULL};
    devices[1] = (struct serving_device){
        "cuda", NULL,
        "this engine has no code for CUDA: use --device vulkan on the same GPU, --device cpu, "
        "or the engine gptoss for gpt-oss"};
#ifdef NATIVE_VULKAN
    devices[2] = (struct serving_device){"vulkan", native_backend_vulkan(), NULL};
#else
    devices[2] = (struct serving_device){
        "vulkan", NULL,
        "this engine was built without Vulkan; build it where glslc and Vulkan's headers are "
        "installed (Debian: glslc, libvulkan-dev), or use --device cpu"};
#endif
#ifdef NATIVE_METAL
    devices[3] = (struct serving_device){"metal", native_backend_metal(), NULL};
#else
    devices[3] = (struct serving_device){
        "metal", NULL,
        "this engine was built without Metal, which is part of macOS; on other systems use "
        "--device vulkan or cpu"};
#endif
    engine = (struct serving_engine){native_facts(), native_model_api(), devices};
    return &engine;
}

SERVING_ENGINE(native_engine_api, native_engine())
