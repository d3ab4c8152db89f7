/* SPDX-License-Identifier: MIT */
/*
 * A read-only look at the shared memory of a group, or of all groups of the user, for people
 * and scripts.
 *
 * Nothing is attached and nothing written: the jobs do not notice.  Whatever is read is
 * checked against the size of the object before it is used, for the writers may be buggy.
 */
#ifndef TS_TSRUN_VIEW_H
#define TS_TSRUN_VIEW_H

#include "leader/group/attach.h"
#include "leader/group/ledger.h"
#include "leader/group/loaders.h"
#include "leader/mail/mail.h"

#include <sys/stat.h>

/** A process that has joined a ring. */
struct ts_view_member {
	uint64_t job; /* ts_process_id() of the job it works for, 0 while joining */
	int pid;
	bool alive; /* not proven dead */
	bool live;  /* alive and joined */
};

struct ts_view_ring {
	uint64_t capacity;      /* bytes of all segments */
	uint64_t used;          /* bytes of them that hold records now */
	uint64_t kept_until_ns; /* leader/group/layout.h */
	uint32_t why;           /* leader/object/limits.h */
	uint32_t member_count;
	struct ts_view_member *members; /* those that are not free */
};

/**
 * Open the object at @path, for writing too when @writable (locks need that).
 * *ret_fd is the caller's.
 * Errors: -ENOENT; -EPERM of another user or not a regular file; others of open(2).
 */
int ts_view_open(const char *path, bool writable, int *ret_fd, struct stat *ret_stat);

/** Where an object was made, compared with where we are. */
struct ts_view_origin {
	bool same_boot;
	bool same_pids;  /* PID namespace */
	bool same_scope; /* user and namespaces, whatever the boot */
};

/**
 * Copy the ledger behind @fd, made wherever *ret_origin tells, or here alone where that is
 * NULL. *ret_ledger is to be freed with free().  The copy is no instant of all counters, but
 * every single one is exact. Errors: -EPROTO another version; -EBADMSG damaged; -EXDEV of other
 * namespaces; -ESTALE of another boot; -ENOMEM; others from the system calls.
 */
int ts_view_ledger(int fd, struct ts_view_origin *ret_origin, struct ts_ledger **ret_ledger);

/** Copy the ring behind @fd, with the same errors; its members are to be freed with free(). */
int ts_view_ring(int fd, struct ts_view_ring *ret_ring);

/**
 * Map the table of loaders behind @fd, to be read with ts_loaders_read(), until munmap(2) of
 * sizeof(struct ts_loaders).  Errors: those of ts_view_ledger().
 */
int ts_view_loaders(int fd, struct ts_loaders **ret_loaders);

/**
 * Copy the table of requests to other nodes behind @fd; the requests in it are none that could
 * be used.  *ret_table is to be freed with free().  Errors: those of ts_view_ledger().
 */
int ts_view_mail(int fd, struct ts_mail_table **ret_table);

/** Whether anybody else holds a lock on the object behind @fd. */
bool ts_view_is_locked(int fd);

/** What an error of this file means, for people. */
const char *ts_view_explain(int error);

/** Copies of what lies in shared memory of a group; zero or NULL where there is nothing. */
struct ts_report {
	const char *group;
	struct ts_ledger *ledger;
	struct ts_view_ring ring;
	struct ts_mail_table *nodes; /* what is told of other nodes; NULL: nobody asks any */
	unsigned elsewhere;          /* other namespaces with a group of that name */
};

/** One group at one time. */
struct ts_sample_group {
	char name[TS_GROUP_MAX + 1];
	struct ts_report report;
	int error;              /* why one of its objects could not be read, or 0 */
	const char *part;       /* which one that is, for people */
	uint64_t at_ns;         /* ts_now_ns() when the ledger was copied */
	uint64_t inode;         /* of the ledger: counters of another one begin anew */
	bool alive[TS_JOB_MAX]; /* whether the process of the job in that row lives */
	uint32_t jobs;          /* so many do */
	uint32_t processes;     /* live members of the ring */
};

/** Begin with all zero. */
struct ts_sample {
	struct ts_sample_group *groups; /* in the order of their names */
	uint32_t count;
};

/**
 * Look at group @only, or at all of the user's in these namespaces when it is NULL.
 * End *ret_sample with ts_sample_finish().
 * Errors: -ENOMEM; those of ts_names_each().
 */
int ts_sample_take(const char *only, struct ts_sample *ret_sample);

/** Free what it holds; it may be taken anew. */
void ts_sample_finish(struct ts_sample *sample);

/** Work out @alive, @jobs and @processes of @group from its report. */
void ts_sample_count(struct ts_sample_group *group);

/** The group called @name, or NULL. */
const struct ts_sample_group *ts_sample_find(const struct ts_sample *sample, const char *name);

/** @position (in TS_EPOCH) in billionths of an epoch. */
static inline uint64_t ts_sample_epochs(uint64_t position)
{
	const uint64_t whole = UINT64_C(1000000000);

	return position / TS_EPOCH * whole + position % TS_EPOCH * whole / TS_EPOCH;
}

/** As ts_ledger_front(), which would look up every process for every job. */
uint64_t ts_sample_front(const struct ts_sample_group *group, uint64_t identity);

/** Live members of the ring that work for job @id. */
uint32_t ts_sample_processes(const struct ts_sample_group *group, uint64_t id);

#endif
