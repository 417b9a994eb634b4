# Namespaces are listed, the controller is reset, its function is reset, and its driver is unbound, while requests are in flight.

DRIVER=/sys/bus/pci/drivers/nvme
load() { # NAME OFFSET SECONDS: writes and verifies a part of the disk until the time is over
    fio --name=$1 --filename=$DISK --direct=1 --rw=randrw --bs=4k --iodepth=32 --ioengine=io_uring --offset=$2 --size=16m \
        --time_based --runtime=$3 --verify=crc32c --verify_fatal=1 --allow_file_create=0 </dev/null
}
await_load() { # until requests are in flight: on a busy machine fio takes seconds to begin
    for _ in $(seq 300); do
        read -r reads writes </sys/block/nvme0n1/inflight && [ $((reads + writes)) -gt 0 ] && return 0
        sleep 0.1
    done
    return 1
}
lists() { # on a rescan the driver reads the lists itself
    for i in 1 2 3 4 5 6 7 8 9 10; do
        nvme ns-rescan $CONTROLLER && nvme list-ns $CONTROLLER && nvme id-ns $DISK || return 1
    done
}
resets() { for i in 1 2 3 4 5; do nvme reset $CONTROLLER || return 1; sleep 0.3; done; }
function_resets() { for i in 1 2 3; do echo 1 >/sys/bus/pci/devices/$PCI/reset || return 1; sleep 0.3; done; }
under_load() { # NAME COMMAND: the load must not notice
    load $1 0 6 >/tmp/$1 2>&1 &
    loader=$!
    await_load && $2 || return 1
    wait $loader || { cat /tmp/$1; return 1; }
}
rebind() {
    for i in 1 2 3; do
        # Its requests fail when the disk goes away.
        load rebind 16m 20 >/dev/null 2>&1 &
        await_load || return 1
        echo $PCI >$DRIVER/unbind && wait && echo $PCI >$DRIVER/bind && await_disk || return 1
    done
}
KEPT="--name=kept --filename=$DISK --direct=1 --rw=write --bs=64k --iodepth=8 --ioengine=libaio --offset=32m --size=16m --verify=crc32c"

step keep fio $KEPT --do_verify=0
step list-under-load under_load list lists
step reset-under-load under_load reset resets
step function-reset-under-load under_load flr function_resets
step rebind-under-load rebind
step kept fio $KEPT --verify_only
step load-again load again 0 2
EXPECTED='Shutdown timeout|resetting controller|I/O (error|tag)'
