#!/bin/sh
# trace.sh DIRECTORY PROGRAM…: leaves the program's I/O calls in DIRECTORY/<job>.<pid>
file=$1/$SLURM_JOB_ID.$$
shift
echo "$*" > "$file.cmd"
exec strace -f -y -ttt -T -s 0 -o "$file.calls" \
	-e trace=open,openat,creat,write,pwrite64,read,pread64,fsync,fdatasync "$@"
