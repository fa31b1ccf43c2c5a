/* Prefetching, large pages and copies for kernels with large tables. */

#ifndef GRIDCORE_MEMORY_H
#define GRIDCORE_MEMORY_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Prefetch: records and summaries lie anywhere in memory, and waiting for them takes most of the time. */
static inline void gridcore_prefetch(const void *p)
{
#if defined(__GNUC__)
    __builtin_prefetch(p);
    /* else the compiler takes a function that only prefetches for one without effect, and drops the call */
    __asm__ volatile("");
#endif
    (void)p;
}

/* Prefetch `bytes` bytes after p; p may be NULL, so the address is computed as an integer. */
static inline void gridcore_prefetch_at(const void *p, ptrdiff_t bytes)
{
    gridcore_prefetch((const void *)((uintptr_t)p + (uintptr_t)bytes));
}

/* Ask for large pages, since random access to a large table on small pages also waits for address translation.  The
   request covers the large pages that lie wholly in the block, and works best before the block is first written. */
static inline void gridcore_large_pages(const void *block, size_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)block + page - 1) & ~(page - 1);
    uintptr_t last = ((uintptr_t)block + bytes) & ~(page - 1);
    if (last > first)
        madvise((void *)first, last - first, MADV_HUGEPAGE);
#endif
    (void)block;
    (void)bytes;
}

/* As memcpy, word by word: a record that has just been written in words is still in the store buffer, and a wider
   load would have to wait until it has reached the cache. */
static inline void gridcore_copy(void *to, const void *from, ptrdiff_t n)
{
    const volatile int64_t *words = (const volatile int64_t *)from;
    ptrdiff_t k, n_words = n / 8;
    for (k = 0; k < n_words; k++) {
        int64_t word = words[k];
        memcpy((char *)to + 8 * k, &word, 8);
    }
    memcpy((char *)to + 8 * n_words, (const char *)from + 8 * n_words, (size_t)(n % 8));
}

#endif
