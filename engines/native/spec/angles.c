/* native/spec/angles.c - sine and cosine of a position, for every device. */
#include "engines/native/spec/angles.h"

#include "engines/native/spec/math.h"

static void fill(const struct native_rope_table *table, const double *inverse, double attention,
                 uint32_t position, float *out)
{
    uint32_t half = table->dims / 2;

    for (uint32_t i = 0; i < half; i++) {
        double sine, cosine;
        native_sincos(position * inverse[i], &sine, &cosine);
        out[i] = (float)(cosine * attention);
        out[half + i] = (float)(sine * attention);
    }
}

/* Dynamic scaling: the base grows with the sequence. */
static void fill_dynamic(const struct native_rope_table *t, uint32_t length, uint32_t position,
                         float *out)
{
    double dims = t->dims, grown = t->dynamic * length / t->limit - (t->dynamic - 1), sine,
           cosine;
    double base = native_log(t->theta) + native_log(grown) * dims / (dims - 2);

    for (uint32_t i = 0; i < t->dims / 2; i++) {
        native_sincos(position * native_exp(-base * (2.0 * i) / dims), &sine, &cosine);
        out[i] = (float)cosine;
        out[t->dims / 2 + i] = (float)sine;
    }
}

void native_angles(const struct native_rope_table *t, uint32_t length, uint32_t position,
                   float *out)
{
    bool beyond = t->limit != 0 && length > t->limit;

    if (beyond && t->dynamic > 0)
        fill_dynamic(t, length, position, out);
    else
        fill(t, beyond && t->longer != NULL ? t->longer : t->inverse,
             beyond && t->longer != NULL ? t->attention_longer : t->attention, position, out);
}
