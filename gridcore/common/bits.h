/* Single bits of a word. */

#ifndef GRIDCORE_BITS_H
#define GRIDCORE_BITS_H

#include <stdint.h>

/* How many bits of a word are set. */
static inline int gridcore_count(uint64_t x)
{
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)((x * 0x0101010101010101u) >> 56);
}

/* The lowest bit that is set, of a word that is not 0. */
static inline int gridcore_lowest(uint64_t x)
{
#if defined(__GNUC__)
    return __builtin_ctzll(x);
#else
    return gridcore_count((x & (0 - x)) - 1);
#endif
}

/* The highest bit that is set, of a word that is not 0. */
static inline int gridcore_highest(uint64_t x)
{
#if defined(__GNUC__)
    return 63 - __builtin_clzll(x);
#else
    int bit = 0;
    while (x >>= 1)
        bit++;
    return bit;
#endif
}

#endif
