/* SPDX-License-Identifier: MIT */
/*
 * The protocol of leader/slots/device.h for Spin, one shared access per step.
 *
 * Every party may die (SIGKILL) or stop for good (SIGSTOP) at every step, while NCRASH and
 * NSTOP last; any may rest between two steps for as long as it likes.  A copy into a slot is two
 * steps of the GPU, which goes on with it when the process is dead: its device files may be open
 * elsewhere.  Slots exist once in each generation of the ring, as it is other memory.
 *
 * What is claimed (the names are used by the assertions below):
 *   S1  a hit is of the key and the generation asked for, and complete, as long as it is held
 *   S2  no slot is written by two, nor by one while another holds it
 *   S3  memory that its owner frees is not used any more
 *   S4  of one key there is one READY slot, but where a deadline had passed, or a slot that was
 *       TAKEN at the time was put back; then it is bytes that are there twice
 *   S5  memory is not freed while another process that lives has it mapped, nor mapped then
 *   P1  every party that is neither dead nor stopped ends its operations
 *   P2  what is left then is in order: a stopped party costs what it holds, a dead one at most
 *       the slot it was writing
 *
 * Memory model: as in ring.pml; the store of a lease or map word goes into a store buffer (pend).
 * MUTANT=n breaks one rule each; tests/models/run has the list.
 */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef NCRASH
#define NCRASH 0
#endif
#ifndef NSTOP
#define NSTOP 0
#endif
#ifndef NP
#define NP 3 /* processes of one thread */
#endif
#ifndef NS
#define NS 1 /* slots */
#endif
#ifndef NK
#define NK 2 /* keys: 1 .. NK */
#endif
#ifndef NG
#define NG 2 /* generations */
#endif
#ifndef TIMES
#define TIMES 1 /* operations of each */
#endif
#ifndef OPS0
#define OPS0 MAY_TAKE
#endif
#ifndef OPS1
#define OPS1 MAY_TAKE
#endif
#ifndef OPS2
#define OPS2 MAY_TAKE
#endif

#define MAY_TAKE     1
#define MAY_OFFER    2 /* offer where there is no owner, and retire one that is dead */
#define MAY_WITHDRAW 4
#define MAY_HURRY    8 /* find that a deadline has passed */
#define MAY_LEAVE    16 /* leave the group at the end */
#define MAY_MAP      32 /* open the ring's handle, and close it some time later */

#define EMPTY   0
#define MAKING  1
#define LIVE    2
#define CLOSING 3
#define RING(state, owner, gen) ((state) | ((owner) << 2) | ((gen) << 4))
#define RING_STATE(word) ((word) & 3)
#define RING_OWNER(word) (((word) >> 2) & 3)
#define RING_GEN(word)   ((word) >> 4)

#define FREE    0
#define TAKEN   1
#define WRITING 2
#define READY   3
#define LOST    4
#define SLOT(state, owner, turn) ((state) | ((owner) << 3) | ((turn) << 5))
#define STATE(word) ((word) & 7)
#define OWNER(word) (((word) >> 3) & 3)
#define TURN(word)  ((word) >> 5)

#define PIN(s, g) (1 | ((s) << 1) | ((g) << 3))
#define MAP(g)    (2 | ((g) << 3))

/* Shared memory. */
short ring;
short slot[NS];
byte key0[NS], key1[NS]; /* a key is two words */
short lease[NP];
byte map[NP];

/* The GPU: slots of all generations, and what each process has queued. */
#define PLACE(g, s) ((g) * NS + (s))
byte bytes0[NG * NS], bytes1[NG * NS];
bool freed[NG];
byte queue_key[NP], queue_at[NP], queue_left[NP];

/* The machine. */
short pend[NP];
bool dead[NP], halted[NP], ended[NP], left[NP];
byte crashes = NCRASH, stops = NSTOP;

/* Only for the claims: the place + 1 that a process reads, or writes; the generation + 1 that it
 * has mapped. */
byte reads[NP], writes[NP], opened[NP];
bool hurried, put_back;

/* A tenure that is over: its process is proven dead, or has left. */
#define OVER(q) (dead[q] || left[q])

