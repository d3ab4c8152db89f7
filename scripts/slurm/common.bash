# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What prolog, epilog and taskprolog have in common: settings and limits of time.
#
# Sourced, with $here set to the directory of the scripts.  Nothing in here writes to standard
# output, which Slurm reads, but what is said to be the result of a function.

: "${here:?}"

# Settings of the administrator, by the rules of docs/cluster.md; see read_settings.
set_enable=on
set_group=user
set_containers=quiet
set_ring=
set_stage=off
set_nodes=off
set_memory=
set_nvme=
set_scontrol=
set_history=

# No site needs more; a file without end must not keep a job waiting.
settings_lines_max=200

# is_number TEXT: an id or a number of a job, as Slurm writes them.
is_number() {
	[[ $1 =~ ^[0-9]{1,10}$ ]]
}

# is_text TEXT: can stand in a line that Slurm reads.
is_text() {
	[[ $1 != *[[:cntrl:]]* ]]
}

# is_safe_path PATH: absolute, and only of characters that mean nothing to anybody.
is_safe_path() {
	[[ $1 =~ ^(/[A-Za-z0-9_.@+-]+)+$ && $1/ != */../* && $1/ != */./* ]]
}

# is_size TEXT
is_size() {
	[[ $1 =~ ^[0-9]{1,18}[KMGT]?$ ]]
}

# is_trusted PATH: nobody but root and who runs this script can change what is there.
is_trusted() {
	local owner mode
	IFS=' ' read -r owner mode < <(stat -L -c '%u %a' -- "$1") || return 1
	[[ $owner == 0 || $owner == "$EUID" ]] && ((!(8#$mode & 8#022)))
}

# set_one KEY VALUE: status 1 when there is no such setting or its value is none.
# shellcheck disable=SC2034 # who sources this uses them
set_one() {
	case $1=$2 in
	enable=on | enable=off | enable=ask) set_enable=$2 ;;
	group=user | group=array | group=job) set_group=$2 ;;
	containers=quiet | containers=share) set_containers=$2 ;;
	stage=off) set_stage=off ;;
	stage=*) is_safe_path "$2" && set_stage=$2 ;;
	ring=*) is_size "$2" && set_ring=$2 ;;
	nodes=auto | nodes=off) set_nodes=$2 ;;
	nodes=*) is_safe_path "$2" && set_nodes=$2 ;;
	memory=*) is_size "$2" && set_memory=$2 ;;
	nvme=*:*) is_safe_path "${2%:*}" && is_size "${2##*:}" && set_nvme=$2 ;;
	scontrol=*) is_safe_path "$2" && set_scontrol=$2 ;;
	history=off) set_history= ;;
	history=*) is_safe_path "$2" && set_history=$2 ;;
	*) return 1 ;;
	esac
}

# parse_settings: lines "key = value" and comments from standard input; a wrong one is named in
# $settings_fault.
parse_settings() {
	local line count=0
	while IFS= read -r line || [[ -n $line ]]; do
		settings_fault="line $((++count)) is none of ours"
		((count <= settings_lines_max)) || return 1
		line=${line%%#*}
		[[ $line =~ ^[[:blank:]]*$ ]] && continue
		[[ $line =~ ^[[:blank:]]*([a-z]+)[[:blank:]]*=[[:blank:]]*([^[:blank:]]+)[[:blank:]]*$ ]] ||
			return 1
		set_one "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" || return 1
	done
}

# read_settings FILE: read, never run.  Without the file the defaults above hold.  Status 1 when
# the file cannot be trusted or has a line that is none of ours: an administrator who mistyped
# "enable = off" did not want it on.
# shellcheck disable=SC2034 # who sources this says it
read_settings() {
	settings_fault='wrong owner or mode'
	[[ -e $1 || -L $1 ]] || return 0
	# A named pipe would not answer.
	[[ -f $1 && -r $1 ]] || return 1
	is_trusted "${1%/*}/" && is_trusted "$1" && parse_settings <"$1"
}

# bounded SECONDS FUNCTION ARGUMENT...: what the function writes, if it succeeds within that
# time, else nothing.  Does not wait for one that is stuck: a dead file system keeps even a
# killed process.  The function runs in a subshell without our standard output.
bounded() {
	local limit=$1 result='' status=0 from
	shift
	exec {from}< <("$@" 2>/dev/null && printf '\001')
	IFS= read -r -d '' -t "$limit" result <&"$from" || status=$?
	exec {from}<&-
	((status <= 128)) || kill -KILL "$!" || :
	[[ $result == *$'\001' ]] || return 1
	printf '%s' "${result%$'\001'}"
}

# cluster_place UID JOB: the directory of the job's cluster (tsrun cluster), in the user's home, which
# all of its nodes have in common.
cluster_place() {
	local entry home
	is_number "$2" || return 1
	entry=$(timeout -s KILL 3 getent passwd "$1") || return 1
	IFS=: read -r _ _ _ _ _ home _ <<<"$entry"
	is_safe_path "$home" && printf '%s' "$home/.cache/tsshim/slurm-$2"
}

# job_nodes: the nodes of the job, as Slurm writes them.  A prolog of 22.05 has the older name only.
job_nodes() {
	printf '%s' "${SLURM_JOB_NODELIST:-${SLURM_NODELIST-}}"
}

# is_of_several LIST: of nodes.  A job on one node needs no server.
is_of_several() {
	[[ $1 == *[[,]* ]]
}

# as_user UID GID SECONDS COMMAND...: with an empty environment.  A slurmd that is not root has
# the jobs of one user only.
as_user() {
	local uid=$1 gid=$2 seconds=$3 become=()
	shift 3
	[[ $EUID == "$uid" ]] ||
		become=(setpriv --reuid "$uid" --regid "$gid" --clear-groups --)
	timeout -s KILL "$seconds" "${become[@]}" env -i PATH="$PATH" "$@"
}

# log TEXT: for the administrator; on the terminal as well, for one that tries a script by hand.
log() {
	timeout -s KILL 2 logger -t tsshim -p daemon.warning -- "$1" >/dev/null 2>&1 || :
	[[ -z $terminal ]] || printf 'tsshim: %s\n' "$1" >"$terminal" || :
}

# first_line TEXT: what tsrun said, without its hints.
first_line() {
	local line=${1%%$'\n'*}
	line=${line#tsrun: }
	is_text "$line" && [[ $line ]] || line='tsrun cluster up gave no answer in time'
	printf '%.300s' "$line"
}

# node_name: of this node, as Slurm writes it; names a file of ours.
node_name() {
	local name=${SLURMD_NODENAME-}
	[[ $name =~ ^[A-Za-z0-9_.-]{1,64}$ ]] || name=$(uname -n)
	printf '%s' "$name"
}
