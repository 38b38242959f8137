/* cli/device_check.h - a check of `doctor`: the logits of the demo model on a device beside
 * those of the processor. */
#ifndef CLI_DEVICE_CHECK_H
#define CLI_DEVICE_CHECK_H

#include "cli/checks.h"

/* device: "metal", "vulkan:0", "cuda".  Takes seconds; the device works in a child process,
 * which is ended where an answer takes longer than limit_ms. */
void cli_check_device(struct cli_checks *c, const char *device, const char *engines_dir,
                      int limit_ms);

#endif
