# A file system: files are written, read again after the cache is dropped, deleted in part; then it is checked.

fill() { cp /usr/lib/lib*.so* /mnt/ && mkdir /mnt/many && (for i in $(seq 200); do echo $i >/mnt/many/$i || exit 1; done); }
note_sums() { (cd /mnt && sha256sum lib* many/* >/tmp/sums); }
drop_cache() { sync && echo 3 >/proc/sys/vm/drop_caches; }
compare_sums() { (cd /mnt && sha256sum -c /tmp/sums >/tmp/compared) || grep -v ': OK' /tmp/compared; }

step mkfs mkfs.ext4 -q -F -O metadata_csum $DISK
step mount mount -t ext4 $DISK /mnt
step fill fill
step note note_sums
step drop drop_cache
step compare compare_sums
step remove rm -r /mnt/many
step trim fstrim -v /mnt
step umount umount /mnt
step fsck e2fsck -f -n $DISK
