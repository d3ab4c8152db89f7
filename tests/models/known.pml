/* SPDX-License-Identifier: MIT */
/*
 * What is known of one buffer in pinned memory, as hooks/cuda/places.h describes it, for Spin.
 *
 * The pool takes the buffer, into which a worker has put the next batch, lets writes to it be
 * noticed, names it, and gives it to the program.  The program writes to it, copies it, has the
 * GPU write to it, forks, and drops it, whenever it likes; it may write while the GPU is to read.
 * The GPU reads late.  The service ends the copy, and publishes what the GPU has read if the
 * name holds.  A child writes to what it shares with its parent.
 *
 * Batch n has the contents n and the name n; what anybody writes is none of them.  What must
 * hold: who finds the name in the ring has the batch of that name, and so has the ring.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef BATCHES
#define BATCHES 3
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define EDITED 99

byte content;
bool written = true; /* what the kernel says; nothing was protected yet */
bool named;
byte name, naming, forks, named_forks;
bool held;    /* by the program */
bool retired; /* the pool does not use it again */
bool child;
byte pending; /* copies of which the event has not been seen */

/* A copy of which the bytes are to be published: what was known of it when it was asked for. */
mtype = { NONE, QUEUED, READ, TEED };
mtype copy = NONE;
bool seen; /* that the GPU has read the buffer */
byte slot, copy_name, copy_naming, copy_forks;

#define IS_NAMED_SO (named && naming == copy_naming && (MUTANT == 61 || forks == copy_forks))

proctype pool()
{
	byte batch;

	do
	:: batch < BATCHES && !retired ->
end:		atomic {
			!held && (pending == 0 || MUTANT == 63) && !retired;
			batch++;
			content = batch /* by another mapping: nobody notices */
		};
		if
		:: MUTANT != 58 -> atomic { named = false; naming++ }
		:: else
		fi;
		if
		:: MUTANT != 59 -> written = false
		:: else
		fi;
		atomic { name = batch; named_forks = forks };
		named = true;
		held = true;
#if MUTANT == 59
		written = false
#endif
	:: else -> break
	od
}

/* The name is looked at, and the copy is made, or is not for there is the name in the ring. */
inline look_and_copy()
{
	atomic {
		copy == NONE && held;
		copy_naming = naming;
		copy_name = name;
		copy_forks = named_forks
	};
	if
	:: atomic { IS_NAMED_SO && !written -> assert(content == copy_name) };
		atomic { pending++; seen = false; copy = QUEUED }
	:: else
	fi
}

proctype program()
{
	byte writes = WRITES;
	bool may_fork = true;

end:
	do
	:: atomic { held && writes > 0 -> writes--; content = EDITED; written = true }
	:: held && copy == NONE -> look_and_copy()
	:: atomic { held && writes > 0 ->
		writes--;
		if
		:: MUTANT != 62 -> named = false; naming++
		:: else
		fi };
		content = EDITED /* by the GPU, and waited for */
	:: atomic { held && may_fork -> may_fork = false; forks++; retired = true };
		child = true;
		forks++
	:: atomic { held -> held = false }
	od
}

/* What it was given with the fork. */
proctype offspring()
{
	if
	:: atomic { child -> content = EDITED }
	:: true
	fi
}

proctype gpu()
{
end:
	do
	:: atomic { copy == QUEUED -> slot = content; copy = READ }
	:: atomic { copy == READ -> copy = TEED }
	od
}

proctype service()
{
	bool holds;

end:
	do
	:: atomic { (copy == READ || copy == TEED) && !seen -> seen = true; pending-- }
	:: copy == TEED && seen ->
		holds = IS_NAMED_SO;
		if
		:: MUTANT != 60 -> holds = holds && !written
		:: else
		fi;
		atomic {
			if
			:: MUTANT != 64 -> holds = holds && IS_NAMED_SO
			:: else
			fi;
			assert(!holds || slot == copy_name);
			copy = NONE
		}
	od
}

init
{
	atomic { run pool(); run program(); run offspring(); run gpu(); run service() }
}