#define STEP(...)                                                                           \
	atomic {                                                                            \
		if                                                                          \
		:: __VA_ARGS__                                                              \
		:: crashes > 0 -> crashes--; halted[p] = true; goto killed                  \
		:: stops > 0 -> stops--; halted[p] = true; goto out                         \
		fi                                                                          \
	}

/* What the store buffer of process q holds arrives. */
inline arrive(q)
{
	if
	:: pend[q] & 1 -> lease[q] = pend[q]
	:: else -> map[q] = pend[q]
	fi;
	pend[q] = 0
}

inline fence()
{
	STEP(if :: pend[p] -> arrive(p) :: else fi)
}

inline unpin()
{
	STEP(pend[p] = 0; lease[p] = 0; reads[p] = 0)
}

/* S1, in each step that looks at the bytes of a hit. */
#define CLAIM_HIT(b) assert(!freed[g] && b[PLACE(g, s)] == key)

/* S2, when process p begins to read (or, with `writers_only`, to write) place. */
inline claim_alone(place, as_writer)
{
	for (i : 0 .. NP - 1) {
		assert(i == p || writes[i] != (place) + 1);
		assert(!as_writer || i == p || dead[i] || reads[i] != (place) + 1);
		assert(!as_writer || queue_left[i] == 0 || queue_at[i] != (place));
	}
	i = 0
}

/* S4, when process p publishes slot s. */
inline claim_only_one(s)
{
	for (i : 0 .. NS - 1) {
		assert(hurried || put_back || i == s || STATE(slot[i]) != READY || key0[i] != key);
	}
	i = 0
}

/*
 * Put right what a tenure that is over has left in slot x: again, when it has not been left.
 * A slot that is FREE by this is one that could be taken.
 */
inline recover(x)
{
	if
	:: (STATE(w) == TAKEN || (STATE(w) == WRITING && MUTANT == 32)) && OVER(OWNER(w)) ->
		STEP(if
		     :: slot[x] == w -> slot[x] = SLOT(FREE, 0, TURN(w)); c = x; cw = slot[x]
		     :: else -> again = true
		     fi)
	:: STATE(w) == WRITING && OVER(OWNER(w)) && MUTANT != 32 ->
		STEP(if :: slot[x] == w -> slot[x] = SLOT(LOST, 0, TURN(w)) :: else -> again = true fi)
	:: else
	fi
}

/* Slot j could be taken; which of those there are is left open. */
inline choose()
{
	if
	:: c = j; cw = w
	:: c < NS
	fi
}

/*
 * Look at all slots but `except` for `key`: s = that of a READY one, else x = that of a WRITING
 * one, else of one that could be taken in c, with its word in cw.
 */
inline look(except)
{
	s = NS;
	x = NS;
	c = NS;
	j = 0;
	do
	:: j < NS && j != except ->
		STEP(w = slot[j]);
		if
		:: STATE(w) == READY || STATE(w) == WRITING ->
			STEP(k = key0[j]);
			STEP(same = (k == key && key1[j] == key));
			STEP(again = (slot[j] != w));
			if
			:: again
			:: !again && same && STATE(w) == READY && s == NS -> s = j; sw = w
			:: !again && same && STATE(w) == WRITING && !OVER(OWNER(w)) && !late -> x = j
			:: !again && !same && STATE(w) == READY -> choose()
			:: else -> recover(j)
			fi;
			same = false;
			k = 0
		:: STATE(w) == FREE -> choose()
		:: else -> recover(j)
		fi;
		w = 0;
		/* What has changed meanwhile may have become what we look for. */
		if
		:: again -> again = false
		:: else -> j++
		fi
	:: j < NS && j == except -> j++
	:: else -> break
	od;
	j = 0
}

inline scan_pins(x, g)
{
	pinned = false;
	j = 0;
	do
	:: j < NP ->
		STEP(if :: lease[j] == PIN(x, g) && !OVER(j) -> pinned = true :: else fi);
		j++
	:: else -> break
	od;
	j = 0;
#if MUTANT == 34
	if
	:: pinned = false
	:: true
	fi
#endif
}

