/* SPDX-License-Identifier: MIT */
/*
 * The protocol of leader/group/layout.h for Spin, one shared access per step.
 *
 * Every party may die (SIGKILL) or stop for good (SIGSTOP) at every step, while NCRASH and
 * NSTOP last.  A stopped party that is woken later needs nothing special: any party may rest
 * for as long as it likes between two steps while the others go on.  Deadlines are choices
 * that are always open.  A record has a header and two words of bytes, and there is room for
 * one record in a segment, so every further record seals, drains and reuses.  A record of who
 * MAY_RUN fills two segments: its header and first word lie in the head, the other one behind it.
 *
 * What is claimed (the names are used by the assertions below):
 *   S1  after its recheck a reader sees the complete bytes of the key it asked for, as
 *       long as it holds the pin
 *   S2  nobody writes into a segment whose generation has moved on
 *   S3  bytes that a process not proven dead may still read or write are never reused
 *   S4  no two live members own one segment; an index is given away only when nothing
 *       carries it any more
 *   P1  every party that is neither dead nor stopped ends its operations
 *   P2  what the dead leave behind is recovered by a survivor that looks; a stopped party
 *       costs at most the segment it owns and the one it reads
 *
 * Memory model: a load or store is one step, release and acquire are the order of the steps.
 * The store of a lease is the exception: it goes into a store buffer (pend) that empties at
 * any time, at the latest at the fence.  The other half of the Dekker pair, the CAS to DRAIN,
 * needs its own fence (D2); without it the loads of the leases may be satisfied first, which
 * is what MUTANT 8 does.
 *
 * MUTANT=n breaks one rule each; tests/models/run expects Spin to find an error in all.
 * The state space is kept small by its parameters, which tests/models/run lists.
 */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef NCRASH
#define NCRASH 0 /* how many processes may die */
#endif
#ifndef NSTOP
#define NSTOP 0 /* how many processes may stop for good */
#endif
#ifndef NS
#define NS 2 /* segments */
#endif
#ifndef NM
#define NM 2 /* member slots */
#endif
#ifndef NT
#define NT 2 /* threads */
#endif
#ifndef PROCESS_OF
#define PROCESS_OF(thread) (thread) /* every thread is a process of its own */
#endif
#ifndef LEASES
#define LEASES 1 /* lease words of a member */
#endif
#ifndef NK
#define NK 2 /* keys */
#endif
#ifndef NE
#define NE 1 /* entries; keys compete for one when there are fewer */
#endif
#ifndef TAG
#define TAG(key) (key) /* 0 makes all tags collide */
#endif
#ifndef LOCKLOSS
#define LOCKLOSS 0 /* how many live members lose their lock byte (closerange) */
#endif
#ifndef OPS0
#define OPS0 (MAY_READ | MAY_CLAIM | MAY_EVICT)
#endif
#ifndef OPS1
#define OPS1 OPS0
#endif
#ifndef OPS2
#define OPS2 OPS0
#endif
#ifndef TIMES
#define TIMES 1 /* operations of each thread */
#endif

/* What a thread does. */
#define MAY_READ   1  /* take hits */
#define MAY_CLAIM  2  /* produce what nobody has */
#define MAY_EVICT  4  /* produce what somebody has: the set is full, or the tag collides */
#define MAY_CLEAN  8  /* look for dead members */
#define MAY_LEAVE  16 /* leave at the end */
#define MUST_JOIN  32 /* is no member yet */
#define MAY_GHOST  64 /* leave ghosts */
#define MAY_RUN    128 /* what it produces is a run of two segments */

/* Words, packed so that one comparison is one CAS.  Widths are those of the model. */
#define EMPTY 0
#define GHOST 1
#define CLAIM 2
#define READY 3
#define ENTRY(state, owner, tag, gen) ((state) | ((owner) << 3) | ((tag) << 5) | ((gen) << 6))
#define ENTRY_TAG(word) (((word) >> 5) & 1)
#define ENTRY_GEN(word) ((word) >> 6)

#define FREE   0
#define OPEN   1
#define SEALED 2
#define DRAIN  3
#define TIED   4
#define RUN    32 /* of a head: the next segment is tied to it */
#define SEGMENT(state, owner, gen) ((state) | ((owner) << 3) | ((gen) << 6))
#define SEGMENT_OWNER(word) (((word) >> 3) & 3)
#define SEGMENT_GEN(word) ((word) >> 6)
#define BECOME(word, state, owner) (((word) & ~31) | (state) | ((owner) << 3))

