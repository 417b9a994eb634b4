/* Counts of instructions by address: see histogram.c. */

#include <stdint.h>

/* Opens the file that the histogram goes to: a line ADDRESS:COUNT for each address that executed, the address in
 * hexadecimal. -1 when it cannot be written. */
int histogram_open(const char *path);

/* The counter of the instruction at an address. It stays there. */
uint64_t *histogram_counter(uint64_t address);

/* A measured part begins: the first one is where counting starts. */
void histogram_begin(void);

/* A measured part ends: writes the counts since the first beginning. */
void histogram_end(void);
