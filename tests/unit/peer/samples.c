/* SPDX-License-Identifier: MIT */
/* What tests do with samples: tests/unit/peer/samples.h explains it. */
#include "samples.h"

#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <sys/mman.h>
#include <unistd.h>

/* Its segments hold more than a place does. */
#define LARGE_RING (UINT64_C(256) << 20)

static struct node *current;
static struct ts_store *store;
static int places;

static unsigned char *map_places(void)
{
	unsigned char *start = mmap(NULL, ts_mail_place_at(TS_MAIL_PLACES - 1),
		PROT_READ | PROT_WRITE, MAP_SHARED, places, 0);

	cr_assert(ne(ptr, start, MAP_FAILED));
	return start + ts_mail_place_at(0);
}

void samples_begin(struct node *node, uint32_t servers)
{
	current = node;
	fixture_init();
	store = fixture_attach_sized(JOB_A, LARGE_RING);
	fixture_capture(store, true);
	node_begin(node, SECRET_A, servers);
	places = memfd_create("places", MFD_CLOEXEC);
	cr_assert(eq(int, ftruncate(places, (off_t)ts_mail_place_at(TS_MAIL_PLACES - 1)), 0));
	node->mail.places = map_places();
	ts_transfers_use_samples(node->transfers, store, places);
}

void samples_end(void)
{
	node_end(current);
	close(places);
	ts_store_detach(store);
	fixture_finish();
}

/* ---- what tests do ---------------------------------------------------------------------- */

struct ts_key sample_key(uint32_t number)
{
	return fixture_key(number, 1000 + number);
}

void sample_name(uint32_t number, char ret_name[static 48])
{
	struct ts_key key = sample_key(number);

	snprintf(ret_name, 48, "s1:%016llx%016llx", (unsigned long long)key.hi,
		(unsigned long long)key.lo);
}

void sample_want(uint32_t number)
{
	struct ts_key key = sample_key(number);

	current->request = (struct ts_mail_request){
		.kind = TS_MAIL_SAMPLE,
		.name = {.lo = key.lo, .hi = key.hi},
		.until_ns = ts_now_ns() + 10 * SECOND,
		.made_ns = SAMPLE_MADE_NS,
	};
}

int sample_seek(uint32_t number)
{
	sample_want(number);
	node_post(current, TS_MAIL_SAMPLE);
	return node_wait(current);
}

struct node_value *sample_value(uint32_t number, uint32_t chunk)
{
	char name[48], key[64];
	uint32_t i = 0;

	sample_name(number, name);
	snprintf(key, sizeof(key), "%s:%u", name, chunk);
	while (i < NODE_VALUES && strcmp(current->values[i].key, key) != 0)
		i++;
	cr_assert(lt(u32, i, NODE_VALUES), "%s", key);
	return &current->values[i];
}

unsigned char sample_byte(uint32_t number, uint64_t at)
{
	return (unsigned char)(at * 31 + at / SAMPLE_CHUNK + number);
}

void sample_publish(uint32_t number, enum ts_kind kind, uint64_t bytes)
{
	struct ts_key key = sample_key(number);
	struct ts_take take;
	void *buffer;

	ts_store_take(store, &key, 0, kind, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(store, &take.claim, bytes, &buffer), 0));
	for (uint64_t i = 0; i < bytes; i++)
		((unsigned char *)buffer)[i] = sample_byte(number, i);
	cr_assert(eq(int, ts_claim_publish(store, &take.claim, bytes, SAMPLE_PRODUCE_NS), 0));
}

void sample_hand_over(uint32_t number)
{
	sample_want(number);
	node_post(current, TS_MAIL_SAMPLE_STORE);
	cr_assert(eq(int, node_wait(current), -1));
	node_rest(current);
}

void sample_give(uint32_t number, uint64_t bytes)
{
	cr_assert(eq(int, sample_seek(number), TS_MAIL_SAYS_WON));
	sample_publish(number, TS_KIND_SAMPLE, bytes);
	sample_hand_over(number);
	current->asked = current->stored = current->deleted = 0;
}

bool samples_are_untouched(void)
{
	return lseek(places, 0, SEEK_DATA) == -1 && errno == ENXIO;
}

void sample_expect(uint32_t number, uint64_t bytes)
{
	unsigned char *found = malloc(SAMPLE_HEAD + bytes);
	struct ts_mail_sample head;
	uint64_t wrong = 0;

	cr_assert(eq(int,
		ts_sys_read_all(places, found, SAMPLE_HEAD + bytes, ts_mail_place_at(0)), 0));
	memcpy(&head, found, SAMPLE_HEAD);
	cr_expect(eq(u32, head.version, TS_MAIL_SAMPLE_VERSION));
	cr_expect(eq(u64, head.made_ns, SAMPLE_MADE_NS));
	cr_expect(eq(u64, head.produce_ns, SAMPLE_PRODUCE_NS));
	for (uint64_t i = 0; i < bytes; i++)
		wrong += found[SAMPLE_HEAD + i] != sample_byte(number, i);
	cr_expect(eq(u64, wrong, 0), "%zu bytes", (size_t)bytes);
	cr_expect(eq(u64, ts_load_relaxed(&current->mail.table->slots[0].bytes), bytes));
	free(found);
}
