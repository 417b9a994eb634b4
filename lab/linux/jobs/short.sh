# Random reads and writes that are verified, and a flush, in a few seconds.

BLOCK=$(cat /sys/block/nvme0n1/queue/logical_block_size)
step fio fio --name=verify --filename=$DISK --direct=1 --rw=randrw --bsrange=$BLOCK-256k --iodepth=32 --numjobs=2 --size=4m \
    --offset_increment=4m --ioengine=io_uring --fsync=32 --verify=crc32c --verify_fatal=1 --group_reporting
step reset nvme reset $CONTROLLER
step after-reset fio --name=verify --filename=$DISK --direct=1 --rw=randrw --bs=4k --iodepth=8 --size=1m --ioengine=libaio \
    --verify=crc32c --verify_fatal=1
EXPECTED='resetting controller'
