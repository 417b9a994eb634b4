/* The ioctls of Linux's NVMe driver that nvme-cli 2.3 does not use, and refusals. Run under the library, at a controller with a namespace
 * of 512-byte blocks, by a row of `cargo xtask test`. Prints the first line that is wrong, and ends with 1. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPECT(condition)                                                                                                            \
    do {                                                                                                                             \
        errno = 0;                                                                                                                   \
        if (!(condition)) {                                                                                                          \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno);                                                         \
            return 1;                                                                                                                \
        }                                                                                                                            \
    } while (0)

static uint8_t data[8192], back[8192];
static uint8_t large[(1 << 20) + 512];

int main(void) {
    struct stat status;
    int controller = open("/dev/nvme0", O_RDWR), block = open("/dev/nvme0n1", O_RDWR), generic = open("/dev/ng0n1", O_RDONLY);
    EXPECT(controller >= 0 && block >= 0 && generic >= 0);
    EXPECT(fstat(controller, &status) == 0 && S_ISCHR(status.st_mode));
    EXPECT(fstat(block, &status) == 0 && S_ISBLK(status.st_mode));
    EXPECT(stat("/dev/ng0n1", &status) == 0 && S_ISCHR(status.st_mode));
    EXPECT(stat("/dev/nvme0n2", &status) < 0 && errno == ENOENT);
    EXPECT(access("/dev/nvme0n1", R_OK) == 0);

    /* The namespace of a node. */
    EXPECT(ioctl(block, NVME_IOCTL_ID) == 1 && ioctl(generic, NVME_IOCTL_ID) == 1);
    EXPECT(ioctl(controller, NVME_IOCTL_ID) < 0 && errno == ENOTTY);

    /* Blocks, by the structure of the oldest ioctl. */
    for (unsigned at = 0; at < sizeof data; at++)
        data[at] = (uint8_t)(at * 13 + 5);
    struct nvme_user_io io = {.opcode = 1, .nblocks = 15, .addr = (uintptr_t)data, .slba = 40};
    EXPECT(ioctl(block, NVME_IOCTL_SUBMIT_IO, &io) == 0);
    io.opcode = 5;
    EXPECT(ioctl(block, NVME_IOCTL_SUBMIT_IO, &io) == 0);
    io.opcode = 2, io.addr = (uintptr_t)back;
    EXPECT(ioctl(block, NVME_IOCTL_SUBMIT_IO, &io) == 0 && memcmp(data, back, sizeof data) == 0);
    io.slba = UINT64_MAX;
    EXPECT(ioctl(block, NVME_IOCTL_SUBMIT_IO, &io) == 0x6080);
    io.opcode = 9;
    EXPECT(ioctl(block, NVME_IOCTL_SUBMIT_IO, &io) < 0 && errno == EINVAL);
    EXPECT(ioctl(controller, NVME_IOCTL_SUBMIT_IO, &io) < 0 && errno == ENOTTY);

    /* The long forms, with results of 64 bits: Get Features of Temperature Threshold, a read. */
    struct nvme_passthru_cmd64 feature = {.opcode = 0x0a, .cdw10 = 4, .result = UINT64_MAX};
    EXPECT(ioctl(controller, NVME_IOCTL_ADMIN64_CMD, &feature) == 0 && feature.result == 0x157);
    struct nvme_passthru_cmd64 read = {.opcode = 2, .nsid = 1, .addr = (uintptr_t)back, .data_len = 512, .cdw10 = 41};
    memset(back, 0, sizeof back);
    EXPECT(ioctl(generic, NVME_IOCTL_IO64_CMD, &read) == 0 && memcmp(data + 512, back, 512) == 0 && back[512] == 0);

    /* The short form's result does not touch what stands behind it. */
    struct {
        struct nvme_passthru_cmd command;
        uint32_t behind;
    } shorter = {{.opcode = 0x0a, .cdw10 = 4}, 0x12345678};
    EXPECT(ioctl(controller, NVME_IOCTL_ADMIN_CMD, &shorter.command) == 0);
    EXPECT(shorter.command.result == 0x157 && shorter.behind == 0x12345678);

    /* Refusals. */
    struct nvme_passthru_cmd bad = {.opcode = 2, .nsid = 2, .addr = (uintptr_t)back, .data_len = 512};
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EINVAL);
    bad.nsid = 1, bad.flags = 1;
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EINVAL);
    bad.flags = 0, bad.metadata_len = 8;
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EINVAL);
    bad.metadata_len = 0, bad.addr = 0;
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EFAULT);
    bad.addr = (uintptr_t)large, bad.data_len = sizeof large;
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EINVAL);
    bad.opcode = 0x99, bad.data_len = 0;
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, &bad) < 0 && errno == EACCES);
    EXPECT(ioctl(block, NVME_IOCTL_IO_CMD, NULL) < 0 && errno == EFAULT);
    EXPECT(ioctl(controller, _IO('N', 0x60)) < 0 && errno == ENOTTY);

    /* The block device. */
    int block_bytes = 0;
    uint64_t bytes = 0;
    EXPECT(ioctl(block, BLKSSZGET, &block_bytes) == 0 && block_bytes == 512);
    EXPECT(ioctl(block, BLKGETSIZE64, &bytes) == 0 && bytes == 134217728);
    EXPECT(ioctl(block, BLKRRPART) == 0 && ioctl(generic, BLKSSZGET, &block_bytes) < 0 && errno == ENOTTY);

    /* The whole controller. */
    EXPECT(ioctl(controller, NVME_IOCTL_RESET) == 0 && ioctl(controller, NVME_IOCTL_RESCAN) == 0);
    EXPECT(ioctl(block, NVME_IOCTL_RESET) < 0 && errno == ENOTTY);
    EXPECT(ioctl(controller, NVME_IOCTL_SUBSYS_RESET) < 0 && errno == ENOTTY);

    /* Files of this machine are as they were, but have none of these ioctls. */
    int other = open("/dev/null", O_RDWR);
    EXPECT(other >= 0 && ioctl(other, NVME_IOCTL_ADMIN_CMD, &bad) < 0 && errno == ENOTTY);
    EXPECT(fstat(other, &status) == 0 && S_ISCHR(status.st_mode) && close(other) == 0);
    EXPECT(close(block) == 0 && close(block) < 0 && errno == EBADF);
    EXPECT(ioctl(generic, NVME_IOCTL_ID) == 1 && close(generic) == 0 && close(controller) == 0);
    return 0;
}
