/* SPDX-License-Identifier: MIT */
/*
 * Samples between nodes, as leader/mail/mail.h describes them, for Spin: the places that belong to
 * slots, what is won and handed over, and who may end it.  tests/models/mail.pml has the bell and
 * the files.
 *
 * NP owners ask for NTIMES samples each, over NS slots.  NHELPERS helpers are started, of which
 * one at a time gets in; NCRASH processes die anywhere, and after a helper comes another one.
 * Where IMPATIENT, a deadline or the end of an epoch may come at any time.  Nothing here takes
 * time: who is stopped is one that makes no step for as long as Spin likes.
 *
 * A place has two halves, each with the name of whose bytes it has.  What must hold: the helper
 * writes to a place only while its slot is TAKEN or LEFT and asks for that name; who reads one
 * finds his own bytes in both halves; a record is read only while it is pinned; what was won is
 * handed over or returned, once; and in the end all slots are free.  MUTANT n leaves out a rule;
 * tests/models/run has the list.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NS
#define NS 1
#endif
#ifndef NTIMES
#define NTIMES 2
#endif
#ifndef NHELPERS
#define NHELPERS 2
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifdef IMPATIENT
#define MAY_LEAVE true
#else
#define MAY_LEAVE false
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NN (NP * NTIMES + 1) /* names of samples; 0 is none */

/* States of a slot; kinds of a request; answers. */
#define FREE     0
#define POSTED   1
#define TAKEN    2
#define LEFT     3
#define ANSWERED 4

#define SAMPLE 0
#define STORE  1
#define RETURN 2

#define GOT  0
#define WON  1
#define NONE 2

/* What the server of a name has: OURS is a token of this node's. */
#define NOTHING 0
#define OURS    1
#define VALUE   2

byte owner[NS], state[NS], kind[NS], answer[NS], name[NS];
byte low[NS], high[NS]; /* the halves of a place */
byte users[NS];         /* owners that think the slot is theirs */
byte server[NN];
bool has_record[NN], is_pinned[NN]; /* in the ring of this node */
bool dead[NP + 1];
byte running = NP, helpers, crashes;
bool is_locked; /* byte 0 of the table */

#define MAY_DIE atomic { crashes < NCRASH -> crashes++; goto dies }

/* ---- who asks ---- */

inline let_go(s)
{
	if
	:: MUTANT == 77 -> skip
	:: else -> state[s] = FREE
	fi;
	atomic { owner[s] = 0; users[s]--; has_slot = false }
}

/* What is posted without an owner that waits. */
inline send_again(s, what)
{
	atomic { kind[s] = what; users[s]--; has_slot = false };
	state[s] = POSTED
}

proctype asker(byte me)
{
	byte s = 0, mine, times = 0;
	bool has_slot = false;

next:
	atomic {
		if
		:: times == NTIMES -> goto ends
		:: else -> mine = (me - 1) * NTIMES + times + 1; times++
		fi
	}
	/* One that is not there is not waited for. */
	if
	:: atomic { owner[0] == 0 -> s = 0; owner[0] = me; has_slot = true }
#if NS > 1
	:: atomic { owner[1] == 0 -> s = 1; owner[1] = me; has_slot = true }
#endif
	:: goto next
	fi;
	atomic {
		users[s]++;
		assert(users[s] == 1 && state[s] == FREE)
	}
	if
	:: MAY_DIE
	:: skip
	fi;
	atomic { kind[s] = SAMPLE; name[s] = mine };
	state[s] = POSTED;
	if
	:: MAY_DIE
	:: state[s] == ANSWERED
	:: atomic { MAY_LEAVE && state[s] == POSTED -> state[s] = FREE; users[s]--; has_slot = false };
		owner[s] = 0;
		goto next
	:: atomic { MAY_LEAVE && state[s] == TAKEN -> state[s] = LEFT; users[s]--; has_slot = false };
		if
		:: MUTANT == 74 -> assert(low[s] != mine || high[s] == mine) /* looks whether it came */
		:: else
		fi;
		goto next
	fi;
	if
	:: MAY_DIE
	:: answer[s] == GOT ->
		if
		:: MUTANT == 75 -> state[s] = FREE; atomic { owner[s] = 0; users[s]--; has_slot = false }
		:: else
		fi;
		assert(low[s] == mine);
		if
		:: MAY_DIE
		:: skip
		fi;
		assert(high[s] == mine);
		if
		:: MUTANT == 75
		:: MUTANT != 75 -> let_go(s)
		:: MUTANT != 75 -> send_again(s, RETURN) /* its files are others here */
		fi
	:: answer[s] == NONE -> let_go(s)
	:: answer[s] == WON && MAY_LEAVE -> /* the epoch has ended */
		if
		:: MUTANT == 76 -> let_go(s)
		:: else -> send_again(s, RETURN)
		fi
	:: answer[s] == WON ->
		if
		:: MAY_DIE
		:: has_record[mine] = true;
			if
			:: MAY_DIE
			:: send_again(s, STORE)
			fi
		:: send_again(s, RETURN)
		fi
	fi;
	goto next
dies:
	atomic {
		dead[me] = true;
		if
		:: has_slot -> users[s]--
		:: else
		fi
	}
ends:
	running--
}

/* The ring takes what nobody reads, whenever it likes. */
#define TAKE(i) atomic { has_record[i] && !is_pinned[i] -> has_record[i] = false }

proctype ring()
{
	do
	:: running == 0 && helpers == 0 -> break
	:: TAKE(1)
	:: TAKE(2)
#if NN > 3
	:: TAKE(3)
	:: TAKE(4)
#endif
	od
}

