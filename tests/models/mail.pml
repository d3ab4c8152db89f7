/* SPDX-License-Identifier: MIT */
/*
 * The requests of a group's jobs to the helper that talks to other nodes, as leader/mail/mail.h
 * describes them, for Spin.
 *
 * NP owners ask NTIMES each, over NS slots.  A helper answers; NCRASH processes die anywhere, and
 * after a helper comes another one, as long as somebody waits.  Where IMPATIENT, a deadline may
 * come at any time.  Else nobody gives up, and the helper wakes up by the bell only: a lost ring
 * is then a model that stands still.
 *
 * Files are inodes, a new one for each request.  What must hold: nothing is written to a file
 * that is complete; a slot has one owner; what was won is stored or returned; and in the end all
 * slots are free.  MUTANT n leaves out a rule; tests/models/run has the list.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NS
#define NS 1
#endif
#ifndef NTIMES
#define NTIMES 1
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

#define NI (NP * NTIMES * 2 + 1) /* inodes; 0 is none */

/* States of a slot; kinds of a request; answers. */
#define FREE     0
#define POSTED   1
#define TAKEN    2
#define LEFT     3
#define ANSWERED 4

#define FETCH  0
#define STORE  1
#define RETURN 2

#define GOT  0
#define WON  1
#define NONE 2

byte owner[NS], state[NS], kind[NS], answer[NS], file[NS];
byte users[NS]; /* owners that think the slot is theirs */
bool complete[NI], has_bytes[NI];
bool dead[NP + 1];
byte inodes = 1, running = NP, crashes, tokens;
bool asleep, bell, helped;

#define MAY_DIE atomic { crashes < NCRASH -> crashes++; goto dies }

/* M6 */
inline post(s)
{
	atomic {
		if
		:: MUTANT != 68 -> state[s] = POSTED; looked = asleep
		:: else -> looked = asleep
		fi
	}
	if
	:: MUTANT == 68 -> state[s] = POSTED
	:: else
	fi;
	if
	:: looked -> bell = true
	:: else
	fi
}

proctype asker(byte me)
{
	byte s = 0, mine, times = 0;
	bool has_slot = false, looked;

next:
	atomic {
		if
		:: times == NTIMES -> goto ends
		:: else -> times++
		fi;
		mine = inodes;
		inodes++
	}
ask:
	/* One that is not there is not waited for. */
	if
	:: atomic { owner[0] == 0 -> s = 0; owner[0] = me; has_slot = true }
#if NS > 1
	:: atomic { owner[1] == 0 -> s = 1; owner[1] = me; has_slot = true }
#endif
	:: goto alone
	fi;
	atomic {
		users[s]++;
		assert(users[s] == 1 && state[s] == FREE)
	}
	if
	:: MAY_DIE
	:: skip
	fi;
	atomic { kind[s] = FETCH; file[s] = mine }
	post(s);
	if
	:: MAY_DIE
	:: atomic { state[s] == ANSWERED -> skip }
	:: atomic { MAY_LEAVE && state[s] == POSTED -> state[s] = FREE; users[s]-- ; has_slot = false };
		owner[s] = 0;
		goto alone
	:: atomic { MAY_LEAVE && state[s] == TAKEN -> state[s] = LEFT; users[s]--; has_slot = false };
		/* The helper may write to that one yet. */
		atomic {
			if
			:: MUTANT != 67 -> mine = inodes; inodes++
			:: else
			fi
		};
		goto alone
	fi;
	if
	:: MAY_DIE
	:: answer[s] == GOT -> assert(has_bytes[mine]); complete[mine] = true
	:: answer[s] == NONE -> complete[mine] = true /* read alone */
	:: answer[s] == WON ->
		if
		:: complete[mine] = true; kind[s] = STORE
		:: kind[s] = RETURN
		fi;
		if
		:: MAY_DIE
		:: skip
		fi;
		atomic { users[s]--; has_slot = false };
		post(s);
		goto next
	fi;
	if
	:: MUTANT == 69 -> atomic { owner[s] = 0; users[s]--; has_slot = false }; state[s] = FREE
	:: else ->
		state[s] = FREE;
		if
		:: MAY_DIE
		:: skip
		fi;
		atomic { owner[s] = 0; users[s]--; has_slot = false }
	fi;
	goto next
alone:
	complete[mine] = true;
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
	/* The kernel tells the helper sooner or later: it looks at each tick. */
	atomic { running--; bell = true }
}

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
				:: answer[s] == WON && MUTANT != 72 -> tokens--
				:: else
				fi;
				state[s] = FREE; owner[s] = 0
			:: state[s] == POSTED && kind[s] == FETCH -> state[s] = FREE; owner[s] = 0
			:: state[s] == TAKEN && MUTANT == 71 -> state[s] = FREE; owner[s] = 0
			:: else
			fi
		fi
	}
}

