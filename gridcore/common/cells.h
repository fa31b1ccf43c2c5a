/* Arithmetic on the cells of summaries, with AVX2 where the processor has it: chosen when the program runs,
   since a wheel is built for all processors.  All variants give the same bits: IEEE division, integers.
   Each module that includes this has its own level. */

#ifndef GRIDCORE_CELLS_H
#define GRIDCORE_CELLS_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define GRIDCORE_SSE2 1
#endif
#if defined(GRIDCORE_SSE2) && defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define GRIDCORE_AVX2 1
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define GRIDCORE_IVDEP _Pragma("GCC ivdep")
#elif defined(__clang__)
#define GRIDCORE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRIDCORE_IVDEP
#endif

/* 0 plain C and SSE2, 1 AVX2. */
static int gridcore_level = 0;

static inline int gridcore_detect(int limit)
{
    gridcore_level = 0;
#ifdef GRIDCORE_AVX2
    __builtin_cpu_init();
    if (limit > 0 && __builtin_cpu_supports("avx2"))
        gridcore_level = 1;
#endif
    (void)limit;
    return gridcore_level;
}

static inline void gridcore_divide_tail(const double *h, double a, uint32_t *out, ptrdiff_t step, ptrdiff_t k,
                                        ptrdiff_t n)
{
    const double top = 4294967295.0;
    for (; k < n; k++) {
        double x = h[k] / a;
        out[k * step] = (uint32_t)(uint64_t)(x < top ? x : top);
    }
}

#ifdef GRIDCORE_SSE2
/* Write four lanes, the k-th to out[k * step]. */
static inline void gridcore_scatter(uint32_t *out, ptrdiff_t step, __m128i x)
{
    if (step == 1) {
        _mm_storeu_si128((__m128i *)out, x);
        return;
    }
    out[0] = (uint32_t)_mm_cvtsi128_si32(x);
    out[step] = (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi32(x, 1));
    out[2 * step] = (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi32(x, 2));
    out[3 * step] = (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi32(x, 3));
}
#endif

static inline void gridcore_divide_base(const double *h, double a, uint32_t *out, ptrdiff_t step, ptrdiff_t n)
{
    ptrdiff_t k = 0;
#ifdef GRIDCORE_SSE2
    const __m128d half = _mm_set1_pd(2147483648.0), most = _mm_set1_pd(4294967295.0), by = _mm_set1_pd(a);
    for (; k + 4 <= n; k += 4) {
        __m128d x = _mm_min_pd(_mm_div_pd(_mm_loadu_pd(h + k), by), most);
        __m128d y = _mm_min_pd(_mm_div_pd(_mm_loadu_pd(h + k + 2), by), most);
        __m128d u = _mm_cmpge_pd(x, half), v = _mm_cmpge_pd(y, half);
        __m128i i = _mm_cvttpd_epi32(_mm_sub_pd(x, _mm_and_pd(u, half)));
        __m128i j = _mm_cvttpd_epi32(_mm_sub_pd(y, _mm_and_pd(v, half)));
        __m128i high = _mm_castps_si128(
            _mm_shuffle_ps(_mm_castpd_ps(u), _mm_castpd_ps(v), _MM_SHUFFLE(2, 0, 2, 0)));
        gridcore_scatter(out + k * step, step, _mm_xor_si128(_mm_unpacklo_epi64(i, j), _mm_slli_epi32(high, 31)));
    }
#endif
    gridcore_divide_tail(h, a, out, step, k, n);
}

/* out = min(a + b, 2**32 - 1), element by element; out may be a or b. */
#define GRIDCORE_ADD_BODY \
    ptrdiff_t k; \
    GRIDCORE_IVDEP \
    for (k = 0; k < n; k++) { \
        uint32_t s = a[k] + b[k]; \
        out[k] = s < a[k] ? 0xFFFFFFFFu : s; \
    }

/* Cells of 32 bits to 16 and back; 0 if one of them does not fit. */
#define GRIDCORE_NARROW_BODY \
    ptrdiff_t k; \
    uint32_t all = 0; \
    GRIDCORE_IVDEP \
    for (k = 0; k < n; k++) { \
        all |= a[k]; \
        out[k] = (uint16_t)a[k]; \
    } \
    return all <= 0xFFFFu;

#define GRIDCORE_WIDEN_BODY \
    ptrdiff_t k; \
    GRIDCORE_IVDEP \
    for (k = 0; k < n; k++) \
        out[k] = a[k];

static inline int gridcore_narrow_base(const uint32_t *a, uint16_t *out, ptrdiff_t n)
{
    GRIDCORE_NARROW_BODY
}

static inline void gridcore_widen_base(const uint16_t *a, uint32_t *out, ptrdiff_t n)
{
    GRIDCORE_WIDEN_BODY
}

