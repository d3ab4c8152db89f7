/* SPDX-License-Identifier: MIT */
/* The one line on stderr when what tsrun has started ends: whose counts it tells, and its
 * words. */
#include "leader/line/line.h"

#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/scratch.h"

#include <stdarg.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

/* One in so many is enough for a reason that something helps against. */
#define WORTH_A_WORD 10

/* ---- text ------------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t bytes, length;
};

TS_PRINTF(2, 3)
static void put(struct line *line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	line->length += ts_format_v(
		line->text + line->length, line->bytes - line->length, format, arguments);
	va_end(arguments);
}

/* With a comma between thousands. */
static void put_count(struct line *line, uint64_t value)
{
	char digits[32];
	size_t at = sizeof(digits) - 1, count = 0;
	digits[at] = '\0';
	do {
		if (count > 0 && count % 3 == 0)
			digits[--at] = ',';
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
		count++;
	} while (value);
	put(line, "%s", digits + at);
}

/* As exact as it is of use. */
static void put_time(struct line *line, uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;
	if (s < 10)
		put(line, "%llu.%llu%llu s", (unsigned long long)s,
			(unsigned long long)(ns / (NS_PER_S / 10) % 10),
			(unsigned long long)(ns / (NS_PER_S / 100) % 10));
	else if (s < 600)
		put(line, "%llu s", (unsigned long long)s);
	else if (s < 7200)
		put(line, "%llu min", (unsigned long long)(s / 60));
	else
		put(line, "%llu h %llu min", (unsigned long long)(s / 3600),
			(unsigned long long)(s / 60 % 60));
}

/* Nobody else's bytes go to a terminal as they are. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* In the order in which they are told; opens of copies of files are told apart. */
static const struct {
	enum ts_kind kind;
	const char *noun;
} nouns[] = {
	{TS_KIND_SAMPLE, "samples"},
	{TS_KIND_PIXELS, "images"},
	{TS_KIND_DEVICE, "copies to a GPU"},
};
_Static_assert(TS_ARRAY_SIZE(nouns) + 1 == TS_KIND_COUNT, "all but files");

/* ---- the counts ------------------------------------------------------------------------- */

void ts_line_add(struct ts_line_sum *sum, struct ts_job_row *row)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		sum->made[i] += ts_load_relaxed(&row->kinds[i].produced);
		sum->taken[i] += ts_load_relaxed(&row->kinds[i].shared);
		if (i != TS_KIND_BYTES)
			sum->saved_ns += ts_load_relaxed(&row->kinds[i].saved_ns);
	}
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum->passed[i] += ts_load_relaxed(&row->passed[i]);
}

/* Whether a job that ran beside has the data set of the job in row @index, of which both draw.
 */
static bool has_twin(struct ts_ledger *ledger, uint32_t index)
{
	uint64_t identity = ts_load_relaxed(&ts_ledger_drawn(ledger, index)->identity);
	for (uint32_t i = 0; identity != 0 && i < TS_JOB_MAX; i++)
		if (i != index &&
			ts_load_relaxed(&ts_ledger_drawn(ledger, i)->identity) == identity &&
			ts_ledger_beside_ns(ledger, i, index) > 0)
			return true;
	return false;
}

static bool is_meant(struct ts_ledger *ledger, uint32_t index, uint64_t launch, uint64_t job)
{
	return ts_ledger_is_of_launch(ledger, index, launch) &&
	       (job == 0 || ts_load_relaxed(&ts_ledger_job(ledger, index)->id) == job);
}

void ts_line_add_jobs(
	struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t launch, uint64_t job)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		ts_line_add(sum, ts_ledger_job(ledger, i));
		struct ts_meeting_row *meeting = ts_ledger_meeting(ledger, i);
		if (meeting) {
			sum->given[TS_KIND_SAMPLE] += ts_load_relaxed(&meeting->given_samples);
			sum->given[TS_KIND_PIXELS] += ts_load_relaxed(&meeting->given_images);
			sum->own += ts_load_relaxed(&meeting->own);
		}
		if (!sum->drawn_apart)
			sum->drawn_apart = has_twin(ledger, i);
	}
}

