#!/bin/sh
# SPDX-License-Identifier: MIT
env | grep -v -e '^LD_PRELOAD=' -e '^TSSHIM_' -e '^_=' | sort
ls -l /proc/self/fd | sed 's/.* \([0-9]* -> \)/\1/
	s/:\[[0-9]*\]//
	s,/proc/[0-9]*,/proc/PID,
	/^total/d'
cat /proc/self/limits /proc/self/coredump_filter
grep -e '^Sig[BIC]' -e '^ShdPnd' -e '^Threads' -e '^VmLck' -e '^VmPin' -e '^CoreDumping' -e '^NoNewPrivs' \
	-e '^Seccomp' -e '^Cap' -e '^Cpus_allowed' -e '^Umask' -e '^TracerPid' /proc/self/status
ls /proc/self/task | wc -l
umask
cat /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/comm
sed 's/.* //' /proc/self/maps | grep -v -e tsshim -e '^0$' | sort -u
tr '\0' ' ' </proc/self/cmdline
ldd /bin/ls | sed 's/ (0x.*//' | grep -v tsshim
