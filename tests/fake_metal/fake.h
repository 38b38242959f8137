/* tests/fake_metal/fake.h - a stand-in for Metal on Linux, for tests of the Metal
 * host.
 *
 * objc.c is a small Objective-C runtime: classes, selectors, objc_msgSend, reference counts and
 * autorelease pools.  The other files have the classes that the host uses.  Their compute
 * encoder runs the SPIR-V of the kernel that the MSL was made of, by the Vulkan host.  So
 * buffers, offsets, grids, order and lifetimes of the Metal host are tested; the MSL itself is
 * only read for its arguments.
 *
 * A mistake of the host ends the process with a sentence: an object that is used after its
 * release, an autoreleased object without a pool, a missing argument, a launch that reads what
 * a launch beside it writes.  Work runs only when the host waits for it, so that a result that
 * is read too early is wrong.
 */
#ifndef TESTS_FAKE_METAL_FAKE_H
#define TESTS_FAKE_METAL_FAKE_H

#include <stdbool.h>
#include <stdint.h>

typedef void *(*fake_method)(void);

struct fake_class {
    const char *name;
    void (*destroy)(void *object);
    const struct fake_entry {
        const char *selector;
        fake_method method;
    } * methods;   /* ends with {NULL, NULL} */
    uint32_t size; /* of an object; a class with `alloc` */
};

/* The first member of every object. */
struct fake_object {
    const struct fake_class *class; /* NULL in class objects */
    _Atomic int references;
};

extern const struct fake_class *const fake_classes[]; /* device.c; ends with NULL */

/* With one reference, which belongs to the caller. */
void *fake_new(const struct fake_class *class);
void *fake_autorelease(void *object);
void *fake_retain(void *object);
void fake_release(void *object);
/* Ends the process. */
_Noreturn void fake_abort(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAKE_EXPORT __attribute__((visibility("default")))

/* ---- what the host finds by dlsym; objc_msgSend is written in assembler ---- */
FAKE_EXPORT void *sel_registerName(const char *name);
FAKE_EXPORT void *objc_getClass(const char *name);
FAKE_EXPORT void *objc_autoreleasePoolPush(void);
FAKE_EXPORT void objc_autoreleasePoolPop(void *pool);
FAKE_EXPORT void *MTLCreateSystemDefaultDevice(void);

/* ---- for tests, by dlsym ---- */
FAKE_EXPORT int fake_metal_live(void); /* objects */
FAKE_EXPORT int fake_metal_launches(void);
FAKE_EXPORT int fake_metal_archived(void); /* pipelines from a file */
/* Bytes of the buffers there are: with memory of their own, and over the host's memory. */
FAKE_EXPORT uint64_t fake_metal_own_bytes(void);
FAKE_EXPORT uint64_t fake_metal_wrapped_bytes(void);
/* Metal makes no buffers over the host's memory. */
FAKE_EXPORT void fake_metal_refuse_wrapping(bool is_refused);
/* The next command buffers fail, as when the GPU is lost. */
FAKE_EXPORT void fake_metal_lose(bool is_lost);
/* Buffers of more bytes in all are refused; 0: no limit. */
FAKE_EXPORT void fake_metal_limit(uint64_t bytes);
/* What Metal recommends as the most memory of a process; 0: 8 GiB. */
FAKE_EXPORT void fake_metal_working_set(uint64_t bytes);

#endif
