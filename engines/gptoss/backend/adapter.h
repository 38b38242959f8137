/* gptoss/backend/adapter.h - the devices of this engine as the serving part sees them.
 *
 * They know gpt-oss's two kinds of KV pages by name (backend.h).  In the plan and in a step of
 * the serving part the full pages are kind 0 and the window pages are kind 1.
 */
#ifndef GPTOSS_BACKEND_ADAPTER_H
#define GPTOSS_BACKEND_ADAPTER_H

#include "engines/serving/backend.h"

extern const struct serving_backend_api gptoss_serving_cpu;
#ifdef GPTOSS_CUDA
extern const struct serving_backend_api gptoss_serving_cuda;
#endif
#ifdef GPTOSS_VULKAN
extern const struct serving_backend_api gptoss_serving_vulkan;
#endif
#ifdef GPTOSS_METAL
extern const struct serving_backend_api gptoss_serving_metal;
#endif

#endif
