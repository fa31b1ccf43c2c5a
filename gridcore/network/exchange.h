/* Counters in memory that processes share: who has got how far. */

#ifndef GRIDCORE_EXCHANGE_H
#define GRIDCORE_EXCHANGE_H

#if defined(_MSC_VER)
#include <windows.h>
#else
#include <sched.h>
#endif

/* Set a counter after everything that was written before. */
static inline void gridcore_announce(long long *counter, long long value)
{
#if defined(_MSC_VER)
    InterlockedExchange64(counter, value);
#else
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
#endif
}

/* Read a counter of another process before everything that is read after. */
static inline long long gridcore_announced(long long *counter)
{
#if defined(_MSC_VER)
    return InterlockedCompareExchange64(counter, 0, 0);
#else
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
#endif
}

/* Let another process have the processor. */
static inline void gridcore_yield(void)
{
#if defined(_MSC_VER)
    SwitchToThread();
#else
    sched_yield();
#endif
}

#endif
