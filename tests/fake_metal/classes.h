/* tests/fake_metal/classes.h - the objects of the stand-in, shared by its files; see
 * fake.h.  The arguments of a method are those of Apple's documentation, behind the object and
 * the selector. */
#ifndef TESTS_FAKE_METAL_CLASSES_H
#define TESTS_FAKE_METAL_CLASSES_H

#include "engines/devices/metal/objc.h"
#include "engines/devices/vulkan/vulkan.h"
#include "tests/fake_metal/fake.h"

#define METHOD(name, function)                                                                 \
    {                                                                                          \
        name, (fake_method)(void (*)(void))(function)                                          \
    }
#define END_OF_METHODS                                                                         \
    {                                                                                          \
        NULL, NULL                                                                             \
    }

enum { FAKE_PUSH_INDEX = 8, FAKE_PROBE = 1 << 20 /* the host's own kernel */ };

/* The kernels of the engine that this stand-in is for; the build names them. */
extern const struct gpu_programs FAKE_PROGRAMS;

struct string {
    struct fake_object object;
    char *text;
};

/* An array of one object, and every other class that only holds one. */
struct holder {
    struct fake_object object;
    void *held;
};

struct options {
    struct fake_object object;
    bool is_precise;
    uint64_t language;
};

struct constants {
    struct fake_object object;
    uint32_t values[GPU_CONSTANTS];
};

/* What the text says of its arguments. */
struct library {
    struct fake_object object;
    uint32_t kernel;
    bool is_bound[FAKE_PUSH_INDEX + 1], is_written[FAKE_PUSH_INDEX + 1];
};

struct function {
    struct fake_object object;
    struct library *library;
    uint32_t values[GPU_CONSTANTS];
};

struct descriptor {
    struct fake_object object;
    struct holder function, archives; /* only `held` is used */
};

struct archive {
    struct fake_object object;
    int count;
    bool is_from_file;
};

struct pipeline {
    struct fake_object object;
    struct library *library;
    struct gpu_pipeline *behind; /* NULL: the probe */
    uint32_t threads;
};

struct buffer {
    struct fake_object object;
    struct gpu_buffer *behind;
    uint64_t bytes;
    const void *wrapped; /* the host's memory; NULL: its own */
};

extern const struct fake_class fake_string_class, fake_url_class, fake_array_class,
    fake_options_class, fake_constants_class, fake_library_class, fake_descriptor_class,
    fake_archive_class, fake_archive_descriptor_class, fake_pipeline_class, fake_buffer_class,
    fake_commands_class;

/* What the stand-in is made of: a device of the Vulkan host, and what tests ask for. */
struct fake_state {
    struct gpu_device *vulkan;
    int launches;
    _Atomic int archived;
    bool is_lost;
    uint64_t buffer_limit, working_set, buffer_bytes, wrapped_bytes;
    bool wraps_nothing;
};
extern struct fake_state fake_state;

/* For classes that hold one object. */
void fake_holder_destroy(void *self);
void fake_holder_set(struct holder *self, void *sel, void *held);
/* Autoreleased. */
void *fake_string(const char *text);
void *fake_error(const char *text);
/* Ends the process unless LR_OK. */
void fake_must(lr_code code, const struct lr_error *err);
/* Sets the kernel and the arguments of a library from its text. */
void fake_read_source(struct library *out, const char *source);

#endif