/* ---- data sets with other names --------------------------------------------------------- */

const struct ts_apart_text ts_apart_texts[TS_APART_PART_COUNT] = {
#define TS_X(name, id, shift, bits, text, fix) {id, text, fix},
	TS_APART_PARTS(TS_X)
#undef TS_X
};

uint32_t ts_apart_parts(uint64_t a, uint64_t b)
{
	uint64_t differ = a ^ b;
	uint32_t parts = 0;

#define TS_X(name, id, shift, bits, text, fix)                 \
	if (differ >> (shift) & ((UINT64_C(1) << (bits)) - 1)) \
		parts |= 1u << TS_APART_##name;
	TS_APART_PARTS(TS_X)
#undef TS_X
	/* Under --align fewer options count. */
	return parts & 1u << TS_APART_SEED ? parts & ~(1u << TS_APART_OPTIONS) : parts;
}

/* Whether two loaders look alike: the class of the data set, and its length. */
static bool look_alike(const struct ts_loader *a, const struct ts_loader *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       a->numbers[TS_LOADER_LENGTH] == b->numbers[TS_LOADER_LENGTH];
}

/*
 * The parts by which @mine differs from the loaders of the job in row @other that look alike,
 * of which the first has place *ret_index; 0: there are none, or one has the same name.
 */
static uint32_t differ(struct ts_ledger *ledger, struct ts_loaders *loaders,
	const struct ts_loader *mine, uint32_t other, uint32_t *ret_index)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, other)->id);
	uint64_t named = mine->numbers[TS_LOADER_NAMED];
	struct ts_loader *its TS_SCRATCH = ts_scratch();
	uint32_t parts = 0;

	for (uint32_t i = 0; its && i < TS_LOADER_MAX; i++) {
		if (!ts_loaders_read(loaders, other, id, i, its) ||
			its->numbers[TS_LOADER_NAMED] == 0)
			continue;
		if (its->numbers[TS_LOADER_NAMED] == named)
			return 0;
		if (parts == 0 && look_alike(mine, its)) {
			parts = ts_apart_parts(named, its->numbers[TS_LOADER_NAMED]);
			*ret_index = i;
		}
	}
	return parts;
}

/* ---- what differs -------------------------------------------------------------------------
 */

#define SHOWN 3u /* names of what differs */

/* A place of the table: the loader at @index of job @id in row @job. */
struct place {
	struct ts_loaders *loaders;
	uint64_t id;
	uint32_t job, index;
};

static bool read_part(
	const struct place *place, uint32_t number, struct ts_loader_part *ret_part)
{
	return ts_loaders_read_part(
		place->loaders, place->job, place->id, place->index, number, ret_part);
}

/* The part of @place that has the same path as @wanted; false: there is none. */
static bool find_part(const struct place *place, const struct ts_loader_part *wanted,
	struct ts_loader_part *ret_part)
{
	for (uint32_t i = 0; read_part(place, i, ret_part); i++)
		if (ret_part->path == wanted->path)
			return true;
	return false;
}

/* The field number @number of @part's text, *ret_length bytes; "" where there is none. */
static const char *field(const struct ts_loader_part *part, uint32_t number, size_t *ret_length)
{
	const char *from = part->text;

	for (; number > 0 && from; number--) {
		from = strchr(from, '\t');
		from = from ? from + 1 : NULL;
	}
	*ret_length = from ? strcspn(from, "\t") : 0;
	return from ? from : "";
}

static void put_field(struct line *line, const struct ts_loader_part *part, uint32_t number)
{
	size_t length, room = line->bytes - 1 - line->length;
	const char *text = field(part, number, &length);

	length = ts_min_u64(length, room);
	memcpy(line->text + line->length, text, length);
	line->length += length;
	line->text[line->length] = '\0';
}

