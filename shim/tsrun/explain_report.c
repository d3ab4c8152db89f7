/* SPDX-License-Identifier: MIT */
/* The two ways to print what a running job has said of its loaders. */
#include "shim/tsrun/explain.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	const char *id, *text;
} verdicts[TS_LOADER_VERDICT_COUNT] = {
	[TS_LOADER_VERDICT_NONE] = {"unknown", "nothing of it was made yet"},
	[TS_LOADER_VERDICT_SAMPLES] = {"samples", "whole samples"},
	[TS_LOADER_VERDICT_BATCHES] = {"batches", "whole batches, as its data set makes them"},
	[TS_LOADER_VERDICT_NOT] = {"no", "no samples"},
};

/* What a job shares besides samples, of which its loaders speak. */
struct counts {
	uint64_t made, taken;
};

static struct counts counts_of(const struct ts_explain_job *job, enum ts_kind kind)
{
	struct ts_tally *tally = &ts_ledger_job(job->ledger, job->row)->kinds[kind];

	return (struct counts){.made = ts_load_relaxed(&tally->produced),
		.taken = ts_load_relaxed(&tally->shared)};
}

/* What helps, for a loader as it is. */
static const char *fix_of(const struct ts_loader *loader)
{
	return loader->reason >= TS_REASON_COUNT
		       ? ""
		       : ts_reason_fix((enum ts_reason)loader->reason,
				 loader->numbers[TS_LOADER_BITS] & TS_LOADER_ALIGNED);
}

static const char *mode_of(uint64_t bits)
{
	return bits & TS_LOADER_FREE      ? "aligned, in free order"
	       : bits & TS_LOADER_ALIGNED ? "aligned"
					  : "default mode";
}

/* ---- for people ------------------------------------------------------------------------- */

/* @text is somebody else's. */
static void print_text(const char *before, const char *text, const char *behind)
{
	fputs(before, stdout);
	ts_units_print_safely(stdout, text);
	fputs(behind, stdout);
}

static void print_lines(const char *label, const char *text)
{
	printf("      %-8s", label);
	print_text(" ", text, "\n");
}

static void print_why(const struct ts_loader *loader)
{
	char unknown[64];
	const char *id = unknown, *text = "of a newer version", *fix = fix_of(loader);

	if (loader->verdict != TS_LOADER_VERDICT_NOT || loader->reason == TS_REASON_SLOTS)
		return;
	(void)snprintf(unknown, sizeof(unknown), "reason_%u", loader->reason);
	if (loader->reason < TS_REASON_COUNT) {
		id = ts_reasons[loader->reason].id;
		text = ts_reasons[loader->reason].text;
	}
	printf("      %-8s %s: %s\n", "why:", id, text);
	if (loader->detail[0] != '\0')
		print_lines("namely:", loader->detail);
	if (fix[0] != '\0')
		print_lines("fix:", fix);
	else
		print_lines("fix:", "none is needed");
}

/* Those that were given before the one that holds. */
static void print_earlier(const struct ts_loader *loader)
{
	const char *between = "      before:  ";

	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		bool holds = loader->verdict == TS_LOADER_VERDICT_NOT && loader->reason == i;
		if (!ts_loader_was_given(loader, i) || holds)
			continue;
		printf("%s%s", between, ts_reasons[i].id);
		between = ", ";
	}
	if (between[0] == ',')
		putchar('\n');
}

static void print_number(const char *before, uint64_t value, const char *behind)
{
	if (value == TS_LOADER_UNKNOWN)
		printf("%s?%s", before, behind);
	else
		printf("%s%" PRIu64 "%s", before, value, behind);
}

