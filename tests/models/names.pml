/* SPDX-License-Identifier: MIT */
/*
 * What a group knows of one path, as leader/files/names.h describes it, for Spin.
 *
 * Askers note the moment, ask the storage, and let the name lead to the answer; each may stop
 * for any time between these steps (who dies there stops for ever).  Changers of the group
 * change the file and then forget what was known, or (writers) forbid the file, forget, and
 * change it as long as they like.  Others change the file whenever they like.  Readers take what
 * the name leads to.  The clock may go on at any time, so all that is late is covered.
 *
 * A version stands for the file's content.  What must hold of a version that is given out: the file
 * had it less than SECONDS ago, or later, and nothing of the group's own that had been done
 * before the reader asked is missing in it.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef ASKERS
#define ASKERS 2
#endif
#ifndef TIMES
#define TIMES 1 /* each asks */
#endif
#ifndef CHANGES
#define CHANGES 1 /* of the group's own: rename, truncate and their like */
#endif
#ifndef WRITES
#define WRITES 0 /* by one who has the file open */
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
byte own = 1;            /* the version that the group's own changes have reached */
byte foreign = FOREIGN;

/* The name: one word, both parts of which change together. */
byte word_moment, word_version;
bool forbidden;
byte forgotten; /* a moment */

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
	byte asked, answer, left = TIMES;
	bool barred;

	do
	:: left > 0 ->
		left--;
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
		barred = (MUTANT != 51) && forbidden;
		if
		:: barred
		:: else ->
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
		fi
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

/* Done is done: what the group's own call has changed counts when it returns. */
proctype changer()
{
	byte left = CHANGES, mine;

	do
	:: left > 0 ->
		left--;
		atomic { version++; mine = version }
		forget();
		atomic {
			if
			:: own < mine -> own = mine
			:: else
			fi
		}
	:: else -> break
	od
}

proctype writer()
{
	byte left = WRITES;

	if
	:: WRITES > 0 ->
#if MUTANT == 52
		forget();
		forbidden = true;
#else
		forbidden = true;
		forget();
#endif
		do
		:: left > 0 ->
			left--;
			/* write(2): nothing of ours hears of it */
			atomic { version++; own = version }
		:: else -> break
		od
	:: else
	fi
}

proctype reader()
{
	byte moment, given, must, oldest;

	do
	:: true ->
		atomic { must = own; moment = word_moment; given = word_version }
		atomic {
			if
			:: given != 0 && clock - moment < SECONDS && moment <= clock &&
				moment > forgotten ->
				/* Given out now. */
				oldest = (clock > SECONDS - 1 -> clock - (SECONDS - 1) : 1);
				assert(given >= version_at[oldest]);
				assert(given >= must)
			:: else
			fi;
			moment = 0; given = 0; must = 0; oldest = 0
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
		run changer();
		run writer();
		run reader();
		for (i : 1 .. ASKERS) {
			run asker()
		}
	}
}