/* "opt.lr (0.1, 0.3; used by read)", as far as that is known. */
static void put_part(
	struct line *line, const struct ts_loader_part *mine, const struct ts_loader_part *its)
{
	size_t reader;

	put_field(line, mine, 0);
	if (!its || !strchr(mine->text, '\t') || !strchr(its->text, '\t'))
		return;
	put(line, "%s", " (");
	put_field(line, mine, 1);
	put(line, "%s", ", ");
	put_field(line, its, 1);
	(void)field(mine, 2, &reader);
	put(line, "%s", reader > 0 ? "; used by " : "");
	put_field(line, mine, 2);
	put(line, "%s", ")");
}

/* Which parts of @mine @its has otherwise, or has not. */
static void tell_what(struct ts_apart *apart, const struct place *mine, const struct place *its)
{
	struct ts_loader_part part, other;
	struct line line = {.text = apart->what, .bytes = TS_APART_WHAT};
	uint32_t found = 0;

	for (uint32_t i = 0; read_part(mine, i, &part); i++) {
		bool is_there = find_part(its, &part, &other);
		if (is_there && other.sum == part.sum)
			continue;
		if (found++ >= SHOWN)
			continue;
		put(&line, "%s", found > 1 ? ", " : "");
		put_part(&line, &part, is_there ? &other : NULL);
	}
	if (found > SHOWN)
		put(&line, " and %u more", found - SHOWN);
	make_printable(apart->what);
}

/* The last of it is what the user wrote: the class, without its module. */
static void copy_name(const char *from, char ret_name[TS_APART_NAME])
{
	const char *dot = strrchr(from, '.');

	(void)ts_format(ret_name, TS_APART_NAME, "%s", dot ? dot + 1 : from);
	make_printable(ret_name);
}

/* @mine was read from @place. */
static void compare(struct ts_ledger *ledger, const struct place *place,
	const struct ts_loader *mine, struct ts_apart *apart)
{
	struct ts_loaders *loaders = place->loaders;
	uint32_t job = place->job;

	for (uint32_t other = 0; other < TS_JOB_MAX; other++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, other)->id);
		if (other == job || id == 0)
			continue;
		uint32_t index = 0, parts = differ(ledger, loaders, mine, other, &index);
		uint64_t beside = parts ? ts_ledger_beside_ns(ledger, job, other) : 0;
		if (beside <= apart->beside_ns)
			continue;
		*apart = (struct ts_apart){.found = true,
			.mine = (int)TS_PROCESS_PID(
				ts_load_relaxed(&ts_ledger_job(ledger, job)->id)),
			.other = (int)TS_PROCESS_PID(id),
			.beside_ns = beside,
			.parts = parts};
		copy_name(mine->name, apart->name);
		if (parts & (1u << TS_APART_DATA | 1u << TS_APART_OPTIONS))
			tell_what(apart, place, &(struct place){loaders, id, other, index});
	}
}

void ts_apart_find(struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t job,
	struct ts_apart *ret_apart)
{
	struct ts_loader *mine TS_SCRATCH = ts_scratch();

	static_assert(sizeof(*mine) <= TS_SCRATCH_BYTES, "it lies in a block");

	*ret_apart = (struct ts_apart){.found = false};
	if (!mine || job >= TS_JOB_MAX)
		return;
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	for (uint32_t i = 0; i < TS_LOADER_MAX && !ret_apart->found; i++)
		if (ts_loaders_read(loaders, job, id, i, mine) &&
			mine->numbers[TS_LOADER_NAMED] != 0)
			compare(ledger, &(struct place){loaders, id, job, i}, mine, ret_apart);
}

/* ---- the words -------------------------------------------------------------------------- */

static void put_more(struct line *line, const struct ts_config *config)
{
	struct ts_config standard;
	ts_config_init(&standard);
	bool named = strcmp(config->group, standard.group) != 0;
	put(line, "; `tsrun stats%s%s` tells more\n", named ? " --group " : "",
		named ? config->group : "");
}