#define LIVE     1
#define CLEANING 2
#define MEMBER(state, process, gen) ((state) | ((process) << 3) | ((gen) << 5))
#define MEMBER_PROCESS(word) (((word) >> 3) & 3)
#define MEMBER_GEN(word) ((word) >> 5)

#define STATE(word) ((word) & 7)
#define AT(segment, gen) (1 | ((segment) << 1) | ((gen) << 3)) /* `where` and a pin */
#define AT_SEGMENT(word) (((word) >> 1) & 3)
#define AT_GEN(word) ((word) >> 3)

#define NOBODY 7
#define NP     4 /* processes; the last one is dead from the start, with WAS_DEAD */
#define NL (NM * LEASES)

/* Shared memory. */
short entry[NE];
short where[NE];
short segment[NS];
short lease[NL];
short member[NM];
byte lock[NM]; /* fcntl: 0, or process + 1 */

/* The bytes of the one record of each segment. */
byte record_key[NS];
byte record_gen[NS];
byte bytes0[NS], bytes1[NS];

/* Private to a process, shared by its threads. */
byte index[NP];      /* of its member */
#ifdef TAKES
byte takes;          /* OPEN segments taken from others so far */
#endif
byte open_at[NP];    /* its OPEN segment + 1 */
byte open_gen[NP];
bool open_full[NP];

/* The machine. */
short pend[NT]; /* store buffer of each thread: a lease word on its way, or 0 */
bool dead[NP], halted[NP];
byte crashes = NCRASH, stops = NSTOP, losses = LOCKLOSS;

/* Only for the claims: the segment + 1 whose bytes a thread believes it may touch. */
byte holds[NT];
bool of_run[NT]; /* and those of the next segment */
bool ended[NT];

#define MY_LEASE (index[p] * LEASES + t % LEASES)

/*
 * One step of thread t of process p; here it may die or stop instead.
 */
#define STEP(...)                                                                                 \
	atomic {                                                                                  \
		if                                                                                \
		:: halted[p] -> goto out                                                          \
		:: !halted[p] -> __VA_ARGS__                                                      \
		:: !halted[p] && crashes > 0 -> crashes--; halted[p] = true; goto killed                                   \
		:: !halted[p] && stops > 0 -> stops--; halted[p] = true; goto out                 \
		fi                                                                                \
	}

inline pin(word)
{
	STEP(pend[t] = word);
}

inline fence()
{
	STEP(if :: pend[t] -> lease[MY_LEASE] = pend[t]; pend[t] = 0 :: else fi);
}

inline unpin()
{
	STEP(pend[t] = 0; lease[MY_LEASE] = 0; holds[t] = 0; of_run[t] = false); /* R3 */
}

/* S3: called in the step that gives the bytes of segment s away. */
inline claim_nobody_holds(s)
{
	for (i : 0 .. NT - 1) {
		assert((holds[i] != s + 1 && (holds[i] != s || !of_run[i])) || dead[PROCESS_OF(i)]);
	}
	i = 0;
}

/*
 * S4: called in the step in which process p becomes the owner of segment s.  Another may
 * still believe that it has the segment, but of an older generation: it was taken while idle.
 */
inline claim_nobody_owns(s)
{
	for (i : 0 .. NP - 1) {
		assert(i == p || dead[i] || open_at[i] != s + 1 || open_gen[i] != SEGMENT_GEN(segment[s]));
	}
	i = 0;
}

/* S4: called in the step in which process p takes member slot m. */
inline claim_nothing_carries(m)
{
	for (i : 0 .. NS - 1) {
		assert((STATE(segment[i]) != OPEN && STATE(segment[i]) != DRAIN) ||
			SEGMENT_OWNER(segment[i]) != m);
	}
	for (i : 0 .. LEASES - 1) {
		assert(lease[m * LEASES + i] == 0);
	}
	i = 0;
}

/* S2: called in each step that writes bytes. */
#define CLAIM_STILL_MINE(s, g) assert(SEGMENT_GEN(segment[s]) == g && STATE(segment[s]) != FREE)

/* Make segment s, just moved from FREE(g) to OPEN, the one this process allocates in. */
inline adopt(s, g)
{
	claim_nobody_owns(s);
	if
	:: open_at[p] == 0 -> open_at[p] = s + 1; open_gen[p] = g; open_full[p] = false
	:: else -> segment[s] = SEGMENT(SEALED, 0, g) /* another thread was faster */
	fi
}