/* A hit: slot s, whose word was sw, in generation g. */
inline read()
{
	STEP(pend[p] = PIN(s, g));
#if MUTANT != 26
	fence();
#endif
#if MUTANT == 27
	STEP(ok = true);
#else
	STEP(ok = (slot[s] == sw));
#endif
#if MUTANT == 28
	STEP(if :: ok -> reads[p] = PLACE(g, s) + 1 :: else fi);
#else
	STEP(ok = ok && ring == r; if :: ok -> claim_alone(PLACE(g, s), 0); reads[p] = PLACE(g, s) + 1 :: else fi);
#endif
	if
	:: ok ->
#if MUTANT == 36
		STEP(lease[p] = 0; pend[p] = 0);
#endif
		STEP(CLAIM_HIT(bytes0));
		STEP(CLAIM_HIT(bytes1));
		if
		:: (op & MAY_LEAVE) && MUTANT == 39 -> STEP(left[p] = true); STEP(CLAIM_HIT(bytes0))
		:: else
		fi
	:: else
	fi;
	ok = false;
	unpin()
}

/* Take slot c, whose word was cw: ok, and mine is the word. */
inline claim()
{
	mine = SLOT(TAKEN, p, TURN(cw) + 1);
#if MUTANT == 29
	scan_pins(c, g);
	STEP(if :: slot[c] == cw -> slot[c] = mine; ok = true :: else fi);
#else
	STEP(if :: slot[c] == cw -> slot[c] = mine; ok = true :: else fi);
	if
#if MUTANT == 30
	:: ok && STATE(cw) == READY -> scan_pins(c, g)
#else
	:: ok -> scan_pins(c, g)
#endif
	:: else
	fi;
#endif
	if
	:: ok && pinned ->
		STEP(if :: slot[c] == mine -> slot[c] = cw; put_back = true :: else fi);
		ok = false
	:: else
	fi;
	pinned = false;
#if MUTANT != 31
	if
	:: ok ->
		STEP(ok = (ring == r));
		if
		:: !ok -> STEP(if :: slot[c] == mine -> slot[c] = SLOT(FREE, 0, TURN(mine)) :: else fi)
		:: else
		fi
	:: else
	fi;
#endif
	if
	:: ok ->
		STEP(key0[c] = key);
		STEP(key1[c] = key);
		STEP(w = mine; mine = SLOT(WRITING, p, TURN(w));
		     if :: slot[c] == w -> slot[c] = mine :: else -> ok = false fi);
		w = 0
	:: else
	fi
}

/* Write slot c under the word mine. */
inline produce()
{
	STEP(claim_alone(PLACE(g, c), 1); writes[p] = PLACE(g, c) + 1);
	if
	:: STEP(queue_key[p] = key; queue_at[p] = PLACE(g, c); queue_left[p] = 2);
#if MUTANT == 35
		STEP(if :: slot[c] == mine -> slot[c] = SLOT(READY, 0, TURN(mine)) :: else fi);
#endif
		STEP(true);
		queue_left[p] == 0; /* its event; the GPU does not stop */
		STEP(writes[p] = 0;
		     if
		     :: slot[c] == mine -> claim_only_one(c); slot[c] = SLOT(READY, 0, TURN(mine))
		     :: else
		     fi)
	:: STEP(writes[p] = 0; if :: slot[c] == mine -> slot[c] = SLOT(FREE, 0, TURN(mine)) :: else fi)
	fi
}

inline take()
{
	if
	:: key = 1
	:: NK > 1 -> key = 2
	fi;
	STEP(r = ring; g = RING_GEN(r));
	if
	:: RING_STATE(r) != LIVE -> goto taken
	:: else
	fi;
	look(NS);
	if
	:: s < NS -> read()
	:: s == NS && x < NS ->
		/* BUSY: copies alone, or a deadline passes and it looks again. */
		if
		:: (op & MAY_HURRY) ->
			late = true;
			hurried = true;
			look(NS)
		:: true -> goto taken
		fi
	:: else
	fi;
	if
	:: s == NS && c < NS ->
		e = c;
		claim();
		c = e;
		if
		:: ok ->
#if MUTANT != 38
			/* P4: `c` is somebody else's in look(). */
			look(e);
			c = e;
#endif
			if
#if MUTANT != 38
			:: s < NS || x < NS ->
				STEP(if :: slot[c] == mine -> slot[c] = SLOT(FREE, 0, TURN(mine)) :: else fi)
#endif
			:: else -> produce()
			fi
		:: else
		fi
	:: else
	fi;
taken:
	late = false;
	ok = false;
	s = 0; x = 0; c = 0; e = 0; g = 0; r = 0; sw = 0; cw = 0; w = 0; mine = 0; key = 0
}

