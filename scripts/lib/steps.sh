# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# The steps of scripts/test. Each is a function step_<name>, '-' written as '_', that prints
# what it found and returns 0 or 1; scripts/test captures the output.
#
# A step says how many tests it ran through note_counts.

: "${root:?}" "${PYTHON:?}"

jobs=$(nproc)
counts= # file of the numbers of tests; set by scripts/test, as are the next two
work=   # directory for files of a moment
step=   # name of the step that runs

# note_counts PASSED FAILED SKIPPED [LEFT]: added up by scripts/test for the closing line; LEFT are
# those that are left to --whole.
note_counts() {
	printf '%s %s %s %s\n' "$1" "$2" "$3" "${4:-0}" >>"$counts"
}

# skip_step WHY: what cannot be had here, which is a failure where nothing may be skipped.
skip_step() {
	echo "SKIPPED: $1"
	note_counts 0 0 1
	[ "${TSSHIM_TEST_MUST:-0}" = 0 ]
}

# run_suite BUILD SUITE [MESON TEST OPTIONS...]: a suite in which nothing ran has failed.  The step
# build has made all of build-test; elsewhere Meson builds what the suite needs, and no more.  The
# programs of SUITE-whole run with --whole only.
run_suite() {
	suite_build=$root/$1
	suite=$2
	made=
	[ "$1" != build-test ] || made=--no-rebuild
	shift 2
	base=log-$suite-$step
	rm -f "$suite_build/meson-logs/$base"*.junit.xml
	result=0
	left=0
	if [ "${TSSHIM_TEST_WHOLE:-0}" = 1 ]; then
		set -- --suite "$suite-whole" "$@"
	else
		left=$("$(ts_meson)" test -C "$suite_build" --list --suite "$suite-whole" 2>/dev/null | grep -c ' / ') || :
	fi
	"$(ts_meson)" test -C "$suite_build" ${made:+"$made"} --print-errorlogs \
		--suite "$suite" --logbase "$base" "$@" || result=1
	# Meson puts the name of a wrapper behind that of the log.
	junit=$(find "$suite_build/meson-logs" -name "$base*.junit.xml" | head -n 1)
	if [ -z "$junit" ]; then
		echo "no test ran in suite $suite"
		return 1
	fi
	# shellcheck disable=SC2046 # four numbers
	set -- $("$PYTHON" "$root/scripts/lib/count_tests.py" "$junit")
	note_counts "$1" "$2" "$3" $(($4 + left))
	[ $(($1 + $2)) -gt 0 ] || {
		echo "no test ran in suite $suite"
		return 1
	}
	if [ "$3" -gt 0 ] && [ "${TSSHIM_TEST_MUST:-0}" != 0 ]; then
		echo "$3 tests of suite $suite were skipped, and TSSHIM_TEST_MUST is set"
		return 1
	fi
	return "$result"
}

# A suite that may be empty: marks on tests of other suites.
run_marked() {
	"$(ts_meson)" test -C "$root/$1" --list --suite "$2" 2>/dev/null | grep -q ' / ' ||
		return 0
	run_suite "$@"
}

sources() {
	git -C "$root" ls-files --cached --others --exclude-standard -- "$@" |
		while IFS= read -r name; do
			[ ! -f "$root/$name" ] || printf '%s\n' "$name"
		done
}

step_build() {
	(ts_build build-test -Dtests=enabled -Dtools=enabled -Dwerror=true)
}

step_unit() {
	run_suite build-test unit
}

step_cli() {
	run_suite build-test cli
}

step_abi() {
	run_suite build-test abi
}

# How much of a caller's stack is used: the library is compiled once more for it.
step_stack() {
	run_suite build-test stack
}

step_models() {
	run_suite build-test models
}

step_stress() {
	run_suite build-test stress
}

step_fuzz() {
	run_suite build-test fuzz
}

# A Slurm in namespaces.  Of its scenes those that take a minute, or all that there are where it is named.
step_site() {
	# shellcheck disable=SC2154 # set by scripts/test
	if is_one_of site "$wanted"; then
		TSSHIM_TEST_WHOLE=1 run_suite build-test site
	else
		run_suite build-test site
	fi
}

step_storage() {
	# Readers of data sets, from `scripts/deps test`.
	TSSHIM_TEST_READERS=${TSSHIM_TEST_READERS:-$ts_cache/readers/bin/python}
	# A server of S3, from `scripts/deps storage`.
	TSSHIM_TEST_MOTO=${TSSHIM_TEST_MOTO:-$ts_cache/moto}
	export TSSHIM_TEST_READERS TSSHIM_TEST_MOTO
	run_suite build-test storage
}