static bool takes_any(const struct ts_line_sum *sum)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		if (sum->taken[i] > 0)
			return true;
	return false;
}

static uint64_t made_of_all(const struct ts_line_sum *sum)
{
	uint64_t made = 0;

	for (size_t i = 0; i < TS_ARRAY_SIZE(nouns); i++)
		made += sum->made[nouns[i].kind];
	return made;
}

/* The place in nouns of what this program is about; their number: nothing was made. */
static size_t first_made(const struct ts_line_sum *sum)
{
	size_t i = 0;

	while (i < TS_ARRAY_SIZE(nouns) && sum->made[nouns[i].kind] == 0)
		i++;
	return i;
}

/* ---- the reason ------------------------------------------------------------------------- */

/*
 * How much was made of what @reason is counted for; a picture inside a sample is a part of it,
 * so where there are samples they are what counts.
 */
static uint64_t made_beside(const struct ts_line_sum *sum, uint32_t reason)
{
	size_t first = first_made(sum);

	switch (ts_reason_about((enum ts_reason)reason)) {
	case TS_ABOUT_SAMPLES:
		return sum->made[TS_KIND_SAMPLE];
	case TS_ABOUT_IMAGES:
		return sum->made[TS_KIND_PIXELS];
	case TS_ABOUT_FILES:
		return sum->made[TS_KIND_BYTES];
	case TS_ABOUT_COPIES:
		return sum->made[TS_KIND_DEVICE];
	default:
		return first < TS_ARRAY_SIZE(nouns) ? sum->made[nouns[first].kind] : 0;
	}
}

/* Whether other jobs and this one have met: then nobody was alone. */
static bool has_company(const struct ts_line_sum *sum)
{
	return takes_any(sum) || sum->given[TS_KIND_SAMPLE] > 0 ||
	       sum->given[TS_KIND_PIXELS] > 0;
}

static bool is_lost(const struct ts_line_sum *sum, uint32_t reason)
{
	return sum->passed[reason] > 0 && ts_reasons[reason].fix != TS_NOT_LOST &&
	       !(reason == TS_REASON_ALONE && has_company(sum));
}

/*
 * The reason for which most work was lost to sharing; one that nothing is to be done about
 * gives way to one that something helps against.
 */
static uint32_t most_frequent(const struct ts_line_sum *sum, bool aligned)
{
	uint32_t most = TS_REASON_COUNT, helped = TS_REASON_COUNT;
	uint64_t lost = 0;

	/* Counted once for all that a process does. */
	if (sum->passed[TS_REASON_TORCH_ISOLATED] > 0)
		return TS_REASON_TORCH_ISOLATED;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		uint64_t count = sum->passed[i];
		if (!is_lost(sum, i))
			continue;
		lost += count;
		if (most == TS_REASON_COUNT || count > sum->passed[most])
			most = i;
		if (ts_reason_fix((enum ts_reason)i, aligned)[0] != '\0' &&
			(helped == TS_REASON_COUNT || count > sum->passed[helped]))
			helped = i;
	}
	bool is_worth_it =
		helped != TS_REASON_COUNT && sum->passed[helped] >= lost / WORTH_A_WORD;
	return is_worth_it ? helped : most;
}

/* Whether @reason has cost so much that it is told. */
static bool matters(const struct ts_line_sum *sum, uint32_t reason, bool aligned)
{
	uint64_t made = made_beside(sum, reason);

	if (reason == TS_REASON_COUNT || reason == TS_REASON_TORCH_ISOLATED)
		return reason != TS_REASON_COUNT;
	if (sum->passed[reason] < made / WORTH_A_WORD)
		return false;
	/* Beside what was shared it has to be of use as well. */
	return !has_company(sum) ||
	       (made > 0 && ts_reason_fix((enum ts_reason)reason, aligned)[0] != '\0');
}

/* The reason that the line tells for @sum, of @aligned jobs; TS_REASON_COUNT: it tells none.
 */
static enum ts_reason reason_of(const struct ts_line_sum *sum, bool aligned)
{
	uint32_t reason = most_frequent(sum, aligned);