static void print_loader(uint32_t index, const struct ts_loader *loader)
{
	uint64_t bits = loader->numbers[TS_LOADER_BITS];
	uint64_t batch = loader->numbers[TS_LOADER_BATCH],
		 length = loader->numbers[TS_LOADER_LENGTH];

	printf("    Loader %u over ", index + 1);
	print_text("", loader->name, "");
	if (loader->place[0] != '\0')
		print_text(" (", loader->place, ")");
	printf("\n      %s, ", mode_of(bits));
	if (bits & TS_LOADER_ITERABLE)
		fputs("iterable", stdout);
	else if (length != TS_LOADER_UNKNOWN)
		print_number("", length, " items");
	else
		fputs("items not counted", stdout);
	if (batch == 0)
		fputs(", no batches", stdout);
	else
		print_number(", batches of ", batch, "");
	print_number(", workers: ", loader->numbers[TS_LOADER_WORKERS],
		bits & TS_LOADER_PERSISTENT ? ", persistent" : "");
	if (loader->sampler[0] != '\0')
		print_text(", ", loader->sampler, "");
	if (loader->collate[0] != '\0')
		print_text(", collated by ", loader->collate, "");
	printf("\n      %-8s %s\n", "shared:", verdicts[loader->verdict].text);
	if (loader->numbers[TS_LOADER_NAMED] != 0)
		printf("      %-8s %016" PRIx64 "\n",
			"named:", loader->numbers[TS_LOADER_NAMED]);
	print_why(loader);
	print_earlier(loader);
}

/* With which other job it has no sample in common, though the data look the same. */
static void print_apart(const struct ts_apart *apart)
{
	const char *between = "";

	if (!apart->found)
		return;
	print_text("    apart: samples of ", apart->name, "");
	printf(" have other names than in job %d, for these differ: ", apart->other);
	for (uint32_t i = 0; i < TS_APART_PART_COUNT; i++) {
		if (!(apart->parts >> i & 1))
			continue;
		printf("%s%s", between, ts_apart_texts[i].text);
		between = ", ";
	}
	if (apart->what[0] != '\0')
		print_text(": ", apart->what, "");
	putchar('\n');
}

static void print_decoders(const struct ts_explain_job *job)
{
	struct counts images = counts_of(job, TS_KIND_PIXELS);

	printf("    decoded images: %" PRIu64 " made, %" PRIu64 " taken; ", images.made,
		images.taken);
	if (!job->decoders.known)
		fputs("which libjpeg it has cannot be seen", stdout);
	else if (job->decoders.shared_count == 0)
		fputs("no libjpeg is loaded that could be shared", stdout);
	for (uint32_t i = 0; i < job->decoders.shared_count; i++)
		print_text(i == 0 ? "by " : ", ", job->decoders.shared[i], "");
	for (uint32_t i = 0; i < job->decoders.static_count; i++)
		print_text(i == 0 ? "; not shared, with a libjpeg inside: " : ", ",
			job->decoders.inside[i], "");
	putchar('\n');
}

void ts_explain_print(const struct ts_explain_job *job)
{
	struct counts samples = counts_of(job, TS_KIND_SAMPLE),
		      files = counts_of(job, TS_KIND_BYTES);

	printf("Job with pid %d in group %s", (int)TS_PROCESS_PID(job->id), job->group);
	if (job->command[0] != '\0')
		print_text(": ", job->command, "");
	putchar('\n');
	for (uint32_t i = 0; i < job->count; i++)
		print_loader(i, &job->loaders[i]);
	if (job->more > 0)
		printf("    and %u more loaders, of which nothing is kept\n", job->more);
	if (job->count == 0)
		puts(job->has_table ? "    it has said nothing of a loader of PyTorch's yet"
				    : "    no job of the group has said anything of loaders");
	print_apart(&job->apart);
	printf("    finished samples: %" PRIu64 " made, %" PRIu64 " taken\n", samples.made,
		samples.taken);
	print_decoders(job);
	if (files.made + files.taken > 0)
		printf("    files: %" PRIu64 " copied, %" PRIu64 " opened as copies\n",
			files.made, files.taken);
}

/* ---- for scripts ------------------------------------------------------------------------ */

static void write_number(struct ts_json *json, const char *key, uint64_t value)
{
	ts_json_number_or_null(json, key, value != TS_LOADER_UNKNOWN, value);
}

static void write_text(struct ts_json *json, const char *key, const char *text)
{
	ts_json_string(json, key, text[0] ? text : NULL);
}

static void write_why(struct ts_json *json, const struct ts_loader *loader)
{
	bool is_known = loader->reason < TS_REASON_COUNT;
	char number[32];

	(void)snprintf(number, sizeof(number), "reason_%u", loader->reason);
	ts_json_string(json, "reason",
		is_known                            ? ts_reasons[loader->reason].id
		: loader->reason == TS_REASON_SLOTS ? NULL
						    : number);
	write_text(json, "text", is_known ? ts_reasons[loader->reason].text : "");
	write_text(json, "detail", loader->detail);
	write_text(json, "fix", fix_of(loader));
	ts_json_open(json, "reasons", '[');
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		if (ts_loader_was_given(loader, i))
			ts_json_string(json, NULL, ts_reasons[i].id);
	ts_json_close(json, ']');
}

