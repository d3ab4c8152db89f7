/* SPDX-License-Identifier: MIT */
/* Help texts: one screen each, options and defaults from the tables. */
#include "shim/tsrun/help.h"

#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 24
#define HELP_WIDTH  80

/* Print @text from column HELP_COLUMN on, broken between words. */
static void print_wrapped(int column, const char *text)
{
	if (column >= HELP_COLUMN) {
		putchar('\n');
		column = 0;
	}
	printf("%*s", HELP_COLUMN - column, "");
	column = HELP_COLUMN;
	bool first = true;
	while (*text) {
		int length = (int)strcspn(text, " ");
		if (!first && column + 1 + length > HELP_WIDTH) {
			printf("\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
			first = true;
		}
		column += printf("%s%.*s", first ? "" : " ", length, text);
		first = false;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_row(const char *name, const char *letter, const char *metavar,
	const char *help, const char *standard)
{
	char text[256];
	int column = printf("  %s%s%s%s%s", letter, letter[0] != '\0' ? ", " : "", name,
		metavar && metavar[0] != '[' ? " " : "", metavar ? metavar : "");
	snprintf(text, sizeof(text), "%s%s%s%s", help, standard ? " [" : "",
		standard ? standard : "", standard ? "]" : "");
	print_wrapped(column, text);
}

/* The options of @mode: settings of the job, or (@settings false) everything else. */
static void print_options(enum ts_mode mode, bool settings)
{
	for (const struct ts_option_text *o = ts_arguments_options(); o->name; o++)
		if ((o->modes & mode) && (o->setting >= 0) == settings)
			print_row(o->name, o->letter, o->metavar, o->help,
				/* Without --group these look into all groups. */
				mode == TS_MODE_GC || mode == TS_MODE_TOP ||
						mode == TS_MODE_EXPLAIN || !o->metavar
					? NULL
					: o->standard);
}

static void print_environment(void)
{
	static const struct {
		const char *name, *option, *standard, *help;
	} rows[] = {
#define TS_X(enumerator, env, opt, kind, def, text) \
	{.name = env, .option = opt, .standard = def, .help = text},
		TS_OPTIONS(TS_X)
#undef TS_X
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++)
		if (rows[i].option[0] == '\0')
			print_row(rows[i].name, "", NULL, rows[i].help, rows[i].standard);
}

static void print_run(void)
{
	fputs("Usage: tsrun [options] [--] command [argument...]\n"
	      "       tsrun stats|gc|doctor|top|config|report|explain|cluster [--help]\n"
	      "Run a training command; jobs started like this share the decoding of images.\n"
	      "\nSharing:\n",
		stdout);
	print_options(TS_MODE_RUN, true);
	fputs("\nGeneral:\n", stdout);
	print_options(TS_MODE_RUN, false);
	fputs("Environment (every option above is TSSHIM_<NAME> as well; options win):\n",
		stdout);
	print_environment();
	fputs("\nExamples:\n"
	      "  tsrun -- python train.py            share with all jobs started like this\n"
	      "  tsrun stats                         what was shared, and what was not and "
	      "why\n"
	      "Exit status: the command's own; 125 to 127 as env(1).  More: man tsrun, "
	      "tsshim\n",
		stdout);
}

static void print_stats(void)
{
	fputs("Usage: tsrun stats [-v | --json | --prometheus] [--reset] [-o FILE] [--group "
	      "G]\n"
	      "Show what the jobs of a group decoded, took from the ring, and did not share.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_STATS, true);
	print_options(TS_MODE_STATS, false);
	fputs("\nExamples:\n"
	      "  tsrun stats                         the group $TSSHIM_GROUP, else 'default'\n"
	      "  tsrun stats --group a -v            every counter, and what it means\n"
	      "  tsrun stats --reset                 the last time of what was until now\n"
	      "  tsrun stats --json | jq '.datasets[].pixels.shared'\n"
	      "  tsrun stats --prometheus -o /var/lib/node_exporter/tsshim.prom\n"
	      "\nExit status: 0, also when there is nothing to show; 125 on failure.\n",
		stdout);
}

static void print_gc(void)
{
	fputs("Usage: tsrun gc [--dry-run] [--group NAME]\n"
	      "Remove your shared memory that no living process uses, and its counters.\n"
	      "Without --group: of all your groups.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_GC, true);
	print_options(TS_MODE_GC, false);
	fputs("\nExamples:\n"
	      "  tsrun gc -n                         only look\n"
	      "  tsrun gc                            all your groups\n"
	      "  tsrun gc --group a\n"
	      "\nExit status: 0, also when there was nothing to do; 125 on failure.\n",
		stdout);
}

static void print_doctor(void)
{
	fputs("Usage: tsrun doctor [--json] [[--] command [argument...]]\n"
	      "Check whether tsshim can work here, and with the command; it is not run.\n"
	      "Each check says ok, warn, fail or n/a, its number and what was found.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_DOCTOR, false);
	fputs("\nExamples:\n"
	      "  tsrun doctor                        this machine, and this environment\n"
	      "  tsrun doctor -- python train.py     and this program\n"
	      "  tsrun doctor --json | jq '.[] | select(.state == \"fail\")'\n"
	      "\nExit status: 0; 1 when a check failed; 125 on failure of tsrun itself.\n",
		stdout);
}

static void print_top(void)
{
	fputs("Usage: tsrun top [-b] [--json] [-n N] [-d SECONDS] [--group NAME]\n"
	      "Show what the jobs make and take from one another, again and again.\n"
	      "Without --group: of $TSSHIM_GROUP, else of all your groups.  Keys: q ends it.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_TOP, true);
	print_options(TS_MODE_TOP, false);
	fputs("\nA rate is of the time since the last look; - is what is not known.  Without "
	      "a\n"
	      "terminal, -b is meant.  What the columns are: man tsrun, TOP.\n"
	      "\nExamples:\n"
	      "  tsrun top                           all your groups, every 2 seconds\n"
	      "  tsrun top -b -n 2 -d 60             what a minute has brought\n"
	      "  tsrun top -b -d 60 >> jobs.log\n"
	      "  tsrun top --json -d 60 > jobs.json  and tsrun report -o jobs.html jobs.json\n"
	      "\nExit status: 0, also when there is nothing to show; 125 on failure.\n",
		stdout);
}

static void print_config(void)
{
	fputs("Usage: tsrun config [--json] [option of tsrun...]\n"
	      "Show every setting of a job that is started like this, and where it comes "
	      "from:\n"
	      "the command line, the environment, a file and its line, or the default.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_CONFIG, true);
	print_options(TS_MODE_CONFIG, false);
	fputs("\nFiles: $XDG_CONFIG_HOME|~/.config/tsshim/tsshim.conf, then\n"
	      "/etc/tsshim/tsshim.conf; lines of name = value, # begins a comment.\n"
	      "\nExamples:\n"
	      "  tsrun config --align --ring 64G\n"
	      "  tsrun config --json | jq '.[] | select(.from != \"default\")'\n"
	      "\nExit status: 0; 125 when tsrun would run nothing, for a bad value.\n",
		stdout);
}

static void print_report(void)
{
	fputs("Usage: tsrun report -o FILE.html [--group NAME] [LOG...]\n"
	      "Make a page of what jobs wrote with --events: what they made, took from one\n"
	      "another and saved over time, and why the rest was not shared.  One file, for a\n"
	      "browser, which loads nothing from anywhere.  Needs Python with matplotlib.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_REPORT, true);
	print_options(TS_MODE_REPORT, false);
	fputs("\nWithout LOG: the one of the group on this node.  - is stdout, and as LOG "
	      "stdin.\n"
	      "Lines that cannot be read are named on stderr and on the page.\n"
	      "\nExamples:\n"
	      "  tsrun report -o jobs.html           the group $TSSHIM_GROUP, else 'default'\n"
	      "  tsrun report -o sweep.html node*.events\n"
	      "\nExit status: 0, also when lines were left out; 125 on failure.\n",
		stdout);
}

static void print_explain(void)
{
	fputs("Usage: tsrun explain [--json] [--pid PID | --group NAME]\n"
	      "Tell which loaders the running jobs have met, what of each is shared, what is\n"
	      "not, why, and what helps.  `tsrun doctor -- command` checks a command before "
	      "it\n"
	      "runs.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_EXPLAIN, true);
	print_options(TS_MODE_EXPLAIN, false);
	fputs("\nExamples:\n"
	      "  tsrun explain                       all jobs of yours that run\n"
	      "  tsrun explain --pid 4711            the one of this process\n"
	      "  tsrun explain --json | jq '.jobs[].loaders[] | select(.shared == \"no\")'\n"
	      "\nExit status: 0; 125 on failure.\n",
		stdout);
}

static void print_cluster(void)
{
	fputs("Usage: tsrun cluster up [--dir DIR] [--nodes FILE|auto] [option...]\n"
	      "       tsrun cluster down [--dir DIR]\n"
	      "       tsrun cluster status [--dir DIR] [--json]\n"
	      "Start, end or look at your memcached on this node, one of those in a list that "
	      "is\n"
	      "the same on all nodes.  They are yours alone: others have neither its secret "
	      "nor\n"
	      "its certificate, which up makes.\n"
	      "\nOptions:\n",
		stdout);
	print_options(TS_MODE_CLUSTER, false);
	fputs("\nExamples:\n"
	      "  tsrun cluster up --dir ~/cluster --nodes nodes.txt     on each node\n"
	      "  tsrun cluster status --dir ~/cluster\n"
	      "  tsrun cluster down --dir ~/cluster\n"
	      "\nExit status: 0; of status 1 when a server is not up; 125 on failure.\n",
		stdout);
}

void ts_help_print(enum ts_mode mode)
{
	if (mode == TS_MODE_STATS)
		print_stats();
	else if (mode == TS_MODE_GC)
		print_gc();
	else if (mode == TS_MODE_DOCTOR)
		print_doctor();
	else if (mode == TS_MODE_TOP)
		print_top();
	else if (mode == TS_MODE_CONFIG)
		print_config();
	else if (mode == TS_MODE_REPORT)
		print_report();
	else if (mode == TS_MODE_EXPLAIN)
		print_explain();
	else if (mode == TS_MODE_CLUSTER)
		print_cluster();
	else
		print_run();
}