/* ok: the word sw of segment s is FREE, or TIED to no head that has it. */
inline look_if_free(s)
{
	ok = (STATE(sw) == FREE);
#ifdef RUNS
	if
	:: STATE(sw) == TIED ->
#if MUTANT == 88
		STEP(ok = ((STATE(segment[s - 1]) != OPEN && STATE(segment[s - 1]) != SEALED) || !(segment[s - 1] & RUN)));
#else
		STEP(ok = ((STATE(segment[s - 1]) != OPEN && STATE(segment[s - 1]) != SEALED && STATE(segment[s - 1]) != DRAIN)
			|| !(segment[s - 1] & RUN)));
#endif
#if MUTANT == 90
		STEP(sw = segment[s]); /* the head was looked at first */
		ok = ok && STATE(sw) == TIED
#endif
	:: else
	fi
#endif
}

/* The generation of the next tenure of a segment with a word that is free. */
#if MUTANT == 86
#define NEXT_GEN(word) SEGMENT_GEN(word)
#else
#define NEXT_GEN(word) (SEGMENT_GEN(word) + (STATE(word) == TIED))
#endif

/* D2: from SEALED(g) to DRAIN, look for pins, free it or put it back. */
inline drain(s, word)
{
#if MUTANT == 8
	ok = true;
	scan(s, SEGMENT_GEN(word));
	STEP(if :: segment[s] == word -> segment[s] = BECOME(word, DRAIN, index[p])
	     :: else -> ok = false; pinned = false fi);
#else
	STEP(if :: segment[s] == word -> segment[s] = BECOME(word, DRAIN, index[p]); ok = true
	     :: else -> ok = false fi);
	if
	:: ok -> scan(s, SEGMENT_GEN(word))
	:: else
	fi;
#endif
	if
	:: ok && pinned ->
		STEP(if :: segment[s] == BECOME(word, DRAIN, index[p]) -> segment[s] = word
		     :: else fi);
		s++
	:: ok && !pinned ->
		STEP(if :: segment[s] == BECOME(word, DRAIN, index[p]) -> claim_nobody_holds(s);
#if MUTANT == 7
			segment[s] = SEGMENT(FREE, 0, SEGMENT_GEN(word))
#else
			segment[s] = SEGMENT(FREE, 0, SEGMENT_GEN(word) + 1)
#endif
		     :: else fi)
	:: !ok -> s++
	fi;
	pinned = false;
	ok = false
}

inline scan(s, g)
{
	pinned = false;
	j = 0;
	do
	:: j < NL ->
		STEP(if :: lease[j] == AT(s, g) -> pinned = true :: else fi);
		j++
	:: j == NL -> break
	od;
	j = 0;
#if MUTANT == 3
	if
	:: pinned = false /* the deadline of whoever pins it has passed */
	:: true
	fi
#endif
}

/* Own an OPEN segment if there is one to be had. */
inline acquire()
{
	s = 0;
	do
	:: s < NS && open_at[p] == 0 ->
		STEP(sw = segment[s]);
		look_if_free(s);
		if
		:: ok ->
			STEP(if :: segment[s] == sw ->
					claim_nobody_holds(s);
					segment[s] = SEGMENT(OPEN, index[p], NEXT_GEN(sw));
					adopt(s, SEGMENT_GEN(segment[s]))
			     :: else fi);
			ok = false
		:: !ok && STATE(sw) == SEALED -> drain(s, sw)
#ifdef TAKES
		:: !ok && STATE(sw) == OPEN && SEGMENT_OWNER(sw) != index[p] && takes < TAKES ->
			/* Of an owner that is idle, or seems to be. */
			STEP(takes++; if :: segment[s] == sw -> segment[s] = BECOME(sw, SEALED, 0) :: else fi)
#endif
		:: else -> s++
		fi;
		sw = 0
	:: else -> break
	od;
	s = 0
}

