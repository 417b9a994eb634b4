/* Counts of instructions by address, between the first marker of a beginning and the last of an end.
 *
 * Neighbour: `count.c` has every translated instruction add to its counter, and reports markers. A counter stays where it
 * is, because translated code has its address. QEMU translates under one lock with one processor, so nothing here is
 * guarded.
 */

#include "histogram.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct counter {
    uint64_t address;
    uint64_t count;
    uint64_t at_begin;
};

enum { COUNTERS_PER_CHUNK = 4096, MIN_BUCKETS = 1 << 16 };

struct chunk {
    struct chunk *next;
    size_t used;
    struct counter counters[COUNTERS_PER_CHUNK];
};

static FILE *out;
static bool begun;
static struct chunk *chunks;
/* Open addressing: a power of two of buckets, at most half of them used. */
static struct counter **buckets;
static size_t n_buckets;
static size_t n_counters;

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "the instruction counter has no memory for its histogram\n");
        abort();
    }
    return memory;
}

/* The bucket with the address's counter, or the empty one where it belongs. */
static struct counter **bucket(uint64_t address)
{
    /* Fibonacci hashing: the upper half of the product is well mixed. */
    size_t at = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (n_buckets - 1);
    while (buckets[at] && buckets[at]->address != address) {
        at = (at + 1) & (n_buckets - 1);
    }
    return &buckets[at];
}

static void grow(void)
{
    free(buckets);
    n_buckets = n_buckets ? 2 * n_buckets : MIN_BUCKETS;
    buckets = allocate(n_buckets * sizeof(*buckets));
    for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->used; i++) {
            *bucket(chunk->counters[i].address) = &chunk->counters[i];
        }
    }
}

static struct counter *new_counter(uint64_t address)
{
    if (!chunks || chunks->used == COUNTERS_PER_CHUNK) {
        struct chunk *chunk = allocate(sizeof(*chunk));
        chunk->next = chunks;
        chunks = chunk;
    }
    struct counter *counter = &chunks->counters[chunks->used++];
    counter->address = address;
    n_counters++;
    return counter;
}

uint64_t *histogram_counter(uint64_t address)
{
    if (2 * n_counters >= n_buckets) {
        grow();
    }
    struct counter **place = bucket(address);
    if (!*place) {
        *place = new_counter(address);
    }
    return &(*place)->count;
}

void histogram_begin(void)
{
    if (begun) {
        return;
    }
    begun = true;
    for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->used; i++) {
            chunk->counters[i].at_begin = chunk->counters[i].count;
        }
    }
}

void histogram_end(void)
{
    if (!begun) {
        return;
    }
    /* Written over an earlier end's: the counts only grow, so the later text is at least as long. */
    rewind(out);
    for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->used; i++) {
            const struct counter *counter = &chunk->counters[i];
            if (counter->count != counter->at_begin) {
                fprintf(out, "%" PRIx64 ":%" PRIu64 "\n", counter->address, counter->count - counter->at_begin);
            }
        }
    }
    fflush(out);
}

int histogram_open(const char *path)
{
    out = fopen(path, "w");
    return out ? 0 : -1;
}
