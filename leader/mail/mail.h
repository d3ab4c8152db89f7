/* SPDX-License-Identifier: MIT */
/*
 * How jobs ask the helper that talks to other nodes (leader/peer), and are answered: a table
 * of requests in shared memory, an object of the group ("peers", leader/group/attach.h).
 *
 * The owner of a slot is the thread that asks.  If it asks for bytes of a file, it fills the
 * .part of a copy, whose lock it has (leader/files/stage.h).  The helper writes bytes into
 * that file, all of them proven to be the value's, or none; only the owner writes there
 * besides.
 *
 * If it asks for a sample, it has claimed the record in the ring (leader/group/store.h), and
 * does other work while it waits (struct ts_errand).  The first TS_MAIL_PLACES slots are for
 * samples, and each of them has a place: TS_MAIL_ROOM bytes in an object of its own
 * ("places"). The helper alone writes there, and only while the slot is TAKEN or LEFT.  The
 * owner reads there, and only while the slot is ANSWERED with GOT: it copies the record into
 * the ring, and publishes it as its own.  An owner that has WON makes the record, publishes
 * it, and names it by SAMPLE_STORE: the helper finds it in the ring, and pins it by a lease of
 * its own.
 *
 * ---- A slot ------------------------------------------------------------------------------
 *
 *	FREE      nobody's, and `owner` is 0; or its owner has just taken it or just ended
 *	POSTED    the request is written
 *	TAKEN     the helper works at it
 *	LEFT      likewise, and the owner waits no more
 *	ANSWERED  .answer holds; the helper is done with it
 *
 *	owner 0 -> id       the asker, by CAS: the slot is its own; the state is FREE
 *	FREE -> POSTED      the owner, behind the request (M1)
 *	POSTED -> TAKEN     the helper, by CAS (M2)
 *	TAKEN -> ANSWERED   the helper, by CAS, behind the bytes (M3)
 *	TAKEN -> LEFT       the owner at its deadline, by CAS
 *	LEFT -> FREE        the helper, then owner -> 0
 *	POSTED -> FREE      the owner at its deadline, by CAS, then owner -> 0
 *	ANSWERED -> FREE    the owner, behind its look at the answer (M4), then owner -> 0
 *	ANSWERED -> POSTED  the owner that has WON the value: as (SAMPLE_)STORE, once it has
 * made it, or as (SAMPLE_)RETURN, where it cannot.  It does not wait for these
 *
 * A STORE, a RETURN or a NAME needs no owner: the helper ends it with FREE and owner -> 0.
 *
 * An owner that has LEFT a TAKEN slot must not use its file any more, for the helper may still
 * write to it: it takes the name away and begins another file.  So nobody ever writes to a
 * complete copy, whichever process was stopped for how long.  If it asked for a sample, it
 * must not look at the place any more, which is the helper's until the helper has freed the
 * slot.
 *
 * ---- What a crash leaves -----------------------------------------------------------------
 *
 * An owner's: a slot with a dead owner.  The helper frees it in FREE, ANSWERED and POSTED.
 * But it still does a posted STORE or RETURN, and returns a value that the owner had WON.  It
 * ends a TAKEN slot as ever.  The .part and its lock go as those of any dead maker.
 *
 * The helper's: there is one at a time, the process that has the lock of byte 0 of the object
 * (an open file's, so the kernel drops it).  The next helper answers FAILED to TAKEN slots,
 * ends LEFT ones, and goes on.  Until then owners wait to their deadline at most.
 *
 * ---- Sleeping ----------------------------------------------------------------------------
 *
 * Owners sleep on .state (futex).  The helper sleeps in poll(2), for the sake of its sockets,
 * and watches the object by inotify(7).  An owner that has posted and then finds it asleep
 * sets the object's times, which is an event.  Each says first, then looks:
 *
 *	M5  the helper: asleep = 1; full fence; look at all slots; poll
 *	M6  the owner:  POSTED;     full fence; look at `asleep`; ring
 *
 * Without inotify the helper looks every TS_MAIL_LOOK_MS.
 *
 * ---- Ordering ----------------------------------------------------------------------------
 *
 *	M1  request, then POSTED by release     pairs with M2, acquire, then the request
 *	M3  answer, then ANSWERED by CAS        pairs with the owner's acquire, then the answer
 *	M4  FREE by release, then owner 0 by release
 *	                                        pairs with the next owner's CAS, acquire
 *
 * A stopped helper keeps its lock, so nobody takes over what it may still write to: its slots
 * stay TAKEN or LEFT until it goes on or dies.
 *
 * tests/models/mail.pml is all of this for Spin, tests/models/samples.pml what is said of
 * samples.
 */