/* A place for a record: x, g, and holds[t] set; or got == false. */
inline reserve()
{
	got = false;
	tries = 0;
	do
	:: tries < 2 && !got ->
		tries++;
		acquire();
		STEP(if :: open_at[p] -> x = open_at[p] - 1; g = open_gen[p]; ok = true :: else -> ok = false fi);
		if
		:: !ok -> tries = 2
		:: else ->
#if MUTANT != 10
			pin(AT(x, g));
			fence();
#endif
#if MUTANT == 20
			STEP(ok = true);
#else
			STEP(ok = (segment[x] == SEGMENT(OPEN, index[p], g)));
#endif
			STEP(if
			     :: ok && open_at[p] == x + 1 && open_gen[p] == g && !open_full[p] ->
				open_full[p] = true;
				got = true;
				holds[t] = x + 1
			     :: else fi);
			if
			:: !got ->
				unpin();
				seal(x, g)
			:: else
			fi;
			ok = false
		fi
	:: else -> break
	od;
	tries = 0
}

#ifdef RUNS
/*
 * A run for a record, with its head in segment 0 (or, with RUNS > 1, in any): x, g, and holds[t]
 * set; or got == false.
 */
inline reserve_run()
{
	if
	:: x = 0
#if RUNS > 1
	:: x = 1
#endif
	fi;
	have(x, 0);
	if
	:: got ->
#if MUTANT == 89
		have(x + 1, 1);
		pin(AT(x, g));
		fence();
#else
		pin(AT(x, g));
		fence();
		STEP(got = (segment[x] == (SEGMENT(OPEN, index[p], g) | RUN)));
		if
		:: got -> have(x + 1, 1)
		:: else
		fi;
#endif
		if
		:: got -> STEP(holds[t] = x + 1; of_run[t] = true)
		:: else ->
			unpin();
			/* Whoever gets the head gets all of it. */
			seal_run(x, g);
			s = x;
			drain(s, (SEGMENT(SEALED, 0, g) | RUN))
		fi
	:: else
	fi;
	s = 0
}

/* Make segment @at ours, as the head, or as the one that is tied to it; got tells. */
inline have(at, is_tail)
{
	got = false;
	tries = 0;
	do
	:: tries < 2 && !got ->
		tries++;
		s = at;
		STEP(sw = segment[s]);
		look_if_free(s);
		if
		:: ok || (is_tail && STATE(sw) == TIED) -> /* also of a head that was there before */
			STEP(if
			     :: segment[s] == sw && is_tail ->
				segment[s] = SEGMENT(TIED, 0, NEXT_GEN(sw));
				got = true
			     :: segment[s] == sw && !is_tail ->
				claim_nobody_holds(s);
				claim_nobody_owns(s);
				segment[s] = SEGMENT(OPEN, index[p], NEXT_GEN(sw)) | RUN;
				g = SEGMENT_GEN(segment[s]);
				got = true
			     :: else
			     fi);
			ok = false
		:: !ok && STATE(sw) == SEALED -> drain(s, sw)
		:: !ok && !is_tail && STATE(sw) == TIED ->
			s--;
			STEP(sw = segment[s]);
			if
			:: STATE(sw) == SEALED -> drain(s, sw)
			:: else
			fi
#ifdef TAKES
		:: !ok && STATE(sw) == OPEN && SEGMENT_OWNER(sw) != index[p] && takes < TAKES ->
			STEP(takes++; if :: segment[s] == sw -> segment[s] = BECOME(sw, SEALED, 0) :: else fi)
#endif
		:: else -> tries = 2
		fi;
		sw = 0
	:: else -> break
	od;
	tries = 0;
	s = 0
}

inline seal_run(x, g)
{
	STEP(if :: segment[x] == (SEGMENT(OPEN, index[p], g) | RUN) -> segment[x] = SEGMENT(SEALED, 0, g) | RUN
	     :: else fi)
}
#endif

/* R2 */
inline seal(x, g)
{
	STEP(if :: segment[x] == SEGMENT(OPEN, index[p], g) -> segment[x] = SEGMENT(SEALED, 0, g) :: else fi;
	     if :: open_at[p] == x + 1 && open_gen[p] == g -> open_at[p] = 0; open_gen[p] = 0; open_full[p] = false
	     :: else fi)
}

#define AT_ENTRY (key % NE)

#define PUBLISH STEP(if :: entry[AT_ENTRY] == mine -> entry[AT_ENTRY] = ENTRY(READY, 0, TAG(key), ENTRY_GEN(mine)) :: else fi)

