/* sampler/noise.c - counter-based noise: the same numbers on any device, in any order. */
#include <math.h>

#include "engines/sampler/sampler.h"

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011);
 * the constants are the paper's. */
void sampler_philox(uint64_t seed, uint32_t counter0, uint32_t counter1, uint32_t out[4])
{
    uint32_t c[4] = {counter0, counter1, 0, 0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

float sampler_gumbel(uint32_t word)
{
    float u = ((float)(word >> 9) + 0.5f) * (1.0f / 8388608.0f);

    return -logf(-logf(u));
}
