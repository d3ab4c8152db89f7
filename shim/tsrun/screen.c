/* SPDX-License-Identifier: MIT */
/* The terminal of `tsrun top`. */
#include "shim/tsrun/screen.h"
#include "shim/sys.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/* Of a terminal that does not say how large it is. */
#define ROWS_STANDARD    24
#define COLUMNS_STANDARD 80

#define HOME       "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_REST "\033[J"

/* SIGCONT and SIGWINCH only wake us up. */
static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

/* The last signal that came. There is one terminal, and so one of these. */
static volatile sig_atomic_t came;

static struct {
	struct termios before; /* what to go back to */
	bool has_keys;         /* standard input is a terminal, which we have changed */
	sigset_t signals;      /* blocked before; let through while we wait */
} screen;

static void note(int signal)
{
	came = signal;
}

static int set_signals(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	for (size_t i = 0; i < TS_ARRAY_SIZE(handled); i++)
		if (sigaction(handled[i], &action, NULL) < 0)
			return -errno;
	return 0;
}

static void take_keys(void)
{
	struct termios raw = screen.before;

	if (!screen.has_keys)
		return;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void give_keys(void)
{
	if (screen.has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

static int write_all(const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t done = write(STDOUT_FILENO, text, bytes);
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			text += done;
			bytes -= (size_t)done;
		}
	}
	return 0;
}

int ts_screen_begin(void)
{
	sigset_t blocked;

	screen.has_keys = false;
	sigemptyset(&blocked);
	for (size_t i = 0; i < TS_ARRAY_SIZE(handled); i++)
		sigaddset(&blocked, handled[i]);
	if (sigprocmask(SIG_BLOCK, &blocked, &screen.signals) < 0)
		return -errno;
	int r = set_signals(note);
	if (r < 0)
		return r;
	screen.has_keys =
		isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &screen.before) == 0;
	take_keys();
	return write_all(HOME ERASE_REST, strlen(HOME ERASE_REST));
}

/* Put @text behind the *at bytes of @buffer, as far as there is room. */
static void add(char *buffer, size_t bytes, size_t *at, const char *text, size_t length)
{
	if (length > bytes - *at)
		length = bytes - *at;
	memcpy(buffer + *at, text, length);
	*at += length;
}

int ts_screen_draw(const char *text)
{
	struct winsize size = {.ws_row = 0};
	char buffer[65536]; /* more than any terminal holds */
	size_t at = 0;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		size = (struct winsize){.ws_row = ROWS_STANDARD, .ws_col = COLUMNS_STANDARD};
	add(buffer, sizeof(buffer), &at, HOME, strlen(HOME));
	/* The last line stays free: a line end there would move all of them up. */
	for (int row = 1; *text && row < size.ws_row; row++) {
		size_t length = strcspn(text, "\n");
		size_t shown = length < size.ws_col ? length : (size_t)size.ws_col - 1;
		add(buffer, sizeof(buffer), &at, text, shown);
		add(buffer, sizeof(buffer), &at, ERASE_LINE "\n", strlen(ERASE_LINE "\n"));
		text += length;
		text += *text == '\n';
	}
	add(buffer, sizeof(buffer), &at, ERASE_REST, strlen(ERASE_REST));
	/* One write: half a picture is never seen. */
	return write_all(buffer, at);
}

/* Do what @signal does to a program that knows nothing of it, with the terminal as it was. */
static void obey(int signal)
{
	sigset_t one;

	give_keys();
	(void)set_signals(SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, signal);
	(void)raise(signal);
	(void)sigprocmask(SIG_UNBLOCK, &one, NULL); /* here it comes; we end, or are stopped */
	(void)sigprocmask(SIG_BLOCK, &one, NULL);
	(void)set_signals(note);
	take_keys();
}

/* Whether one of the keys that were pressed means the end. */
static bool read_keys(void)
{
	char keys[64];
	ssize_t got = read(STDIN_FILENO, keys, sizeof(keys));

	if (got == 0 || (got < 0 && errno == EIO))
		screen.has_keys = false; /* the terminal is gone */
	for (ssize_t i = 0; i < got; i++)
		if (keys[i] == 'q' || keys[i] == 'Q')
			return true;
	return false;
}

bool ts_screen_wait(uint64_t ns)
{
	struct pollfd input = {.fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN};
	const struct timespec limit = {
		.tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND)};

	came = 0;
	int ready = ppoll(&input, 1, &limit, &screen.signals);
	if (ready > 0)
		return !read_keys();
	if (ready < 0 && came != 0 && came != SIGCONT && came != SIGWINCH)
		obey(came);
	return true;
}

void ts_screen_end(void)
{
	give_keys();
	(void)set_signals(SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &screen.signals, NULL);
}
