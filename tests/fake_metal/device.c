/* tests/fake_metal/device.c - the GPU, its queue, and what tests ask for; see fake.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/os/memory.h"
#include "tests/fake_metal/classes.h"

struct fake_state fake_state;

int fake_metal_launches(void)
{
    return fake_state.launches;
}

int fake_metal_archived(void)
{
    return fake_state.archived;
}

uint64_t fake_metal_own_bytes(void)
{
    return fake_state.buffer_bytes;
}

uint64_t fake_metal_wrapped_bytes(void)
{
    return fake_state.wrapped_bytes;
}

void fake_metal_refuse_wrapping(bool is_refused)
{
    fake_state.wraps_nothing = is_refused;
}

void fake_metal_lose(bool is_lost)
{
    fake_state.is_lost = is_lost;
}

void fake_metal_limit(uint64_t bytes)
{
    fake_state.buffer_limit = bytes;
}

void fake_metal_working_set(uint64_t bytes)
{
    fake_state.working_set = bytes;
}

void fake_must(lr_code code, const struct lr_error *err)
{
    if (code != LR_OK)
        fake_abort("Vulkan: %s", err->text);
}

static void *queue_buffer(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_autorelease(fake_new(&fake_commands_class));
}

static const struct fake_class queue_class = {
    .name = "MTLCommandQueue",
    .size = sizeof(struct fake_object),
    .methods =
        (const struct fake_entry[]){METHOD("commandBuffer", queue_buffer), END_OF_METHODS}};

/* ---- the device ---- */

static void *device_name(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_string("Apple stand-in");
}

static bool device_unified(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return true;
}

static uint64_t device_working_set(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.working_set != 0 ? fake_state.working_set : (uint64_t)8 << 30;
}

static uint64_t device_allocated(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.buffer_bytes + fake_state.wrapped_bytes;
}

static uint64_t device_buffer_most(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.vulkan->found.limits
        .binding_bytes; /* so that a binding reaches to a buffer's end */
}

static uint64_t device_shared_most(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.vulkan->found.limits.shared_bytes;
}

static void *device_queue(void *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_new(&queue_class);
}

static void *device_buffer(void *self, void *sel, uint64_t bytes, uint64_t options)
{
    struct lr_error err = {0};
    (void)self;
    (void)sel;
    if (options != METAL_STORAGE_SHARED)
        fake_abort("a buffer with options %llu", (unsigned long long)options);
    if (fake_state.buffer_limit != 0 &&
        fake_state.buffer_bytes + bytes > fake_state.buffer_limit)
        return NULL;
    struct buffer *made = fake_new(&fake_buffer_class);
    made->bytes = bytes;
    fake_state.buffer_bytes += bytes;
    fake_must(vulkan_allocate(fake_state.vulkan, bytes, GPU_ON_DEVICE, &made->behind, &err),
              &err);
    memset(vulkan_mapped(made->behind), 0xA5, bytes); /* nothing may count on zeros */
    return made;
}

/* lavapipe's buffer has a copy: the memory is not written while it is wrapped. */
static void *device_wrap(void *self, void *sel, const void *memory, uint64_t bytes,
                         uint64_t options, void *deallocator)
{
    struct lr_error err = {0};
    uint64_t page = lr_page_bytes();
    (void)self;
    (void)sel;
    if (options != METAL_STORAGE_SHARED || deallocator != NULL || bytes == 0 ||
        (uintptr_t)memory % page != 0 || bytes % page != 0)
        fake_abort("a buffer over %llu bytes that are no whole pages",
                   (unsigned long long)bytes);
    if (fake_state.wraps_nothing)
        return NULL;
    struct buffer *made = fake_new(&fake_buffer_class);
    made->bytes = bytes;
    made->wrapped = memory;
    fake_state.wrapped_bytes += bytes;
    fake_must(vulkan_allocate(fake_state.vulkan, bytes, GPU_ON_DEVICE, &made->behind, &err),
              &err);
    memcpy(vulkan_mapped(made->behind), memory, bytes);
    return made;
}

static void *device_library(void *self, void *sel, struct string *source,
                            struct options *options, void **error)
{
    (void)self;
    (void)sel;
    if (!options->is_precise || options->language != METAL_LANGUAGE_2_3) {
        *error = fake_error("fast math, or another language version");
        return NULL;
    }
    struct library *made = fake_new(&fake_library_class);
    fake_read_source(made, source->text);
    return made;
}

static void *device_pipeline(void *self, void *sel, struct descriptor *descriptor,
                             uint64_t options, void **reflection, void **error)
{
    struct function *function = descriptor->function.held;
    struct holder *archives = descriptor->archives.held;
    struct lr_error err = {0};
    (void)self;
    (void)sel;
    (void)error;
    if (options != 0 || reflection != NULL)
        fake_abort("a pipeline with options");
    struct pipeline *made = fake_new(&fake_pipeline_class);
    made->library = fake_retain(function->library);
    made->threads = function->values[0];
    if (archives != NULL && ((struct archive *)archives->held)->is_from_file)
        fake_state.archived++;
    if (function->library->kernel != FAKE_PROBE)
        fake_must(vulkan_pipeline(fake_state.vulkan, function->library->kernel,
                                  function->values[0], function->values[1], &made->behind,
                                  &err),
                  &err);
    return made;
}

static void *device_archive(void *self, void *sel, struct holder *descriptor, void **error)
{
    struct string *url = descriptor->held;
    int count = 0;
    (void)self;
    (void)sel;
    if (url != NULL) {
        FILE *file = fopen(url->text, "r");
        bool is_good = file != NULL && fscanf(file, "archive %d", &count) == 1;
        if (file != NULL)
            (void)fclose(file);
        if (!is_good) {
            *error = fake_error("this is no archive");
            return NULL;
        }
    }
    struct archive *made = fake_new(&fake_archive_class);
    made->count = count;
    made->is_from_file = url != NULL;
    return made;
}

static const struct fake_class device_class = {
    .name = "MTLDevice",
    .size = sizeof(struct fake_object),
    .methods = (const struct fake_entry[]){
        METHOD("name", device_name), METHOD("hasUnifiedMemory", device_unified),
        METHOD("recommendedMaxWorkingSetSize", device_working_set),
        METHOD("currentAllocatedSize", device_allocated),
        METHOD("maxBufferLength", device_buffer_most),
        METHOD("maxThreadgroupMemoryLength", device_shared_most),
        METHOD("newCommandQueue", device_queue),
        METHOD("newBufferWithLength:options:", device_buffer),
        METHOD("newBufferWithBytesNoCopy:length:options:deallocator:", device_wrap),
        METHOD("newLibraryWithSource:options:error:", device_library),
        METHOD("newComputePipelineStateWithDescriptor:options:reflection:error:",
               device_pipeline),
        METHOD("newBinaryArchiveWithDescriptor:error:", device_archive), END_OF_METHODS}};

void *MTLCreateSystemDefaultDevice(void)
{
    struct lr_error err = {0};
    if (fake_state.vulkan == NULL)
        fake_must(vulkan_open("vulkan:0", &FAKE_PROGRAMS, &fake_state.vulkan, &err), &err);
    return fake_new(&device_class);
}

const struct fake_class *const fake_classes[] = {&fake_string_class,
                                                 &fake_url_class,
                                                 &fake_array_class,
                                                 &fake_options_class,
                                                 &fake_constants_class,
                                                 &fake_descriptor_class,
                                                 &fake_archive_descriptor_class,
                                                 NULL};