	if (!matters(sum, reason, aligned)) {
		/* All of it was made for others, none of whom has come. */
		bool is_alone = !has_company(sum) && made_of_all(sum) > 0 &&
				sum->passed[TS_REASON_VERIFY] == 0;
		reason = is_alone ? TS_REASON_ALONE : TS_REASON_COUNT;
	}
	/* Others would have had no use for it. */
	return (enum ts_reason)(
		reason == TS_REASON_ALONE && sum->kept ? sum->kept - 1 : reason);
}

/* What exactly, as the first loader of the job in row @index says that gives @reason. */
static void find_detail(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, uint32_t index, enum ts_reason reason)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);
	struct ts_loader *loader TS_SCRATCH = ts_scratch();

	for (uint32_t i = 0; loader && i < TS_LOADER_MAX && sum->detail[0] == '\0'; i++) {
		if (!ts_loaders_read(loaders, index, id, i, loader) ||
			loader->verdict != TS_LOADER_VERDICT_NOT || loader->reason != reason)
			continue;
		memcpy(sum->detail, loader->detail, sizeof(sum->detail));
	}
	make_printable(sum->detail);
}

/* The reason for which none of the loaders of the job in row @index is shared, the first one's
 * if there are several; TS_REASON_COUNT: one is, or there are none. */
static enum ts_reason kept_by(
	struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t index)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);
	struct ts_loader *loader TS_SCRATCH = ts_scratch();
	enum ts_reason reason = TS_REASON_COUNT;

	for (uint32_t i = 0; loader && i < TS_LOADER_MAX; i++) {
		if (!ts_loaders_read(loaders, index, id, i, loader))
			continue;
		if (loader->verdict != TS_LOADER_VERDICT_NOT ||
			loader->reason >= TS_REASON_COUNT)
			return TS_REASON_COUNT;
		if (reason == TS_REASON_COUNT)
			reason = (enum ts_reason)loader->reason;
	}
	return reason;
}

/* Where all jobs that are meant agree that there is one. */
static void find_kept(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, uint64_t launch, uint64_t job)
{
	enum ts_reason reason = TS_REASON_COUNT;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		reason = kept_by(ledger, loaders, i);
		if (reason == TS_REASON_COUNT)
			return;
	}
	sum->kept = reason == TS_REASON_COUNT ? 0 : reason + 1;
}

void ts_line_add_loaders(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, const struct ts_config *config, uint64_t launch,
	uint64_t job)
{
	if (reason_of(sum, config->align) == TS_REASON_ALONE)
		find_kept(sum, ledger, loaders, launch, job);
	enum ts_reason reason = reason_of(sum, config->align);

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		if (!is_meant(ledger, i, launch, job))
			continue;
		if (reason != TS_REASON_COUNT && sum->detail[0] == '\0')
			find_detail(sum, ledger, loaders, i, reason);
		if (!sum->apart.found && sum->taken[TS_KIND_SAMPLE] == 0)
			ts_apart_find(ledger, loaders, i, &sum->apart);
	}
}

/*
 * Whether other names are why no sample was shared: of those that could be there are more than
 * the reason has cost.
 */
static bool is_apart(const struct ts_line_sum *sum, enum ts_reason reason)
{
	uint64_t refused = 0, made = sum->made[TS_KIND_SAMPLE];

	if (sum->taken[TS_KIND_SAMPLE] > 0 || sum->given[TS_KIND_SAMPLE] > 0 || made == 0)
		return false;
	if (sum->kept && reason == sum->kept - 1)
		return false;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		if (ts_reason_is_refusal((enum ts_reason)i))
			refused += sum->passed[i];
	if (reason == TS_REASON_COUNT || reason == TS_REASON_ALONE)
		return made > refused;
	return made > refused && made - refused > sum->passed[reason];
}

