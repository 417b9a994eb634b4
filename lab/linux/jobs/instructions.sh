# Random 4 KiB reads between markers of the instruction counter: of each kind first some, then twice as many.

FEW=20000
reads() { # NAME COUNT OPTIONS: reads of the whole disk at random
    local name=$1 count=$2
    shift 2
    step "$name-$count" fio --name=$name --filename=$DISK --direct=1 --rw=randread --bs=4k --io_size=$((4 * count))k --norandommap \
        --gtod_reduce=1 --eta=never --thread "$@"
}
# The first start of a program reads its files.
reads warm-up 100 --ioengine=io_uring
echo none >/sys/block/nvme0n1/queue/scheduler
while read -r name options; do
    /mark && reads $name $FEW $options && /mark && reads $name $((2 * FEW)) $options && /mark
done <<END
pread-qd1 --ioengine=psync
io_uring-qd1 --ioengine=io_uring --iodepth=1
io_uring-qd32 --ioengine=io_uring --iodepth=32 --iodepth_batch_submit=8 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32
io_uring-fixed-qd32 --ioengine=io_uring --iodepth=32 --fixedbufs --registerfiles --iodepth_batch_submit=8 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32
END