/* Produce the record of `key` under the claim `mine`. */
inline produce()
{
	reserve();
	if
	:: got ->
		STEP(CLAIM_STILL_MINE(x, g); record_key[x] = key; record_gen[x] = g; bytes0[x] = 0; bytes1[x] = 0);
#if MUTANT == 5
		STEP(where[AT_ENTRY] = AT(x, g));
#endif
#if MUTANT == 4
		STEP(where[AT_ENTRY] = AT(x, g));
		PUBLISH;
#endif
		STEP(CLAIM_STILL_MINE(x, g); bytes0[x] = key + 1);
		STEP(CLAIM_STILL_MINE(x, g); bytes1[x] = key + 1);
#if MUTANT != 5
		STEP(where[AT_ENTRY] = AT(x, g)); /* R1: bytes, where, READY */
#endif
		if
		:: PUBLISH
		:: STEP(if :: entry[AT_ENTRY] == mine -> entry[AT_ENTRY] = ENTRY(EMPTY, 0, 0, ENTRY_GEN(mine)) :: else fi)
		fi;
		unpin()
	:: else -> /* abandon */
		STEP(if :: entry[AT_ENTRY] == mine -> entry[AT_ENTRY] = ENTRY(EMPTY, 0, 0, ENTRY_GEN(mine)) :: else fi)
	fi;
	got = false;
	x = 0;
	g = 0;
	mine = 0
}

#ifdef RUNS
/* S2, of the segment behind the head. */
#define CLAIM_STILL_TIED(x) assert(STATE(segment[x + 1]) == TIED)

/* As produce(): the run is sealed before the pin goes. */
inline produce_run()
{
	reserve_run();
	if
	:: got ->
		STEP(CLAIM_STILL_MINE(x, g); record_key[x] = key; record_gen[x] = g; bytes0[x] = 0);
		STEP(CLAIM_STILL_MINE(x, g); CLAIM_STILL_TIED(x); bytes1[x + 1] = 0);
		STEP(CLAIM_STILL_MINE(x, g); bytes0[x] = key + 1);
		STEP(CLAIM_STILL_MINE(x, g); CLAIM_STILL_TIED(x); bytes1[x + 1] = key + 1);
		STEP(where[AT_ENTRY] = AT(x, g)); /* R1 */
		if
		:: PUBLISH
		:: STEP(if :: entry[AT_ENTRY] == mine -> entry[AT_ENTRY] = ENTRY(EMPTY, 0, 0, ENTRY_GEN(mine)) :: else fi)
		fi;
		seal_run(x, g);
		unpin()
	:: else -> /* abandon */
		STEP(if :: entry[AT_ENTRY] == mine -> entry[AT_ENTRY] = ENTRY(EMPTY, 0, 0, ENTRY_GEN(mine)) :: else fi)
	fi;
	got = false;
	x = 0;
	g = 0;
	mine = 0
}
#endif

/* A1 and D1: read the record that `ew` (READY) and `where` name. */
inline read()
{
	STEP(x = AT_SEGMENT(where[AT_ENTRY]); g = AT_GEN(where[AT_ENTRY]));
	pin(AT(x, g));
#if MUTANT != 1
	fence();
#endif
	STEP(ok = (entry[AT_ENTRY] == ew));
#ifdef RUNS
	STEP(ok = ok && (STATE(segment[x]) == OPEN || STATE(segment[x]) == SEALED) && SEGMENT_GEN(segment[x]) == g;
	     if :: ok -> holds[t] = x + 1; of_run[t] = ((segment[x] & RUN) != 0) :: else fi);
#elif MUTANT == 2
	STEP(if :: ok -> holds[t] = x + 1 :: else fi);
#elif MUTANT == 16
	STEP(ok = ok && (STATE(segment[x]) == OPEN || STATE(segment[x]) == SEALED);
	     if :: ok -> holds[t] = x + 1 :: else fi);
#else
	STEP(ok = ok && (STATE(segment[x]) == OPEN || STATE(segment[x]) == SEALED) && SEGMENT_GEN(segment[x]) == g;
	     if :: ok -> holds[t] = x + 1 :: else fi);
#endif
	if
	:: ok ->
#if MUTANT == 9
		STEP(lease[MY_LEASE] = 0);
#endif
#if MUTANT == 15
		ok = true;
#elif MUTANT == 16
		STEP(ok = (record_key[x] == key));
#else
		STEP(ok = (record_key[x] == key && record_gen[x] == g));
#endif
		if
		:: ok ->
			/* S1, twice: the bytes do not change while they are used. */
			STEP(assert(bytes0[x] == key + 1));
			STEP(assert(bytes1[x + of_run[t]] == key + 1));
			STEP(assert(bytes0[x] == key + 1 && bytes1[x + of_run[t]] == key + 1))
		:: else
		fi
	:: else
	fi;
	unpin();
	ok = false;
	x = 0;
	g = 0
}