/* ---- who answers ---- */

/* Of one slot whose owner is dead: only the helper frees it. */
inline sweep(s)
{
	atomic {
		if
		:: owner[s] == 0 || !dead[owner[s]] -> skip
		:: else ->
			if
			:: state[s] == FREE -> owner[s] = 0
			:: state[s] == ANSWERED ->
				if
				:: answer[s] == WON && MUTANT != 78 -> server[name[s]] = NOTHING
				:: else
				fi;
				state[s] = FREE; owner[s] = 0
			:: state[s] == POSTED && kind[s] == SAMPLE -> state[s] = FREE; owner[s] = 0
			:: state[s] == TAKEN && MUTANT == 79 -> state[s] = FREE; owner[s] = 0
			:: else
			fi
		fi
	}
}

/* What an earlier helper has left.  A token that it had in its hands ends by itself. */
inline take_over(s)
{
	atomic {
		if
		:: state[s] == TAKEN || (state[s] == LEFT && MUTANT != 80) ->
			if
			:: server[name[s]] == OURS -> server[name[s]] = NOTHING
			:: else
			fi;
			if
			:: state[s] == TAKEN && kind[s] == SAMPLE -> answer[s] = NONE; state[s] = ANSWERED
			:: else -> state[s] = FREE; owner[s] = 0
			fi
		:: else
		fi
	}
}

/* One half of what came, for who waits still; he may leave between the look and this. */
#define WRITE(half, s) \
	if \
	:: state[s] == TAKEN -> \
		atomic { \
			assert(state[s] == TAKEN || state[s] == LEFT); \
			assert(name[s] == target); \
			half[s] = target \
		} \
	:: else -> verdict = NONE \
	fi

inline fetch(s)
{
	sweep(s); /* it looks after the dead between two steps */
	if
	:: atomic { server[target] = VALUE }; verdict = GOT; /* another node's */
		WRITE(low, s);
		if
		:: MAY_DIE
		:: MUTANT == 81 && verdict == GOT && state[s] == TAKEN ->
			atomic { answer[s] = GOT; state[s] = ANSWERED };
			high[s] = target;
			goto served
		:: else
		fi;
		if
		:: verdict == GOT -> WRITE(high, s)
		:: else
		fi
	:: atomic { server[target] == NOTHING -> server[target] = OURS }; verdict = WON
	:: verdict = NONE
	fi;
	if
	:: MAY_DIE
	:: skip
	fi;
	looked = state[s] == TAKEN;
	if
	:: atomic { state[s] == TAKEN -> answer[s] = verdict; state[s] = ANSWERED }
	:: atomic { state[s] != TAKEN -> state[s] = FREE };
		owner[s] = 0;
		if
		:: verdict == WON && !(MUTANT == 82 && looked) -> server[target] = NOTHING
		:: else
		fi
	fi
}

inline store(s)
{
	if
	:: atomic { has_record[target] -> is_pinned[target] = (MUTANT != 83) };
		if
		:: MAY_DIE
		:: assert(has_record[target])
		fi;
		if
		:: MUTANT == 84 -> is_pinned[target] = false
		:: else
		fi;
		if
		:: MAY_DIE
		:: atomic { assert(has_record[target]); server[target] = VALUE }
		fi;
		is_pinned[target] = false
	:: else -> server[target] = NOTHING
	fi;
	state[s] = FREE;
	owner[s] = 0
}

inline serve(s)
{
	if
	:: atomic { state[s] == POSTED -> state[s] = TAKEN; target = name[s] };
		if
		:: MAY_DIE
		:: kind[s] == SAMPLE -> fetch(s)
		:: kind[s] == STORE -> store(s)
		:: kind[s] == RETURN -> server[target] = NOTHING; state[s] = FREE; owner[s] = 0
		fi
	:: else
	fi
}

proctype helper()
{
	byte verdict, target;
	bool looked, entered;

	/* Who finds the lock taken ends: the other one may be stopped, and write later. */
	if
	:: atomic { !is_locked -> is_locked = true; entered = true }
	:: is_locked && MUTANT == 85 -> skip
	:: is_locked && MUTANT != 85 -> goto done
	fi;
	take_over(0);
#if NS > 1
	take_over(1);
#endif
	do
	:: sweep(0);
		serve(0);
served:
		atomic { target = 0; verdict = NONE; looked = false };
#if NS > 1
		sweep(1);
		serve(1);
#endif
		if
		:: atomic { running == 0 && state[0] != POSTED && (NS == 1 || state[NS - 1] != POSTED) -> break }
		:: MAY_DIE
		:: else
		fi
	od;
	sweep(0);
#if NS > 1
	sweep(1);
#endif
	atomic {
		if
		:: entered -> is_locked = false
		:: else
		fi;
		goto done
	}
dies:
	/* The kernel drops the lock and, with its member, what it has pinned; another one is started. */
	atomic {
		if
		:: entered -> is_locked = false
		:: else
		fi;
		is_pinned[target] = false;
		run helper();
		goto end
	}
done:
	helpers--;
end:
	skip
}

init {
	byte i = 0;

	atomic {
		do
		:: i < NP -> i++; run asker(i)
		:: else -> break
		od;
		i = 0;
		do
		:: i < NHELPERS -> i++; helpers++; run helper()
		:: else -> break
		od;
		run ring()
	}
	helpers == 0 && _nr_pr == 1;
	i = 0;
	do
	:: i < NS -> assert(owner[i] == 0 && state[i] == FREE); i++
	:: else -> break
	od;
	i = 1;
	do
	:: i < NN -> assert(server[i] != OURS); i++
	:: else -> break
	od
}