static void put_parts(struct line *line, const struct ts_apart *apart, bool fixes)
{
	const char *between = "";

	for (uint32_t i = 0; i < TS_APART_PART_COUNT; i++) {
		if (!(apart->parts >> i & 1))
			continue;
		const char *text = fixes ? ts_apart_texts[i].fix : ts_apart_texts[i].text;
		/* What exactly is told once. */
		if (!fixes && i <= TS_APART_OPTIONS && apart->what[0] != '\0')
			text = i == TS_APART_OPTIONS && between[0] != '\0' ? NULL : apart->what;
		if (text)
			put(line, "%s%s", between, text);
		between = ", ";
	}
}

/* The reason and what helps; @what was not shared for it. */
static void put_reason(
	struct line *line, const struct ts_line_sum *sum, enum ts_reason reason, bool aligned)
{
	bool is_other = is_apart(sum, reason);
	const struct ts_apart *apart = &sum->apart;

	if (apart->found && is_other) {
		put(line, "the data sets (%s) of jobs %d and %d, side by side for ",
			apart->name, apart->mine, apart->other);
		put_time(line, apart->beside_ns);
		put(line, ", have other names: they differ in ");
		put_parts(line, apart, false);
		put(line, "; fix: ");
		put_parts(line, apart, true);
		put(line, " in both%s (`tsrun explain` shows each while they run)",
			apart->parts & 1u << TS_APART_OPTIONS
				? ", or --ignore for options that decide no item"
				: "");
		return;
	}
	const char *text = ts_reasons[reason].text, *fix = ts_reason_fix(reason, aligned);
	if (reason == TS_REASON_ALONE && sum->drawn_apart) {
		text = "other jobs draw other random numbers for this data";
		fix = "--align takes them from one seed in all jobs";
	}
	put(line, "%s", text);
	if (sum->detail[0] != '\0')
		put(line, " (%s)", sum->detail);
	if (fix[0] != '\0')
		put(line, "; fix: %s", fix);
}

/* ---- what was shared -------------------------------------------------------------------- */

static void put_from(
	struct line *line, const struct ts_line_sum *sum, const struct ts_config *config)
{
	uint64_t taken = sum->taken[TS_KIND_SAMPLE] + sum->taken[TS_KIND_PIXELS];

	put(line, " taken from ");
	/* In a kept ring is also what the job itself has put there. */
	if (config->keep)
		put(line, "the kept ring");
	else if (sum->own == 0)
		put(line, "other jobs");
	else if (sum->own >= taken && sum->taken[TS_KIND_DEVICE] == 0)
		put(line, "what this job itself made before");
	else
		put(line, "other jobs and from what this job itself made before");
}

static void put_taken(
	struct line *line, const struct ts_line_sum *sum, const struct ts_config *config)
{
	const char *between = "";
	for (size_t i = 0; i < TS_ARRAY_SIZE(nouns); i++) {
		enum ts_kind kind = nouns[i].kind;
		if (sum->taken[kind] == 0)
			continue;
		put(line, "%s", between);
		put_count(line, sum->taken[kind]);
		put(line, " of ");
		put_count(line, sum->taken[kind] + sum->made[kind]);
		put(line, " %s", nouns[i].noun);
		between = ", ";
	}
	if (between[0] != '\0')
		put_from(line, sum, config);
	if (sum->saved_ns >= NS_PER_S / 100) {
		put(line, "%s", between);
		put_time(line, sum->saved_ns);
		put(line, " of CPU saved");
	}
	if (sum->taken[TS_KIND_BYTES] > 0) {
		put(line, "%s", between);
		put_count(line, sum->taken[TS_KIND_BYTES]);
		put(line, " opens of local copies of files");
	}
}

/* With --verify 100 nothing of what others made is taken, but all of it was there. */
static bool put_verified(struct line *line, const struct ts_line_sum *sum)
{
	if (made_of_all(sum) == 0 || sum->passed[TS_REASON_VERIFY] == 0)
		return false;
	put_count(line, sum->passed[TS_REASON_VERIFY]);
	put(line, " results of other jobs worked out again to compare (--verify)");
	return true;
}

