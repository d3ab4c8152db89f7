/* SPDX-License-Identifier: MIT */
/* What a recorder writes: the jobs of a group, and what has changed since it looked last. */
#include "leader/events/write.h"

#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/utsname.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Lines of one job at one time. */
#define JOB_BYTES ((size_t)5 * TS_EVENTS_LINE)

static_assert(sizeof(((struct ts_event_writer *)0)->buffer) >= TS_EVENT_NODES_BYTES,
	"all that is told of nodes at one time");

/* ---- the file --------------------------------------------------------------------------- */

void ts_event_writer_forget(struct ts_event_writer *writer)
{
	writer->headed = writer->forgets = false;
	writer->ring_capacity = writer->ring_used = UINT64_MAX;
	writer->told = (struct ts_event_nodes){.is_there = false};
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_event_row *row = &writer->rows[i];
		*row = (struct ts_event_row){.id = row->id, .over = row->over};
	}
}

/* Write what has been put together. */
static int flush(struct ts_event_writer *writer)
{
	struct ts_event_text *text = &writer->text;
	int r = 0;

	if (text->length > 0 && ts_event_log_is_full(writer->log, text->length)) {
		r = ts_event_log_thin(writer->log);
		writer->forgets = true;
	}
	if (text->length > 0 && r == 0)
		r = ts_event_log_append(writer->log, text->text, text->length);
	text->length = 0;
	return r;
}

static void put_head(struct ts_event_writer *writer, uint64_t t_ms)
{
	struct utsname node;

	ts_event_open(&writer->text, t_ms, NULL);
	ts_event_string(&writer->text, "version", TS_VERSION);
	ts_event_string(&writer->text, "group", writer->group);
	ts_event_string(&writer->text, "node", uname(&node) == 0 ? node.nodename : NULL);
	ts_event_close(&writer->text);
	writer->headed = true;
}

static void open_job(struct ts_event_writer *writer, uint64_t t_ms, const char *event,
	const struct ts_event_row *row)
{
	char name[TS_EVENT_JOB];

	ts_event_job(row->id, name);
	ts_event_open(&writer->text, t_ms, event);
	ts_event_string(&writer->text, "job", name);
}

static void close_sample(struct ts_event_writer *writer, bool final)
{
	if (final)
		ts_event_true(&writer->text, "final");
	ts_event_close(&writer->text);
}

/* ---- a job ------------------------------------------------------------------------------ */

/* The name of the data set that the job has noted first; false: it has noted none yet. */
static bool first_dataset(struct ts_ledger *ledger, uint32_t index, char name[TS_DATASET_NAME])
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < TS_JOB_DATASETS; i++) {
		uint64_t word = ts_load_relaxed(&ts_ledger_job(ledger, index)->dataset[i]);
		if (word != 0 && word < first)
			first = word;
	}
	uint32_t row = (uint32_t)(first & 0xff) - 1;
	if (first == UINT64_MAX || row >= TS_DATASET_MAX ||
		!ts_load_acquire(&ts_ledger_dataset(ledger, row)->named))
		return false;
	memcpy(name, ts_ledger_dataset(ledger, row)->name, TS_DATASET_NAME);
	name[TS_DATASET_NAME - 1] = '\0';
	return true;
}

static const char *mode_of(const struct ts_config *config)
{
	if (!config->align)
		return "default";
	return config->order == TS_ORDER_FREE ? "free" : "aligned";
}

/* How the job was started; false: it is gone, and nobody has asked in time. */
static bool find_start(struct ts_event_writer *writer, const struct ts_event_row *row,
	struct ts_event_start *ret_start)
{
	if (writer->own && row->id == writer->own_id)
		*ret_start = *writer->own;
	else
		ts_event_process_start(TS_PROCESS_PID(row->id), ret_start);
	return ret_start->program[0] != '\0' || ret_start->has_settings || row->alive;
}

static void put_start(struct ts_event_text *text, const struct ts_event_start *start)
{
	ts_event_string(text, "mode", start->has_settings ? mode_of(&start->settings) : NULL);
	if (start->has_settings && start->settings.align)
		ts_event_number(text, "align", start->settings.align_seed);
	else
		ts_event_null(text, "align");
	ts_event_string(text, "program", start->program[0] ? start->program : NULL);
}

/* What an earlier line of the job may have and this one cannot say is left out. */
static void put_job(struct ts_event_writer *writer, uint64_t t_ms, uint32_t index)
{
	static struct ts_event_start start;
	struct ts_event_row *row = &writer->rows[index];
	char dataset[TS_DATASET_NAME];
	uint64_t began = ts_event_process_began(row->id);

	open_job(writer, t_ms, "job", row);
	ts_event_number(&writer->text, "pid", (uint64_t)TS_PROCESS_PID(row->id));
	if (began > 0)
		ts_event_seconds(&writer->text, "began", began * NS_PER_MS);
	else
		ts_event_null(&writer->text, "began");
	row->named = first_dataset(writer->ledger, index, dataset);
	ts_event_string(&writer->text, "dataset", row->named ? dataset : NULL);
	if (find_start(writer, row, &start))
		put_start(&writer->text, &start);
	ts_event_close(&writer->text);
	row->told = true;
}

