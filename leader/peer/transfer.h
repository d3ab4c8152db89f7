/* SPDX-License-Identifier: MIT */
/*
 * One request of the mailbox (leader/mail/mail.h) from its taking to its answer, over all
 * servers of a pool.  Chunk n of piece p of a file is stored as "f1:<32 digits of the file's
 * name>.<p>:<n>"; the size of the value is that of the request; the name has
 * what tells one content from another in it.
 *
 * A sample is stored as "s1:<32 digits of its key>:<n>"; its first chunk says how large it is.
 * Below, FETCH stands for SAMPLE as well, with the sample's place instead of a file, and STORE
 * for SAMPLE_STORE, with the record in the ring.
 *
 * A FETCH:
 *
 *	QUEUED   wants a buffer
 *	ASKING   chunk 0 is asked for, with the wish to make the value if no node has it
 *	PAUSED   another node makes it; asked again after 1, 2, 4 .. 20 ms, if such waits are
 *	         not always in vain
 *	FILLING  chunk 0 is in the file; up to TS_TRANSFER_PARTS others are on their way
 *	ENDING   it is answered, and chunk 0 is being deleted, or answers still come
 *
 *	QUEUED -> ASKING -> FILLING -> GOT
 *	ASKING -> WON; ASKING -> PAUSED -> ASKING
 *	any -> LATE when it is until_ns; NONE, CLOSED, FAILED, REFUSED, UNFIT
 *
 * Each chunk of a file arrives in a buffer of ours, is verified there, and only then written
 * into the file, if its owner still waits for it.  A chunk of a sample arrives in the sample's
 * place, at which nobody looks before the answer; chunks that come after the answer go into a
 * buffer.  The file is found by its name and has to be what the request says: ours, regular,
 * this inode, as large as needed.
 *
 * A STORE reads the file in the same way and stores chunk 0 last: a node that finds it finds
 * all chunks.  If a STORE fails, the value is returned, as a RETURN does: chunk 0, which is
 * the note that we make the value, is deleted, and the next node that asks wins.  Such a note
 * ends by itself after TS_TRANSFER_PLACE seconds.
 *
 * The server numbers all that is stored under a key.  A deletion carries the number that we
 * have seen, so a late one deletes nothing that another node has stored meanwhile.
 *
 * leader/peer/kept.h tells which samples are stored, and how they make room for newer ones.
 *
 * Each server has a breaker for waiting.  A server that is broken or hostile may say of all
 * its values, for ever, that another node makes them.  An honest one says so while the makers
 * hang. No answer is late then, so the pool's breaker sees nothing.  After three waits in vain
 * in a row only one job waits now and then, until a proven value came from that server.
 *
 * Chunk 0 is deleted as well if another chunk has gone with its server, for all nodes would
 * fetch the rest in vain; and if a chunk was made without the secret.  Such a value is not
 * asked for again for TS_TRANSFER_REFUSED_NS, unless we store it.  So a server that lies costs
 * one value in that time.  Damaged values, and those of an old secret, heal as soon as any
 * node reads the file and stores it.
 *
 * A server that had failed is asked for one chunk at a time at first.  Its values go on for
 * all that: chunk 0 of a FETCH is asked for or not; the other chunks, and those of a STORE,
 * wait until the one that is on its way is answered.
 *
 * One server has half of the buffers at most, and so have all STOREs together: nobody waits
 * long because the server of another request does not answer.
 *
 * Memory: TS_TRANSFER_BUFFERS buffers of a chunk, touched as far as they were used, and
 * TS_TRANSFERS transfers.
 */
#ifndef TS_LEADER_PEER_TRANSFER_H
#define TS_LEADER_PEER_TRANSFER_H

#include "leader/mail/mail.h"
#include "leader/peer/pool.h"
#include "leader/peer/value.h"

struct ts_transfers;