/* One CAS on the entry, from the exact word `ew`, to a claim of mine; then produce. */
inline claim()
{
	STEP(if
	     :: entry[AT_ENTRY] == ew -> mine = ENTRY(CLAIM, index[p], TAG(key), ENTRY_GEN(ew) + 1); entry[AT_ENTRY] = mine
	     :: else -> mine = 0 fi);
	if
#ifdef RUNS
	:: mine && (ops & MAY_RUN) -> produce_run()
	:: mine && !(ops & MAY_RUN) -> produce()
#else
	:: mine -> produce()
#endif
	:: else
	fi
}

inline take()
{
	STEP(ew = entry[AT_ENTRY]);
	if
	:: STATE(ew) != READY && STATE(ew) != CLAIM && (ops & MAY_CLAIM) -> ok = true
	:: STATE(ew) == EMPTY && (ops & MAY_GHOST) ->
		STEP(if :: entry[AT_ENTRY] == ew ->
				entry[AT_ENTRY] = ENTRY(GHOST, index[p], TAG(key), ENTRY_GEN(ew) + 1)
		     :: else fi)
	:: STATE(ew) == READY && ENTRY_TAG(ew) == TAG(key) && (ops & MAY_READ) -> read()
	:: STATE(ew) == READY && (ops & MAY_EVICT) -> ok = true
	:: STATE(ew) == CLAIM -> /* BUSY: wait, but never longer than until the deadline */
		if
		:: entry[AT_ENTRY] != ew
		:: halted[p] -> goto out
#if MUTANT == 19
		:: else -> do :: STEP(ok = (entry[AT_ENTRY] != ew)); if :: ok -> ok = false; break :: else fi od
#elif MUTANT != 13
		:: (ops & MAY_CLAIM) -> ok = true /* take it over */
		:: true /* pass: work alone */
#endif
		fi
	:: true
	fi;
	if
	:: ok -> ok = false; claim()
	:: else
	fi;
	ew = 0
}

/* Is process q proven dead?  The lock byte is of slot m, which q holds or has held. */
#if MUTANT == 11
#define PROVEN_DEAD(q, m) (lock[m] == 0)
#else
#define PROVEN_DEAD(q, m) (lock[m] == 0 && dead[q])
#endif
#if MUTANT == 12
#define CLEANER_GONE(q) true
#else
#define CLEANER_GONE(q) dead[q]
#endif

#define FREE_SLOT STEP(if :: member[m] == mine -> member[m] = MEMBER(FREE, 0, MEMBER_GEN(mine) + 1) :: else fi)

/* Look at every member; undo what a dead one left. */
inline clean()
{
	m = 0;
	do
	:: m < NM ->
		STEP(mw = member[m]);
		ok = false;
		if
		:: m != index[p] && STATE(mw) == LIVE -> STEP(ok = PROVEN_DEAD(MEMBER_PROCESS(mw), m))
		:: m != index[p] && STATE(mw) == CLEANING && MEMBER_PROCESS(mw) != p ->
			STEP(ok = CLEANER_GONE(MEMBER_PROCESS(mw)))
		:: else
		fi;
		if
		:: ok ->
			STEP(if :: member[m] == mw -> mine = MEMBER(CLEANING, p, MEMBER_GEN(mw)); member[m] = mine
			     :: else -> ok = false fi)
		:: else
		fi;
		if
		:: ok ->
#if MUTANT == 6
			FREE_SLOT;
#endif
			s = 0;
			do
			:: s < NS ->
				STEP(sw = segment[s]);
				if
#if MUTANT != 18
				:: STATE(sw) == DRAIN && SEGMENT_OWNER(sw) == m ->
					STEP(if :: segment[s] == sw -> segment[s] = BECOME(sw, SEALED, 0) :: else fi)
#endif
				:: STATE(sw) == OPEN && SEGMENT_OWNER(sw) == m ->
#if MUTANT == 87
					STEP(if :: segment[s] == sw -> segment[s] = SEGMENT(SEALED, 0, SEGMENT_GEN(sw)) :: else fi)
#else
					STEP(if :: segment[s] == sw -> segment[s] = BECOME(sw, SEALED, 0) :: else fi)
#endif
				:: else
				fi;
				s++
			:: else -> break
			od;
			s = 0;
			sw = 0;
#if MUTANT != 17
			j = 0;
			do
			:: j < LEASES -> STEP(lease[m * LEASES + j] = 0); j++
			:: else -> break
			od;
			j = 0;
#endif
#if MUTANT != 6
			FREE_SLOT;
#endif
		:: else
		fi;
		mine = 0;
		ok = false;
		mw = 0;
		m++
	:: else -> break
	od;
	m = 0
}

