/* SPDX-License-Identifier: MIT */
/*
 * TurboJPEG's one-call decoder, tjDecompress2() of libturbojpeg.so.0 (libjpeg-turbo 1.2
 * to 2.1): the whole stream and the whole picture are in the caller's memory.
 *
 * From libjpeg-turbo 3 on a handle carries settings that cannot be read back (cropping region,
 * scaling factor of tj3SetScalingFactor()), so handles of such a library pass.  Programs that
 * find the function with dlsym on a handle of their own (ctypes) do not come here.
 */
#include "hooks/jpeg/library.h"
#include "leader/group/session.h"
#include "shim/config.h"
#include "shim/sys.h"

#include <string.h>

/* From turbojpeg.h: pixel formats TJPF_RGB ... TJPF_CMYK, and the bytes of their pixels. */
static const uint8_t pixel_bytes[] = {3, 3, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4};

/* TJFLAG_BOTTOMUP | FASTUPSAMPLE | NOREALLOC | FASTDCT | ACCURATEDCT | STOPONWARNING |
 * PROGRESSIVE | LIMITSCANS.  The others (FORCEMMX ...) change the environment. */
#define KNOWN_FLAGS 0xfd02

/* Less than this decodes in the time that sharing takes. */
#define SMALL_STREAM_BYTES 2048u
/* A buffer larger than this holds more than one picture's stream. */
#define LARGE_STREAM_BYTES (256ul * 1024 * 1024)

#define TRAILER_MAGIC UINT64_C(0x314a545453535354) /* "TSSSTTJ1" */

/** Behind the rows of a record. */
struct turbo_trailer {
	uint64_t magic;
	uint32_t width, height, row_bytes, reserved;
};

struct call {
	const struct ts_jpeg_library *library;
	void *handle;
	const unsigned char *jpeg;
	unsigned long jpeg_bytes;
	unsigned char *picture;
	int width, pitch, height, format, flags;
};

static int real(const struct call *call)
{
	return call->library->tjDecompress2(call->handle, call->jpeg, call->jpeg_bytes,
		call->picture, call->width, call->pitch, call->height, call->format,
		call->flags);
}

static int pass(const struct call *call, enum ts_reason reason)
{
	ts_session_count_pass(reason);
	return real(call);
}

static enum ts_reason objection(const struct call *call)
{
	if (!call->handle || !call->jpeg || !call->picture || call->width < 0 ||
		call->height < 0 || call->pitch < 0 || call->format < 0 ||
		call->format >= (int)TS_ARRAY_SIZE(pixel_bytes) ||
		(call->flags & ~KNOWN_FLAGS) || call->library->tj3Init ||
		!call->library->tjDecompressHeader3 || !call->library->tjGetScalingFactors ||
		call->jpeg_bytes > LARGE_STREAM_BYTES)
		return TS_REASON_TURBO_FIELDS;
	return call->jpeg_bytes < SMALL_STREAM_BYTES ? TS_REASON_JPEG_SMALL : TS_REASON_COUNT;
}

static struct ts_key key_of(const struct call *call)
{
	struct {
		uint64_t layout;
		struct ts_hash128 stream, library;
		uint64_t environment;
		int64_t width, height, format, flags;
	} all;
	memset(&all, 0, sizeof(all));
	all.layout = TRAILER_MAGIC;
	all.stream = ts_hash128(call->jpeg, call->jpeg_bytes);
	all.library = call->library->identity;
	all.environment = ts_jpeg_environment();
	all.width = call->width;
	all.height = call->height;
	all.format = call->format;
	all.flags = call->flags;
	struct ts_hash128 digest = ts_hash128(&all, sizeof(all));
	return (struct ts_key){.lo = digest.lo | 1, .hi = digest.hi};
}

/* Output size, worked out as turbojpeg.c does: the first factor that fits. */
static bool output_size(const struct call *call, int *ret_width, int *ret_height)
{
	int width, height, subsampling, colour_space, count = 0;
	if (call->library->tjDecompressHeader3(call->handle, call->jpeg, call->jpeg_bytes,
		    &width, &height, &subsampling, &colour_space) != 0)
		return false;
	const struct ts_scaling_factor *factors = call->library->tjGetScalingFactors(&count);
	int most_width = call->width ? call->width : width;
	int most_height = call->height ? call->height : height;
	for (int i = 0; factors && i < count; i++) {
		int n = factors[i].numerator, d = factors[i].denominator;
		int w = (width * n + d - 1) / d, h = (height * n + d - 1) / d;
		if (w > most_width || h > most_height)
			continue;
		*ret_width = w;
		*ret_height = h;
		return true;
	}
	return false;
}

/* The record's trailer if everything in it agrees with the call; NULL otherwise. */
static const struct turbo_trailer *trailer_of(
	const struct call *call, const struct ts_lease *lease)
{
	if (lease->bytes < sizeof(struct turbo_trailer))
		return NULL;
	const struct turbo_trailer *trailer =
		(const void *)((const uint8_t *)lease->data +
			       (lease->bytes - sizeof(*trailer)) / 8 * 8);
	uint64_t rows = (uint64_t)trailer->row_bytes * trailer->height;
	if (trailer->magic != TRAILER_MAGIC || rows + sizeof(*trailer) > lease->bytes ||
		trailer->row_bytes != trailer->width * pixel_bytes[call->format] ||
		(call->pitch && (unsigned)call->pitch < trailer->row_bytes))
		return NULL;
	return trailer;
}

