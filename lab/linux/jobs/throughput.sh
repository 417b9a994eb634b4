# Requests a second of some loads, each for three seconds.

while read -r name options; do
    measure $name fio --name=$name --filename=$DISK --direct=1 --norandommap --ioengine=io_uring --time_based --runtime=3 \
        --group_reporting $options
done <<END
read-4k-qd1 --rw=randread --bs=4k
read-4k-qd32 --rw=randread --bs=4k --iodepth=32 --numjobs=2
write-4k-qd32 --rw=randwrite --bs=4k --iodepth=32 --numjobs=2
read-128k-qd8 --rw=randread --bs=128k --iodepth=8
END