# With a driver in software; nothing here is about a GPU.
step_cuda() {
	wheel_python
	run_suite build-test cuda
}

# Only by name: on a machine without a GPU all of it is skipped, loudly.
step_gpu() {
	if ! "$PYTHON" -c 'import ctypes; assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0' 2>/dev/null; then
		skip_step "this machine has no GPU, or no driver for it"
		return
	fi
	run_suite build-test gpu
}

# The current Pillow wheel brings its own libjpeg; scripts/deps puts it there.
wheel_python() {
	TSSHIM_TEST_WHEEL_PYTHON=${TSSHIM_TEST_WHEEL_PYTHON:-$ts_cache/venv/bin/python}
	# The current torch, if `scripts/deps pypi` has put it there; tests that want it say so.
	TSSHIM_TEST_PYPI_PYTHON=${TSSHIM_TEST_PYPI_PYTHON:-$ts_cache/pypi/bin/python}
	# Likewise the programs of others, from `scripts/deps programs`.
	TSSHIM_TEST_PROGRAMS=${TSSHIM_TEST_PROGRAMS:-$ts_cache/programs}
	# What pipelines load data with, from `scripts/deps corpus`.
	TSSHIM_TEST_CORPUS_PYTHON=${TSSHIM_TEST_CORPUS_PYTHON:-$ts_cache/corpus/bin/python}
	export TSSHIM_TEST_WHEEL_PYTHON TSSHIM_TEST_PYPI_PYTHON TSSHIM_TEST_PROGRAMS
	# What sweeps are started with, from `scripts/deps sweeps`.
	TSSHIM_TEST_SWEEPS=${TSSHIM_TEST_SWEEPS:-$ts_cache/sweeps}
	# Releases of WebDataset, and what they need, from `scripts/deps test`.
	TSSHIM_TEST_STREAMS=${TSSHIM_TEST_STREAMS:-$ts_cache/webdataset}
	TSSHIM_TEST_READERS=${TSSHIM_TEST_READERS:-$ts_cache/readers/bin/python}
	export TSSHIM_TEST_STREAMS TSSHIM_TEST_READERS
	# Releases of Debian, from `scripts/deps roots`.
	TSSHIM_TEST_ROOTS=${TSSHIM_TEST_ROOTS:-$ts_cache/roots}
	export TSSHIM_TEST_CORPUS_PYTHON TSSHIM_TEST_SWEEPS TSSHIM_TEST_ROOTS
}

# One test more than processors at a time: many wait for others, for a signal or for time to go on.
step_e2e() {
	wheel_python
	run_suite build-test e2e --num-processes $((jobs + 1))
}

step_e2e_long() {
	wheel_python
	run_suite build-test e2e-long
}

# The tests of other suites that are marked as quick as well.
step_quick() {
	run_marked build-test quick
}

# forked_criterion BUILD: the directory of the stand-in for Criterion's library, tests/unit/forked,
# if a program of the build takes it: one of another soname would be passed over without a word.
forked_criterion() {
	forked=$root/$1/tests/unit/forked
	if ! LD_LIBRARY_PATH=$forked ldd "$root/$1/tests/unit/leader/unit_leader" | grep -q "=> $forked/"; then
		echo "the unit tests do not take the stand-in for Criterion's library" >&2
		return 1
	fi
	echo "$forked"
}

# Everything that runs in a process of its own; what is preloaded into a foreign program
# cannot bring a sanitizer along.
step_asan() {
	# With the usual optimization compiling takes half as long again, and tests hardly less.
	(ts_configure build-asan -Dtests=enabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1) || return 1
	ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
	export ASAN_OPTIONS UBSAN_OPTIONS
	failed=0
	# Two tests of RLIMIT_AS cannot run in a sanitizer's address space; they ran before.
	(
		# As in step_valgrind; what is not built yet cannot be looked at.
		ninja -C "$root/build-asan" tests/unit/leader/unit_leader tests/unit/forked/libcriterion.so.3 &&
			LD_LIBRARY_PATH=$(forked_criterion build-asan) || exit 1
		TSSHIM_TEST_MUST=0
		export LD_LIBRARY_PATH
		run_suite build-asan unit --timeout-multiplier 4
	) || failed=1
	run_suite build-asan fuzz --timeout-multiplier 4 || failed=1
	run_suite build-asan stress --timeout-multiplier 4 || failed=1
	run_marked build-asan sanitize --timeout-multiplier 4 || failed=1
	return "$failed"
}