inline offer()
{
	STEP(r = ring; g = RING_GEN(r));
	if
	:: RING_STATE(r) != EMPTY && OVER(RING_OWNER(r)) ->
		STEP(if :: ring == r -> ring = RING(EMPTY, 0, g + 1) :: else fi)
	:: else
	fi;
	STEP(r = ring; g = RING_GEN(r));
	if
	:: RING_STATE(r) == EMPTY && g < NG ->
		STEP(if :: ring == r -> ring = RING(MAKING, p, g); ok = true :: else fi);
		if
		:: ok ->
			j = 0;
			do
			:: j < NS ->
				/* A loop of CAS; here the one that succeeds. */
#if MUTANT == 33
				STEP(true);
#else
				STEP(slot[j] = SLOT(FREE, 0, TURN(slot[j]) + 1));
#endif
				j++
			:: else -> break
			od;
			j = 0;
			STEP(if :: ring == RING(MAKING, p, g) -> ring = RING(LIVE, p, g) :: else fi)
		:: else
		fi
	:: else
	fi;
	ok = false;
	r = 0;
	g = 0
}

inline withdraw()
{
	STEP(r = ring; g = RING_GEN(r));
	if
	:: RING_STATE(r) == LIVE && RING_OWNER(r) == p ->
#if MUTANT == 37
		x = 0;
		busy = false;
		do
		:: x < NS -> count_use(); x++
		:: else -> break
		od;
		STEP(ring = RING(CLOSING, p, g));
#else
		STEP(ring = RING(CLOSING, p, g));
		x = 0;
		busy = false;
		do
		:: x < NS -> count_use(); x++
		:: else -> break
		od;
#endif
		if
		:: !busy ->
			STEP(ring = RING(EMPTY, 0, g + 1));
			if
			:: !kept -> mine = g + 1
			:: else
			fi
		:: else
		fi
	:: else
	fi;
	x = 0;
	r = 0;
	g = 0;
	busy = false;
	kept = false;
	free()
}

/* Free what was withdrawn, generation mine - 1, or keep it for another look: then `keeps`. */
inline free()
{
	if
	:: mine == 0 -> mine = keeps
	:: mine > 0 && keeps > 0 -> keeps = 0 /* for good: one is enough to look at here */
	:: else
	fi;
	if
	:: mine > 0 ->
		scan_maps();
		if
		:: !pinned -> STEP(claim_unmapped(); freed[mine - 1] = true); keeps = 0
		:: else -> keeps = mine
		fi
	:: else
	fi;
	pinned = false;
	mine = 0
}

/* S5, when process p frees generation mine - 1. */
inline claim_unmapped()
{
	for (i : 0 .. NP - 1) {
		assert(dead[i] || opened[i] != mine);
	}
	i = 0
}

inline scan_maps()
{
	j = 0;
#if MUTANT != 53
	do
	:: j < NP ->
		STEP(if :: map[j] == MAP(mine - 1) && !OVER(j) -> pinned = true :: else fi);
		j++
	:: else -> break
	od;
#endif
	j = 0
}

/* Say it, look whether the ring is still offered, open it; close it, say that. */
inline open()
{
	STEP(r = ring; g = RING_GEN(r));
	if
	:: RING_STATE(r) == LIVE && RING_OWNER(r) != p ->
		STEP(pend[p] = MAP(g));
#if MUTANT != 54
		fence();
#endif
#if MUTANT == 55
		STEP(ok = true);
#else
		STEP(ok = (ring == r));
#endif
		if
		:: ok ->
			/* The driver would refuse what is gone: nobody relies on that. */
			STEP(assert(!freed[g]); opened[p] = g + 1);
#if MUTANT == 56
			unsay();
#endif
			if
			:: (op & MAY_LEAVE) && MUTANT == 57 -> STEP(left[p] = true)
			:: else
			fi;
			STEP(assert(!freed[g]));
			STEP(opened[p] = 0)
		:: else
		fi;
		ok = false;
		unsay()
	:: else
	fi;
	r = 0;
	g = 0
}

