/* serving/engine.h - an engine of ours: what it says about itself, a loader of models, devices.
 *
 * The ABI of a plugin has no argument that names the engine.  SERVING_ENGINE defines the table
 * of an engine: the functions that need the engine get it, all others are those of this folder.
 */
#ifndef ENGINES_SERVING_ENGINE_H
#define ENGINES_SERVING_ENGINE_H

#include "engines/serving/backend.h"
#include "llm-router/engine.h"

/* A kind of device; struct serving_options names one device of that kind. */
struct serving_device {
    const char *name;                      /* "cpu", "cuda", "vulkan", "metal" */
    const struct serving_backend_api *api; /* NULL: this build has no code for it, */
    const char *missing;                   /* and this sentence says what to do */
};

/* Static and const. */
struct serving_engine {
    const struct lr_engine_facts *facts;
    const struct serving_model_api *model;
    const struct serving_device *devices; /* `name` is NULL at the end */
};

lr_code serving_engine_probe(const struct serving_engine *engine, const char *dir,
                             const struct lr_engine_options *options,
                             struct lr_engine_need *need, struct lr_error *err);
lr_code serving_engine_open(const struct serving_engine *engine,
                            const struct lr_engine_host *host, const char *dir,
                            const struct lr_engine_options *options,
                            struct lr_engine_model **out, struct lr_error *err);

/* The functions of the ABI that are the same for every engine; the others are NULL. */
struct lr_engine_api serving_engine_api(void);

/* Defines `name`, which returns the table of an engine. */
#define SERVING_ENGINE(name, engine)                                                           \
    static const struct lr_engine_facts *name##_describe(void)                                 \
    {                                                                                          \
        return (engine)->facts;                                                                \
    }                                                                                          \
    static lr_code name##_probe(const char *dir, const struct lr_engine_options *options,      \
                                struct lr_engine_need *need, struct lr_error *err)             \
    {                                                                                          \
        return serving_engine_probe((engine), dir, options, need, err);                        \
    }                                                                                          \
    static lr_code name##_open(const struct lr_engine_host *host, const char *dir,             \
                               const struct lr_engine_options *options,                        \
                               struct lr_engine_model **out, struct lr_error *err)             \
    {                                                                                          \
        return serving_engine_open((engine), host, dir, options, out, err);                    \
    }                                                                                          \
    const struct lr_engine_api *name(void)                                                     \
    {                                                                                          \
        static struct lr_engine_api api;                                                       \
        api = serving_engine_api();                                                            \
        api.describe = name##_describe;                                                        \
        api.probe = name##_probe;                                                              \
        api.open = name##_open;                                                                \
        return &api;                                                                           \
    }

#endif
