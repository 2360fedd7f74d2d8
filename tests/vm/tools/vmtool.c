/*
 * vmtool: what the guest needs and no package has.
 *
 *   vmtool exit N             end QEMU with a status (isa-debug-exit)
 *   vmtool get PATH [MS]      GET from the agent; body on stdout; 0 on 200,
 *                             22 on another status, 7 on no answer in time
 *   vmtool aer BUS DEV FN COR UNCOR   hex numbers, through /dev/aer_inject
 *   vmtool toggle N FILE DOWN UP METRIC LABEL   latency of a two-way change
 *   vmtool count N FILE TEXT METRIC LABEL       latency of a rising count
 *
 * The last two write to FILE, then read /metrics until METRIC{..LABEL..} has
 * the new value, and print one JSON object with latencies in milliseconds.
 * The clock runs from before the write to after the answer was read, so the
 * time of one scrape is part of every number.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <sys/io.h>
#endif
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 9949
#define BODY_MAX (4 << 20)

static char body[BODY_MAX];
static char *payload; /* of the last answer */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "vmtool: %s: %s\n", what, strerror(errno));
	exit(3);
}

/* Status code, or -1 when there is no whole answer within the time. */
static int get(const char *path, int timeout_ms)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct timeval tv;
	double end = now_ms() + timeout_ms;
	char request[256];
	size_t have = 0;
	int fd, n, status = -1;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	n = snprintf(request, sizeof(request),
		     "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) || write(fd, request, n) != n)
		goto out;
	for (;;) {
		double left = end - now_ms();
		ssize_t got;

		if (left <= 0 || have == BODY_MAX - 1)
			goto out;
		tv.tv_sec = (long)left / 1000;
		tv.tv_usec = (long)left % 1000 * 1000 + 1;
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		got = read(fd, body + have, BODY_MAX - 1 - have);
		if (got < 0)
			goto out;
		if (got == 0)
			break;
		have += got;
	}
	body[have] = 0;
	payload = strstr(body, "\r\n\r\n");
	if (payload && sscanf(body, "HTTP/1.%*d %d", &status) == 1)
		payload += 4;
	else
		status = -1;
out:
	close(fd);
	return status;
}

/* Sum over the series of METRIC whose labels contain LABEL; -1: none. */
static double value_of(const char *metric, const char *label)
{
	size_t len = strlen(metric);
	double sum = -1;
	char *line = payload, *end;

	for (; line && *line; line = end ? end + 1 : NULL) {
		char *value;

		end = strchr(line, '\n');
		if (end)
			*end = 0;
		if (strncmp(line, metric, len) || (line[len] != '{' && line[len] != ' '))
			continue;
		if (*label && !strstr(line, label))
			continue;
		value = strrchr(line, ' ');
		if (value)
			sum = (sum < 0 ? 0 : sum) + strtod(value, NULL);
	}
	return sum;
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(file);
	close(fd);
}

static double scrapes[100000];
static int nscrapes;

/* Milliseconds from T0 until METRIC has (or, above=1, exceeds) WANT. */
static double until(double t0, const char *metric, const char *label, double want, int above)
{
	for (;;) {
		double begin = now_ms(), v;

		if (begin - t0 > 20000) {
			fprintf(stderr, "vmtool: %s{%s} did not reach %g in 20 s\n", metric, label, want);
			exit(4);
		}
		if (get("/metrics", 5000) != 200)
			continue;
		if (nscrapes < (int)(sizeof(scrapes) / sizeof(*scrapes)))
			scrapes[nscrapes++] = now_ms() - begin;
		v = value_of(metric, label);
		if (above ? v > want : v == want)
			return now_ms() - t0;
		/* A poller that spins on the only processor measures the scheduler. */
		usleep(2000);
	}
}