#ifndef TS_LEADER_MAIL_MAIL_H
#define TS_LEADER_MAIL_MAIL_H

#include "leader/group/attach.h"
#include "shim/hash.h"

#define TS_MAIL_MAGIC        UINT64_C(0x7372656570746d31) /* "1mtpeers", little endian */
#define TS_MAIL_ABI          4u
#define TS_MAIL_PLACES_MAGIC UINT64_C(0x6563616c70746d31) /* "1mtplace" */

/* Of all slots the first ones are for samples, and have a place each. */
#define TS_MAIL_PLACES    32u
#define TS_MAIL_SLOTS     (TS_MAIL_PLACES + 128u)
#define TS_MAIL_ROOM      (UINT64_C(4) << 20) /* of a place: the largest sample, and its head */
#define TS_MAIL_PEERS     256u /* of which something is told; further ones are asked as well */
#define TS_MAIL_PEER_NAME 64u

/* Longest stay of the helper in poll(2): it looks then who has died. */
#define TS_MAIL_TICK_MS 200u
/* Without inotify. */
#define TS_MAIL_LOOK_MS 2u

/* How long somebody waits who asks for a value that another node is making. */
#define TS_MAIL_WAIT_NS UINT64_C(1000000000)
/* What the helper gets beyond that to say so. */
#define TS_MAIL_SLACK_NS UINT64_C(50000000)

/* After one was started, and after one did not answer. */
#define TS_MAIL_PAUSE_NS UINT64_C(5000000000)

/* What may be asked for: (name, whether its owner waits for an answer, text). */
#define TS_MAIL_KINDS(X)                                                             \
	X(FETCH, true, "bytes of a file, or the right to be the first who reads it") \
	X(BRING, true, "a copy of what a path leads to, and that it does")           \
	X(STORE, false, "what was won and made, for other nodes")                    \
	X(RETURN, false, "what was won and cannot be made")                          \
	X(NAME, false, "that a path leads to what this is a copy of")                \
	X(SAMPLE, true, "a sample, or the right to be the first who makes it")       \
	X(SAMPLE_STORE, false, "a sample that was won and made, for other nodes")    \
	X(SAMPLE_RETURN, false, "a sample that was won and is not there")

/* (name, text). Of these only GOT and WON are not "do it alone". */
#define TS_MAIL_ANSWERS(X)                                            \
	X(GOT, "the bytes are in the file, all of them")              \
	X(WON, "no node has it: make it, then STORE or RETURN")       \
	X(NONE, "no node has it, or not all of it")                   \
	X(LATE, "another node makes it, and took too long")           \
	X(CLOSED, "its node is left alone for a while")               \
	X(FAILED, "its node did not answer, or answered nonsense")    \
	X(REFUSED, "a value that nobody who has the secret has made") \
	X(UNFIT, "the request or its file is none")

/* Counted for each node; appended to only. */
#define TS_MAIL_COUNTERS(X)                                         \
	X(ASKED, asked, "values asked for")                         \
	X(GOT, got, "values that came whole")                       \
	X(GOT_BYTES, got_bytes, "their bytes")                      \
	X(WON, won, "values that were ours to make")                \
	X(STORED, stored, "values handed over")                     \
	X(STORED_BYTES, stored_bytes, "their bytes")                \
	X(NONE, none, "values that were not there, or in part")     \
	X(LATE, late, "values not waited for any longer")           \
	X(CLOSED, closed, "values not asked for, as it had failed") \
	X(FAILED, failed, "values lost to a broken connection")     \
	X(REFUSED, refused, "values not made by who may")           \
	X(FULL, full, "values that it had no room for")             \
	X(OPENED, opened, "connections begun")                      \
	X(TOLD, told, "paths that were told of")                    \
	X(BROUGHT, brought, "copies and paths that came")           \
	X(REMOVED, removed, "samples removed for newer ones")

