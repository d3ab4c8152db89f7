/* SPDX-License-Identifier: MIT */
/* Sockets and TLS: leader/peer/link.h explains them. */
#include "leader/peer/link.h"

#include "shim/sys.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

/* One recv(2) then brings several records of TLS, which have at most 16 KB each. */
#define READ_AHEAD (64 << 10)

/* The quickest one first; a server takes what comes first of those it has. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* ---- waiting ---------------------------------------------------------------------------- */

short ts_link_events(const struct ts_link *link, bool to_write)
{
	if (link->state == TS_LINK_CONNECTING)
		return POLLOUT;
	if (link->state == TS_LINK_HANDSHAKE)
		return link->read_wants;
	return (short)(link->read_wants | (to_write ? link->write_wants : 0));
}

static int link_wait(struct ts_link *link, bool to_write, uint64_t until_ns)
{
	struct pollfd one = {.fd = link->fd, .events = ts_link_events(link, to_write)};
	uint64_t now = ts_now_ns();

	if (now >= until_ns)
		return -ETIMEDOUT;
	struct timespec left = {
		.tv_sec = (time_t)((until_ns - now) / 1000000000u),
		.tv_nsec = (long)((until_ns - now) % 1000000000u),
	};
	int n = ppoll(&one, 1, &left, NULL);
	if (n < 0 && errno != EINTR)
		return -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

/* ---- TLS -------------------------------------------------------------------------------- */

/* What a call of OpenSSL's that did not get on waits for, or why it never will. */
static int explain(struct ts_link *link, int result, short *ret_wants)
{
	int error = errno;

	switch (SSL_get_error(link->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		*ret_wants = POLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*ret_wants = POLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return error > 0 ? -error : -ECONNRESET;
	default:
		/* Bytes that are no TLS, or nobody whom our authority knows. */
		if (link->state == TS_LINK_HANDSHAKE)
			return -EACCES;
		/* Who was killed has taken no leave. */
		return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
			       ? -ECONNRESET
			       : -EBADMSG;
	}
}

static int shake_hands(struct ts_link *link)
{
	ERR_clear_error();
	errno = 0;
	int result = SSL_connect(link->ssl);
	if (result == 1) {
		link->state = TS_LINK_UP;
		link->read_wants = POLLIN;
		link->write_wants = POLLOUT;
		return 0;
	}
	int r = explain(link, result, &link->read_wants);
	return r == 0 ? -ECONNRESET : r;
}

static int64_t tls_read(struct ts_link *link, void *to, size_t bytes)
{
	size_t got = 0;

	ERR_clear_error();
	errno = 0;
	int result = SSL_read_ex(link->ssl, to, bytes, &got);
	return result == 1 ? (int64_t)got : explain(link, result, &link->read_wants);
}

static int64_t tls_write(struct ts_link *link, const void *from, size_t bytes)
{
	size_t put = 0;

	ERR_clear_error();
	errno = 0;
	int result = SSL_write_ex(link->ssl, from, bytes, &put);
	if (result == 1)
		return (int64_t)put;
	int r = explain(link, result, &link->write_wants);
	return r == 0 ? -ECONNRESET : r;
}

/* ---- sockets ---------------------------------------------------------------------------- */

static int look_whether_connected(struct ts_link *link)
{
	struct pollfd one = {.fd = link->fd, .events = POLLOUT};
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (poll(&one, 1, 0) <= 0)
		return -EAGAIN;
	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		return -errno;
	if (error != 0)
		return -error;
	link->state = link->ssl ? TS_LINK_HANDSHAKE : TS_LINK_UP;
	return 0;
}

static int get_up(struct ts_link *link)
{
	int r = 0;

	if (link->state == TS_LINK_CONNECTING)
		r = look_whether_connected(link);
	if (r == 0 && link->state == TS_LINK_HANDSHAKE)
		r = shake_hands(link);
	return r;
}

static int64_t link_read(struct ts_link *link, void *to, size_t bytes)
{
	int r = get_up(link);

	if (r < 0)
		return r;
	if (link->ssl)
		return tls_read(link, to, bytes);
	int64_t n = recv(link->fd, to, bytes, MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return n;
}

static int64_t link_read_both(
	struct ts_link *link, void *to, size_t bytes, void *behind, size_t behind_bytes)
{
	struct iovec parts[] = {{to, bytes}, {behind, behind_bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	int r = get_up(link);

	if (r < 0)
		return r;
	if (link->ssl)
		return tls_read(link, to, bytes);
	int64_t n = recvmsg(link->fd, &message, MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return n;
}

static int64_t link_write(struct ts_link *link, const void *from, size_t bytes, bool more)
{
	int r = get_up(link);

	if (r < 0)
		return r;
	if (link->ssl)
		return tls_write(link, from, bytes);
	int64_t n = send(
		link->fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0));
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return n;
}

/* ---- a link's life ---------------------------------------------------------------------- */

static const struct ts_link_ops socket_ops = {
	.read = link_read,
	.read_both = link_read_both,
	.write = link_write,
	.wait = link_wait,
};

static bool is_address(const char *name)
{
	struct in6_addr any;

	return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

static int begin_tls(struct ts_link *link, SSL_CTX *tls, const char *name)
{
	link->ssl = SSL_new(tls);
	if (!link->ssl || SSL_set_fd(link->ssl, link->fd) != 1)
		return -ENOMEM;
	if (!name || !name[0])
		return -EINVAL;
	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(link->ssl), name) == 1
			       ? 0
			       : -EINVAL;
	if (SSL_set1_host(link->ssl, name) != 1 ||
		SSL_set_tlsext_host_name(link->ssl, name) != 1)
		return -EINVAL;
	return 0;
}

static int begin_to_connect(
	struct ts_link *link, const struct sockaddr *address, unsigned address_bytes)
{
	const int yes = 1;

	link->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (link->fd < 0)
		return -errno;
	/* Requests are put together here; waiting for more would only delay them. */
	if (address->sa_family != AF_UNIX)
		(void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (connect(link->fd, address, address_bytes) < 0 && errno != EINPROGRESS)
		return -errno;
	return 0;
}

int ts_link_open(struct ts_link *link, const struct sockaddr *address, unsigned address_bytes,
	struct ssl_ctx_st *tls, const char *name)
{
	*link = (struct ts_link){
		.ops = &socket_ops,
		.state = TS_LINK_CONNECTING,
		.read_wants = POLLIN,
		.write_wants = POLLOUT,
	};
	int r = begin_to_connect(link, address, address_bytes);
	if (r == 0 && tls)
		r = begin_tls(link, tls, name);
	if (r < 0)
		ts_link_close(link);
	return r;
}

void ts_link_close(struct ts_link *link)
{
	/* Without a word to the peer: that could block, and says nothing it must know. */
	SSL_free(link->ssl);
	link->ssl = NULL;
	if (link->fd >= 0)
		ts_sys_close(link->fd);
	link->fd = -1;
}

int ts_link_tls_create(const char *authority, const char *certificate, const char *key,
	struct ssl_ctx_st **ret_tls)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	if (!tls)
		return -ENOMEM;
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(tls, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_read_ahead(tls, 1);
	SSL_CTX_set_default_read_buffer_len(tls, READ_AHEAD);
	if (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
		SSL_CTX_set_ciphersuites(tls, CIPHERS) != 1 ||
		SSL_CTX_load_verify_file(tls, authority) != 1 ||
		SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
		SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(tls) != 1) {
		SSL_CTX_free(tls);
		ERR_clear_error();
		return -EACCES;
	}
	*ret_tls = tls;
	return 0;
}

void ts_link_tls_destroy(struct ssl_ctx_st *tls)
{
	SSL_CTX_free(tls);
}
