#!/bin/sh
# A task of a Slurm array makes the part of its number. From the project's folder, for N parts:
#
#     sbatch --array=0-$((N-1)) lab/scale/slurm.sh N FOLDER soak|sweep ARGUMENTS...
#
#SBATCH --job-name=capnvme
#SBATCH --output=slurm-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
set -eu
cd "$SLURM_SUBMIT_DIR"
exec lab/scale/part.sh "$SLURM_ARRAY_TASK_ID" "$@" --jobs "${SLURM_CPUS_PER_TASK:-1}"
