# The management side by nvme-cli: firmware, self-test, sanitize, lockdown, and the logs of each.

# Succeeds if the output of a command, whatever its status, has a pattern.
says() {
    local pattern=$1
    shift
    "$@" >/tmp/said 2>&1
    cat /tmp/said
    grep -qE "$pattern" /tmp/said
}

step supported-log-pages says '^LID 0x14 ' nvme supported-log-pages $CONTROLLER
step features says '^FID 81 .* 00200001' nvme fid-support-effects-log $CONTROLLER
step lockdown-log says '^0000: 00 00 00 09 0d 10 11 14 15 24 7c 80 84 00' nvme get-log $CONTROLLER --log-id=0x14 --log-len=64
step host-id nvme get-feature $CONTROLLER -f 0x81 -l 8
step idle-transitions nvme get-feature $CONTROLLER -f 0xc
step sensor says 'value:0x0000ffff' nvme get-feature $CONTROLLER -f 4 --cdw11=0x10000

# An image of one unit: its name, its revision, and what makes the sum of its dwords 0.
printf 'capnvme\0002.0     \325\342\331\120' >/tmp/image
truncate -s 4096 /tmp/image
step download nvme fw-download $CONTROLLER --fw=/tmp/image --xfer=4096
step commit nvme fw-commit $CONTROLLER --slot=2 --action=1
step slots says 'frs2 .*\(2\.0' nvme fw-log $CONTROLLER
step reset nvme reset $CONTROLLER
step revision says '^fr  *: 2\.0' nvme id-ctrl $CONTROLLER
# The image was taken, so nothing is left to be committed.
step nothing-left says '\(0x6107\)' nvme fw-commit $CONTROLLER --slot=2 --action=1

step self-test nvme device-self-test $CONTROLLER -n 1 -s 2
step self-test-runs says '^Current operation  : 0x2' nvme self-test-log $CONTROLLER
step self-test-abort nvme device-self-test $CONTROLLER -n 1 -s 0xf
step self-test-result says '^  Operation Result  *: 0x1$' nvme self-test-log $CONTROLLER

step lock nvme lockdown $CONTROLLER --ofi=0x80 --ifc=0 --prhbt=1 --scp=0
step locked says '\(0x6023\)' nvme format $DISK -l 0 -f
step unlock nvme lockdown $CONTROLLER --ofi=0x80 --ifc=0 --prhbt=0 --scp=0
step unlocked nvme format $DISK -l 0 -f

step sanitize nvme sanitize $CONTROLLER -a 2
step sanitizing says 'SSTAT\) :  0x2$' nvme sanitize-log $CONTROLLER
sleep 4
step sanitized says 'SSTAT\) :  0x101$' nvme sanitize-log $CONTROLLER
EXPECTED='resetting controller'