enum ts_mail_kind {
#define TS_X(name, waits, text) TS_MAIL_##name,
	TS_MAIL_KINDS(TS_X)
#undef TS_X
		TS_MAIL_KIND_COUNT
};

enum ts_mail_answer {
#define TS_X(name, text) TS_MAIL_SAYS_##name,
	TS_MAIL_ANSWERS(TS_X)
#undef TS_X
		TS_MAIL_ANSWER_COUNT
};

enum ts_mail_counter {
#define TS_X(name, field, text) TS_MAIL_COUNT_##name,
	TS_MAIL_COUNTERS(TS_X)
#undef TS_X
		TS_MAIL_COUNTER_COUNT
};

enum ts_mail_state {
	TS_MAIL_FREE,
	TS_MAIL_POSTED,
	TS_MAIL_TAKEN,
	TS_MAIL_LEFT,
	TS_MAIL_ANSWERED,
};

/**
 * A request.  The file is <stem of the group's copies><digits of @copy>, with ".part" or not.
 *
 *	FETCH, STORE, RETURN   @name of the file, @piece, @copy, @inode, @at, @bytes
 *	BRING                  @name of the path, @known_as, @root_…, @seconds
 *	NAME                   @name of the path, @inode, @root_device, @seconds
 *	SAMPLE…                @name: the key of the record, the same on all nodes; @made_ns
 */
struct ts_mail_request {
	uint32_t kind;
	uint32_t piece;         /* of a large file: which; else 0 */
	struct ts_hash128 name; /* of a file or a path, the same on all nodes */
	struct ts_hash128 copy;
	uint64_t inode;                   /* of the .part, and so of the copy */
	uint64_t at, bytes;               /* where in the file the value lies */
	uint64_t until_ns;                /* of ts_now_ns(); the helper answers until then */
	struct ts_hash128 known_as;       /* the path's name in the index of copies */
	uint64_t root_device, root_inode; /* of the data set's directory, here */
	uint64_t seconds;                 /* for which a path may be known */
	uint64_t made_ns;                 /* how long it took to make the sample */
	uint64_t place; /* the helper's, of what was WON or GOT: which one it is there */
};

struct ts_mail_slot {
	_Alignas(64) _Atomic uint64_t owner; /* ts_process_id() */
	_Atomic uint32_t state, answer;
	struct ts_mail_request request;
	/* Of a sample that came: the size of its record, how long the last question took. */
	_Atomic uint64_t bytes, took_ns;
};
static_assert(sizeof(struct ts_mail_slot) == 192, "ABI of mail 1");

/** What is told of a node.  Row i is the i-th of the list of nodes. */
struct ts_mail_peer {
	_Atomic uint64_t name[TS_MAIL_PEER_NAME / 8]; /* as the list has it, cut */
	_Atomic uint64_t state;                       /* enum ts_mail_peer_state */
	_Atomic uint64_t error; /* of the last failure: a positive errno; 0: none */
	_Atomic uint64_t reserved[2];
	_Atomic uint64_t counters[16];
};
static_assert(TS_MAIL_COUNTER_COUNT <= 16, "room for counters");

/* (name, word for scripts, text for people). */
#define TS_MAIL_PEER_STATES(X)                                  \
	X(UNUSED, "unused", "not asked since the helper began") \
	X(OPEN, "open", "connected")                            \
	X(SHUT, "shut", "not connected: asked again when it is time")

enum ts_mail_peer_state {
#define TS_X(name, word, text) TS_MAIL_PEER_##name,
	TS_MAIL_PEER_STATES(TS_X)
#undef TS_X
};

