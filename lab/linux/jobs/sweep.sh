# Single commands of every kind, which the program `send` reads from the file `sweep`; it reports each answer.

EXPECTED='.'
step send /send /sweep $CONTROLLER $DISK
step alive nvme id-ctrl $CONTROLLER
