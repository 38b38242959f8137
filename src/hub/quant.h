/* hub/quant.h - quantizations by their names in file names, and the order of preference.
 *
 * "Qwen3-8B-Q4_K_M.gguf", "UD-Q4_K_XL/x-00001-of-00003.gguf" and "x.Q8_0.gguf" say how their
 * weights are stored.  docs/models.md has the order.  Pure.  Thread: any.
 */
#ifndef HUB_QUANT_H
#define HUB_QUANT_H

#include <stdbool.h>

#include "base/str.h"

/* The label in a file's name, else in its folder's: "Q4_K_M", "UD-Q4_K_XL", "BF16"; empty:
 * none. Borrowed from name. */
struct lr_str hub_quant_of(struct lr_str name);

/* Whether the whole text is the label of a quantization. */
bool hub_quant_is(struct lr_str text);

/* Whether a person who asks for `wanted` means the label, without regard to case: also
 * "Q4_K_XL" for "UD-Q4_K_XL". */
bool hub_quant_matches(struct lr_str label, struct lr_str wanted);

/* The smaller, the better: the weights of higher fidelity first, then the unquantized (twice
 * the bytes of Q8_0 for the same answers), then labels that are not known. */
unsigned hub_quant_rank(struct lr_str label);

/* The quantization that is taken where none fits. */
#define HUB_QUANT_USUAL "Q4_K_M"

#endif
