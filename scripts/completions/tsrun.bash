# SPDX-License-Identifier: MIT
# bash completion of tsrun; tests/e2e/tsrun_docs.py compares the options with `tsrun --help`.

_tsrun_groups()
{
	local path name start
	# Only groups of the own namespaces: tsrun shows no others.
	start=/dev/shm/tsshim.$(id -u).$(stat -L -c %i /proc/self/ns/user)-$(stat -L -c %i /proc/self/ns/pid).
	for path in "$start"*.ledger; do
		[ -e "$path" ] || continue
		name=${path#"$start"}
		printf '%s\n' "${name%.ledger}"
	done
}

_tsrun_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_tsrun()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local mode=run i=1 joined=
	local settings="--group --dataset --share --align --align-orders --ignore --epoch --order --record --replay \
		--ring --keep --stage --stage-size --stage-metadata --cluster --across --locality --copies --verify --events \
		--summary"

	# bash splits --ring=1G at the '=', which may be the last word so far.
	if [[ $current == = ]]; then
		current=
		joined=yes
	elif [[ $previous == = ]] && ((COMP_CWORD > 2)); then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
		joined=yes
	fi

	COMPREPLY=()
	case ${COMP_WORDS[1]-} in
	stats | gc | doctor | top | config | report | explain | cluster)
		if ((COMP_CWORD > 1)); then
			mode=${COMP_WORDS[1]}
			i=2
		fi
		;;
	esac

	# Behind the options stands another command, which completes as it does alone.
	while [[ $mode == run || $mode == doctor ]] && ((i < COMP_CWORD)); do
		case ${COMP_WORDS[i]} in
		--)
			((i++))
			break
			;;
		--group | --dataset | --share | --ignore | --epoch | --order | --record | --replay | --ring | --keep | --stage | --stage-size | --stage-metadata | --cluster | --across | --copies | --verify) ((i += 2)) ;;
		-*) ((i++)) ;;
		*) break ;;
		esac
		[[ ${COMP_WORDS[i - 1]} != = ]] || ((i++)) # --ring=1G
		[[ ${COMP_WORDS[i]-} != = ]] || ((i += 2)) # --align=1, --dataset=NAME=DIR
	done
	if [[ $mode == run || $mode == doctor ]] &&
		((i < COMP_CWORD || (i == COMP_CWORD && i > 1))) &&
		[[ $current != -* || ${COMP_WORDS[i - 1]} == -- ]] &&
		[[ $previous != --group && $previous != --dataset && $previous != --share && \
			$previous != --ignore && $previous != --epoch && $previous != --order && $previous != --record && \
			$previous != --replay && $previous != --ring && $previous != --keep && \
			$previous != --stage && \
			$previous != --stage-size && $previous != --stage-metadata && $previous != --cluster && $previous != --across && $previous != --copies && \
			$previous != --verify ]]; then
		if declare -F _command_offset >/dev/null; then
			_command_offset "$i"
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
		fi
		return
	fi

	case $previous in
	--group)
		_tsrun_words "$(_tsrun_groups)" "$current"
		return
		;;
	--share)
		_tsrun_words "auto samples pixels off" "$current"
		return
		;;
	--nodes)
		mapfile -t COMPREPLY < <(compgen -W auto -f -- "$current")
		return
		;;
	--dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$current")
		return
		;;
	--memory)
		_tsrun_words "4G 16G 64G 256G" "$current"
		return
		;;
	--record | --replay | --output | --events)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	--order)
		_tsrun_words "strict free" "$current"
		return
		;;
	--ring)
		_tsrun_words "512M 1G 2G 4G 8G 0" "$current"
		return
		;;
	--keep)
		_tsrun_words "10min 2h 1d 0" "$current"
		return
		;;
	--stage)
		_tsrun_words "off auto shm" "$current"
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current")
		return
		;;
	--stage-size)
		_tsrun_words "4G 16G 64G 256G 0" "$current"
		return
		;;
	--stage-metadata)
		_tsrun_words "0 60 600 3600" "$current"
		return
		;;
	--cluster)
		mapfile -t COMPREPLY < <(compgen -d -- "$current")
		return
		;;
	--across)
		_tsrun_words "nodes off" "$current"
		return
		;;
	--copies)
		_tsrun_words "auto off" "$current"
		return
		;;
	--verify)
		_tsrun_words "0 0.1 1 100" "$current"
		return
		;;
	--align)
		if [[ $joined ]]; then
			_tsrun_words "0 off" "$current"
			return
		fi
		;;
	--delay)
		_tsrun_words "1 2 10 60" "$current"
		return
		;;
	--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$(id -u)" -o pid= 2>/dev/null)" -- "$current")
		return
		;;
	--dataset | --ignore | --epoch | --count | --self | --nvme) return ;;
	esac

	case $mode in
	stats) _tsrun_words "--group --json --prometheus --verbose --reset --output --help" "$current" ;;
	gc) _tsrun_words "--group --dry-run --help" "$current" ;;
	doctor) _tsrun_words "--json --help" "$current" ;;
	top) _tsrun_words "--group --json --batch --count --delay --help" "$current" ;;
	config) _tsrun_words "$settings --json --help" "$current" ;;
	report)
		_tsrun_words "--group --output --help" "$current"
		[[ $current == -* ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
		;;
	cluster)
		_tsrun_words "--dir --nodes --self --memory --nvme --no-tls --json --help" "$current"
		[[ $current == -* ]] || _tsrun_words "up down status" "$current"
		;;
	explain) _tsrun_words "--group --json --pid --help" "$current" ;;
	run)
		_tsrun_words "$settings --help --version" "$current"
		if [[ $current != -* ]]; then
			local words
			mapfile -t words < <(compgen -W "stats gc doctor top config report explain cluster" -- "$current")
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
			COMPREPLY+=("${words[@]}")
		fi
		;;
	esac
}

complete -F _tsrun tsrun
