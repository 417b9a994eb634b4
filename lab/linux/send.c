/*
 * The guest's part of the sweep of `cargo xtask linux`: sends NVMe commands through Linux's passthrough and reports each answer.
 *
 * Each line of the file of commands has a device, as its number among the further arguments, and words in hexadecimal: the opcode,
 * the NSID, command words 2 and 10 to 15, the bytes of data, and the first four words of the data. All other data is zero.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum { DATA_WORDS = 4, WORDS = 10 + DATA_WORDS, DEVICES = 2 };

/* On a page of its own: queues that the sweep creates lie in it. */
static _Alignas(4096) uint8_t data[128 << 10];

static int has_read(FILE *commands, unsigned *device, uint32_t words[WORDS])
{
    if (fscanf(commands, "%u", device) != 1)
        return 0;
    for (int word = 0; word < WORDS; word++)
        if (fscanf(commands, "%x", &words[word]) != 1)
            return 0;
    return *device < DEVICES && words[9] <= sizeof data;
}

/* The status, without the phase tag, or -1 with an error if Linux does not send the command. */
static int answer_to(int device, unsigned long request, const uint32_t words[WORDS])
{
    struct nvme_passthru_cmd command = {
        .opcode = words[0], .nsid = words[1], .cdw2 = words[2],
        .cdw10 = words[3], .cdw11 = words[4], .cdw12 = words[5],
        .cdw13 = words[6], .cdw14 = words[7], .cdw15 = words[8],
        .data_len = words[9], .addr = words[9] ? (uintptr_t)data : 0,
    };
    memset(data, 0, sizeof data);
    memcpy(data, &words[WORDS - DATA_WORDS], DATA_WORDS * sizeof *words);
    return ioctl(device, request, &command);
}

int main(int count, char **arguments)
{
    static const unsigned long requests[DEVICES] = { NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD };
    int devices[DEVICES];
    if (count != 2 + DEVICES)
        return 2;
    FILE *commands = fopen(arguments[1], "r");
    for (int device = 0; device < DEVICES; device++) {
        devices[device] = open(arguments[2 + device], O_RDONLY);
        if (devices[device] < 0 || !commands) {
            perror("cannot open a file");
            return 1;
        }
    }
    unsigned device;
    uint32_t words[WORDS];
    for (unsigned index = 0; has_read(commands, &device, words); index++) {
        int status = answer_to(devices[device], requests[device], words);
        if (status < 0)
            printf("capnvme: answer %u %s\n", index, strerror(errno));
        else
            printf("capnvme: answer %u status %x\n", index, status);
    }
    /* A line that is no command ends the sweep early. */
    return feof(commands) ? 0 : 1;
}
