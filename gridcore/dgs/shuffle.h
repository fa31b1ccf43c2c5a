/* A cycle of CYCLON on records of views.  AVX-512 is selected at run time where the processor has it, since a wheel
   is built for all processors.  Both variants have equal results, bit for bit.

   A node's record is its neighbours (int32[degree], -1 for empty places), their ages (one byte each) and their number
   (int32), so that a turn of a node touches few cache lines. */

#ifndef GRIDCORE_SHUFFLE_H
#define GRIDCORE_SHUFFLE_H

#include <stdint.h>
#include <stddef.h>
#include "../common/memory.h"
#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define GRIDCORE_AVX512 1
#define GRIDCORE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif
#if defined(__GNUC__)
#define GRIDCORE_INLINE static inline __attribute__((always_inline))
#else
#define GRIDCORE_INLINE static inline
#endif

/* Rows of up to this many neighbours fit into two vectors. */
#define GRIDCORE_ROW 32
/* The record of a node's partner is prefetched this many turns ahead. */
#define GRIDCORE_AHEAD 8

typedef struct {
    unsigned char *records;
    ptrdiff_t nodes, stride, age_at, count_at; /* bytes */
    int32_t degree, shuffle;
    uint64_t random_state;                     /* state of SplitMix64 */
    int32_t *entry;                            /* [2][degree], the entries that two nodes exchange */
    unsigned char *entry_age;
    int32_t *draws;                            /* [2 * degree + 16], numbers drawn to select entries */
} gridcore_views;

GRIDCORE_INLINE int32_t *gridcore_known(const gridcore_views *v, ptrdiff_t u)
{
    return (int32_t *)(v->records + v->stride * u);
}

GRIDCORE_INLINE unsigned char *gridcore_ages(const gridcore_views *v, ptrdiff_t u)
{
    return v->records + v->stride * u + v->age_at;
}

GRIDCORE_INLINE int32_t *gridcore_n_known(const gridcore_views *v, ptrdiff_t u)
{
    return (int32_t *)(v->records + v->stride * u + v->count_at);
}

