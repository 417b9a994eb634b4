# Single commands of every kind: each line of the file `sweep` has an index and arguments of nvme; its answer is reported.

EXPECTED='.'
head -c 65536 /dev/zero >/tmp/zeroes
# A range of eight blocks from block 2 to the power of 32.
printf '\0\0\0\0\10\0\0\0\0\0\0\0\1\0\0\0' >/tmp/far
while read -r index arguments; do
    said=$(nvme $arguments 2>&1 </dev/null | head -c 300 | tr '\n' ' ')
    echo "capnvme: answer $index $said"
done </sweep
step alive nvme id-ctrl $CONTROLLER