/**
 * What a sample begins with between nodes, behind which its record lies as it is in the ring;
 * little-endian.
 */
struct ts_mail_sample {
	uint32_t version; /* TS_MAIL_SAMPLE_VERSION */
	uint32_t reserved;
	uint64_t made_ns;    /* how long it took to make it, */
	uint64_t produce_ns; /* and what CPU time */
	uint64_t zero[5];
};
static_assert(sizeof(struct ts_mail_sample) == 64, "what other nodes read; keeps alignment");

#define TS_MAIL_SAMPLE_VERSION 1

/** What asking for samples costs all jobs of the group, and what came of it. */
struct ts_mail_flow {
	_Atomic uint64_t asked, got, won;
	_Atomic uint64_t alone; /* neither got nor won, as soon as it has ended */
	_Atomic uint64_t stored;
	_Atomic uint64_t took_ns, made_ns; /* of all that came */
	/* The helper's (leader/peer/kept.h): nobody asks until then, of ts_now_ns(), as
	 * getting them took longer than making them; 0: never. */
	_Atomic uint64_t off_until, times_off;
	_Atomic uint64_t reserved[7];
};
static_assert(sizeof(struct ts_mail_flow) == 128, "ABI of mail 4");

/** Whether samples are of use to other nodes, which is the helper's to say: see there. */
struct ts_mail_use {
	_Atomic uint64_t looked, unused; /* of those stored; which nobody had fetched */
	_Atomic uint64_t times_unused;
	_Atomic uint64_t unused_until; /* as off_until: as no node fetched them */
	_Atomic uint64_t reserved[4];
};
static_assert(sizeof(struct ts_mail_use) == 64, "ABI of mail 4");

/* For so long nobody asks, in either case; at most, where no node fetches them. */
#define TS_MAIL_OFF_NS        UINT64_C(30000000000)
#define TS_MAIL_UNUSED_MAX_NS UINT64_C(480000000000)

struct ts_mail_table {
	struct ts_dependent_head head;
	_Alignas(64) _Atomic uint64_t helper; /* who has the lock; 0: none */
	_Atomic uint64_t start_at;            /* ts_now_ns() before which none is started */
	_Atomic uint64_t ask_at;              /* likewise, none is asked */
	_Atomic uint64_t error;               /* why the last one ended: a positive errno */
	_Alignas(64) _Atomic uint32_t asleep;
	_Atomic uint32_t peer_count;
	_Atomic uint64_t posted, unposted; /* requests; those for which there was no slot */
	_Atomic uint64_t left;             /* that were not waited for */
	_Alignas(64) struct ts_mail_flow samples;
	_Alignas(64) struct ts_mail_use use;
	_Alignas(64) struct ts_mail_slot slots[TS_MAIL_SLOTS];
	struct ts_mail_peer peers[TS_MAIL_PEERS];
};

/** The table as a process sees it. */
struct ts_mail {
	struct ts_mail_table *table;
	char path[TS_PATH_BYTES]; /* of the object, whose times are set */
	/* Those of the first slots, one behind the other from TS_MAIL_PLACES_AT on; or NULL. */
	unsigned char *places;
	char places_path[TS_PATH_BYTES];
};

/* Where in the object of the places the first one begins: behind a page for its head. */
#define TS_MAIL_PLACES_AT UINT64_C(4096)

/**
 * The table of @store's group, made when there is none.  Ownership: the process's, for good; a
 * fork child has its parent's.  Threads: one at a time.  Errors: those of ts_dependent_map().
 */
int ts_mail_attach(struct ts_store *store, struct ts_mail *ret_mail);

/**
 * The places of @mail, made when there are none: memory is used as far as one was ever written.
 * As above.
 */
int ts_mail_attach_places(struct ts_store *store, struct ts_mail *mail);

/** Where in the object of the places that of slot @index begins. */
static inline uint64_t ts_mail_place_at(uint32_t index)
{
	return TS_MAIL_PLACES_AT + (uint64_t)(index % TS_MAIL_PLACES) * TS_MAIL_ROOM;
}

/* ---- asking ---------------------------------------------------------------------------- */

