/* SPDX-License-Identifier: MIT */
/* What the Python half says of loaders goes into the group's table of them. */
#include "hooks/torch/loaders.h"

#include "leader/group/loaders.h"
#include "leader/group/session.h"
#include "shim/identity.h"
#include "shim/reasons.h"

#include <string.h>

int tsshim_loader_say(uint32_t key, const uint64_t *numbers, const char *const *texts,
	uint32_t verdict, const char *reason, const char *detail, const void *parts,
	uint32_t part_count)
{
	struct ts_loader_facts facts;
	struct ts_loaders *loaders = NULL;
	enum ts_reason none;

	const struct ts_session *session = ts_session_enter(&none);
	if (!session || session->job >= TS_JOB_MAX || verdict >= TS_LOADER_VERDICT_COUNT ||
		ts_loaders_attach(session->store, &loaders) < 0)
		return TS_LOADER_UNSAID;
	memcpy(facts.numbers, numbers, sizeof(facts.numbers));
	memcpy(facts.texts, texts, sizeof(facts.texts));
	facts.parts = parts;
	facts.part_count = part_count;
	struct ts_loader_judgement judgement = {.verdict = (enum ts_loader_verdict)verdict,
		.reason = ts_reason_find(reason),
		.detail = detail};
	return ts_loaders_say(loaders, session->job, ts_identity_job(), key, &facts, &judgement)
		       ? TS_LOADER_SAID
		       : TS_LOADER_COUNTED;
}