/* The next number of SplitMix64 (Steele, Lea and Flood 2014). */
GRIDCORE_INLINE uint64_t gridcore_next(gridcore_views *v)
{
    uint64_t x = v->random_state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Draw a number below n < 2**32 by a multiplication of the upper bits, which is faster than a division. */
GRIDCORE_INLINE uint64_t gridcore_below(gridcore_views *v, uint64_t n)
{
    return (gridcore_next(v) >> 32) * n >> 32;
}

GRIDCORE_INLINE void gridcore_swap(int32_t *known, unsigned char *age, ptrdiff_t a, ptrdiff_t b)
{
    int32_t entry = known[a];
    unsigned char years = age[a];
    known[a] = known[b], age[a] = age[b];
    known[b] = entry, age[b] = years;
}

/* -- differences of the variants ----------------------------------------------------------------------- */

/* Return the index of the first of the oldest of n entries. */
typedef ptrdiff_t gridcore_find_oldest(const unsigned char *age, ptrdiff_t n);
/* Add one cycle to the ages of n entries, up to 255. */
typedef void gridcore_make_older(unsigned char *age, ptrdiff_t n);
/* Draw m numbers, below n, n - 1, ..., and j numbers, below p, p - 1, ... */
typedef void gridcore_draw(gridcore_views *v, ptrdiff_t n, ptrdiff_t m, ptrdiff_t p, ptrdiff_t j);
/* Give node u m entries in exchange for the last `n_sent` of its own; return how many were new to it. */
typedef ptrdiff_t gridcore_take_entries(const gridcore_views *v, ptrdiff_t u, ptrdiff_t n_sent, const int32_t *entry,
                                        const unsigned char *entry_age, ptrdiff_t m);

static inline ptrdiff_t gridcore_oldest_plain(const unsigned char *age, ptrdiff_t n)
{
    /* a key of age and place for each entry avoids unpredictable branches */
    int32_t best = -1, k;
    for (k = 0; k < n; k++) {
        int32_t key = (int32_t)age[k] << 16 | (0xFFFF - k);
        best = key > best ? key : best;
    }
    return 0xFFFF - (best & 0xFFFF);
}

static inline void gridcore_older_plain(unsigned char *age, ptrdiff_t n)
{
    ptrdiff_t k;
    for (k = 0; k < n; k++)
        age[k] += age[k] < 255;
}

static inline void gridcore_draw_plain(gridcore_views *v, ptrdiff_t n, ptrdiff_t m, ptrdiff_t p, ptrdiff_t j)
{
    ptrdiff_t k;
    for (k = 0; k < m; k++)
        v->draws[k] = (int32_t)gridcore_below(v, (uint64_t)(n - k));
    for (k = 0; k < j; k++)
        v->draws[m + k] = (int32_t)gridcore_below(v, (uint64_t)(p - k));
}

GRIDCORE_INLINE int gridcore_knows(const gridcore_views *v, ptrdiff_t u, int32_t other)
{
    const int32_t *known = gridcore_known(v, u);
    int32_t k, is_known = 0;
    for (k = 0; k < v->degree; k++) /* the whole row, since empty places are -1 */
        is_known |= known[k] == other;
    return is_known;
}

static inline ptrdiff_t gridcore_take_plain(const gridcore_views *v, ptrdiff_t u, ptrdiff_t n_sent,
                                            const int32_t *entry, const unsigned char *entry_age, ptrdiff_t m)
{
    int32_t *known = gridcore_known(v, u), n = *gridcore_n_known(v, u);
    unsigned char *age = gridcore_ages(v, u);
    ptrdiff_t k, place = n - 1, last = n - n_sent, n_new = 0;
    for (k = 0; k < m; k++) {
        if (entry[k] == u || gridcore_knows(v, u, entry[k]))
            continue;
        if (n < v->degree) {
            known[n] = entry[k], age[n] = entry_age[k];
            n++;
        } else if (place >= last) {
            known[place] = entry[k], age[place] = entry_age[k];
            place--;
        } else {
            break;
        }
        n_new++;
    }
    *gridcore_n_known(v, u) = n;
    return n_new;
}

#ifdef GRIDCORE_AVX512
GRIDCORE_TARGET static inline ptrdiff_t gridcore_oldest_wide(const unsigned char *age, ptrdiff_t n)
{
    const __m512i place = _mm512_set_epi32(0xFFF0, 0xFFF1, 0xFFF2, 0xFFF3, 0xFFF4, 0xFFF5, 0xFFF6, 0xFFF7, 0xFFF8,
                                           0xFFF9, 0xFFFA, 0xFFFB, 0xFFFC, 0xFFFD, 0xFFFE, 0xFFFF);
    uint32_t here = n < 32 ? (1u << n) - 1 : 0xFFFFFFFFu;
    __m256i row = _mm256_maskz_loadu_epi8(here, age);
    __m512i low = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(row));
    __m512i high = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(row, 1));
    low = _mm512_or_si512(_mm512_slli_epi32(low, 16), place);
    high = _mm512_or_si512(_mm512_slli_epi32(high, 16), _mm512_sub_epi32(place, _mm512_set1_epi32(16)));
    return 0xFFFF - (_mm512_reduce_max_epi32(_mm512_max_epi32(low, high)) & 0xFFFF);
}

GRIDCORE_TARGET static inline void gridcore_older_wide(unsigned char *age, ptrdiff_t n)
{
    uint32_t here = n < 32 ? (1u << n) - 1 : 0xFFFFFFFFu;
    __m256i row = _mm256_maskz_loadu_epi8(here, age);
    _mm256_mask_storeu_epi8(age, here, _mm256_adds_epu8(row, _mm256_set1_epi8(1)));
}

/* SplitMix64 of eight consecutive states, scaled to numbers below `below`. */
GRIDCORE_TARGET static inline __m256i gridcore_eight(__m512i x, __m512i below)
{
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 30));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)0xBF58476D1CE4E5B9u));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 27));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)0x94D049BB133111EBu));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
    x = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), below);
    return _mm512_cvtepi64_epi32(_mm512_srli_epi64(x, 32));
}