/**
 * Whether somebody would answer now.  Where not, and it is time to start a helper, @start
 * (unless NULL) is called to do so, in one process of the group.
 */
bool ts_mail_is_served(
	struct ts_mail *mail, int (*start)(const void *context), const void *context);

/**
 * @time, in any unit; in the test build as many times longer as TSSHIM_TEST_PATIENCE says, for
 * a busy machine is no fault of other nodes.
 */
uint64_t ts_mail_patience(uint64_t time);

/** TS_MAIL_WAIT_NS, likewise. */
uint64_t ts_mail_wait_ns(void);

/** To be the @start of ts_mail_is_served() where --cluster says with which nodes: tsshim-peer.
 */
int ts_mail_start(const void *unused);

/** Whether the owner of a request of this kind waits for an answer. */
bool ts_mail_waits(uint32_t kind);

/**
 * Ask what request->kind says, and wait for the answer until request->until_ns and a little
 * longer.
 *
 * Returns an enum ts_mail_answer; with WON the slot *ret_index stays the caller's, who ends it
 * with ts_mail_store() or ts_mail_return().  Threads: any, but a vfork child's.  Keeps errno;
 * allocates nothing.  Errors: -EBUSY no slot; -EAGAIN the helper did not get to it; -ETIME it
 * has not ended: the caller must never use the file again.
 */
int ts_mail_ask(
	struct ts_mail *mail, const struct ts_mail_request *request, uint32_t *ret_index);

/** Ask for something that nobody waits for.  Errors: -EBUSY no slot. */
int ts_mail_tell(struct ts_mail *mail, const struct ts_mail_request *request);

/** What was won at slot @index is made, and is there under the copy's name; or will not be. */
void ts_mail_store(struct ts_mail *mail, uint32_t index);
void ts_mail_return(struct ts_mail *mail, uint32_t index);

/* ---- answering: leader/mail/serve.c, for the helper ------------------------------------ */

/**
 * Be the helper of this group, until the process ends or ts_mail_resign().  @fd is an open
 * descriptor of the object that nobody else has.  Errors: -EAGAIN there is one.
 */
int ts_mail_enter(struct ts_mail *mail, int fd, uint64_t id);
void ts_mail_resign(struct ts_mail *mail, int error);

/** There is nobody to ask for so long: owners need not try. */
void ts_mail_close(struct ts_mail *mail, uint64_t ns);

/**
 * Take the next request, from slot @from on: *ret_index is its slot.  Errors: -ENOENT none.
 */
int ts_mail_take(struct ts_mail *mail, uint32_t from, uint32_t *ret_index,
	struct ts_mail_request *ret_request);

/** Whether the owner of the TAKEN slot @index still waits. */
bool ts_mail_is_wanted(struct ts_mail *mail, uint32_t index);

/** Before GOT, of a sample: the size of its record, and how long it took to get it. */
void ts_mail_set_found(struct ts_mail *mail, uint32_t index, uint64_t bytes, uint64_t took_ns);

/** Before WON or GOT: what a (SAMPLE_)STORE or (SAMPLE_)RETURN of it has as its place. */
void ts_mail_set_place(struct ts_mail *mail, uint32_t index, uint64_t place);

/**
 * End the TAKEN slot @index; @answer is of no use to a STORE or a RETURN.  Returns whether its
 * owner gets the answer: who has left meanwhile makes nothing that he has WON.
 */
bool ts_mail_answer(struct ts_mail *mail, uint32_t index, enum ts_mail_answer answer);

/**
 * See to slots of dead owners; some 10 us a slot in use.  @on_return is called with what a dead
 * one had won.
 */
void ts_mail_sweep(struct ts_mail *mail,
	void (*on_return)(void *context, const struct ts_mail_request *request), void *context);

/**
 * Say that the helper is about to sleep.  Returns whether it may; then it does, and says
 * ts_mail_wake() after it.
 */
bool ts_mail_sleep(struct ts_mail *mail);
void ts_mail_wake(struct ts_mail *mail);