static uint8_t *row_of(const struct call *call, uint32_t row_bytes, uint32_t row)
{
	size_t pitch = call->pitch ? (size_t)call->pitch : row_bytes;
	return call->picture + pitch * row;
}

static int serve(
	const struct call *call, const struct ts_session *session, struct ts_lease *lease)
{
	const struct turbo_trailer *trailer = trailer_of(call, lease);
	if (!trailer) {
		ts_lease_release(session->store, lease);
		return pass(call, TS_REASON_TURBO_FIELDS);
	}
	const uint8_t *rows = lease->data;
	int result = 0;
	bool verify = ts_session_verify_this_hit(), equal = true;
	if (verify)
		result = pass(call, TS_REASON_VERIFY);
	for (uint32_t i = 0; i < trailer->height; i++) {
		const uint8_t *from = rows + (size_t)i * trailer->row_bytes;
		if (!verify)
			memcpy(row_of(call, trailer->row_bytes, i), from, trailer->row_bytes);
		else if (memcmp(row_of(call, trailer->row_bytes, i), from,
				 trailer->row_bytes) != 0)
			equal = false;
	}
	if (verify)
		ts_session_count_verified(result == 0 && equal, lease);
	else
		ts_session_count_shared(TS_KIND_PIXELS, lease);
	ts_lease_release(session->store, lease);
	return result;
}

static void publish(const struct call *call, const struct ts_session *session,
	struct ts_claim *claim, uint64_t cpu_ns)
{
	int width, height;
	void *buffer;
	struct ts_key now = key_of(call); /* the buffer may have been changed meanwhile */
	if (now.lo != claim->key.lo || now.hi != claim->key.hi ||
		!output_size(call, &width, &height)) {
		ts_claim_abandon(session->store, claim);
		ts_session_count_pass(TS_REASON_JPEG_CHANGED);
		return;
	}
	struct turbo_trailer trailer = {.magic = TRAILER_MAGIC,
		.width = (uint32_t)width,
		.height = (uint32_t)height,
		.row_bytes = (uint32_t)width * pixel_bytes[call->format]};
	uint64_t rows = (uint64_t)trailer.row_bytes * trailer.height;
	uint64_t trailer_at = ts_align_up(rows, 8);
	uint64_t bytes = trailer_at + sizeof(trailer);
	if ((call->pitch && (unsigned)call->pitch < trailer.row_bytes) ||
		ts_claim_reserve(session->store, claim, bytes, &buffer) < 0) {
		/* A failed reservation has ended the claim already. */
		if (call->pitch && (unsigned)call->pitch < trailer.row_bytes)
			ts_claim_abandon(session->store, claim);
		ts_session_count_pass(TS_REASON_TOO_LARGE);
		return;
	}
	for (uint32_t i = 0; i < trailer.height; i++)
		memcpy((uint8_t *)buffer + (size_t)i * trailer.row_bytes,
			row_of(call, trailer.row_bytes, i), trailer.row_bytes);
	memset((uint8_t *)buffer + rows, 0, trailer_at - rows);
	memcpy((uint8_t *)buffer + trailer_at, &trailer, sizeof(trailer));
	(void)ts_claim_publish(session->store, claim, bytes, cpu_ns);
}

static int produce(
	const struct call *call, const struct ts_session *session, struct ts_claim *claim)
{
	uint64_t start = ts_thread_cpu_ns();
	int result = real(call);
	uint64_t cpu_ns = ts_thread_cpu_ns() - start;
	if (result != 0) { /* an error, or a picture with warnings */
		ts_claim_abandon(session->store, claim);
		ts_session_count_pass(TS_REASON_JPEG_WARNING);
		return result;
	}
	ts_session_count_produced(TS_KIND_PIXELS, call->jpeg_bytes, cpu_ns);
	publish(call, session, claim, cpu_ns);
	return result;
}

static int share(const struct call *call, const struct ts_session *session)
{
	struct ts_key key = key_of(call);
	struct ts_take take;
	ts_session_take_pixels(session, &key, call->jpeg_bytes, &take);
	if (take.verdict == TS_HIT)
		return serve(call, session, &take.lease);
	if (take.verdict == TS_CLAIM)
		return produce(call, session, &take.claim);
	int result = pass(call, take.reason);
	if (result == 0)
		ts_session_count_produced(TS_KIND_PIXELS, call->jpeg_bytes, 0);
	return result;
}

int tjDecompress2(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,
	unsigned char *picture, int width, int pitch, int height, int format, int flags);

/* A call that is served from the ring does not clear an earlier error text of the handle. */
TS_EXPORT int tjDecompress2(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,
	unsigned char *picture, int width, int pitch, int height, int format, int flags)
{
	const struct call call = {
		.library =
			ts_jpeg_library_of_caller(__builtin_return_address(0), "tjDecompress2"),
		.handle = handle,
		.jpeg = jpeg,
		.jpeg_bytes = jpeg_bytes,
		.picture = picture,
		.width = width,
		.pitch = pitch,
		.height = height,
		.format = format,
		.flags = flags,
	};
	if (!call.library)
		return -1; /* nobody defines it: the caller could not have been linked either */
	if (ts_config()->disable)
		return real(&call);
	enum ts_reason reason = objection(&call);
	const struct ts_session *session = NULL;
	if (reason == TS_REASON_COUNT)
		session = ts_session_enter_for_pixels(&reason);
	return session ? share(&call, session) : pass(&call, reason);
}
