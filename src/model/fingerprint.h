/* model/fingerprint.h - a short text that is equal for equal models and differs for others.
 *
 * The fingerprint is a digest of what decides tokens: names and sizes of the weight files,
 * their headers and samples of their tensors, the configuration and the tokenizer.  Paths,
 * times, notes of downloads and chat templates do not count, so two machines with the same
 * files get the same fingerprint.  It reads a few megabytes of any model: a change of single
 * bytes between the samples is not seen, another set of weights is.  Thread: any.
 */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H

#include "model/descriptor.h"

enum { MODEL_FINGERPRINT_LEN = 32 }; /* hex digits */

/* MODEL_CORRUPT: a file is gone or shorter than described. */
LR_MUST_USE lr_code model_fingerprint(const struct model_descriptor *d,
                                      char out[MODEL_FINGERPRINT_LEN + 1],
                                      struct lr_error *err);

/* The same of a folder that is not described yet.  `filename` as for model_descriptor_open. */
LR_MUST_USE lr_code model_fingerprint_of(const char *dir, enum model_format format,
                                         const char *filename,
                                         char out[MODEL_FINGERPRINT_LEN + 1],
                                         struct lr_error *err);

#endif