# ThreadSanitizer wants its fixed address ranges free, which newer kernels do not promise.
step_tsan() {
	(ts_configure build-tsan -Dtests=enabled -Db_sanitize=thread -Db_lundef=false) || return 1
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
	export TSAN_OPTIONS
	if setarch "$(uname -m)" -R true 2>/dev/null; then
		run_suite build-tsan stress --timeout-multiplier 8 \
			--wrapper "setarch $(uname -m) -R"
	else
		run_suite build-tsan stress --timeout-multiplier 8
	fi
}

# The tests in forks of one process for each program: valgrind takes most of a second to start, and
# Criterion starts a program anew for each test.  A few tests look at what valgrind replaces (vfork,
# /proc); they say so and are skipped here, having run in the unit step.  What OpenSSL computes with
# the processor's instructions for AES and GCM counts as unknown to it, so it takes those of all.
step_valgrind() {
	(
		TSSHIM_TEST_VALGRIND=1 TSSHIM_TEST_MUST=0
		LD_LIBRARY_PATH=$(forked_criterion build-test) || exit 1
		OPENSSL_ia32cap='~0x200000200000000' # OPENSSL_ia32cap(3): PCLMULQDQ and AESNI
		export TSSHIM_TEST_VALGRIND TSSHIM_TEST_MUST LD_LIBRARY_PATH OPENSSL_ia32cap
		run_suite build-test unit --timeout-multiplier 20 --wrapper \
			'valgrind -q --trace-children=yes --error-exitcode=99 --leak-check=no'
	)
}

# Compiled for AArch64, and with --whole the unit tests in an emulator of one: in forks of one process,
# for it starts no programs.  It runs on this processor's order of memory accesses, so what it finds
# are faults of other kinds.  A few tests look at what it replaces, as in step_valgrind.
step_aarch64() {
	if ! "$root/scripts/deps" aarch64; then
		skip_step "there is nothing to compile with for AArch64 (scripts/deps aarch64)"
		return
	fi
	# shellcheck disable=SC2046 # two words
	(ts_configure build-aarch64 $(ts_cross_files) -Dtests=enabled -Dtools=enabled -Dwerror=true) || return 1
	[ "${TSSHIM_TEST_WHOLE:-0}" = 1 ] || {
		ninja -C "$root/build-aarch64" libtsshim.so tsshim-stager shim/tsrun/tsrun
		return
	}
	ninja -C "$root/build-aarch64" || return 1
	(
		LD_LIBRARY_PATH=$root/build-aarch64/tests/unit/forked
		TSSHIM_TEST_EMULATED=1 TSSHIM_TEST_MUST=0
		export LD_LIBRARY_PATH TSSHIM_TEST_EMULATED TSSHIM_TEST_MUST
		run_suite build-aarch64 unit --timeout-multiplier 10
	)
}

# A second compiler, for what it warns of; nothing of it is run.  Meson takes ccache by itself for a
# compiler that it has chosen itself.
step_clang() {
	(CC="ccache clang" ts_build build-clang -Dtests=enabled -Dwerror=true -Doptimization=0 -Ddebug=false)
}

step_clang_tidy() {
	(CC="ccache clang" ts_configure build-clang -Dtests=enabled -Dwerror=true -Doptimization=0 -Ddebug=false) || return 1
	sources 'shim/*.c' 'leader/*.c' 'hooks/*.c' >"$work/tidy"
	mkdir -p "$ts_cache/tidy"
	find "$ts_cache/tidy" -type f -mtime +60 -delete
	(cd "$root" && xargs -P "$jobs" -n 4 scripts/lib/tidy.sh build-clang "$ts_cache/tidy" <"$work/tidy")
}

step_cppcheck() {
	(cd "$root" && cppcheck -q -j "$jobs" --std=c11 --enable=warning,portability,performance \
		--inline-suppr --suppress=missingInclude --suppress=missingIncludeSystem \
		--error-exitcode=1 -D__x86_64__ -D__linux__ '-DElfW(type)=Elf64_##type' \
		'-DTS_LIBRARY_FROM_BINDIR=""' -I . shim leader hooks)
}

step_shellcheck() {
	sources scripts .ci tests | while IFS= read -r name; do
		case $name in
		*.sh | *.bash) printf '%s\n' "$name" ;;
		*) head -n 1 "$root/$name" | grep -aqE '^#!.*[ /](ba)?sh( -p)?$' && printf '%s\n' "$name" ;;
		esac
	done >"$work/shell"
	(cd "$root" && xargs shellcheck -x <"$work/shell")
}

