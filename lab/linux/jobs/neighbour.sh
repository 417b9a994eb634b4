# A victim that reads one block at a time beside a noisy neighbour, under each I/O scheduler, on a device with a limited rate.
#
# The victim's control group has ten times the weight of the neighbour's, where the scheduler knows weights.

GROUPS=/sys/fs/cgroup
NUMBER=$(cat /sys/block/nvme0n1/dev)
insmod /usr/lib/mq-deadline.ko.xz
insmod /usr/lib/bfq.ko.xz
echo +io >$GROUPS/cgroup.subtree_control
mkdir $GROUPS/victim $GROUPS/neighbour
in_group() { # GROUP COMMAND
    local group=$1
    shift
    sh -c "echo \$\$ >$GROUPS/$group/cgroup.procs; exec \"\$@\"" sh "$@"
}
victim() { # NAME
    measure $1 in_group victim fio --name=victim --filename=$DISK --direct=1 --norandommap --rw=randread --bs=4k --ioengine=io_uring \
        --thinktime=1000 --time_based --runtime=6 --ramp_time=1 --percentile_list=50:99:99.9
}
use() { # SCHEDULER
    echo "$NUMBER enable=0" >$GROUPS/io.cost.qos
    if [ $1 = io.cost ]; then
        echo none >/sys/block/nvme0n1/queue/scheduler
        # The device serves 4,000 requests of 4 KiB a second, or as many bytes.
        echo "$NUMBER ctrl=user model=linear rbps=16384000 rseqiops=4000 rrandiops=4000 wbps=16384000 wseqiops=4000 wrandiops=4000" \
            >$GROUPS/io.cost.model
        echo "$NUMBER enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=100.00" >$GROUPS/io.cost.qos
        echo "default 1000" >$GROUPS/victim/io.weight
        echo "default 100" >$GROUPS/neighbour/io.weight
    else
        echo $1 >/sys/block/nvme0n1/queue/scheduler
    fi
    if [ $1 = bfq ]; then
        echo 1000 >$GROUPS/victim/io.bfq.weight
        echo 100 >$GROUPS/neighbour/io.bfq.weight
    fi
}

use none
victim alone
for size in 4k 128k; do
    for scheduler in none mq-deadline bfq io.cost; do
        use $scheduler
        in_group neighbour fio --name=neighbour --filename=$DISK --direct=1 --norandommap --rw=randread --bs=$size --iodepth=128 \
            --ioengine=io_uring --time_based --runtime=9 --output=/tmp/neighbour &
        sleep 1
        victim $scheduler-$size
        wait
    done
done