/* The sum of two of 16 bits; 0 if it does not fit. */
#define GRIDCORE_ADD_NARROW_BODY \
    ptrdiff_t k; \
    uint16_t over = 0; \
    GRIDCORE_IVDEP \
    for (k = 0; k < n; k++) { \
        uint16_t s = (uint16_t)(a[k] + b[k]); \
        over |= (uint16_t)-(s < a[k]); \
        out[k] = s; \
    } \
    return over == 0;

static inline int gridcore_add_narrow_base(const uint16_t *a, const uint16_t *b, uint16_t *out, ptrdiff_t n)
{
    GRIDCORE_ADD_NARROW_BODY
}

static inline void gridcore_add_base(const uint32_t *a, const uint32_t *b, uint32_t *out, ptrdiff_t n)
{
    GRIDCORE_ADD_BODY
}

#ifdef GRIDCORE_AVX2
__attribute__((target("avx2")))
static inline void gridcore_divide_avx2(const double *h, double a, uint32_t *out, ptrdiff_t step, ptrdiff_t n)
{
    ptrdiff_t k = 0;
    const __m256d half = _mm256_set1_pd(2147483648.0), most = _mm256_set1_pd(4294967295.0), by = _mm256_set1_pd(a);
    for (; k + 4 <= n; k += 4) {
        __m256d x = _mm256_min_pd(_mm256_div_pd(_mm256_loadu_pd(h + k), by), most);
        __m256d u = _mm256_cmp_pd(x, half, _CMP_GE_OQ);
        __m128i i = _mm256_cvttpd_epi32(_mm256_sub_pd(x, _mm256_and_pd(u, half)));
        __m128i high = _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(_mm256_castpd256_pd128(u)),
            _mm_castpd_ps(_mm256_extractf128_pd(u, 1)), _MM_SHUFFLE(2, 0, 2, 0)));
        gridcore_scatter(out + k * step, step, _mm_xor_si128(i, _mm_slli_epi32(high, 31)));
    }
    gridcore_divide_tail(h, a, out, step, k, n);
}

__attribute__((target("avx2")))
static inline void gridcore_add_avx2(const uint32_t *a, const uint32_t *b, uint32_t *out, ptrdiff_t n)
{
    GRIDCORE_ADD_BODY
}

__attribute__((target("avx2")))
static inline int gridcore_add_narrow_avx2(const uint16_t *a, const uint16_t *b, uint16_t *out, ptrdiff_t n)
{
    GRIDCORE_ADD_NARROW_BODY
}

__attribute__((target("avx2")))
static inline int gridcore_narrow_avx2(const uint32_t *a, uint16_t *out, ptrdiff_t n)
{
    GRIDCORE_NARROW_BODY
}

__attribute__((target("avx2")))
static inline void gridcore_widen_avx2(const uint16_t *a, uint32_t *out, ptrdiff_t n)
{
    GRIDCORE_WIDEN_BODY
}
#endif

/* out[k * step] = floor(h[k] / a), at most 2**32 - 1; h >= 0. */
static inline void gridcore_divide(const double *h, double a, uint32_t *out, ptrdiff_t step, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level) {
        gridcore_divide_avx2(h, a, out, step, n);
        return;
    }
#endif
    gridcore_divide_base(h, a, out, step, n);
}

static inline void gridcore_add(const uint32_t *a, const uint32_t *b, uint32_t *out, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level) {
        gridcore_add_avx2(a, b, out, n);
        return;
    }
#endif
    gridcore_add_base(a, b, out, n);
}

static inline int gridcore_add_narrow(const uint16_t *a, const uint16_t *b, uint16_t *out, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level)
        return gridcore_add_narrow_avx2(a, b, out, n);
#endif
    return gridcore_add_narrow_base(a, b, out, n);
}

static inline int gridcore_narrow(const uint32_t *a, uint16_t *out, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level)
        return gridcore_narrow_avx2(a, out, n);
#endif
    return gridcore_narrow_base(a, out, n);
}

static inline void gridcore_widen(const uint16_t *a, uint32_t *out, ptrdiff_t n)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level) {
        gridcore_widen_avx2(a, out, n);
        return;
    }
#endif
    gridcore_widen_base(a, out, n);
}