/* What an earlier helper has left. */
inline take_over(s)
{
	atomic {
		if
		:: MUTANT == 70 -> skip
		:: state[s] == TAKEN && kind[s] == FETCH && MUTANT != 70 ->
			answer[s] = NONE; state[s] = ANSWERED
		:: state[s] == TAKEN && kind[s] != FETCH && MUTANT != 70 ->
			tokens--; state[s] = FREE; owner[s] = 0
		:: state[s] == LEFT -> state[s] = FREE; owner[s] = 0
		:: else
		fi
	}
}

inline serve(s)
{
	if
	:: atomic { state[s] == POSTED -> state[s] = TAKEN };
		if
		:: MAY_DIE
		:: skip
		fi;
		if
		:: kind[s] != FETCH -> atomic { tokens--; state[s] = FREE }; owner[s] = 0
		:: kind[s] == FETCH ->
			target = file[s];
			/* It looks after the dead between two steps. */
			sweep(s);
			if
			:: atomic {
				assert(!complete[target]);
				has_bytes[target] = true
			}; verdict = GOT
			:: verdict = WON
			:: verdict = NONE
			fi;
			if
			:: MAY_DIE
			:: skip
			fi;
			if
			:: atomic { state[s] == TAKEN ->
				answer[s] = verdict;
				tokens = tokens + (verdict == WON -> 1 : 0);
				state[s] = ANSWERED
			}
			:: atomic { state[s] == LEFT -> state[s] = FREE }; owner[s] = 0
#if MUTANT == 71
			/* What is not TAKEN is taken for LEFT. */
			:: atomic { state[s] != TAKEN && state[s] != LEFT -> state[s] = FREE }; owner[s] = 0
#endif
			fi
		fi
	:: else
	fi
}

proctype helper()
{
	byte verdict, target;
	bool may_sleep;

	take_over(0);
#if NS > 1
	take_over(1);
#endif
	do
	:: true ->
		sweep(0);
		serve(0);
#if NS > 1
		sweep(1);
		serve(1);
#endif
		if
		:: atomic { running == 0 && state[0] != POSTED && (NS == 1 || state[NS - 1] != POSTED) -> break }
		:: MAY_DIE
		:: else
		fi;
		/* M5 */
		atomic {
			if
			:: MUTANT != 73 -> asleep = true
			:: else
			fi;
			may_sleep = state[0] != POSTED && (NS == 1 || state[NS - 1] != POSTED)
		}
		if
		:: MUTANT == 73 -> asleep = true
		:: else
		fi;
		if
		:: may_sleep ->
			if
			:: atomic { bell -> bell = false }
			:: MAY_DIE
			fi
		:: else
		fi;
		asleep = false
	od;
	sweep(0);
#if NS > 1
	sweep(1);
#endif
	atomic { helped = true; goto done }
dies:
	/* The lock is free, and somebody starts another one. */
	atomic { asleep = false; bell = false; run helper() }
done:
	skip
}

init {
	byte i = 0;

	atomic {
		do
		:: i < NP -> i++; run asker(i)
		:: else -> break
		od;
		run helper()
	}
	helped && _nr_pr == 1;
	assert(tokens == 0);
	i = 0;
	do
	:: i < NS -> assert(owner[i] == 0 && state[i] == FREE); i++
	:: else -> break
	od
}
