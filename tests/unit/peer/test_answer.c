/* SPDX-License-Identifier: MIT */
/* One line of a server, and what is none. */
#include "leader/peer/answer.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static int parse(const char *line, size_t bytes, struct ts_answer *ret_answer)
{
	return ts_answer_parse(line, bytes, ret_answer);
}

#define PARSE(line, answer) parse(line, sizeof(line) - 1, answer)

static const struct {
	enum ts_answer_word word;
	const char *text;
} words[] = {
#define KNOWN(name, text) {TS_ANSWER_##name, text},
	TS_ANSWERS(KNOWN)
#undef KNOWN
};

Test(answer, each_word_is_known)
{
	struct ts_answer answer;

	for (size_t i = 0; i < TS_ARRAY_SIZE(words); i++) {
		const char *line = words[i].word == TS_ANSWER_VA ? "VA 7" : words[i].text;
		cr_expect(eq(int, parse(line, strlen(line), &answer), 0), "%s", line);
		cr_expect(eq(int, (int)answer.word, (int)words[i].word), "%s", line);
	}
}

Test(answer, all_of_a_line_is_read)
{
	struct ts_answer answer;

	cr_assert(eq(int,
		PARSE("VA 4294967295 c18446744073709551615 O4294967295 X W Z", &answer), 0));
	cr_expect(eq(u32, answer.bytes, UINT32_MAX));
	cr_expect(eq(u32, answer.opaque, UINT32_MAX));
	cr_expect(answer.has_opaque);
	cr_expect(answer.has_cas);
	cr_expect(eq(u64, answer.cas, UINT64_MAX));
	cr_expect(eq(u32, answer.flags, TS_ANSWER_STALE | TS_ANSWER_WON | TS_ANSWER_MADE));
	cr_expect(not(answer.has_fetched));
	cr_assert(eq(int, PARSE("HD h0 c7", &answer), 0));
	cr_expect(answer.has_fetched);
	cr_expect(eq(u32, answer.flags, 0));
	cr_assert(eq(int, PARSE("HD h1", &answer), 0));
	cr_expect(eq(u32, answer.flags, TS_ANSWER_FETCHED));
	cr_assert(eq(int, PARSE("SERVER_ERROR no  room ", &answer), 0));
	cr_expect(ts_answer_says(&answer, "no  room "));
	cr_expect(not(ts_answer_says(&answer, "no  room")));
	cr_assert(eq(int, PARSE("SERVER_ERROR", &answer), 0));
	cr_expect(ts_answer_says(&answer, ""));
}

static const char *const wrong[] = {"", " ", "va 3", "VA", "VA ", "VA  3", "VA 3 ", " VA 3",
	"VA 3a", "VA +3", "VA 3 O", "VA 3 O1 O1", "VA 3 Oa", "VA 3 O-1", "VA 3 WW", "VA 3 q",
	"VA 3 c", "VA 3 c1 c2", "VA 3 c0 c2", "VA 3 c-1", "VA 3 c18446744073709551616", "VA\t3",
	"HD h", "HD h2", "HD h01", "HD h0 h1", "EN O1\t", "MN O1", "STORED O1", "ERROR x",
	"HDO1", "H", "END"};

Test(answer, nothing_is_guessed)
{
	struct ts_answer answer = {.bytes = 7};

	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++)
		cr_expect(eq(int, parse(wrong[i], strlen(wrong[i]), &answer), -EPROTO), "'%s'",
			wrong[i]);
	cr_expect(eq(int, PARSE("VA 3\0O1", &answer), -EPROTO));
	cr_expect(eq(int, PARSE("VA\0 3", &answer), -EPROTO));
	cr_expect(eq(int, PARSE("VA 4294967296", &answer), -EMSGSIZE));
	cr_expect(eq(u32, answer.bytes, 7), "the output is untouched on failure");
}
