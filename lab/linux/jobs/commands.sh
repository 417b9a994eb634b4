# The commands of nvme-cli, each of which must succeed.

BLOCK=$(cat /sys/block/nvme0n1/queue/logical_block_size)
yes pattern | head -c $BLOCK >/tmp/block

for log in smart-log error-log fw-log effects-log; do step $log nvme $log $CONTROLLER; done
for what in id-ctrl list-ns list-ctrl show-regs; do step $what nvme $what $CONTROLLER; done
for what in id-ns ns-descs get-ns-id list-subsys; do step $what nvme $what $DISK; done
step list nvme list
for feature in 1 2 4 7 8 9 0xa 0xb; do step get-feature-$feature nvme get-feature $CONTROLLER -f $feature -H; done
step get-feature-5 nvme get-feature $CONTROLLER -n 1 -f 5 -H
step set-feature nvme set-feature $CONTROLLER -f 4 -V 350
step async-event-config nvme set-feature $CONTROLLER -f 0xb -V 0x1f
step flush nvme flush $DISK
step write nvme write $DISK -s 8 -c 0 -z $BLOCK -d /tmp/block
step read nvme read $DISK -s 8 -c 0 -z $BLOCK -d /tmp/read
step same cmp /tmp/block /tmp/read
step compare nvme compare $DISK -s 8 -c 0 -z $BLOCK -d /tmp/block
step write-zeroes nvme write-zeroes $DISK -s 8 -c 0
step zeroes nvme read $DISK -s 8 -c 0 -z $BLOCK -d /tmp/read
step are-zeroes cmp -n $BLOCK /dev/zero /tmp/read
step verify nvme verify $DISK -s 8 -c 7
step dsm nvme dsm $DISK -d -s 8 -b 8
step format nvme format $DISK -l 0 -f
step ns-rescan nvme ns-rescan $CONTROLLER
step reset nvme reset $CONTROLLER
EXPECTED='resetting controller'
