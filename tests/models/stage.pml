/* SPDX-License-Identifier: MIT */
/*
 * The making of one copy of a file, as leader/files/stage.h describes it, for Spin.
 *
 * Some processes open the same file.  Each looks for the finished copy, else opens the .part
 * (making it), tries its lock, looks at the names again, fills it in two steps, and renames; or
 * finds the lock taken and looks again, or gives up and reads the original.  A step may fail,
 * upon which the holder removes the .part.  NCRASH processes die anywhere, and the kernel drops
 * their locks.
 *
 * Files are inodes; a name is the inode it leads to, 0 for none.  What must hold: a finished
 * copy is complete and never written again, and what is counted as taken is what there is.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef NP
#define NP 3
#endif
#ifndef NI
#define NI 5 /* inodes; 0 is none */
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NFAIL
#define NFAIL 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

byte final_name, part_name; /* inodes */
byte locked_by[NI];         /* process + 1, by inode: flock(2) is the open file's */
byte filled[NI];            /* 0, 1: half, 2: all of it */
bool sized[NI];             /* has its size, so it was admitted */
bool used_up[NI];
byte admitted;              /* copies counted in the index */
byte lost;                  /* counted by processes that died at a step that does not show */
byte crashes, failures;

/* The next inode that was never used; the model ends where there is none. */
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

inline release(i)
{
	if
	:: locked_by[i] == _pid + 1 -> locked_by[i] = 0
	:: else
	fi
}

/* Dies here: the kernel closes what it had open. */
#define MAY_DIE                                                                            \
	if                                                                                 \
	:: atomic { crashes < NCRASH -> crashes++; release(mine); goto done }              \
	:: skip                                                                            \
	fi

inline remove_part()
{
	part_name = 0
}

proctype opener()
{
	byte mine = 0, tries = 0;

look:
	atomic {
		tries++;
		if
		:: final_name != 0 ->
			/* What is given out: all of it. */
			assert(filled[final_name] == 2);
			goto done
		:: final_name == 0 && tries > TRIES -> goto done /* reads the original */
		:: else
		fi
	}
	/* O_CREAT */
	atomic {
		if
		:: part_name == 0 -> new_inode(mine); part_name = mine
		:: else -> mine = part_name
		fi
	}
	MAY_DIE;
	/* flock, without waiting */
	atomic {
		if
		:: locked_by[mine] == 0 -> locked_by[mine] = _pid + 1
		:: else -> mine = 0; goto look
		fi
	}
	MAY_DIE;
	/* Still what the name says? */
	atomic {
		if
		:: MUTANT != 21 && part_name != mine -> release(mine); mine = 0; goto look
		:: else
		fi
	}
	/* Finished meanwhile? */
	atomic {
		if
		:: MUTANT != 22 && final_name != 0 ->
			remove_part(); release(mine); mine = 0; goto look
		:: else
		fi
	}
	/* Room: counted first, then shown by the size. */
	if
	:: sized[mine] && MUTANT != 23 -> goto fill
	:: else -> admitted++
	fi;
	if
	:: atomic { crashes < NCRASH -> crashes++; lost++; release(mine); goto done }
	:: skip
	fi;
	sized[mine] = true;
	MAY_DIE;
fill:
	atomic { assert(mine != final_name); filled[mine] = 1 }
	MAY_DIE;
	if
	:: atomic { failures < NFAIL -> failures++ }
		/* The original changed, or could not be read. */
		if
		:: MUTANT == 25 -> release(mine)
		:: else
		fi;
		remove_part();
		if
		:: atomic { crashes < NCRASH -> crashes++; lost++; release(mine); goto done }
		:: skip
		fi;
		admitted--;
		atomic { release(mine); mine = 0; goto look }
	:: skip
	fi;
	if
	:: MUTANT != 24 -> atomic { assert(mine != final_name); filled[mine] = 2 }
	:: else
	fi;
	MAY_DIE;
	/* By name, so it is whatever has it now. */
	atomic {
		assert(final_name == 0);
		final_name = part_name;
		part_name = 0
	}
	MAY_DIE;
	atomic { release(mine); mine = 0; goto look }
done:
	skip
}

init {
	byte i = 0, there = 0;

	atomic {
		do
		:: i < NP -> run opener(); i++
		:: else -> break
		od
	}
	_nr_pr == 1;
	/* A .part that nobody has finished shows its room; so does the copy. */
	if
	:: final_name != 0 -> there++
	:: else
	fi;
	if
	:: part_name != 0 && sized[part_name] -> there++
	:: else
	fi;
	assert(admitted == there + lost)
}
