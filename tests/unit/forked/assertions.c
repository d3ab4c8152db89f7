/* SPDX-License-Identifier: MIT */
#include "assertions.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct criterion_options criterion_options;

/* The tree of an assertion, of which each node but the root is one of these. */
struct part {
	struct cri_assert_node node;
	struct part *next;
};

int cr_vasprintf(char **ret_text, const char *format, va_list list)
{
	return vasprintf(ret_text, format, list);
}

int cr_asprintf(char **ret_text, const char *format, ...)
{
	va_list list;
	int r;

	va_start(list, format);
	r = vasprintf(ret_text, format, list);
	va_end(list);
	return r;
}

void cr_asprintf_free(char *text)
{
	free(text);
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	forked_failure();
	fprintf(stderr, "%s:%u: assertion failed: %s\n", stats->file, stats->line,
		stats->message ? stats->message : "");
}

/* Of the older macros' messages only their texts, which follow the index where there are some.
 */
char *cr_translate_assert_msg(int index, ...)
{
	va_list list;
	const char *text;

	va_start(list, index);
	text = va_arg(list, const char *);
	va_end(list);
	return strdup(text ? text : "");
}

void cri_assert_node_init(struct cri_assert_node *node)
{
	memset(node, 0, sizeof(*node));
}

/* A copy of the node, which later ones may be added to; a child is put before its elder. */
struct cri_assert_node *cri_assert_node_add(
	struct cri_assert_node *tree, struct cri_assert_node *node)
{
	struct part *part = calloc(1, sizeof(*part));

	if (!part)
		abort();
	part->node = *node;
	part->next = (struct part *)tree->children;
	tree->children = &part->node;
	return &part->node;
}

void cri_assert_node_negate(struct cri_assert_node *tree)
{
	tree->pass = !tree->pass;
}

void cri_assert_node_term(struct cri_assert_node *tree)
{
	for (struct part *next, *part = (struct part *)tree->children; part; part = next) {
		next = part->next;
		cri_assert_node_term(&part->node);
		for (int i = 0; i < CRI_ASSERT_MAX_PARAMS; i++)
			free(part->node.params[i].data);
		free(part);
	}
}

static void print(const struct cri_assert_node *tree)
{
	if (tree->message)
		fprintf(stderr, "  %s\n", tree->message);
	for (const struct part *part = (struct part *)tree->children; part; part = part->next) {
		if (part->node.repr)
			fprintf(stderr, "  %s\n", part->node.repr);
		for (int i = 0; i < CRI_ASSERT_MAX_PARAMS; i++)
			if (part->node.params[i].data &&
				part->node.params[i].type == CRI_ASSERT_RT_STR)
				fprintf(stderr, "    %s: %s\n", part->node.params[i].name,
					(const char *)part->node.params[i].data);
		print(&part->node);
	}
}

void cri_assert_node_send(const char *file, size_t line, struct cri_assert_node *tree)
{
	forked_failure();
	fprintf(stderr, "%s:%zu: assertion failed\n", file, line);
	print(tree);
}

/* The text behind an 'x', which the macros put there for a format that may be empty; kept for
 * good. */
char *cri_assert_message(const char *format, ...)
{
	char *text = NULL;
	va_list list;
	int length;

	va_start(list, format);
	length = vasprintf(&text, format, list);
	va_end(list);
	return length > 1 ? text + 1 : NULL;
}

void *cri_assert_mkbytes(size_t size, const void *bytes)
{
	void *copy = malloc(size);

	return copy ? memcpy(copy, bytes, size) : NULL;
}

int cr_user_str_eq(char **actual, char **expected)
{
	return strcmp(*actual, *expected) == 0;
}

char *cr_user_str_tostr(char **text)
{
	char *copy = NULL;

	return asprintf(&copy, "\"%s\"", *text) < 0 ? NULL : copy;
}

void cr_redirect_stderr(void)
{
	FILE *file = tmpfile();

	if (!file || dup2(fileno(file), STDERR_FILENO) < 0)
		abort();
}

/* Whether what was written since cr_redirect_stderr() is the text. */
int cr_stderr_match_str(const char *text)
{
	char written[65536];
	ssize_t length;

	fflush(stderr);
	length = pread(STDERR_FILENO, written, sizeof(written), 0);
	return length == (ssize_t)strlen(text) && memcmp(written, text, (size_t)length) == 0;
}