inline unsay()
{
	STEP(pend[p] = 0; map[p] = 0)
}

inline count_use()
{
	STEP(w = slot[x]);
	recover(x);
	again = false;
	STEP(w = slot[x]);
	if
	:: STATE(w) == TAKEN || STATE(w) == WRITING -> busy = true
#if MUTANT != 40
	:: STATE(w) == LOST -> kept = true
#endif
	:: else
	fi;
	w = 0;
	scan_pins(x, g);
	busy = busy || pinned;
	pinned = false
}

proctype party(byte p; byte op)
{
	byte times = 0, key, k, s, x, c, e, g, i, j, keeps;
	short r, w, sw, cw, mine;
	bool ok, same, again, late, pinned, busy, kept;

	do
	:: times < TIMES ->
		times++;
		if
		:: op & MAY_TAKE -> take()
		:: op & MAY_OFFER -> offer()
		:: op & MAY_WITHDRAW -> withdraw()
		:: op & MAY_MAP -> open()
		fi
	:: else -> break
	od;
	if
	:: op & MAY_LEAVE -> STEP(left[p] = true)
	:: else
	fi;
	ended[p] = true;
	goto out;
killed:
	/* The kernel takes the process apart; what the store buffer held arrives or not. */
	atomic {
		if
		:: pend[p] -> arrive(p)
		:: true
		fi;
		pend[p] = 0
	}
	atomic { writes[p] = 0; reads[p] = 0; opened[p] = 0; dead[p] = true }
out:
	skip
}

#define DONE(q) (ended[q] || halted[q])

inline copy()
{
	assert(!freed[queue_at[q] / NS]); /* S3 */
	if
	:: queue_left[q] == 2 -> bytes0[queue_at[q]] = queue_key[q]
	:: else -> bytes1[queue_at[q]] = queue_key[q]
	fi;
	queue_left[q]--;
	q = 0
}

/* Store buffers empty at any time; queued copies are done, whoever lives. */
proctype machine()
{
	byte q;

end:	do
	:: atomic { pend[0] -> arrive(0) }
	:: atomic { pend[1] -> arrive(1) }
#if NP > 2
	:: atomic { pend[2] -> arrive(2) }
#endif
	:: atomic { queue_left[0] > 0 -> q = 0; copy() }
	:: atomic { queue_left[1] > 0 -> q = 1; copy() }
#if NP > 2
	:: atomic { queue_left[2] > 0 -> q = 2; copy() }
#endif
	od
}

/* P2: what each slot of a ring whose owner lives is good for, when all is over. */
inline audit()
{
	for (i : 0 .. NS - 1) {
		if
		:: STATE(slot[i]) == TAKEN || STATE(slot[i]) == WRITING ->
			assert(halted[OWNER(slot[i])])
		:: STATE(slot[i]) == LOST -> assert(crashes < NCRASH)
		:: else
		fi
	}
	for (i : 0 .. NP - 1) {
		assert(lease[i] == 0 || halted[i]);
		assert(map[i] == 0 || halted[i]);
		assert(pend[i] == 0 || halted[i]);
	}
	assert(RING_STATE(ring) != MAKING || halted[RING_OWNER(ring)])
}

init {
	byte i;

	atomic {
#ifdef PRELOAD
		/* Process 0 has offered the ring; where there are more keys, slot 0 holds key 1. */
		ring = RING(LIVE, 0, 0);
#if NK > 1
		slot[0] = SLOT(READY, 0, 1);
		key0[0] = 1;
		key1[0] = 1;
		bytes0[0] = 1;
		bytes1[0] = 1;
#endif
#endif
		run party(0, OPS0);
		run party(1, OPS1);
#if NP > 2
		run party(2, OPS2);
#endif
		run machine()
	}
	/* P1: a party that hangs is an invalid end state, here and where it hangs. */
	atomic {
		DONE(0) && DONE(1) && (NP < 3 || DONE(NP - 1));
		audit()
	}
}
