/* SPDX-License-Identifier: MIT */
/*
 * The journal of a ring as leader/journal/journal.h describes it, for Spin.
 *
 * Writers take turns of a journal with ENTRIES places and write a note of two words and a check,
 * in any order; each may be killed, or stopped for as long as it likes, between any two steps.
 * A reader reads turns.  What a word says is of which turn it is, and the check is of the turn
 * and of both words: so a note that the reader keeps must be whole, and of the turn it asked for.
 * MUTANT n leaves out a rule, upon which the model must find a fault; tests/models/run has the list.
 */
#ifndef WRITERS
#define WRITERS 3
#endif
#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef READS
#define READS 1
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NONE 99

byte turn;
/* What a place holds: of which turn each of its words is.  A check is of a turn and of words. */
byte tag[ENTRIES] = NONE;
byte index[ENTRIES] = NONE;
byte check_turn[ENTRIES] = NONE;
byte check_tag[ENTRIES] = NONE;
byte check_index[ENTRIES] = NONE;

proctype writer()
{
	byte mine;
	bool wrote_tag, wrote_index, wrote_check;

	atomic { mine = turn; turn++ };
end:	do
	:: !wrote_tag -> atomic { tag[mine % ENTRIES] = mine; wrote_tag = true }
	:: !wrote_index -> atomic { index[mine % ENTRIES] = mine; wrote_index = true }
	:: !wrote_check -> atomic {
			check_turn[mine % ENTRIES] = mine;
			check_tag[mine % ENTRIES] = mine;
			check_index[mine % ENTRIES] = mine;
			wrote_check = true
		}
	:: wrote_tag && wrote_index && wrote_check -> break
	:: break /* killed, or stopped for good */
	od
}

active proctype reader()
{
	byte reads, wanted, read_tag, read_index;

	do
	:: reads < READS ->
		reads++;
		select (wanted : 0 .. WRITERS - 1);
		read_tag = tag[wanted % ENTRIES];
		read_index = index[wanted % ENTRIES];
		if
		:: atomic {
			(MUTANT == 65 || check_turn[wanted % ENTRIES] == wanted) &&
			(MUTANT == 66 || (check_tag[wanted % ENTRIES] == read_tag &&
				check_index[wanted % ENTRIES] == read_index)) &&
			check_turn[wanted % ENTRIES] != NONE ->
				assert(read_tag == wanted && read_index == wanted)
		}
		:: else
		fi
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		for (i : 1 .. WRITERS) {
			run writer()
		}
	}
}
