/* Deadlines of a queue at a stretch, with AVX2 where the processor has it; the same bits without. */

#ifndef GRIDCORE_DEADLINES_H
#define GRIDCORE_DEADLINES_H

#include <math.h>
#include "cells.h"

#define GRIDCORE_MAYBE_LATE 1
#define GRIDCORE_UNSORTED 2
/* Entries that have often just been written one by one: vectors would wait until they are in the cache. */
#define GRIDCORE_FEW 7

/* The entries from k on; `last` is the deadline of entry k - 1. */
static inline int gridcore_deadlines_tail(const double *release, const double *size, const double *end,
    const double *done, double stretch, double start, double speed, ptrdiff_t k, ptrdiff_t n, double last,
    double *deadline, double *slack)
{
    int flags = 0;
    for (; k < n; k++) {
        const double at = release[k] + stretch * size[k];
        flags |= (end[k] <= at ? 0 : GRIDCORE_MAYBE_LATE) | (at > last ? 0 : GRIDCORE_UNSORTED);
        slack[k] = (at - start) * speed - done[k];
        deadline[k] = last = at;
    }
    return flags;
}

#ifdef GRIDCORE_AVX2
__attribute__((target("avx2")))
static inline int gridcore_deadlines_avx2(const double *release, const double *size, const double *end,
    const double *done, double stretch, double start, double speed, ptrdiff_t n, double *deadline, double *slack)
{
    const __m256d s = _mm256_set1_pd(stretch), begin = _mm256_set1_pd(start), rate = _mm256_set1_pd(speed);
    __m256d late = _mm256_setzero_pd(), unsorted = late, before = _mm256_set1_pd(-HUGE_VAL);
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        const __m256d at = _mm256_add_pd(_mm256_loadu_pd(release + k), _mm256_mul_pd(s, _mm256_loadu_pd(size + k)));
        /* each deadline with the one before it */
        before = _mm256_blend_pd(_mm256_permute4x64_pd(at, 0x90), before, 1);
        unsorted = _mm256_or_pd(unsorted, _mm256_cmp_pd(at, before, _CMP_NGT_UQ));
        late = _mm256_or_pd(late, _mm256_cmp_pd(_mm256_loadu_pd(end + k), at, _CMP_NLE_UQ));
        _mm256_storeu_pd(deadline + k, at);
        _mm256_storeu_pd(slack + k, _mm256_sub_pd(
            _mm256_mul_pd(_mm256_sub_pd(at, begin), rate), _mm256_loadu_pd(done + k)));
        before = _mm256_permute4x64_pd(at, 0xFF);
    }
    return gridcore_deadlines_tail(release, size, end, done, stretch, start, speed, k, n,
            _mm256_cvtsd_f64(before), deadline, slack)
        | (_mm256_movemask_pd(late) ? GRIDCORE_MAYBE_LATE : 0) | (_mm256_movemask_pd(unsorted) ? GRIDCORE_UNSORTED : 0);
}
#endif

static inline double gridcore_minimum_from_base(double *x, ptrdiff_t first, ptrdiff_t n)
{
    double least = HUGE_VAL;
    for (; n > first; n--)
        x[n - 1] = least = x[n - 1] < least ? x[n - 1] : least;
    return least;
}

#ifdef GRIDCORE_AVX2
__attribute__((target("avx2")))
static inline void gridcore_minimum_from_avx2(double *x, ptrdiff_t n)
{
    /* in fours from the front, as they were written: a load of two stores has to wait until both are in the cache */
    ptrdiff_t k = n / 4 * 4;
    __m256d least = _mm256_set1_pd(gridcore_minimum_from_base(x, k, n));
    for (k -= 4; k >= 0; k -= 4) {
        __m256d v = _mm256_loadu_pd(x + k);
        v = _mm256_min_pd(v, _mm256_permute4x64_pd(v, 0xF9));
        v = _mm256_min_pd(v, _mm256_permute4x64_pd(v, 0xFE));
        v = _mm256_min_pd(v, least);
        _mm256_storeu_pd(x + k, v);
        least = _mm256_permute4x64_pd(v, 0);
    }
}
#endif

/* x[k] becomes the least of x[k] and the numbers after it. */
static inline void gridcore_minimum_from(double *x, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level && n > GRIDCORE_FEW) {
        gridcore_minimum_from_avx2(x, n);
        return;
    }
#endif
    gridcore_minimum_from_base(x, 0, n);
}

static inline void gridcore_inversions_base(const double *deadline, ptrdiff_t k, ptrdiff_t n, uint64_t *bits)
{
    for (; k < n; k++)
        bits[k / 64] |= (uint64_t)!(deadline[k] > deadline[k - 1]) << (k % 64);
}

#ifdef GRIDCORE_AVX2
__attribute__((target("avx2")))
static inline void gridcore_inversions_avx2(const double *deadline, ptrdiff_t n, uint64_t *bits)
{
    ptrdiff_t k = 4;
    gridcore_inversions_base(deadline, 1, n < 4 ? n : 4, bits);
    for (; k + 4 <= n; k += 4)
        bits[k / 64] |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(deadline + k),
            _mm256_loadu_pd(deadline + k - 1), _CMP_NGT_UQ)) << (k % 64);
    gridcore_inversions_base(deadline, k, n, bits);
}
#endif

/* Set bit k, of (n + 63) / 64 words, if deadline[k] is not after deadline[k - 1]. */
static inline void gridcore_inversions(const double *deadline, ptrdiff_t n, uint64_t *bits)
{
    memset(bits, 0, (n + 63) / 64 * sizeof(uint64_t));
#ifdef GRIDCORE_AVX2
    if (gridcore_level) {
        gridcore_inversions_avx2(deadline, n, bits);
        return;
    }
#endif
    gridcore_inversions_base(deadline, 1, n, bits);
}

/* deadline = release + stretch * size, and slack = (deadline - start) * speed - done, entry by entry.  Returns
   GRIDCORE_MAYBE_LATE if an end is after its deadline, if only by rounding, and GRIDCORE_UNSORTED if a deadline is
   not after the one before. */
static inline int gridcore_deadlines(const double *release, const double *size, const double *end,
    const double *done, double stretch, double start, double speed, ptrdiff_t n, double *deadline, double *slack)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level && n > GRIDCORE_FEW)
        return gridcore_deadlines_avx2(release, size, end, done, stretch, start, speed, n, deadline, slack);
#endif
    return gridcore_deadlines_tail(release, size, end, done, stretch, start, speed, 0, n, -HUGE_VAL, deadline, slack);
}

#endif
