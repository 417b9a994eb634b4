#!/bin/sh
# Makes one part of a soak or a sweep, and adds to its file the runs that the file lacks:
#
#     part.sh K N FOLDER soak|sweep ARGUMENTS...
#
# Run it in the project's folder. K is the part, from 0, and N the number of parts. The lines go to FOLDER/K.jsonl, a sweep's table of
# the part to FOLDER/K/. The program must have been built (cargo build -p lab), so that all parts have the same one.
set -eu
if [ $# -lt 4 ]; then
    echo "usage: part.sh K N FOLDER soak|sweep ARGUMENTS..." >&2
    exit 2
fi
number=$1 of=$2 folder=$3 command=$4
shift 4
mkdir -p "$folder"
if [ "$command" = sweep ]; then
    set -- "$@" --out "$folder/$number"
fi
exec "$(dirname "$0")/../../target/debug/lab" "$command" "$@" --part "$number/$of" --json "$folder/$number.jsonl" --resume
