/* Counts what gridcore's extension modules allocate, and lets the k-th allocation fail.

   Loaded with LD_PRELOAD, on Linux with glibc.  Whose an allocation is, tells the address it returns to. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

#define RANGES 64
#define SITES 4000000
#define SLOTS (1 << 22) /* blocks at a time, at most half of it */

static struct { uintptr_t low, high; } range[RANGES];
static int ranges;
static struct { uintptr_t block; size_t size; } *held; /* open addressing */
static uintptr_t *sites;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* read by the test; `torn`: blocks that somebody has written behind */
long counted, failed, live, peak, blocks, largest, torn;
static long fail_at, fail_last;

/* Behind each block; and in one that is new or given back, so that who reads it gets nonsense. */
#define GUARD 32
#define MARK 0xA7
#define NONSENSE 0x55

void watch(uintptr_t low, uintptr_t high)
{
    if (held == NULL) {
        held = mmap(NULL, SLOTS * sizeof *held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sites = mmap(NULL, SITES * sizeof *sites, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    range[ranges].low = low;
    range[ranges].high = high;
    ranges++;
}

/* allocations first..last fail; none for 0 */
void arm(long first, long last)
{
    counted = failed = largest = 0;
    peak = live;
    fail_at = first;
    fail_last = last;
}

uintptr_t site(long k) { return sites[k]; }

static int watched(void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    int k;
    for (k = 0; k < ranges; k++)
        if (at >= range[k].low && at < range[k].high)
            return 1;
    return 0;
}

static int refused(void *caller, size_t size)
{
    int no;
    pthread_mutex_lock(&lock);
    counted++;
    if (counted < SITES)
        sites[counted] = (uintptr_t)caller;
    if ((long)size > largest)
        largest = (long)size;
    no = fail_at && counted >= fail_at && counted <= fail_last;
    failed += no;
    pthread_mutex_unlock(&lock);
    if (no)
        errno = ENOMEM;
    return no;
}

static size_t place(uintptr_t block)
{
    size_t k = (block >> 4) * 0x9E3779B97F4A7C15u >> 42;
    while (held[k].block != 0 && held[k].block != block)
        k = (k + 1) & (SLOTS - 1);
    return k;
}

static void take(void *block, size_t size)
{
    size_t k;
    if (block == NULL)
        return;
    pthread_mutex_lock(&lock);
    k = place((uintptr_t)block);
    held[k].block = (uintptr_t)block;
    held[k].size = size;
    memset((char *)block + size, MARK, GUARD);
    blocks++;
    live += (long)size;
    if (live > peak)
        peak = live;
    pthread_mutex_unlock(&lock);
}

static size_t size_of(void *block)
{
    size_t k, size;
    pthread_mutex_lock(&lock);
    k = place((uintptr_t)block);
    size = held[k].block != 0 ? held[k].size : 0;
    pthread_mutex_unlock(&lock);
    return size;
}

static void give(void *block)
{
    size_t k, next, home;
    int i;
    if (block == NULL || blocks == 0)
        return;
    pthread_mutex_lock(&lock);
    k = place((uintptr_t)block);
    if (held[k].block != 0) {
        blocks--;
        live -= (long)held[k].size;
        for (i = 0; i < GUARD; i++)
            if (((unsigned char *)block)[held[k].size + i] != MARK) {
                torn++;
                break;
            }
        memset(block, NONSENSE, held[k].size);
        for (next = (k + 1) & (SLOTS - 1); held[next].block != 0; next = (next + 1) & (SLOTS - 1)) {
            home = (held[next].block >> 4) * 0x9E3779B97F4A7C15u >> 42;
            if (((next - home) & (SLOTS - 1)) >= ((next - k) & (SLOTS - 1))) {
                held[k] = held[next];
                k = next;
            }
        }
        held[k].block = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void *made(size_t size)
{
    void *block = size <= (size_t)-1 - GUARD ? __libc_malloc(size + GUARD) : NULL;
    if (block != NULL)
        memset(block, NONSENSE, size);
    take(block, size);
    return block;
}

void *malloc(size_t size)
{
    if (!watched(__builtin_return_address(0)))
        return __libc_malloc(size);
    return refused(__builtin_return_address(0), size) ? NULL : made(size);
}

void *calloc(size_t n, size_t size)
{
    void *block;
    if (!watched(__builtin_return_address(0)))
        return __libc_calloc(n, size);
    if (refused(__builtin_return_address(0), n * size) || (size && n > ((size_t)-1 - GUARD) / size))
        return NULL;
    block = __libc_calloc(n * size + GUARD, 1);
    take(block, n * size);
    return block;
}

/* a fresh place each time: who still uses the old one is found */
void *realloc(void *old, size_t size)
{
    void *block;
    size_t had;
    if (!watched(__builtin_return_address(0)))
        return __libc_realloc(old, size);
    if (refused(__builtin_return_address(0), size) || (block = made(size)) == NULL)
        return NULL;
    if (old != NULL) {
        had = size_of(old);
        memcpy(block, old, had < size ? had : size);
        give(old);
        __libc_free(old);
    }
    return block;
}

void free(void *block)
{
    if (watched(__builtin_return_address(0)))
        give(block);
    __libc_free(block);
}