static int by_size(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

/* Nearest rank. */
static double rank(double *sorted, int n, double q)
{
	int i = (int)(q * n + 0.999999) - 1;

	return n ? sorted[i < 0 ? 0 : i >= n ? n - 1 : i] : -1;
}

static void print(const char *name, double *v, int n)
{
	qsort(v, n, sizeof(*v), by_size);
	qsort(scrapes, nscrapes, sizeof(*scrapes), by_size); /* of the whole measurement */
	printf("{\"bench\":\"%s\",\"n\":%d,\"min_ms\":%.1f,\"median_ms\":%.1f,\"p90_ms\":%.1f,"
	       "\"p99_ms\":%.1f,\"max_ms\":%.1f,\"scrape_median_ms\":%.1f}\n",
	       name, n, v[0], rank(v, n, .5), rank(v, n, .9), rank(v, n, .99), v[n - 1],
	       rank(scrapes, nscrapes, .5));
}

/* Not in step with anything periodic in the agent. */
static void pause_some(void)
{
	usleep(50000 + random() % 250000);
}

/*
 * The kernel tells of at most one loss of carrier a second (net/core/
 * link_watch.c; a gain is told at once). Falls closer together would measure
 * that wait.
 */
static void pause_for_linkwatch(void)
{
	usleep(1100000 + random() % 300000);
}

static void toggle(int n, char **a)
{
	double *down = calloc(n, sizeof(*down)), *up = calloc(n, sizeof(*up)), t0;
	int i;

	for (i = 0; i < n; i++) {
		pause_for_linkwatch();
		t0 = now_ms();
		put(a[0], a[1]);
		down[i] = until(t0, a[3], a[4], 0, 0);
		pause_some();
		t0 = now_ms();
		put(a[0], a[2]);
		up[i] = until(t0, a[3], a[4], 1, 0);
	}
	print("link_down", down, n);
	print("link_up", up, n);
}

static void count(int n, char **a)
{
	double *v = calloc(n, sizeof(*v)), t0, before;
	int i;

	for (i = 0; i < n; i++) {
		pause_some();
		if (get("/metrics", 5000) != 200)
			die("scrape");
		before = value_of(a[2], a[3]);
		t0 = now_ms();
		put(a[0], a[1]);
		v[i] = until(t0, a[2], a[3], before, 1);
	}
	print("kmsg_line", v, n);
}

/* As drivers/pci/pcie/aer_inject.c reads it. */
struct aer_error_inj {
	uint8_t bus, dev, fn;
	uint32_t uncor_status, cor_status, header_log[4], domain;
};

static void aer(char **a)
{
	struct aer_error_inj e = {
		.bus = strtoul(a[0], NULL, 16), .dev = strtoul(a[1], NULL, 16),
		.fn = strtoul(a[2], NULL, 16), .cor_status = strtoul(a[3], NULL, 16),
		.uncor_status = strtoul(a[4], NULL, 16), .header_log = { 0, 1, 2, 3 },
	};
	int fd = open("/dev/aer_inject", O_WRONLY);

	if (fd < 0 || write(fd, &e, sizeof(e)) != sizeof(e))
		die("/dev/aer_inject");
}

int main(int argc, char **argv)
{
	const char *cmd = argc > 1 ? argv[1] : "";

	if (!strcmp(cmd, "exit") && argc == 3) {
#ifdef __x86_64__
		if (ioperm(0xf4, 4, 1))
			die("ioperm");
		outb(atoi(argv[2]), 0xf4);
#endif
		return 3; /* still here: not under QEMU */
	}
	if (!strcmp(cmd, "get") && argc >= 3) {
		int status = get(argv[2], argc > 3 ? atoi(argv[3]) : 5000);

		if (status < 0)
			return 7;
		fputs(payload, stdout);
		return status == 200 ? 0 : 22;
	}
	if (!strcmp(cmd, "aer") && argc == 7)
		return aer(argv + 2), 0;
	if (!strcmp(cmd, "toggle") && argc == 8)
		return toggle(atoi(argv[2]), argv + 3), 0;
	if (!strcmp(cmd, "count") && argc == 7)
		return count(atoi(argv[2]), argv + 3), 0;
	fprintf(stderr, "vmtool: see the head of vmtool.c\n");
	return 64;
}