static void read_counts(struct ts_job_row *job, struct ts_event_counts *ret_counts)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		struct ts_tally *tally = &job->kinds[i];
		ret_counts->kinds[i].produced = ts_load_relaxed(&tally->produced);
		ret_counts->kinds[i].shared = ts_load_relaxed(&tally->shared);
		ret_counts->kinds[i].shared_bytes = ts_load_relaxed(&tally->shared_bytes);
		ret_counts->kinds[i].saved_ns = ts_load_relaxed(&tally->saved_ns);
	}
}

static void put_counts(struct ts_event_writer *writer, uint64_t t_ms, uint32_t index,
	uint64_t cpu_ns, bool final)
{
	struct ts_event_row *row = &writer->rows[index];
	struct ts_event_counts counts = {.cpu_ns = ts_max_u64(cpu_ns, row->counts.cpu_ns)};

	read_counts(ts_ledger_job(writer->ledger, index), &counts);
	if (!final && memcmp(&counts, &row->counts, sizeof(counts)) == 0)
		return;
	row->counts = counts;
	open_job(writer, t_ms, "counts", row);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		if (counts.kinds[i].produced == 0 && counts.kinds[i].shared == 0)
			continue;
		ts_event_object(&writer->text, ts_kinds[i].id);
		ts_event_number(&writer->text, "produced", counts.kinds[i].produced);
		ts_event_number(&writer->text, "shared", counts.kinds[i].shared);
		ts_event_number(&writer->text, "shared_bytes", counts.kinds[i].shared_bytes);
		ts_event_seconds(&writer->text, "saved_seconds", counts.kinds[i].saved_ns);
		ts_event_object_end(&writer->text);
	}
	ts_event_seconds(&writer->text, "cpu_seconds", counts.cpu_ns);
	close_sample(writer, final);
}

static void put_reasons(
	struct ts_event_writer *writer, uint64_t t_ms, uint32_t index, bool final)
{
	struct ts_event_row *row = &writer->rows[index];
	struct ts_job_row *job = ts_ledger_job(writer->ledger, index);
	uint64_t passed[TS_REASON_COUNT];

	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		passed[i] = ts_load_relaxed(&job->passed[i]);
	if (!final && memcmp(passed, row->passed, sizeof(passed)) == 0)
		return;
	memcpy(row->passed, passed, sizeof(passed));
	open_job(writer, t_ms, "reasons", row);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		if (passed[i] > 0)
			ts_event_number(&writer->text, ts_reasons[i].id, passed[i]);
	close_sample(writer, final);
}

/* As ts_ledger_front(), with what we know of who lives: that asks /proc for each job. */
static uint64_t front_of(struct ts_event_writer *writer, uint64_t identity)
{
	uint64_t front = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_progress_row *row = ts_ledger_progress(writer->ledger, i);
		if (writer->rows[i].alive && ts_load_relaxed(&row->identity) == identity)
			front = ts_max_u64(front, ts_load_relaxed(&row->position));
	}
	return front;
}

static void put_epochs(struct ts_event_text *text, const char *key, uint64_t position)
{
	ts_event_decimal(
		text, key, position / TS_EPOCH, position % TS_EPOCH * NS_PER_S / TS_EPOCH);
}

static void put_order(struct ts_event_writer *writer, uint64_t t_ms, uint32_t index, bool final)
{
	struct ts_event_row *row = &writer->rows[index];
	struct ts_progress_row *progress = ts_ledger_progress(writer->ledger, index);
	struct ts_event_order order = {.identity = ts_load_relaxed(&progress->identity)};

	if (order.identity == 0)
		return;
	order.position = ts_load_relaxed(&progress->position);
	order.order = ts_load_relaxed(&progress->order);
	uint64_t front = front_of(writer, order.identity);
	order.behind = front > order.position ? front - order.position : 0;
	if (!final && memcmp(&order, &row->order, sizeof(order)) == 0)
		return;
	row->order = order;
	const char *word = ts_order_word(order.order);
	open_job(writer, t_ms, "order", row);
	ts_event_string(&writer->text, "order", word ? word : "unknown");
	put_epochs(&writer->text, "epoch", order.position);
	put_epochs(&writer->text, "behind", order.behind);
	close_sample(writer, final);
}

static void put_end(struct ts_event_writer *writer, uint64_t t_ms, struct ts_event_row *row)
{
	open_job(writer, t_ms, "end", row);
	ts_event_close(&writer->text);
}

/* ---- who is there ----------------------------------------------------------------------- */

static bool look_at_process(uint64_t id, uint64_t *ret_cpu_ns)
{
	struct ts_event_process process;

	ts_event_process_look(TS_PROCESS_PID(id), &process);
	if (process.id != id)
		return false;
	*ret_cpu_ns = process.cpu_ns;
	return process.alive;
}