# Names that are not defined, above all.  A line that has to look wrong says so: noqa.
step_pyflakes() {
	sources '*.py' >"$work/python"
	(cd "$root" && xargs /usr/bin/python3 -m pyflakes <"$work/python") >"$work/flakes" || :
	wrong=
	while IFS=: read -r file line what; do
		sed -n "${line}p" "$root/$file" | grep -q noqa && continue
		echo "$file:$line:$what"
		wrong=yes
	done <"$work/flakes"
	[ -z "$wrong" ] && /usr/bin/python3 -m pyflakes --version
}

step_codespell() {
	sources '*.c' '*.h' '*.def' '*.py' '*.sh' '*.md' '*.build' '*.pml' scripts .ci >"$work/spell"
	(cd "$root" && xargs codespell -L 'ans,bu,inout,mis,nd,te,fo' <"$work/spell")
}

# Long sentences in the documents, and those without a named subject.
step_prose() {
	result=0
	/usr/bin/python3 "$root/tests/structure/prose.py" >"$work/prose" || result=1
	cat "$work/prose"
	note_counts "$(grep -c '^ok ' "$work/prose")" "$(grep -c '^not ok ' "$work/prose")" 0
	return "$result"
}

step_format() {
	sources '*.c' '*.h' >"$work/format"
	# Versions disagree in details; .clang-format is written for 14.
	formatter=$(command -v clang-format-14 || command -v clang-format) || return 1
	(cd "$root" && xargs "$formatter" --dry-run -Werror <"$work/format")
}

# Licence lines, blanks at line ends, and that Python at least parses.
step_style() {
	failed=0
	sources '*.c' '*.h' '*.def' '*.py' '*.sh' scripts >"$work/style"
	while IFS= read -r name; do
		head -n 3 "$root/$name" | grep -q 'SPDX-License-Identifier: MIT' ||
			case $name in
			*.yaml) ;;
			*)
				echo "$name: no SPDX line"
				failed=1
				;;
			esac
	done <"$work/style"
	cd "$root" || return 1
	! xargs grep -nE '[[:blank:]]+$' <"$work/style" || failed=1
	grep '\.py$' "$work/style" | xargs "$PYTHON" -c 'import ast, sys
for name in sys.argv[1:]: ast.parse(open(name).read(), name)' || failed=1
	return "$failed"
}

# Every header compiles alone, and twice.
step_headers() {
	sources 'shim/*.h' 'leader/*.h' 'hooks/*.h' >"$work/headers"
	# shellcheck disable=SC2016 # for the inner shell
	xargs -P "$jobs" -n 8 sh -c 'failed=0
		for name in "$@"; do
			printf "#include \"%s\"\n#include \"%s\"\n" "$name" "$name" |
				cc -fsyntax-only -std=gnu11 -D_GNU_SOURCE -Wall -Wextra \
				-Wno-unused-parameter -Werror -I "$0" -x c - || {
				echo "$name does not stand alone"
				failed=1
			}
		done
		exit "$failed"' "$root" <"$work/headers"
}

# Circles between files, arrows that lead the wrong way, and names of files that are not there.
step_structure() {
	result=0
	"$PYTHON" "$root/tests/structure/structure.py" >"$work/structure" || result=1
	"$PYTHON" "$root/tests/structure/docs.py" >>"$work/structure" || result=1
	"$PYTHON" "$root/tests/structure/notes.py" >>"$work/structure" || result=1
	"$PYTHON" "$root/tests/structure/tables.py" >>"$work/structure" || result=1
	cat "$work/structure"
	note_counts "$(grep -c '^ok ' "$work/structure")" "$(grep -c '^not ok ' "$work/structure")" 0
	return "$result"
}

# What a user does first.
step_demo() {
	"$root/scripts/demo" --count 80 --epochs 1 --jobs 3 || return
	"$root/scripts/demo" --count 80 --epochs 1 --jobs 2 --speeds
}

# That benchmarks run, of each subject one, or with --whole all; two jobs show it as well as four.
step_bench() {
	if [ "${TSSHIM_TEST_WHOLE:-0}" = 1 ]; then
		"$root/scripts/bench" --quick --jobs 2
	else
		"$root/scripts/bench" --quick --jobs 2 once unrelated handover bring
	fi
}

# The table of `scripts/test --changed` names every file and every step that there are.
step_changes() {
	# shellcheck disable=SC2154 # set by scripts/test
	"$PYTHON" "$root/scripts/lib/changes.py" --check "$all_steps"
}

# No ring and nothing that goes with one outlives its last process; $work/shm was noted before the
# first test.
step_leftovers() {
	"$PYTHON" "$root/scripts/lib/leftovers.py" since "$work/shm"
}
