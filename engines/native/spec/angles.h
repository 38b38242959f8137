/* native/spec/angles.h - sine and cosine of a position, for every device. */
#ifndef NATIVE_SPEC_ANGLES_H
#define NATIVE_SPEC_ANGLES_H

#include "engines/native/spec/spec.h"

/* dims / 2 cosines, then as many sines.  length: of the sequence's prompt, for the whole answer
 * (docs/adr/0108). */
void native_angles(const struct native_rope_table *table, uint32_t length, uint32_t position,
                   float *out);

#endif
