#!/bin/sh
# SPDX-License-Identifier: MIT
export TMUX_TMPDIR=$PWD LC_ALL=C.UTF-8
unset TMUX
tmux -f /dev/null new-session -d -s s -x 80 -y 24 'echo in a pane
	stty size
	tmux wait-for -S one
	tmux wait-for two
	exit 3'
tmux wait-for one
tmux list-windows -F '#{window_panes} #{pane_width}'
tmux capture-pane -p -t s | head -2
tmux wait-for -S two
while tmux has-session -t s 2>/dev/null; do :; done
rm -rf tmux-*
