/* What each sanitizer must stop: .ci/nightly calls these to see that it is on. */

#include <pthread.h>
#include <stdlib.h>

int beyond(int n)
{
    int *few = calloc((size_t)n, sizeof(int));
    int next = few[n];
    free(few);
    return next;
}

int outside(int n)
{
    volatile double large = 1e30;
    return (int)(large * n);
}

static void *volatile lost;

int leak(int n)
{
    lost = malloc((size_t)n);
    lost = NULL;
    return 0;
}

static int shared;

static void *count(void *times)
{
    int k;
    for (k = 0; k < *(int *)times; k++)
        shared++;
    return NULL;
}

int race(int n)
{
    pthread_t other;
    pthread_create(&other, NULL, count, &n);
    count(&n);
    pthread_join(other, NULL);
    return shared;
}