/* All slots at work, and as many that only put in order what they have left. */
#define TS_TRANSFERS        (2 * TS_MAIL_SLOTS)
#define TS_TRANSFER_BUFFERS 16
#define TS_TRANSFER_PARTS   8 /* of one transfer on their way */
#define TS_TRANSFER_HALF    (TS_TRANSFER_BUFFERS / 2)

#define TS_TRANSFER_PLACE      2 /* seconds that who has won has */
#define TS_TRANSFER_FIRST_NS   UINT64_C(1000000)
#define TS_TRANSFER_LAST_NS    UINT64_C(20000000)
#define TS_TRANSFER_REFUSED_NS UINT64_C(60000000000)

/* While waits are in vain one waits after such a time, at first and at most. */
#define TS_TRANSFER_TIRED_NS     UINT64_C(2000000000)
#define TS_TRANSFER_TIRED_MAX_NS UINT64_C(60000000000)

/* So long a server may take for a chunk, or it has failed: one asked for, one stored. */
#define TS_TRANSFER_ANSWER_NS UINT64_C(500000000)
#define TS_TRANSFER_STORE_NS  UINT64_C(5000000000)

/* Not a slot: nobody waits for the answer. */
#define TS_TRANSFER_NOBODY UINT32_MAX

/**
 * @mail, @pool and @stem (that of the group's copies) are the caller's and outlive it.
 * Threads: one at a time; so for all of them.  Errors: -ENOMEM; those of ts_sealer_create().
 */
int ts_transfers_create(struct ts_mail *mail, struct ts_pool *pool, const char *stem,
	const struct ts_secrets *secrets, struct ts_transfers **ret_transfers);

/** The pool must be gone, or at rest.  Who still waits is told NONE.  Accepts NULL. */
void ts_transfers_destroy(struct ts_transfers *transfers);

/** From now on seal with the newest of @secrets.  Errors: those of ts_sealer_create(). */
int ts_transfers_set_secrets(struct ts_transfers *transfers, const struct ts_secrets *secrets);

/** Transfer samples as well: records of @store, and places in the object @places_fd. */
void ts_transfers_use_samples(
	struct ts_transfers *transfers, struct ts_store *store, int places_fd);

/** Whether another one can be taken. */
bool ts_transfers_have_room(const struct ts_transfers *transfers);

/**
 * Begin what slot @index asks for, which is TAKEN, or TS_TRANSFER_NOBODY; it ends with
 * ts_mail_answer(), perhaps at once.  There must be room.
 */
void ts_transfers_begin(
	struct ts_transfers *transfers, uint32_t index, const struct ts_mail_request *request);

/**
 * Begin a FETCH for @done, which gets the answer in the place of slot @index: that is TAKEN,
 * and for whom the file is.  It never wins.
 */
void ts_transfers_begin_for(struct ts_transfers *transfers, uint32_t index,
	const struct ts_mail_request *request,
	void (*done)(void *context, enum ts_mail_answer answer), void *context);

/** What seals and opens values now; not to be kept. */
struct ts_sealer *ts_transfers_sealer(struct ts_transfers *transfers);

/** What @error of a request to @server means; it is counted. */
enum ts_mail_answer ts_transfers_explain(
	struct ts_transfers *transfers, uint32_t server, int error);

/** Somebody died who had won @request. */
void ts_transfers_return(struct ts_transfers *transfers, const struct ts_mail_request *request);

/** See to those whose time has come, and who want a buffer. */
void ts_transfers_step(struct ts_transfers *transfers);

/** When that must be called whatever comes; UINT64_MAX: never. */
uint64_t ts_transfers_deadline(const struct ts_transfers *transfers);

/**
 * Begin to remove samples that were stored, as many as go at once; whether there are more, or
 * some on their way.  For a helper that ends, as no job is left.
 */
bool ts_transfers_clear(struct ts_transfers *transfers);

/** How many are at work. */
uint32_t ts_transfers_count(const struct ts_transfers *transfers);

#endif