/** Count for node @peer, a row of the list. */
void ts_mail_count(
	struct ts_mail *mail, uint32_t peer, enum ts_mail_counter counter, uint64_t amount);

/*
 * Asking other nodes for a sample that is claimed here (--across nodes).  Errands use the slots
 * that have a place.
 *
 *	NONE   nothing is asked for, or all that was has ended
 *	ASKED  an answer is due, or is GOT and not used yet
 *	WON    no node has it: it is made here, for all of them
 *
 *	NONE -> ASKED   ts_errand_ask()
 *	ASKED -> WON    ts_errand_look() says so
 *	ASKED -> NONE   it says anything else but GOT; with that ts_errand_end(), or
 *	                ts_errand_refuse() for what is not what was asked for
 *	WON -> NONE     ts_errand_made()
 *	any -> NONE     ts_errand_drop()
 *
 * The key of the ring is the name on all nodes, so nothing of a node may be in it, nor in the
 * record.  A claim may pass to another process of the node meanwhile, which asks as well then.
 *
 * Threads: an errand has one owner at a time; the rest may be called from any.  Forks: an
 * errand of the parent's is not the child's to end, and nothing here does.  None is
 * async-signal-safe.  Allocates nothing, keeps errno.
 */
enum ts_errand_state { TS_ERRAND_NONE, TS_ERRAND_ASKED, TS_ERRAND_WON };

/** All zero to begin with. */
struct ts_errand {
	enum ts_errand_state state;
	uint32_t serial; /* ts_identity_serial() when it was asked */
	struct ts_mail *mail;
	uint32_t index;      /* of the slot, the errand's until it ends */
	uint64_t until_ns;   /* the helper has to have answered by then */
	uint64_t look_at_ns; /* whether the helper lives */
};

/** Whether the settings say that other nodes are asked.  Some nanoseconds. */
bool ts_errand_is_wanted(void);

/**
 * Where to ask for samples now; NULL: nowhere, as it does not pay lately, nobody would answer,
 * or another thread attaches the table.  While there is somewhere, what is claimed is also made
 * for other nodes.  The process's, for good; a fork child has its parent's.  Starts the helper
 * where there is none; waits for it once in a process, a quarter of a second at most.  With
 * NULL why comes in @ret_reason, one of TS_REASON_ACROSS_*.
 */
struct ts_mail *ts_errand_open(struct ts_store *store, enum ts_reason *ret_reason);

/**
 * Ask at @mail for the sample @key, which is claimed; waits for nothing.  Errors, nothing is
 * asked for then: -EAGAIN it does not pay, or nobody would answer; -EBUSY too many ask.  Which
 * of TS_REASON_ACROSS_* that is comes in @ret_reason.
 */
int ts_errand_ask(struct ts_errand *errand, struct ts_mail *mail, const struct ts_key *key,
	enum ts_reason *ret_reason);

/**
 * What the answer is, an enum ts_mail_answer; waits for it @wait_ns at most.  With GOT the
 * record is at ts_errand_found(), with WON it is to be made; any other answer has ended the
 * errand.  Errors, the errand has ended but for the first: -EINPROGRESS there is none yet;
 * -EAGAIN, -ETIME as for ts_mail_ask().
 */
int ts_errand_look(struct ts_errand *errand, uint64_t wait_ns);

/** What has come with GOT, and the bytes of the record behind it; until the errand ends. */
const struct ts_mail_sample *ts_errand_found(
	const struct ts_errand *errand, uint64_t *ret_bytes);

/** What has come with GOT is used no more; @is_good: it was what was wanted. */
void ts_errand_end(struct ts_errand *errand, bool is_good);

/** What has come with GOT is not what was asked for: who asks next makes it, for all. */
void ts_errand_refuse(struct ts_errand *errand);

/**
 * The record was published, or somebody else's was: where it was WON, hand it over.  It took
 * @made_ns to make.
 */
void ts_errand_made(struct ts_errand *errand, uint64_t made_ns);

/** End what is asked for; what was WON is not there, and may be made by whoever asks next. */
void ts_errand_drop(struct ts_errand *errand);

#endif
