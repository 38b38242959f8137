#include "engines/devices/metal/objc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/library.h"

/* For tests: a library that plays the runtime and Metal (tests/fake_metal). */
#define STAND_IN "LR_METAL_LIBRARY"

static struct metal_objc runtime;
static struct lr_error failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool objc_find(void *library, const char *name, void *out)
{
    void *symbol = lr_library_symbol(library, name);
    /* A pointer to a function has the size of a pointer on every system with dlsym. */
    memcpy(out, &symbol, sizeof(symbol));
    if (symbol == NULL)
        lr_fail(&failure, LR_UNSUPPORTED, "Metal's library has no %s", name);
    return symbol != NULL;
}

static bool find_words(void *objc)
{
    metal_sel (*selector)(const char *);
    metal_id (*get_class)(const char *);
    if (!objc_find(objc, "sel_registerName", &selector) ||
        !objc_find(objc, "objc_getClass", &get_class))
        return false;
#define X(name, text) runtime.name = selector(text);
    METAL_SELECTORS(X)
#undef X
#define X(name)                                                                                \
    runtime.name = get_class(#name);                                                           \
    if (runtime.name == NULL) {                                                                \
        lr_fail(&failure, LR_UNSUPPORTED,                                                      \
                "this system's Metal has no class " #name ": macOS 11 or later is needed");    \
        return false;                                                                          \
    }
    METAL_CLASSES(X)
#undef X
    return true;
}

static void open_once(void)
{
    const char *stand_in = getenv(STAND_IN);
    void *objc =
        stand_in != NULL ? lr_library_open(stand_in) : lr_library_open_known(LR_LIBRARY_OBJC);
    void *metal = stand_in != NULL ? objc : lr_library_open_known(LR_LIBRARY_METAL);

    if (objc == NULL || metal == NULL)
        lr_fail(&failure, LR_UNSUPPORTED,
                "Metal cannot be used: it is part of macOS 11 and later; on other systems use "
                "--device vulkan, cuda or cpu");
    else if (objc_find(objc, "objc_msgSend", &runtime.send) &&
             objc_find(objc, "objc_autoreleasePoolPush", &runtime.push_pool) &&
             objc_find(objc, "objc_autoreleasePoolPop", &runtime.pop_pool) &&
             objc_find(metal, "MTLCreateSystemDefaultDevice", &runtime.default_device) &&
             find_words(objc))
        return;
    runtime.send = NULL;
}

lr_code metal_objc_get(const struct metal_objc **out, struct lr_error *err)
{
    (void)pthread_once(&once, open_once);
    *out = &runtime;
    if (runtime.send != NULL)
        return LR_OK;
    return lr_fail(err, failure.code, "%s", failure.text);
}

void metal_release(const struct metal_objc *objc, metal_id object)
{
    if (object != NULL)
        METAL_GET(objc, void, object, release);
}

metal_id metal_string(const struct metal_objc *objc, const char *text)
{
    return METAL_CALL(objc, metal_id, (metal_id, metal_sel, const char *), objc->NSString,
                      string, text);
}

metal_id metal_new(const struct metal_objc *objc, metal_id class_object)
{
    metal_id made = METAL_GET(objc, metal_id, class_object, alloc);
    return METAL_GET(objc, metal_id, made, init);
}

const char *metal_reason(const struct metal_objc *objc, metal_id error)
{
    metal_id words = error != NULL ? METAL_GET(objc, metal_id, error, description) : NULL;
    const char *text = words != NULL ? METAL_GET(objc, const char *, words, text) : NULL;
    return text != NULL ? text : "no reason was given";
}
