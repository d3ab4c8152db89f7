/* SPDX-License-Identifier: MIT */
/* leader/peer/transfer.c and what all transfers have in common, leader/peer/transfer_parts.c.
 */
#ifndef TS_LEADER_PEER_TRANSFER_PRIVATE_H
#define TS_LEADER_PEER_TRANSFER_PRIVATE_H

#include "leader/peer/breaker.h"
#include "leader/peer/kept.h"
#include "leader/peer/transfer.h"

/* "f1:", 32 digits, ".", a number, or "s1:" and the digits; behind it ":" and another one. */
#define TS_TRANSFER_KEY   TS_KEPT_KEY
#define TS_TRANSFER_CHUNK TS_KEPT_CHUNK_KEY

/* Of values that were refused so many are remembered. */
#define TS_TRANSFER_REFUSED 256

struct ts_transfer;

/** One chunk on its way, with a buffer. */
struct ts_part {
	struct ts_pool_request request;
	struct ts_transfer *transfer;
	struct ts_part *next; /* free ones */
	bool is_of_store;
	struct ts_value_head head;
	struct ts_value_place place;
	char key[TS_TRANSFER_CHUNK];
	unsigned char *bytes; /* the buffer */
	unsigned char *to;    /* where it arrives: there, or in the place of a sample */
};

enum ts_transfer_state {
	TS_TRANSFER_QUEUED,
	TS_TRANSFER_ASKING,
	TS_TRANSFER_PAUSED,
	TS_TRANSFER_FILLING,
	TS_TRANSFER_STORING,
	TS_TRANSFER_ENDING,
};

struct ts_transfer {
	struct ts_transfers *all;
	struct ts_transfer *next, **link; /* those at work, oldest first; free ones */
	uint32_t index;                   /* of the slot; TS_TRANSFER_NOBODY: answered */
	enum ts_transfer_state state;
	struct ts_mail_request request;
	int fd;              /* -1: not open */
	uint32_t server;     /* of chunk 0 */
	uint32_t count;      /* of chunks */
	uint32_t next_chunk; /* FILLING: next to ask for; STORING: so many are left */
	uint32_t on_way;     /* parts, and the deletion */
	bool is_counted;     /* as asked for */
	bool deletes;        /* chunk 0, at the end, */
	uint64_t cas;        /* if it is this one still; 0: not known, it stays */
	uint32_t rooms;      /* that were made for it */
	uint64_t stored[TS_KEPT_CHUNKS]; /* of a sample: which ones they have become */
	uint32_t removing;               /* of those on the way: of samples that make room */
	/* Who gets the answer in the place of the slot, or NULL. */
	void (*done)(void *context, enum ts_mail_answer answer);
	void *context;
	uint64_t asked_ns; /* when chunk 0 was last asked for */
	uint64_t waits_ns; /* since when for another node that makes it; 0: not, with */
	uint32_t ticket;   /* of the breaker */
	bool is_leased;    /* of one that is stored: */
	struct ts_lease lease;
	uint64_t at_ns, pause_ns; /* PAUSED */
	size_t key_bytes;
	char key[TS_TRANSFER_KEY];

	/* The deletion, which needs no buffer. */
	struct ts_pool_request deletion;
	char deleted_key[TS_TRANSFER_CHUNK];
};

/** Whether who asks a server waits for what another node makes: leader/peer/transfer.h. */
struct ts_transfer_waiting {
	struct ts_breaker breaker;
	uint64_t judged_ns; /* when one was last in vain: who began before says the same */
};

struct ts_transfers {
	struct ts_mail *mail;
	struct ts_pool *pool;
	const char *stem;
	uint32_t uid; /* ours */
	struct ts_sealer *sealer;
	uint32_t count;
	struct ts_transfer *first, **end; /* at work */
	struct ts_transfer *free;
	struct ts_part *free_parts;
	uint32_t storing;       /* parts of STOREs */
	struct ts_store *store; /* of samples; NULL: none are transferred */
	int places_fd;
	uint32_t place_bytes[TS_MAIL_PLACES]; /* of each so much has memory */
	struct {
		uint64_t key, until_ns;
	} refused[TS_TRANSFER_REFUSED];
	struct ts_worth worth;
	struct ts_kept kept;
	struct ts_transfer_waiting waiting[TS_CLUSTER_SERVERS];
	unsigned char *buffers;
	struct ts_part parts[TS_TRANSFER_BUFFERS];
	struct ts_transfer transfers[TS_TRANSFERS];
};

