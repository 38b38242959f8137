/* llamacpp/device.h - which of libllama's devices the options name.
 *
 * "cpu" is said outright and means no GPU at all.  A GPU is named "cuda:N", as libllama
 * numbers them, or by its UUID; a device that is not there is an error, never a reason
 * to use another.
 */
#ifndef LLAMACPP_DEVICE_H
#define LLAMACPP_DEVICE_H

#include "engines/llamacpp/library.h"

/* Reads the name alone, before libllama is opened.  UNSUPPORTED: no such kind. */
LR_MUST_USE lr_code llamacpp_device_kind(const struct lr_engine_options *options,
                                         const char **name, bool *on_device,
                                         struct lr_error *err);

/* *out is NULL for "cpu".  UNSUPPORTED: this libllama has no such device. */
LR_MUST_USE lr_code llamacpp_device_find(const struct llamacpp_library *lib, const char *name,
                                         ggml_backend_dev_t *out, struct lr_error *err);

#endif