/* Take the lock byte of a FREE slot, then its word. */
inline join()
{
	m = 0;
	do
	:: m < NM && index[p] == NOBODY ->
		STEP(mw = member[m]);
		if
		:: STATE(mw) == FREE ->
			STEP(if :: lock[m] == 0 -> lock[m] = p + 1; ok = true :: else -> ok = false fi);
			if
			:: ok ->
				STEP(if :: member[m] == mw ->
						claim_nothing_carries(m);
						member[m] = MEMBER(LIVE, p, MEMBER_GEN(mw));
						index[p] = m
				     :: else -> lock[m] = 0
				     fi)
			:: else
			fi;
			ok = false
		:: else
		fi;
		mw = 0;
		m++
	:: else -> break
	od;
	m = 0
}

inline leave()
{
#if MUTANT != 14
	STEP(if :: open_at[p] -> x = open_at[p] - 1; g = open_gen[p]; ok = true :: else fi);
	if
	:: ok -> seal(x, g)
	:: else
	fi;
	x = 0; g = 0; ok = false;
#endif
	STEP(m = index[p]; member[m] = MEMBER(FREE, 0, MEMBER_GEN(member[m]) + 1); index[p] = NOBODY;
	     open_at[p] = 0; open_gen[p] = 0; open_full[p] = false);
	STEP(lock[m] = 0);
	m = 0
}

proctype party(byte t; byte p; byte ops)
{
	byte times, key, i, j, s, x, g, m, tries;
	short ew, sw, mw, mine;
	bool ok, got, pinned;

	if
	:: ops & MUST_JOIN -> join()
	:: else
	fi;
	do
	:: times < TIMES && index[p] != NOBODY ->
		times++;
		if
		:: (ops & MAY_CLEAN) -> clean()
		:: (ops & (MAY_READ | MAY_CLAIM | MAY_EVICT | MAY_GHOST)) ->
			if
			:: key = 0
			:: NK > 1 -> key = 1
			fi;
			take();
			key = 0
		fi
	:: else -> break
	od;
	if
	:: index[p] != NOBODY && (ops & MAY_LEAVE) -> leave()
	:: else
	fi;
	ended[t] = true;
	goto out;
killed:
	/* What it has stored becomes visible, the kernel drops its locks, its process is gone. */
	atomic {
		for (i : 0 .. NT - 1) {
			if
			:: PROCESS_OF(i) == p && pend[i] ->
				lease[index[p] * LEASES + i % LEASES] = pend[i];
				pend[i] = 0
			:: else
			fi
		}
		for (i : 0 .. NM - 1) {
			if
			:: lock[i] == p + 1 -> lock[i] = 0
			:: else
			fi
		}
		i = 0;
		dead[p] = true
	}
out:
	skip
}

/* The store buffers empty themselves, sooner or later. */
proctype buffers()
{
	byte t, p;
end:
	do
	:: atomic { pend[0] -> t = 0; p = PROCESS_OF(0); lease[MY_LEASE] = pend[t]; pend[t] = 0; t = 0; p = 0 }
#if NT > 1
	:: atomic { pend[1] -> t = 1; p = PROCESS_OF(1); lease[MY_LEASE] = pend[t]; pend[t] = 0; t = 0; p = 0 }
#endif
#if NT > 2
	:: atomic { pend[2] -> t = 2; p = PROCESS_OF(2); lease[MY_LEASE] = pend[t]; pend[t] = 0; t = 0; p = 0 }
#endif
	od
}

#if LOCKLOSS
/* The host closes descriptors of the lock file: live members lose their locks. */
proctype closer()
{
	byte m;
end:
	do
	:: losses > 0 && lock[m] -> atomic { lock[m] = 0; losses--; m = 0 }
	:: m < NM - 1 -> m++
	od
}
#endif