/* What was made for others counts as shared, though this job took nothing. */
static bool put_given(struct line *line, const struct ts_line_sum *sum)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(nouns); i++) {
		enum ts_kind kind = nouns[i].kind;
		if (sum->given[kind] == 0)
			continue;
		put(line, "none of ");
		put_count(line, sum->made[kind]);
		put(line, " %s taken from other jobs: made here first, and taken by others ",
			nouns[i].noun);
		put_count(line, sum->given[kind]);
		put(line, " times");
		return true;
	}
	return false;
}

/* Samples of which none was shared are told of before the images inside of them. */
static bool has_lost_samples(const struct ts_line_sum *sum, enum ts_reason reason)
{
	enum ts_reason_about about = ts_reason_about(reason);

	if (sum->made[TS_KIND_SAMPLE] == 0 || sum->taken[TS_KIND_SAMPLE] > 0 ||
		sum->given[TS_KIND_SAMPLE] > 0)
		return false;
	return about == TS_ABOUT_SAMPLES || about == TS_ABOUT_ANY;
}

static void put_lost(struct line *line, const struct ts_line_sum *sum, enum ts_reason reason)
{
	static const char *const lost[] = {
		[TS_ABOUT_ANY] = " times something",
		[TS_ABOUT_SAMPLES] = " samples",
		[TS_ABOUT_IMAGES] = " images",
		[TS_ABOUT_FILES] = " opens of files",
		[TS_ABOUT_COPIES] = " copies to a GPU",
		[TS_ABOUT_PROCESS] = "samples",
	};
	enum ts_reason_about about = ts_reason_about(reason);

	if (about != TS_ABOUT_PROCESS)
		put_count(line, sum->passed[reason]);
	put(line, "%s not shared: ", lost[about]);
}

static void put_shared(struct line *line, const struct ts_line_sum *sum,
	const struct ts_config *config, enum ts_reason reason)
{
	bool is_first = (reason != TS_REASON_COUNT && has_lost_samples(sum, reason)) ||
			(sum->apart.found && is_apart(sum, reason));

	if (is_first) {
		put(line, "none of ");
		put_count(line, sum->made[TS_KIND_SAMPLE]);
		put(line, " samples shared: ");
		put_reason(line, sum, reason, config->align);
		put(line, "; ");
	}
	if (takes_any(sum))
		put_taken(line, sum, config);
	else
		(void)put_given(line, sum);
	if (is_first || reason == TS_REASON_COUNT)
		return;
	put(line, "; ");
	put_lost(line, sum, reason);
	put_reason(line, sum, reason, config->align);
}

size_t ts_line_format(char *buffer, size_t bytes, const struct ts_line_sum *sum,
	const struct ts_config *config)
{
	struct line line = {.text = buffer, .bytes = bytes};
	enum ts_reason reason = reason_of(sum, config->align);

	put(&line, "tsshim: ");
	if (has_company(sum)) {
		put_shared(&line, sum, config, reason);
	} else if (!put_verified(&line, sum)) {
		if (reason == TS_REASON_COUNT)
			return 0;
		put(&line, "nothing shared: ");
		put_reason(&line, sum, reason, config->align);
	}
	put_more(&line, config);
	return line.length;
}

size_t ts_line_format_nothing(char *buffer, size_t bytes, const struct ts_config *config)
{
	struct line line = {.text = buffer, .bytes = bytes};
	bool is_off = config->share == TS_SHARE_OFF || config->ring_bytes == 0;

	put(&line, "tsshim: nothing shared: ");
	if (is_off)
		put(&line, "%s; fix: %s\n", ts_reasons[TS_REASON_DISABLED].text,
			ts_reason_fix(TS_REASON_DISABLED, config->align));
	else
		put(&line, "met no batch of a PyTorch loader, and no JPEG picture decoded by a "
			   "libjpeg that programs share; `tsrun doctor -- COMMAND` looks for "
			   "what could be\n");
	return line.length;
}