/** Whether it is of a sample; whether something is handed over. */
static inline bool ts_transfer_is_sample(const struct ts_transfer *transfer)
{
	return transfer->request.kind >= TS_MAIL_SAMPLE;
}

static inline bool ts_transfer_is_store(const struct ts_transfer *transfer)
{
	return transfer->request.kind == TS_MAIL_STORE ||
	       transfer->request.kind == TS_MAIL_SAMPLE_STORE;
}

/**
 * A part for @chunk, ready but for what is done with it; to be submitted, or released.  NULL:
 * there is no buffer, or others have to be left some, or its server is being tried by another
 * request; it is time again when one of those that are on their way has ended.
 */
struct ts_part *ts_transfer_take_part(struct ts_transfer *transfer, uint32_t chunk);
void ts_transfer_release_part(struct ts_part *part);

/**
 * Submit it, to be answered within @allowed_ns; @done begins with ts_transfer_arrived().  Where
 * it cannot be, it is released, and the transfer has ended.
 */
bool ts_transfer_submit(struct ts_part *part, enum ts_meta_kind kind, uint64_t allowed_ns,
	void (*done)(struct ts_pool_request *request));

/** The part of @request, which is no longer on its way. */
struct ts_part *ts_transfer_arrived(struct ts_pool_request *request);

void ts_transfer_count(const struct ts_transfer *transfer, uint32_t server,
	enum ts_mail_counter counter, uint64_t amount);

/** What @error of a request to @server, of its connection or of the pool, means; counted. */
enum ts_mail_answer ts_transfer_explain(
	const struct ts_transfer *transfer, uint32_t server, int error);

/**
 * It is ENDING with @answer, and over as soon as nothing is on its way.  From here on the file
 * is not touched.  What is ENDING already is looked at only for whether it is over.
 */
void ts_transfer_end(struct ts_transfer *transfer, enum ts_mail_answer answer);

/** Whether @transfer's value was refused lately; remember that, or forget it. */
bool ts_transfer_is_refused(const struct ts_transfer *transfer);
void ts_transfer_set_refused(const struct ts_transfer *transfer, bool is_refused);

/** Take hold of the record that is to be stored.  Errors: -ENOENT it is not, or too large. */
int ts_transfer_hold(struct ts_transfer *transfer);
void ts_transfer_let_go(struct ts_transfer *transfer);

/** @bytes of the value, from @at on. */
void ts_transfer_copy(const struct ts_transfer *transfer, uint64_t at, uint64_t bytes,
	unsigned char *ret_bytes);

/**
 * Where the @bytes of chunk @chunk of the sample belong, in its place; NULL: there is no
 * memory.
 */
unsigned char *ts_transfer_place(struct ts_transfer *transfer, uint32_t chunk, uint32_t bytes);

/** What still comes for it comes into buffers: its place is another one's from now on. */
void ts_transfer_leave_place(struct ts_transfer *transfer);

/**
 * Chunk 0, in @part, is proven: its numbers are the transfer's from now on.  Errors: -EPROTO of
 * a version that is not known here; -E2BIG.
 */
int ts_transfer_learn(struct ts_transfer *transfer, const struct ts_part *part);

/**
 * Open the file of @request, to be written to or read.  Errors: -ESTALE it is not what the
 * request says; those of open(2).
 */
int ts_transfer_open(const struct ts_transfers *transfers,
	const struct ts_mail_request *request, int *ret_fd);

/** Write all of it.  Errors: those of pwrite(2); -ENOSPC it was cut. */
int ts_transfer_write(int fd, const void *from, size_t bytes, uint64_t at);

#endif