GRIDCORE_TARGET static inline void gridcore_draw_wide(gridcore_views *v, ptrdiff_t n, ptrdiff_t m, ptrdiff_t p,
                                                      ptrdiff_t j)
{
    const uint64_t step = 0x9E3779B97F4A7C15u;
    const __m512i places = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i steps = _mm512_set_epi64((long long)(8 * step), (long long)(7 * step), (long long)(6 * step),
                                           (long long)(5 * step), (long long)(4 * step), (long long)(3 * step),
                                           (long long)(2 * step), (long long)step);
    ptrdiff_t k;
    for (k = 0; k < m + j; k += 8) {
        __m512i state = _mm512_add_epi64(steps, _mm512_set1_epi64((long long)(v->random_state + step * (uint64_t)k)));
        __m512i below = _mm512_sub_epi64(_mm512_set1_epi64(p + m - k), places);
        __mmask8 mine = k < m ? (__mmask8)(m - k < 8 ? (1u << (m - k)) - 1 : 0xFF) : 0;
        below = _mm512_mask_sub_epi64(below, mine, _mm512_set1_epi64(n - k), places);
        _mm256_storeu_si256((__m256i *)(v->draws + k), gridcore_eight(state, below));
    }
    v->random_state += step * (uint64_t)(m + j);
}

GRIDCORE_TARGET static inline ptrdiff_t gridcore_take_wide(const gridcore_views *v, ptrdiff_t u, ptrdiff_t n_sent,
                                                           const int32_t *entry, const unsigned char *entry_age,
                                                           ptrdiff_t m)
{
    int32_t *known = gridcore_known(v, u);
    unsigned char *age = gridcore_ages(v, u);
    ptrdiff_t n = *gridcore_n_known(v, u), room = v->degree - n, max_new = room + n_sent, n_new = 0, k;
    uint32_t here = n < 32 ? (1u << n) - 1 : 0xFFFFFFFFu;
    const __m512i low = _mm512_maskz_loadu_epi32((__mmask16)here, known);
    const __m512i high = _mm512_maskz_loadu_epi32((__mmask16)(here >> 16), known + 16);
    for (k = 0; k < m; k++) {
        /* its place in the row at the beginning, unless another entry has replaced it since */
        const __m512i one = _mm512_set1_epi32(entry[k]);
        uint32_t at = here & _cvtmask32_u32(_mm512_kunpackw(_mm512_cmpeq_epi32_mask(high, one),
                                                            _mm512_cmpeq_epi32_mask(low, one)));
        ptrdiff_t place = n_new < room ? n + n_new : n - 1 - (n_new - room);
        if ((at != 0) | (entry[k] == (int32_t)u))
            continue;
        if (n_new == max_new)
            break;
        known[place] = entry[k], age[place] = entry_age[k];
        if (n_new >= room)
            here &= ~(1u << place);
        n_new++;
    }
    *gridcore_n_known(v, u) = (int32_t)(n + (n_new < room ? n_new : room));
    return n_new;
}
#endif

/* -- a turn -------------------------------------------------------------------------------------------- */

