/* chat/request.c - see chat/request.h. */
#include "chat/request.h"

uint64_t chat_request_seed(uint64_t seed, uint32_t choice)
{
    if (choice == 0)
        return seed;
    uint64_t x = seed + choice * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}
