/* SPDX-License-Identifier: MIT */
/*
 * What a group knows of one path, as leader/files/names.h describes it, for Spin.
 *
 * Askers note the moment, ask the storage, and let the name lead to the answer; each may stop
 * for any time between these steps (who dies there stops for ever).  A writer is a process of a
 * job that breaks the promise: it opens the file, which cuts it, notes that its job has left,
 * forgets what was known, and writes as long as it likes.  Others change the file whenever they
 * like.  Readers, of that job or of another one, take what the name leads to.  The clock may go on
 * at any time, so all that is late is covered.
 *
 * A version stands for the file's content.  What must hold of a version that is given out: the file
 * had it less than SECONDS ago, or later; to another job nothing is missing that an open had done
 * before the reader asked; to the writer's own job nothing that it had written either.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef ASKERS
#define ASKERS 2
#endif
#ifndef TIMES
#define TIMES 1 /* each asks */
#endif
#ifndef WRITES
#define WRITES 0 /* by the writer, behind its open */
#endif
#ifndef FOREIGN
#define FOREIGN 1 /* changes by others */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define SECONDS 2
#define END     4 /* of time */

byte clock = 1;
byte version = 1;        /* of the file */
byte version_at[END + 1]; /* the oldest one it had in that moment */
byte opened = 1;         /* the version that opens for writing have reached */
byte written = 1;        /* and what was written behind them */
byte foreign = FOREIGN;

/* The name: one word, both parts of which change together. */
byte word_moment, word_version;
byte forgotten; /* a moment */
bool left;      /* the writer's job */

proctype tick()
{
	do
	:: atomic { clock < END -> clock++; version_at[clock] = version }
	:: break
	od
}

proctype stranger()
{
	do
	:: atomic { foreign > 0 -> foreign--; version++ }
	:: break
	od
}

proctype asker()
{
	byte asked, answer, times = TIMES;

	do
	:: times > 0 ->
		times--;
		asked = clock;
#if MUTANT == 49
		atomic { answer = version; asked = clock }; /* the moment behind the answer, */
		if
		:: asked < END -> asked++ /* and rounded up */
		:: else
		fi;
#else
		answer = version;
#endif
#if MUTANT == 48
		if
		:: asked > word_moment ->
			word_moment = asked;
			word_version = answer
		:: else
		fi
#else
		atomic {
			if
			:: asked > word_moment ->
				word_moment = asked;
				word_version = answer
			:: else
			fi
		}
#endif
	:: else -> break
	od;
}

inline forget()
{
	atomic {
		if
		:: MUTANT != 50 && forgotten < clock -> forgotten = clock
		:: else
		fi
	}
}

/* What open(2) has done counts when it returns. */
proctype writer()
{
	byte writes = WRITES, mine;

	atomic { version++; mine = version }
	left = true;
	forget();
	atomic { opened = mine; written = mine }
	do
	:: writes > 0 ->
		writes--;
		/* write(2): nothing of ours hears of it */
		atomic { version++; written = version }
	:: else -> break
	od
}

proctype reader()
{
	byte moment, given, must, oldest;
	bool is_of_job, asks;

	do
	:: true ->
		if
		:: WRITES > 0 -> is_of_job = true
		:: is_of_job = false
		fi;
		must = (is_of_job -> written : opened);
		asks = (MUTANT != 51) && is_of_job && left;
		atomic { moment = word_moment; given = word_version }
		atomic {
			if
			:: !asks && given != 0 && clock - moment < SECONDS && moment <= clock &&
				moment > forgotten ->
				/* Given out now. */
				oldest = (clock > SECONDS - 1 -> clock - (SECONDS - 1) : 1);
				assert(given >= version_at[oldest]);
				assert(given >= must)
			:: else
			fi;
			moment = 0; given = 0; must = 0; oldest = 0; asks = false
		}
	:: break
	od
}

init {
	byte i;

	version_at[1] = 1;
	atomic {
		run tick();
		run stranger();
		run writer();
		run reader();
		for (i : 1 .. ASKERS) {
			run asker()
		}
	}
}
