/* native/spec/rope.c - the angles of a rope: one inverse wavelength for each pair of values.
 *
 * In doubles, so that an angle is right to its last bits at the end of a long context too.
 */
#include <math.h>
#include <string.h>

#include "engines/native/spec/build.h"
#include "engines/native/spec/math.h"

static double magnitude(double scale, double m)
{
    return scale <= 1 ? 1 : 0.1 * m * native_log(scale) + 1;
}

static double rope_clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

/* The pair that turns so often over the original context. */
static double pair_of(double turns, double dims, double theta, double context)
{
    return dims * native_log(context / (turns * 2 * NATIVE_PI)) / (2 * native_log(theta));
}

static void yarn(const struct native_rope *r, uint32_t dims, double *inverse)
{
    double low = pair_of(r->beta_fast, dims, r->theta, r->original);
    double high = pair_of(r->beta_slow, dims, r->theta, r->original);

    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > dims - 1 ? dims - 1 : high;
    if (low == high)
        high += 0.001;
    for (uint32_t i = 0; i < dims / 2; i++) {
        double ramp = rope_clamp((i - low) / (high - low), 0, 1);
        inverse[i] = inverse[i] / r->factor * ramp + inverse[i] * (1 - ramp);
    }
}

static void llama3(const struct native_rope *r, uint32_t dims, double *inverse)
{
    for (uint32_t i = 0; i < dims / 2; i++) {
        double length = 2 * NATIVE_PI / inverse[i];
        double smooth = (r->original / length - r->low) / (r->high - r->low);
        if (length > r->original / r->low)
            inverse[i] /= r->factor;
        else if (length >= r->original / r->high)
            inverse[i] = (1 - smooth) * inverse[i] / r->factor + smooth * inverse[i];
    }
}

void native_rope_plain(double theta, uint32_t dims, double *inverse)
{
    for (uint32_t i = 0; i < dims / 2; i++)
        inverse[i] = native_exp(-native_log(theta) * (2.0 * i) / dims);
}

/* Longrope: each pair has a factor of its own. */
static void divide(struct native_builder *b, const struct native_list *factors, uint32_t dims,
                   const char *name, double *inverse)
{
    if (factors == NULL || factors->count != dims / 2) {
        native_refuse(b, "config.json: \"%s\" lists %u numbers, expected %u", name,
                      factors != NULL ? factors->count : 0, dims / 2);
        return;
    }
    for (uint32_t i = 0; i < dims / 2; i++)
        inverse[i] /= factors->at[i];
}

static void longrope(struct native_builder *b, const struct native_rope *r, uint32_t dims,
                     struct native_rope_table *t, double *inverse)
{
    double *longer = native_build_alloc(b, dims / 2, sizeof(*longer));
    double factor = (double)r->context / r->original, grown = 1;

    if (r->factor > 0)
        factor = r->factor;
    if (longer == NULL)
        return;
    memcpy(longer, inverse, dims / 2 * sizeof(*longer));
    divide(b, r->shorter, dims, "short_factor", inverse);
    divide(b, r->longer, dims, "long_factor", longer);
    if (factor > 1 && r->original > 1)
        grown = sqrt(1 + native_log(factor) / native_log(r->original));
    t->longer = longer;
    t->limit = r->original;
    t->attention = r->attention > 0 ? r->attention : grown;
    t->attention_longer = r->attention_longer > 0 ? r->attention_longer : grown;
}

static void scale_rope(struct native_builder *b, struct native_rope *r, uint32_t head_size,
                       uint32_t dims, struct native_rope_table *t, double *inverse)
{
    switch (r->kind) {
    case NATIVE_ROPE_PLAIN:
        break;
    case NATIVE_ROPE_LINEAR:
        for (uint32_t i = 0; i < dims / 2; i++)
            inverse[i] /= r->factor;
        break;
    case NATIVE_ROPE_DYNAMIC:
        if (r->alpha > 0) { /* the same base for every length */
            t->theta *= native_exp(native_log(r->alpha) * dims / (dims - 2.0));
            native_rope_plain(t->theta, dims, inverse);
        } else {
            t->dynamic = r->factor;
            t->limit = r->context;
        }
        break;
    case NATIVE_ROPE_YARN:
        if (!(r->factor > 0))
            r->factor = (double)r->context / r->original;
        t->attention = r->attention;
        if (!(t->attention > 0))
            t->attention =
                r->mscale > 0 && r->mscale_all > 0
                    ? magnitude(r->factor, r->mscale) / magnitude(r->factor, r->mscale_all)
                    : magnitude(r->factor, 1);
        yarn(r, dims, inverse);
        break;
    case NATIVE_ROPE_LONG:
        longrope(b, r, dims, t, inverse);
        break;
    case NATIVE_ROPE_LLAMA3:
        llama3(r, dims, inverse);
        break;
    case NATIVE_ROPE_PROPORTIONAL:
        /* The whole head counts; the pairs behind the part do not turn. */
        for (uint32_t i = 0; i < dims / 2; i++)
            inverse[i] = i < (uint32_t)(r->partial * head_size / 2)
                             ? inverse[i] / (r->factor > 0 ? r->factor : 1)
                             : 0;
        break;
    }
}

/* Scaling of these kinds is there for contexts beyond max_position_embeddings. */
static void widen_context(struct native_spec *s, const struct native_rope *r)
{
    double context = 0;

    if (r->kind == NATIVE_ROPE_DYNAMIC && !(r->alpha > 0))
        context = r->context * r->factor;
    else if (r->kind == NATIVE_ROPE_YARN)
        context = r->original * r->factor;
    if (context > s->context && context < 1 << 26)
        s->context = (uint32_t)context;
}

uint32_t native_rope_table(struct native_builder *b, const struct native_rope *rope,
                           uint32_t head_size, uint32_t dims)
{
    struct native_spec *s = native_build_spec(b);
    struct native_rope r = *rope;

    if (native_build_failed(b))
        return 0;
    if (dims == 0)
        dims = r.kind == NATIVE_ROPE_PROPORTIONAL ? head_size
                                                  : (uint32_t)(head_size * r.partial + 1e-9);
    if (dims < 2 || dims % 2 != 0 || dims > head_size ||
        (r.kind == NATIVE_ROPE_DYNAMIC && dims < 4)) {
        native_refuse(
            b, "config.json: a rope of %u values in a head of %u: expected an even number",
            dims, head_size);
        return 0;
    }
    if (r.original == 0)
        r.original = r.context;
    double *inverse = native_build_alloc(b, dims / 2, sizeof(*inverse));
    if (inverse == NULL || s->rope_count == NATIVE_ROPES_MAX) {
        native_refuse(b, "more than %d kinds of rope", NATIVE_ROPES_MAX);
        return 0;
    }
    struct native_rope_table *t = &s->ropes[s->rope_count];
    *t = (struct native_rope_table){
        .dims = dims, .inverse = inverse, .attention = 1, .theta = r.theta};
    native_rope_plain(r.theta, dims, inverse);
    scale_rope(b, &r, head_size, dims, t, inverse);
    widen_context(s, &r);
    return s->rope_count++;
}
