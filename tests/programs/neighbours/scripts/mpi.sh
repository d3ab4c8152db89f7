#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/hello.c" .
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME="$PWD"
export OMPI_MCA_btl_vader_single_copy_mechanism=none
mpicc -o h hello.c
mpirun --oversubscribe -n 3 ./h 2>&1 | sort
mpirun --oversubscribe -n 2 sh -c 'exit 3' >/dev/null 2>&1 || echo "$?"
rm -rf h .openmpi
