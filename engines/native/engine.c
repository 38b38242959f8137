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

static const char without[] =
    "this engine computes on the processor only: use --device cpu, or the engine gptoss for "
    "gpt-oss";

static const struct serving_engine *native_engine(void)
{
    static struct serving_device devices[5];
    static struct serving_engine engine;

    devices[0] = (struct serving_device){"cpu", native_backend_cpu(), NULL};
    devices[1] = (struct serving_device){"cuda", NULL, without};
    devices[2] = (struct serving_device){"vulkan", NULL, without};
    devices[3] = (struct serving_device){"metal", NULL, without};
    engine = (struct serving_engine){native_facts(), native_model_api(), devices};
    return &engine;
}

SERVING_ENGINE(native_engine_api, native_engine())
