/* llamacpp/device.h - finds the libllama device that the options name.
 *
 * "cpu" must be explicit and means no GPU at all.  A GPU is named "cuda:N", with libllama's
 * numbers, or by its UUID; "vulkan:N", with Vulkan's numbers; or "metal".  A missing device is
 * an error; no other device is used instead.
 */
#ifndef LLAMACPP_DEVICE_H
#define LLAMACPP_DEVICE_H

#include "engines/llamacpp/library.h"

/* Checks the name alone, before libllama is opened.  UNSUPPORTED: unknown kind. */
LR_MUST_USE lr_code llamacpp_device_kind(const struct lr_engine_options *options,
                                         const char **name, bool *on_device,
                                         struct lr_error *err);

/* Loads the backend of the device; *out is NULL for "cpu".  INTERNAL: there is no such backend
 * or device. */
LR_MUST_USE lr_code llamacpp_device_find(const struct llamacpp_library *lib, const char *name,
                                         ggml_backend_dev_t *out, struct lr_error *err);

#endif