/* CPU time of the workers of job @id that are members of the ring now. */
static uint64_t workers_cpu_ns(const struct ts_event_writer *writer, uint64_t id)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < writer->ring.count; i++)
		if (writer->ring.members[i].job == id &&
			writer->ring.members[i].pid != TS_PROCESS_PID(id))
			sum += ts_process_cpu_ns(writer->ring.members[i].pid);
	return sum;
}

/* A job that is gone from its row: what it did last is lost, its end is not. */
static void take_row(
	struct ts_event_writer *writer, uint64_t t_ms, struct ts_event_row *row, uint64_t id)
{
	if (row->id == id)
		return;
	if (row->id != 0 && row->told && !row->over)
		put_end(writer, t_ms, row);
	*row = (struct ts_event_row){.id = id};
}

/* One that was over before we looked first is told of where its own recorder could not. */
static bool is_worth_telling(struct ts_event_writer *writer, uint32_t index)
{
	uint64_t id = writer->rows[index].id;
	enum ts_recorder_state state = ts_recorder_state(writer->ledger, index, id, NULL);

	return state == TS_RECORDER_WAITS || state == TS_RECORDER_WRITES;
}

static void put_row(
	struct ts_event_writer *writer, uint64_t t_ms, uint32_t index, uint64_t cpu_ns)
{
	struct ts_event_row *row = &writer->rows[index];
	bool final = !row->alive;
	char name[TS_DATASET_NAME];

	if (!row->told && final && !is_worth_telling(writer, index)) {
		row->over = true;
		return;
	}
	if (!row->told || (!row->named && first_dataset(writer->ledger, index, name)))
		put_job(writer, t_ms, index);
	put_counts(writer, t_ms, index, cpu_ns, final);
	put_reasons(writer, t_ms, index, final);
	put_order(writer, t_ms, index, final);
	if (final)
		put_end(writer, t_ms, row);
}

static void put_ring(struct ts_event_writer *writer, uint64_t t_ms)
{
	const struct ts_event_ring *ring = &writer->ring;

	if (ring->capacity == writer->ring_capacity && ring->used == writer->ring_used)
		return;
	writer->ring_capacity = ring->capacity;
	writer->ring_used = ring->used;
	ts_event_open(&writer->text, t_ms, "ring");
	ts_event_number(&writer->text, "capacity", ring->capacity);
	ts_event_number(&writer->text, "used", ring->used);
	ts_event_close(&writer->text);
}

/* Only what is in the log counts as told. */
static int finish_row(struct ts_event_writer *writer, uint32_t index)
{
	struct ts_event_row *row = &writer->rows[index];

	if (!row->told || row->alive || row->over)
		return 0;
	int r = flush(writer);
	if (r == 0) {
		row->over = true;
		ts_recorder_tell(writer->ledger, index, row->id, TS_RECORDER_DONE, 0);
	}
	return r;
}

static int put_all(struct ts_event_writer *writer, uint64_t t_ms, const uint64_t *cpu_ns)
{
	int r = 0;

	if (!writer->headed)
		put_head(writer, t_ms);
	for (uint32_t i = 0; i < TS_JOB_MAX && r == 0; i++) {
		struct ts_event_row *row = &writer->rows[i];
		if (row->id == 0 || row->over)
			continue;
		if (writer->text.room - writer->text.length < JOB_BYTES)
			r = flush(writer);
		if (r == 0)
			put_row(writer, t_ms, i, cpu_ns[i]);
		if (r == 0)
			r = finish_row(writer, i);
	}
	put_ring(writer, t_ms);
	if (r == 0)
		r = flush(writer);
	if (r == 0) {
		ts_event_nodes_put(&writer->text, t_ms, &writer->nodes, &writer->told);
		r = flush(writer);
	}
	return r;
}

int ts_event_writer_look(struct ts_event_writer *writer, uint64_t t_ms)
{
	uint64_t cpu_ns[TS_JOB_MAX] = {0};
	bool (*look)(uint64_t, uint64_t *) = writer->look ? writer->look : look_at_process;

	writer->text.text = writer->buffer;
	writer->text.room = sizeof(writer->buffer);
	writer->text.length = 0;
	if (writer->forgets)
		ts_event_writer_forget(writer);
	ts_event_ring_look(&writer->scope, writer->group, &writer->ring);
	ts_event_nodes_look(&writer->scope, writer->group, &writer->nodes);
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_event_row *row = &writer->rows[i];
		uint64_t id = ts_load_acquire(&ts_ledger_job(writer->ledger, i)->id);
		take_row(writer, t_ms, row, id);
		row->alive = id != 0 && !row->over && look(id, &cpu_ns[i]);
		if (row->alive)
			cpu_ns[i] += workers_cpu_ns(writer, id);
	}
	return put_all(writer, t_ms, cpu_ns);
}
