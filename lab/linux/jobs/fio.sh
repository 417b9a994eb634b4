# Random reads and writes whose contents are verified, by both asynchronous interfaces.

BLOCK=$(cat /sys/block/nvme0n1/queue/logical_block_size)
for engine in libaio io_uring; do
    step "fio-$engine" fio --name=verify --filename=$DISK --direct=1 --rw=randrw --bsrange=$BLOCK-1m --iodepth=32 \
        --numjobs=4 --size=${SIZE:-16m} --offset_increment=${SIZE:-16m} --ioengine=$engine --verify=crc32c --verify_fatal=1 --group_reporting
done
