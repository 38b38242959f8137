/* worker/confine.h - what is settled before foreign code runs in this process. */
#ifndef WORKER_CONFINE_H
#define WORKER_CONFINE_H

#include <sys/types.h>

#include "llm-router/status.h"
#include "wire/open.h"

/* The process dies with `parent`, dumps no core, gains no privileges, is the first
 * the kernel ends when memory runs out, ignores the signals a terminal or a service
 * manager sends to the whole group, and has no descriptor but 0 to 3.  UNAVAILABLE
 * when the parent has gone already. */
LR_MUST_USE lr_code worker_confine(pid_t parent, struct lr_error *err);

/* Before the engine's library is opened: from now on this process reads the engine's folder,
 * the model's and the system's libraries, writes into `scratch` alone, uses GPUs, and has no
 * network, no new processes and no dump, as far as the kernel can (base/sandbox.h). */
LR_MUST_USE lr_code worker_confine_engine(const char *scratch, const struct wire_open *open,
                                          struct lr_error *err);

#endif
