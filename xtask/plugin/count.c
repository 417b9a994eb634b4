/* Counts the instructions that the machine executes, by the part of the address space they lie in, and writes the
 * counts each time a marker is executed, which programs put where a measured part begins and ends: on x86_64 a NOP of
 * seven bytes, 0f 1f 80 ID a1 5e 7c; on AArch64 a move of 0xa100 | ID to the register that reads as zero.
 *
 * Argument: out=FILE. A line of FILE for each marker: its ID, then PART:COUNT for each part that executed anything. A
 * part is 16 MiB of the lower 4 GiB, by number; the kernel is 256, anything else 257. A second argument, histogram=FILE,
 * asks for counts by address as well (`histogram.c`), from the first marker BEGIN to the last marker END.
 */

#include "emulator.h"
#include "histogram.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { KERNEL = 256, ELSEWHERE = 257, PARTS = 258, PART_BITS = 24 };

static uint64_t counts[PARTS];
static FILE *out;

static const unsigned char marker[7] = {0x0f, 0x1f, 0x80, 0x00, 0xa1, 0x5e, 0x7c};
enum { MARKER_ID = 3 };
/* movz xzr, #0xa100 | ID: the immediate is bits 5 to 20. */
static const uint32_t move = 0xd294201f;
enum { MOVE_ID_SHIFT = 5, ID_MASK = 0xff };
enum { NO_MARKER = 0, BEGIN = 1, END = 2 };

static bool has_histogram;

static unsigned part(uint64_t address)
{
    if (address >> 63) {
        return KERNEL;
    }
    return address >> 32 ? ELSEWHERE : (unsigned)(address >> PART_BITS);
}

static void write_counts(unsigned int cpu, void *data)
{
    (void)cpu;
    unsigned id = (unsigned)(uintptr_t)data;
    if (has_histogram && id == BEGIN) {
        histogram_begin();
    }
    if (has_histogram && id == END) {
        histogram_end();
    }
    fprintf(out, "%u", id);
    for (unsigned i = 0; i < PARTS; i++) {
        if (counts[i]) {
            fprintf(out, " %u:%" PRIu64, i, counts[i]);
        }
    }
    fputc('\n', out);
    fflush(out);
}

/* The marker's ID, or NO_MARKER. No x86_64 instruction of four bytes begins with a move's lowest byte, 1f. */
static unsigned marker_id(const struct qemu_plugin_insn *instruction)
{
    unsigned char bytes[sizeof(marker)];
    size_t size = qemu_plugin_insn_size(instruction);
    if (size == sizeof(move)) {
        uint32_t word;
        copy_instruction(instruction, &word, sizeof(word));
        return (word & ~((uint32_t)ID_MASK << MOVE_ID_SHIFT)) == move ? word >> MOVE_ID_SHIFT & ID_MASK : NO_MARKER;
    }
    if (size != sizeof(marker)) {
        return NO_MARKER;
    }
    copy_instruction(instruction, bytes, sizeof(marker));
    unsigned id = bytes[MARKER_ID];
    bytes[MARKER_ID] = marker[MARKER_ID];
    return memcmp(bytes, marker, sizeof(marker)) == 0 ? id : NO_MARKER;
}

static void instrument(struct qemu_plugin_tb *block)
{
    size_t n = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(instruction);
        unsigned marked = marker_id(instruction);
        if (marked != NO_MARKER) {
            void *number = (void *)(uintptr_t)marked;
            /* Before it is counted itself, at both ends: between two markers one marker counts. */
            call_when_executed(instruction, write_counts, number);
        }
        count_executions(instruction, &counts[part(address)]);
        if (has_histogram) {
            count_executions(instruction, histogram_counter(address));
        }
    }
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        }
        if (strncmp(argv[i], "histogram=", 10) == 0) {
            has_histogram = true;
            if (histogram_open(argv[i] + 10) != 0) {
                fprintf(stderr, "the instruction counter cannot write its histogram to %s\n", argv[i] + 10);
                return 1;
            }
        }
    }
    if (!out) {
        fprintf(stderr, "the instruction counter has no file to write: out=FILE\n");
        return 1;
    }
    call_when_translated(id, instrument);
    return 0;
}
