/* What the flow of messages wants of the memory. */

#ifndef GRIDCORE_MEMORY_H
#define GRIDCORE_MEMORY_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Read ahead: records and summaries lie where there was room, and most of the time goes to waiting for them. */
static inline void gridcore_prefetch(const void *p)
{
#if defined(__GNUC__)
    __builtin_prefetch(p);
    /* or a function that does nothing else counts as one without effect, and is not called */
    __asm__ volatile("");
#endif
    (void)p;
}

/* The same, so many bytes on: there need be nothing, nor an array to begin with (which a pointer must not say). */
static inline void gridcore_prefetch_at(const void *p, ptrdiff_t bytes)
{
    gridcore_prefetch((const void *)((uintptr_t)p + (uintptr_t)bytes));
}

/* Ask for large pages: random access to a large table of small ones waits for their addresses, too.  Only a wish,
   for the part of the block that has whole large pages, and best before the block is first written. */
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

/* As memcpy, word by word: a record that has just been written in words is still on its way to the cache, and
   a wider load would wait until everything before it has got there. */
static inline void gridcore_copy(void *to, const void *from, ptrdiff_t n)
{
    const volatile int64_t *words = (const volatile int64_t *)from;
    ptrdiff_t k, whole = n / 8;
    for (k = 0; k < whole; k++) {
        int64_t word = words[k];
        memcpy((char *)to + 8 * k, &word, 8);
    }
    memcpy((char *)to + 8 * whole, (const char *)from + 8 * whole, (size_t)(n % 8));
}

#endif