/* P1 and P2: when nobody moves any more, a survivor looks at what is left. */
inline audit()
{
	for (i : 0 .. NT - 1) {
		assert(ended[i] || halted[PROCESS_OF(i)]); /* P1 */
	}
	/* What clean() does, for every member whose owner or cleaner is proven dead. */
	for (m : 0 .. NM - 1) {
		if
		:: STATE(member[m]) != FREE && dead[MEMBER_PROCESS(member[m])] ->
#if MUTANT != 18
			for (i : 0 .. NS - 1) {
				if
				:: (STATE(segment[i]) == OPEN || STATE(segment[i]) == DRAIN) &&
					SEGMENT_OWNER(segment[i]) == m ->
					segment[i] = BECOME(segment[i], SEALED, 0)
				:: else
				fi
			}
#endif
#if MUTANT != 17
			for (i : 0 .. LEASES - 1) {
				lease[m * LEASES + i] = 0
			}
#endif
			member[m] = 0
		:: else
		fi
	}
	/* P2: nothing but what the stopped hold is lost; each holds two segments at most. */
	lost = 0;
	for (i : 0 .. NS - 1) {
		held = (STATE(segment[i]) == OPEN || STATE(segment[i]) == DRAIN);
		if
		:: held -> assert(STATE(member[SEGMENT_OWNER(segment[i])]) != FREE)
		:: else
		fi;
		for (m : 0 .. NL - 1) {
			if
			:: lease[m] == AT(i, SEGMENT_GEN(segment[i])) ->
				assert(STATE(member[m / LEASES]) != FREE);
				held = true
			:: else
			fi
		}
		for (m : 0 .. NP - 1) {
			/* the segment that a party which has ended keeps open is no loss */
			if
			:: held && open_at[m] == i + 1 && !halted[m] -> held = false
			:: else
			fi
		}
		lost = lost + held
	}
	assert(lost <= 2 * (NSTOP - stops))
}

init
{
	byte i, m, lost;
	bool held;

	atomic {
		for (i : 0 .. NP - 1) {
			index[i] = NOBODY
		}
#ifdef PRELOAD
		/* An earlier life left a record of key 0 in segment 0. */
		segment[0] = SEGMENT(SEALED, 0, 1);
		record_key[0] = 0;
		record_gen[0] = 1;
		bytes0[0] = 1;
		bytes1[0] = 1;
		where[0] = AT(0, 1);
		entry[0] = ENTRY(READY, 0, TAG(0), 1);
#ifdef RUNS
		segment[0] = segment[0] | RUN;
		segment[1] = SEGMENT(TIED, 0, 0);
		bytes1[1] = 1;
#endif
#endif
#ifdef WAS_DEAD
		/* A process has died as the last member, while it wrote into one segment. */
		index[3] = NM - 1;
		dead[3] = true;
		halted[3] = true;
		member[NM - 1] = MEMBER(LIVE, 3, 0);
#ifdef RUNS
		/* Its record is there, and not sealed yet. */
		segment[0] = BECOME(segment[0], OPEN, NM - 1);
		lease[NL - 1] = AT(0, 1);
#else
		segment[NS - 1] = SEGMENT(OPEN, NM - 1, 0);
		lease[NL - 1] = AT(NS - 1, 0);
#endif
#endif
		m = 0;
#define START(t, o)                                                                               \
		if                                                                                \
		:: !((o) & MUST_JOIN) && index[PROCESS_OF(t)] == NOBODY ->                        \
			index[PROCESS_OF(t)] = m;                                                 \
			member[m] = MEMBER(LIVE, PROCESS_OF(t), 0);                               \
			lock[m] = PROCESS_OF(t) + 1;                                              \
			m++                                                                       \
		:: else                                                                           \
		fi;                                                                               \
		run party(t, PROCESS_OF(t), o)
		START(0, OPS0);
#if NT > 1
		START(1, OPS1);
#endif
#if NT > 2
		START(2, OPS2);
#endif
		run buffers();
#if LOCKLOSS
		run closer();
#endif
		i = 0;
		m = 0
	}
#ifndef PROGRESS
	timeout -> d_step { audit() }
#endif
}

#ifdef PROGRESS
/* P1 once more, under weak fairness: nobody runs in circles either. */
#define OVER(t) (ended[t] || halted[PROCESS_OF(t)])
ltl ends { (<> OVER(0)) && (<> OVER(1)) }
#endif
