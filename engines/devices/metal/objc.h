/* devices/metal/objc.h - Metal's objects from C: the Objective-C runtime, its selectors
 * and classes, opened at run time.
 *
 * A method is called by casting objc_msgSend to the method's type (METAL_CALL).  Objects of
 * methods that begin with "new" or "alloc" belong to the caller, who sends release.  All other
 * objects belong to the innermost autorelease pool: a function that gets one opens a pool, and
 * retains what outlives it.
 *
 * Only selectors and constants of Apple's public headers are used.  The constants are written
 * here with their values, because no header of Apple is needed to build.
 */
#ifndef ENGINES_DEVICES_METAL_OBJC_H
#define ENGINES_DEVICES_METAL_OBJC_H

#include <stdbool.h>
#include <stdint.h>

#include "llm-router/status.h"

typedef void *metal_id;
typedef void *metal_sel;

enum {
    METAL_STORAGE_SHARED = 0,         /* MTLResourceStorageModeShared */
    METAL_DISPATCH_CONCURRENT = 1,    /* MTLDispatchTypeConcurrent */
    METAL_BARRIER_BUFFERS = 1,        /* MTLBarrierScopeBuffers */
    METAL_TYPE_UINT = 33,             /* MTLDataTypeUInt */
    METAL_STATUS_ERROR = 5,           /* MTLCommandBufferStatusError */
    METAL_LANGUAGE_2_3 = 2 << 16 | 3, /* MTLLanguageVersion2_3: macOS 11 */
};

struct metal_size { /* MTLSize */
    uint64_t width, height, depth;
};

struct metal_range { /* NSRange */
    uint64_t at, length;
};

#define METAL_SELECTORS(X)                                                                     \
    X(alloc, "alloc")                                                                          \
    X(init, "init")                                                                            \
    X(retain, "retain")                                                                        \
    X(release, "release")                                                                      \
    X(text, "UTF8String")                                                                      \
    X(string, "stringWithUTF8String:")                                                         \
    X(file_url, "fileURLWithPath:")                                                            \
    X(array, "arrayWithObject:")                                                               \
    X(description, "localizedDescription")                                                     \
    X(name, "name")                                                                            \
    X(has_unified_memory, "hasUnifiedMemory")                                                  \
    X(working_set, "recommendedMaxWorkingSetSize")                                             \
    X(allocated, "currentAllocatedSize")                                                       \
    X(buffer_most, "maxBufferLength")                                                          \
    X(shared_most, "maxThreadgroupMemoryLength")                                               \
    X(new_queue, "newCommandQueue")                                                            \
    X(new_buffer, "newBufferWithLength:options:")                                              \
    X(wrap_buffer, "newBufferWithBytesNoCopy:length:options:deallocator:")                     \
    X(contents, "contents")                                                                    \
    X(set_fast_math, "setFastMathEnabled:")                                                    \
    X(set_language, "setLanguageVersion:")                                                     \
    X(new_library, "newLibraryWithSource:options:error:")                                      \
    X(set_constant, "setConstantValue:type:atIndex:")                                          \
    X(new_function, "newFunctionWithName:constantValues:error:")                               \
    X(set_function, "setComputeFunction:")                                                     \
    X(set_archives, "setBinaryArchives:")                                                      \
    X(new_pipeline, "newComputePipelineStateWithDescriptor:options:reflection:error:")         \
    X(width, "threadExecutionWidth")                                                           \
    X(threads_most, "maxTotalThreadsPerThreadgroup")                                           \
    X(set_url, "setUrl:")                                                                      \
    X(new_archive, "newBinaryArchiveWithDescriptor:error:")                                    \
    X(add_to_archive, "addComputePipelineFunctionsWithDescriptor:error:")                      \
    X(save_archive, "serializeToURL:error:")                                                   \
    X(command_buffer, "commandBuffer")                                                         \
    X(compute_encoder, "computeCommandEncoderWithDispatchType:")                               \
    X(blit_encoder, "blitCommandEncoder")                                                      \
    X(end_encoding, "endEncoding")                                                             \
    X(set_pipeline, "setComputePipelineState:")                                                \
    X(set_buffer, "setBuffer:offset:atIndex:")                                                 \
    X(set_bytes, "setBytes:length:atIndex:")                                                   \
    X(barrier, "memoryBarrierWithScope:")                                                      \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:")                                 \
    X(copy, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:")                    \
    X(fill, "fillBuffer:range:value:")                                                         \
    X(commit, "commit")                                                                        \
    X(wait_until_completed, "waitUntilCompleted")                                              \
    X(status, "status")                                                                        \
    X(error, "error")

#define METAL_CLASSES(X)                                                                       \
    X(NSString)                                                                                \
    X(NSURL)                                                                                   \
    X(NSArray)                                                                                 \
    X(MTLCompileOptions)                                                                       \
    X(MTLFunctionConstantValues)                                                               \
    X(MTLComputePipelineDescriptor)                                                            \
    X(MTLBinaryArchiveDescriptor)

struct metal_objc {
    void (*send)(void); /* objc_msgSend */
    void *(*push_pool)(void);
    void (*pop_pool)(void *pool);
    metal_id (*default_device)(void); /* the caller releases it */
#define X(name, text) metal_sel name;
    METAL_SELECTORS(X)
#undef X
#define X(name) metal_id name;
    METAL_CLASSES(X)
#undef X
};

/* objc->send as a method with these types; the object and the selector are the first two. */
#define METAL_CALL(objc, type, types, object, selector, ...)                                   \
    (((type(*) types)(objc)->send)((object), (objc)->selector, __VA_ARGS__))
/* A method without arguments. */
#define METAL_GET(objc, type, object, selector)                                                \
    (((type(*)(metal_id, metal_sel))(objc)->send)((object), (objc)->selector))

/* The runtime; one for the process, never unloaded.  UNSUPPORTED: not a Mac. */
lr_code metal_objc_get(const struct metal_objc **out, struct lr_error *err);

void metal_release(const struct metal_objc *objc, metal_id object); /* NULL is fine */
/* An NSString in the innermost pool. */
metal_id metal_string(const struct metal_objc *objc, const char *text);
/* alloc and init; the caller releases it. */
metal_id metal_new(const struct metal_objc *objc, metal_id class_object);
/* The words of an NSError, which may be NULL. */
const char *metal_reason(const struct metal_objc *objc, metal_id error);

#endif
