/* SPDX-License-Identifier: MIT */
/*
 * The copying of one large file in the background, as leader/files/stager.h describes it, for Spin.
 *
 * Jobs open the same file, find no copy, lock the .part, take room, start a stager that gets
 * the locked descriptor, and go on; some open it again.  A stager joins the group, looks whether
 * the name still is its file's, copies the chunks that are missing, raises the mark behind each,
 * looks at the original, cuts the mark off, and renames.  NCRASH processes die anywhere, and the
 * kernel closes what they had open: the lock is free when nobody has the locked descriptor any
 * more.  The original may change once; what is read of it then is BAD.  A job may end at any
 * time, and with the last member everything that has a name goes.
 *
 * Files are inodes; a name is the inode it leads to, 0 for none.  What must hold: a copy that
 * somebody is given is all there and was read before the change, is never written again, and
 * what is counted as taken is what there is.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NI
#define NI 5 /* inodes; 0 is none */
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NCHANGE
#define NCHANGE 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define CHUNKS 2
#define ALL    3 /* a bit for each */

#define NEW     0
#define GROWING 1
#define FILLED  2

byte final_name, part_name; /* inodes */
byte holders[NI];           /* processes that have the locked descriptor open */
byte size[NI];              /* NEW, GROWING, FILLED */
byte mark[NI];              /* chunks that are said to be there */
byte have[NI];              /* chunks that are there */
bool bad[NI];               /* one of them was read of a changed original */
bool used_up[NI];
bool changed;
byte members, admitted, lost, crashes;

inline new_inode(i)
{
	i = 1;
	do
	:: i < NI && used_up[i] -> i++
	:: else -> break
	od;
	i < NI;
	used_up[i] = true
}

/* What has no name and is open nowhere is gone, and its number may come back. */
inline collect()
{
	byte k = 1;
	do
	:: k < NI ->
		if
		:: k != final_name && k != part_name && holders[k] == 0 ->
			size[k] = NEW; mark[k] = 0; have[k] = 0; bad[k] = false;
			used_up[k] = false
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

/* The group ends: with its last member, or found without one by who comes next. */
inline wipe()
{
	part_name = 0;
	final_name = 0;
	admitted = 0;
	lost = 0
}

inline join()
{
	if
	:: members == 0 -> wipe()
	:: else
	fi;
	members++
}

inline leave()
{
	members--;
	if
	:: members == 0 -> wipe()
	:: else
	fi
}

proctype stager(byte mine)
{
	bool member = false;

	if
	:: atomic { crashes < NCRASH -> crashes++; goto dead }
	:: skip
	fi;
	atomic {
		if
		:: MUTANT != 43 -> join(); member = true
		:: else
		fi
	}
	if
	:: MUTANT != 41 && part_name != mine -> goto leaves
	:: else
	fi;
	do
	:: atomic { crashes < NCRASH -> crashes++; goto dead }
	:: size[mine] == GROWING && mark[mine] < CHUNKS ->
		if
		:: MUTANT == 42 -> mark[mine]++
		:: else
		fi;
		if
		:: atomic { crashes < NCRASH -> crashes++; goto dead }
		:: skip
		fi;
		/* With the mark raised first, the chunk is the one before it. */
		atomic {
			assert(mine != final_name);
			have[mine] = have[mine] |
				(1 << (MUTANT == 42 -> mark[mine] - 1 : mark[mine]));
			bad[mine] = bad[mine] || changed
		}
		if
		:: atomic { crashes < NCRASH -> crashes++; goto dead }
		:: skip
		fi;
		if
		:: MUTANT != 42 -> mark[mine]++
		:: else
		fi
	:: size[mine] == GROWING && (mark[mine] == CHUNKS || MUTANT == 46) ->
		size[mine] = FILLED
	:: size[mine] == FILLED -> break
	:: MUTANT != 43 && members == 1 -> goto leaves /* nobody is left to make it for */
	od;
	/* A fresh look at the original. */
	if
	:: MUTANT != 45 && changed ->
		atomic {
			if
			:: part_name == mine -> part_name = 0
			:: else
			fi
		}
		if
		:: atomic { crashes < NCRASH -> crashes++; lost++; goto dead }
		:: skip
		fi;
		admitted--;
		goto leaves
	:: else
	fi;
	if
	:: atomic { crashes < NCRASH -> crashes++; goto dead }
	:: skip
	fi;
	/* By name, so it is whatever has it now. */
	atomic {
		assert(final_name == 0 || part_name == 0);
		if
		:: part_name != 0 -> final_name = part_name; part_name = 0
		:: else
		fi
	}
leaves:
	atomic {
		/* Said, so it is free even where somebody else has the descriptor as well. */
		holders[mine] = 0;
		if
		:: member -> leave()
		:: else
		fi;
		collect();
		goto done
	}
dead:
	atomic {
		if
		:: holders[mine] > 0 -> holders[mine]--
		:: else
		fi;
		if
		:: member -> members--
		:: else
		fi;
		collect()
	}
done:
	skip
}

proctype job()
{
	byte mine = 0, tries = 0;
	bool old = false; /* the file was opened before it changed */

	atomic { join(); old = !changed }
look:
	atomic {
		tries++;
		if
		/* A changed original has another name. */
		:: tries > TRIES || !old -> goto leaves
		:: else
		fi;
		if
		:: final_name != 0 ->
			assert(have[final_name] == ALL && !bad[final_name]);
			goto leaves
		:: else
		fi
	}
	/* O_CREAT, flock, and the look at both names, which stage.pml has step by step. */
	atomic {
		if
		:: part_name == 0 -> new_inode(mine); part_name = mine
		:: else -> mine = part_name
		fi;
		if
		:: holders[mine] != 0 -> mine = 0; goto look
		:: holders[mine] == 0 && final_name != 0 ->
			part_name = 0; mine = 0; collect(); goto look
		:: else -> holders[mine] = 1
		fi
	}
	if
	:: atomic { crashes < NCRASH -> crashes++; goto dead }
	:: skip
	fi;
	if
	:: size[mine] == NEW || MUTANT == 47 ->
		admitted++;
		if
		:: atomic { crashes < NCRASH -> crashes++; lost++; goto dead }
		:: skip
		fi;
		size[mine] = (size[mine] == NEW -> GROWING : size[mine])
	:: else
	fi;
	if
	:: atomic { crashes < NCRASH -> crashes++; goto dead }
	:: skip
	fi;
	/* The lock is the stager's now.  Until it is closed here, a dead stager's stays: that is
	 * only later. */
	atomic {
		if
		:: MUTANT == 44 -> holders[mine] = 0
		:: else
		fi;
		run stager(mine);
		mine = 0;
		goto look
	}
dead:
	atomic {
		if
		:: mine != 0 && holders[mine] > 0 -> holders[mine]--
		:: else
		fi;
		members--;
		mine = 0;
		collect();
		goto done
	}
leaves:
	atomic { leave(); collect() }
done:
	skip
}

proctype writer()
{
	if
	:: NCHANGE > 0 -> changed = true
	:: skip
	fi
}

init {
	byte i = 0, there = 0;

	/* A member that is no job of this model's keeps the group, or not. */
	atomic {
		if
		:: members = 1
		:: skip
		fi;
		run writer();
		do
		:: i < NP -> run job(); i++
		:: else -> break
		od
	}
	_nr_pr == 1;
	if
	:: final_name != 0 -> there++
	:: else
	fi;
	if
	:: part_name != 0 && size[part_name] != NEW -> there++
	:: else
	fi;
	assert(admitted == there + lost)
}