/* A number of 64 bits is none to many readers of JSON. */
static void write_named(struct ts_json *json, uint64_t named)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, named);
	write_text(json, "named", named ? text : "");
}

static void write_apart(struct ts_json *json, const struct ts_apart *apart)
{
	if (!apart->found) {
		ts_json_string(json, "apart", NULL);
		return;
	}
	ts_json_open(json, "apart", '{');
	ts_json_number(json, "pid", (uint64_t)apart->other);
	ts_json_string(json, "dataset", apart->name);
	ts_json_open(json, "differ", '[');
	for (uint32_t i = 0; i < TS_APART_PART_COUNT; i++)
		if (apart->parts >> i & 1)
			ts_json_string(json, NULL, ts_apart_texts[i].id);
	ts_json_close(json, ']');
	write_text(json, "what", apart->what);
	ts_json_close(json, '}');
}

static void write_loader(struct ts_json *json, const struct ts_loader *loader)
{
	uint64_t bits = loader->numbers[TS_LOADER_BITS];

	ts_json_open(json, NULL, '{');
	ts_json_string(json, "dataset", loader->name);
	write_text(json, "place", loader->place);
	ts_json_bool(json, "iterable", bits & TS_LOADER_ITERABLE);
	write_number(json, "length", loader->numbers[TS_LOADER_LENGTH]);
	write_number(json, "batch_size", loader->numbers[TS_LOADER_BATCH]);
	write_number(json, "workers", loader->numbers[TS_LOADER_WORKERS]);
	ts_json_bool(json, "persistent_workers", bits & TS_LOADER_PERSISTENT);
	write_text(json, "sampler", loader->sampler);
	write_text(json, "collate", loader->collate);
	ts_json_bool(json, "aligned", bits & TS_LOADER_ALIGNED);
	ts_json_bool(json, "free", bits & TS_LOADER_FREE);
	ts_json_string(json, "shared", verdicts[loader->verdict].id);
	write_named(json, loader->numbers[TS_LOADER_NAMED]);
	write_why(json, loader);
	ts_json_close(json, '}');
}

static void write_counts(struct ts_json *json, const char *key,
	const struct ts_explain_job *job, enum ts_kind kind)
{
	struct counts counts = counts_of(job, kind);

	ts_json_open(json, key, '{');
	ts_json_number(json, "made", counts.made);
	ts_json_number(json, "taken", counts.taken);
	ts_json_close(json, '}');
}

static void write_paths(struct ts_json *json, const char *key, bool is_known,
	const char (*paths)[PATH_MAX], uint32_t count)
{
	if (!is_known) {
		ts_json_string(json, key, NULL);
		return;
	}
	ts_json_open(json, key, '[');
	for (uint32_t i = 0; i < count; i++)
		ts_json_string(json, NULL, paths[i]);
	ts_json_close(json, ']');
}

void ts_explain_write(struct ts_json *json, const struct ts_explain_job *job)
{
	const struct ts_decoders *decoders = &job->decoders;
	char refusal[TS_REFUSAL_BYTES] = "";

	ts_json_open(json, NULL, '{');
	ts_json_number(json, "pid", (uint64_t)TS_PROCESS_PID(job->id));
	ts_json_string(json, "group", job->group);
	write_text(json, "command", job->command);
	ts_json_open(json, "loaders", '[');
	for (uint32_t i = 0; i < job->count; i++)
		write_loader(json, &job->loaders[i]);
	ts_json_close(json, ']');
	ts_json_number(json, "more_loaders", job->more);
	write_apart(json, &job->apart);
	(void)ts_ledger_refusal(job->ledger, job->row, refusal);
	write_text(json, "refused", refusal);
	write_counts(json, "samples", job, TS_KIND_SAMPLE);
	write_counts(json, "images", job, TS_KIND_PIXELS);
	write_counts(json, "files", job, TS_KIND_BYTES);
	write_paths(json, "libjpeg", decoders->known, decoders->shared, decoders->shared_count);
	write_paths(json, "static_libjpeg", decoders->known, decoders->inside,
		decoders->static_count);
	ts_json_close(json, '}');
}