/* For cells of 32 and of 16 bits. */
#define GRIDCORE_DEBIT_BODY(CELL) \
    ptrdiff_t i, j, k; \
    for (i = 0; i < ns; i++) { \
        for (j = 0; j < nw; j++, cells += na, out += na) { \
            const CELL *low = i > 0 ? out - nw * na : NULL, *left = j > 0 ? out - na : NULL; \
            CELL most = 0; \
            for (k = 0; k < na; k++) \
                out[k] = cells[k] > drops[k] && !(size[j] > limits[i]) ? (CELL)(cells[k] - drops[k]) : 0; \
            for (k = 0; low && k < na; k++) \
                out[k] = out[k] > low[k] ? out[k] : low[k]; \
            for (k = 0; left && k < na; k++) \
                out[k] = out[k] > left[k] ? out[k] : left[k]; \
            for (k = na - 1; k >= 0; k--) \
                out[k] = most = out[k] > most ? out[k] : most; \
        } \
    }

static inline void gridcore_debit_base(const uint32_t *cells, uint32_t *out, ptrdiff_t ns, ptrdiff_t nw, ptrdiff_t na,
                                const double *size, const uint32_t *drops, const double *limits)
{
    GRIDCORE_DEBIT_BODY(uint32_t)
}

static inline void gridcore_debit_narrow_base(const uint16_t *cells, uint16_t *out, ptrdiff_t ns, ptrdiff_t nw,
                                ptrdiff_t na, const double *size, const uint32_t *drops, const double *limits)
{
    GRIDCORE_DEBIT_BODY(uint16_t)
}

#ifdef GRIDCORE_AVX2
/* na must be a multiple of 8. */
__attribute__((target("avx2")))
static inline void gridcore_debit_avx2(const uint32_t *cells, uint32_t *out, ptrdiff_t ns, ptrdiff_t nw, ptrdiff_t na,
                                const double *size, const uint32_t *drops, const double *limits)
{
    const __m256i by1 = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 7), by2 = _mm256_setr_epi32(2, 3, 4, 5, 6, 7, 7, 7);
    const __m256i by4 = _mm256_setr_epi32(4, 5, 6, 7, 7, 7, 7, 7), first = _mm256_setzero_si256();
    ptrdiff_t i, j, k;
    for (i = 0; i < ns; i++) {
        for (j = 0; j < nw; j++, cells += na, out += na) {
            __m256i most = _mm256_setzero_si256();
            for (k = na - 8; k >= 0; k -= 8) {
                __m256i x = _mm256_setzero_si256();
                if (!(size[j] > limits[i])) {
                    const __m256i drop = _mm256_loadu_si256((const __m256i *)(drops + k));
                    x = _mm256_loadu_si256((const __m256i *)(cells + k));
                    x = _mm256_sub_epi32(_mm256_max_epu32(x, drop), drop);
                }
                if (i > 0)
                    x = _mm256_max_epu32(x, _mm256_loadu_si256((const __m256i *)(out + k - nw * na)));
                if (j > 0)
                    x = _mm256_max_epu32(x, _mm256_loadu_si256((const __m256i *)(out + k - na)));
                x = _mm256_max_epu32(x, _mm256_permutevar8x32_epi32(x, by1));
                x = _mm256_max_epu32(x, _mm256_permutevar8x32_epi32(x, by2));
                x = _mm256_max_epu32(x, _mm256_permutevar8x32_epi32(x, by4));
                x = _mm256_max_epu32(x, most);
                most = _mm256_permutevar8x32_epi32(x, first);
                _mm256_storeu_si256((__m256i *)(out + k), x);
            }
        }
    }
}

/* Eight cells of 16 bits, of which the first `rest` exist: the others are read as 0, and not written. */
__attribute__((target("avx2")))
static inline __m128i gridcore_load_narrow(const uint16_t *from, ptrdiff_t rest)
{
    uint16_t lanes[8] = {0};
    if (rest >= 8)
        return _mm_loadu_si128((const __m128i *)from);
    memcpy(lanes, from, (size_t)rest * sizeof *from);
    return _mm_loadu_si128((const __m128i *)lanes);
}

__attribute__((target("avx2")))
static inline void gridcore_store_narrow(uint16_t *to, __m128i x, ptrdiff_t rest)
{
    uint16_t lanes[8];
    if (rest >= 8) {
        _mm_storeu_si128((__m128i *)to, x);
        return;
    }
    _mm_storeu_si128((__m128i *)lanes, x);
    memcpy(to, lanes, (size_t)rest * sizeof *to);
}