GRIDCORE_INLINE void gridcore_turn(gridcore_views *v, ptrdiff_t u, const unsigned char *up, long long *counts,
                                   gridcore_find_oldest *find_oldest, gridcore_make_older *make_older, gridcore_draw *draw,
                                   gridcore_take_entries *take)
{
    int32_t *known = gridcore_known(v, u), *partner_known, *count = gridcore_n_known(v, u);
    unsigned char *age = gridcore_ages(v, u), *partner_age;
    ptrdiff_t n = *count, partner_n, q, k, m, j;
    if (n == 0)
        return;
    make_older(age, n);
    k = find_oldest(age, n);
    q = known[k];
    gridcore_swap(known, age, k, n - 1);
    if (up != NULL && !up[q]) {
        known[n - 1] = -1, age[n - 1] = 0;
        *count = (int32_t)n - 1;
        counts[1]++;
        return;
    }
    partner_known = gridcore_known(v, q), partner_age = gridcore_ages(v, q), partner_n = *gridcore_n_known(v, q);
    /* the entries to exchange move to the ends of the views; u sends itself in place of q */
    m = v->shuffle < n ? v->shuffle : n;
    j = v->shuffle < partner_n ? v->shuffle : partner_n;
    v->entry[0] = (int32_t)u, v->entry_age[0] = 0;
    draw(v, n - 1, m - 1, partner_n, j);
    for (k = 1; k < m; k++) {
        gridcore_swap(known, age, v->draws[k - 1], n - 1 - k);
        v->entry[k] = known[n - 1 - k], v->entry_age[k] = age[n - 1 - k];
    }
    for (k = 0; k < j; k++) {
        gridcore_swap(partner_known, partner_age, v->draws[m - 1 + k], partner_n - 1 - k);
        v->entry[v->degree + k] = partner_known[partner_n - 1 - k], v->entry_age[v->degree + k] = partner_age[partner_n - 1 - k];
    }
    counts[0]++;
    counts[2] += take(v, q, j, v->entry, v->entry_age, m);
    counts[2] += take(v, u, m, v->entry + v->degree, v->entry_age + v->degree, j);
}

GRIDCORE_INLINE void gridcore_turns(gridcore_views *views, const unsigned char *up, long long *counts,
                                    gridcore_find_oldest *find_oldest, gridcore_make_older *make_older, gridcore_draw *draw,
                                    gridcore_take_entries *take)
{
    /* a local copy, which no store to a record can alias, so that its fields stay in registers */
    gridcore_views own = *views, *v = &own;
    ptrdiff_t u, next;
    for (u = 0; u < v->nodes; u++) {
        next = u + 2 * GRIDCORE_AHEAD;
        if (next < v->nodes) {
            gridcore_prefetch(gridcore_known(v, next));
            gridcore_prefetch(gridcore_n_known(v, next));
        }
        next = u + GRIDCORE_AHEAD;
        if (next < v->nodes && *gridcore_n_known(v, next)) {
            ptrdiff_t q = gridcore_known(v, next)[find_oldest(gridcore_ages(v, next), *gridcore_n_known(v, next))];
            gridcore_prefetch(gridcore_known(v, q));
            gridcore_prefetch(gridcore_ages(v, q));
        }
        if (up == NULL || up[u])
            gridcore_turn(v, u, up, counts, find_oldest, make_older, draw, take);
    }
    views->random_state = own.random_state;
}

static void gridcore_cycle_plain(gridcore_views *v, const unsigned char *up, long long *counts)
{
    gridcore_turns(v, up, counts, gridcore_oldest_plain, gridcore_older_plain, gridcore_draw_plain,
                   gridcore_take_plain);
}

#ifdef GRIDCORE_AVX512
GRIDCORE_TARGET static void gridcore_cycle_wide(gridcore_views *v, const unsigned char *up, long long *counts)
{
    gridcore_turns(v, up, counts, gridcore_oldest_wide, gridcore_older_wide, gridcore_draw_wide,
                   gridcore_take_wide);
}
#endif

/* 0 plain C, 1 AVX-512. */
static int gridcore_shuffle_level = 0;

static inline int gridcore_shuffle_detect(int limit)
{
    gridcore_shuffle_level = 0;
#ifdef GRIDCORE_AVX512
    __builtin_cpu_init();
    if (limit > 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        gridcore_shuffle_level = 1;
#endif
    (void)limit;
    return gridcore_shuffle_level;
}

/* Run the turns of all nodes; `counts`: exchanges, entries dropped because q was down, new entries. */
static inline void gridcore_cycle(gridcore_views *v, const unsigned char *up, long long *counts)
{
#ifdef GRIDCORE_AVX512
    if (gridcore_shuffle_level > 0 && v->degree <= GRIDCORE_ROW) {
        gridcore_cycle_wide(v, up, counts);
        return;
    }
#endif
    gridcore_cycle_plain(v, up, counts);
}

#endif
