/* A search for a gap that is long enough, among the lengths of all gaps of a node. */

#ifndef GRIDCORE_GAPS_H
#define GRIDCORE_GAPS_H

#include <stdint.h>
#include <stddef.h>
#include "../common/bits.h"
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#endif

/* Lengths are at most this. */
#define GRIDCORE_LONGEST_GAP 65535
/* This many numbers after the last gap may be read. */
#define GRIDCORE_GAP_PADDING 8

/* The first of gap[k..n - 1] that is at least `least`; n if there is none. */
static inline ptrdiff_t gridcore_first_gap(const uint16_t *gap, ptrdiff_t k, ptrdiff_t n, uint16_t least)
{
#if defined(__SSE2__) || defined(_M_X64)
    const __m128i limit = _mm_set1_epi16((short)least), zero = _mm_setzero_si128();
    for (; k < n; k += 8) {
        __m128i missing = _mm_subs_epu16(limit, _mm_loadu_si128((const __m128i *)(gap + k)));
        int fits = _mm_movemask_epi8(_mm_cmpeq_epi16(missing, zero));
        if (fits) {
            k += gridcore_lowest((uint64_t)fits) / 2;
            break;
        }
    }
    return k < n ? k : n;
#else
    while (k < n && gap[k] < least)
        k++;
    return k;
#endif
}

#endif