/* All ones in the first n of eight lanes. */
__attribute__((target("avx2")))
static inline __m128i gridcore_first_lanes(ptrdiff_t n)
{
    return _mm_cmpgt_epi16(_mm_set1_epi16((short)(n < 8 ? n : 8)), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The debit for cells of 16 bits and any na; `out` is not `cells`.  A row is closed over the task sizes first: that
   needs no other row.  Of the last lanes of a row some may be cells of the next one: these come later, and are
   written again. */
__attribute__((target("avx2")))
static inline void gridcore_debit_narrow_avx2(const uint16_t *cells, uint16_t *out, ptrdiff_t ns, ptrdiff_t nw,
                                ptrdiff_t na, const double *size, const uint32_t *drops, const double *limits)
{
    ptrdiff_t i, j, k;
    for (k = (na - 1) / 8 * 8; k >= 0; k -= 8) {
        const __m128i row_mask = gridcore_first_lanes(na - k);
        uint16_t lanes[8] = {0};
        __m128i drop;
        for (j = k; j < na && j < k + 8; j++)
            lanes[j - k] = (uint16_t)(drops[j] < 0xFFFF ? drops[j] : 0xFFFF);
        drop = _mm_loadu_si128((const __m128i *)lanes);
        for (i = 0; i < ns; i++) {
            const uint16_t *from = cells + i * nw * na + k;
            uint16_t *to = out + i * nw * na + k;
            ptrdiff_t rest = (ns - i) * nw * na - k;
            __m128i left = _mm_setzero_si128();
            for (j = 0; j < nw; j++, from += na, to += na, rest -= na) {
                __m128i x = _mm_setzero_si128();
                if (!(size[j] > limits[i])) {
                    x = _mm_and_si128(_mm_subs_epu16(gridcore_load_narrow(from, rest), drop), row_mask);
                    x = _mm_max_epu16(x, _mm_srli_si128(x, 2));
                    x = _mm_max_epu16(x, _mm_srli_si128(x, 4));
                    x = _mm_max_epu16(x, _mm_srli_si128(x, 8));
                    if (k + 8 < na)
                        x = _mm_max_epu16(x, _mm_set1_epi16((short)to[8]));
                }
                if (i > 0)
                    x = _mm_max_epu16(x, gridcore_load_narrow(to - nw * na, rest + nw * na));
                left = _mm_max_epu16(left, x);
                gridcore_store_narrow(to, left, rest);
            }
        }
    }
}

/* The same for one task size: lanes are sizes, which ascend. */
__attribute__((target("avx2")))
static inline void gridcore_debit_sizes_avx2(const uint16_t *cells, uint16_t *out, ptrdiff_t ns, ptrdiff_t nw,
                                const double *size, uint32_t drop, const double *limits)
{
    const __m128i drops = _mm_set1_epi16((short)(drop < 0xFFFF ? drop : 0xFFFF));
    ptrdiff_t i, j, n_feasible;
    for (i = 0; i < ns; i++, cells += nw, out += nw) {
        __m128i left = _mm_setzero_si128();
        for (n_feasible = 0; n_feasible < nw && !(size[n_feasible] > limits[i]); n_feasible++)
            ;
        for (j = 0; j < nw; j += 8) {
            const ptrdiff_t rest = (ns - i) * nw - j;
            __m128i x = _mm_subs_epu16(gridcore_load_narrow(cells + j, rest), drops);
            x = _mm_and_si128(x, gridcore_first_lanes(n_feasible > j ? n_feasible - j : 0));
            if (i > 0)
                x = _mm_max_epu16(x, gridcore_load_narrow(out + j - nw, rest + nw));
            x = _mm_max_epu16(x, _mm_slli_si128(x, 2));
            x = _mm_max_epu16(x, _mm_slli_si128(x, 4));
            x = _mm_max_epu16(x, _mm_slli_si128(x, 8));
            x = _mm_max_epu16(x, left);
            gridcore_store_narrow(out + j, x, rest);
            left = _mm_set1_epi16((short)_mm_extract_epi16(x, 7));
        }
    }
}
#endif

/* out = the cells [stretch, size, task size] of `cells` less drops[task size], 0 where the size is above
   limits[stretch], and then the largest at no larger stretch and size and no smaller task size. */
static inline void gridcore_debit(const uint32_t *cells, uint32_t *out, ptrdiff_t ns, ptrdiff_t nw, ptrdiff_t na,
                           const double *size, const uint32_t *drops, const double *limits)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level && na % 8 == 0) {
        gridcore_debit_avx2(cells, out, ns, nw, na, size, drops, limits);
        return;
    }
#endif
    gridcore_debit_base(cells, out, ns, nw, na, size, drops, limits);
}

static inline void gridcore_debit_narrow(const uint16_t *cells, uint16_t *out, ptrdiff_t ns, ptrdiff_t nw, ptrdiff_t na,
                           const double *size, const uint32_t *drops, const double *limits)
{
#ifdef GRIDCORE_AVX2
    if (gridcore_level && na == 1) {
        gridcore_debit_sizes_avx2(cells, out, ns, nw, size, drops[0], limits);
        return;
    }
    if (gridcore_level) {
        gridcore_debit_narrow_avx2(cells, out, ns, nw, na, size, drops, limits);
        return;
    }
#endif
    gridcore_debit_narrow_base(cells, out, ns, nw, na, size, drops, limits);
}

#endif
