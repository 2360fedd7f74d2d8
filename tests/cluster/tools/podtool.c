/* What the rig's own pods run, one static binary.
 *   podtool                  waits for SIGTERM: the pause container, a gang's worker
 *   podtool kmsg PATH        tells how the kernel log can be read from in here
 *   podtool say FIFO [FILE]  writes each line of FIFO to stdout, or to FILE, %p in whose name is
 *                            the process's number; a line "exit N" ends it: a training process
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name(int error)
{
	return error == 0 ? "ok" : error == EPERM ? "EPERM" : error == EACCES ? "EACCES" :
	       error == ENOENT ? "ENOENT" : error == ENOSYS ? "ENOSYS" : strerror(error);
}

static int kmsg(const char *path)
{
	static char buffer[1 << 16];
	int fd = open(path, O_RDONLY | O_NONBLOCK), error = fd < 0 ? errno : 0;

	printf("open %s %s\n", path, name(error));
	if (fd >= 0)
		printf("read %s %s\n", path, name(read(fd, buffer, sizeof(buffer)) < 0 ? errno : 0));
	printf("syslog-3 %s\n", name(klogctl(3, buffer, sizeof(buffer)) < 0 ? errno : 0));
	printf("syslog-10 %s\n", name(klogctl(10, NULL, 0) < 0 ? errno : 0));
	return 0;
}

static void ignore(int signal) { (void)signal; }
static void leave(int signal) { _exit(128 + signal); }

static int say(const char *from, const char *to)
{
	static char path[4096], line[1 << 16];
	const char *pid = to ? strstr(to, "%p") : NULL;
	FILE *in, *out = stdout;
	/* Open for writing, too: without a writer it would come to an end. */
	int fd = open(from, O_RDWR | O_CLOEXEC);

	/* Process 1 ends by no signal that it does not handle. */
	signal(SIGTERM, leave);
	if (pid)
		snprintf(path, sizeof(path), "%.*s%d%s", (int)(pid - to), to, (int)getpid(), pid + 2);
	else if (to)
		snprintf(path, sizeof(path), "%s", to);
	if (fd < 0 || !(in = fdopen(fd, "r")) || (to && !(out = fopen(path, "w")))) {
		fprintf(stderr, "%s, %s: %s\n", from, path, strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), in)) {
		if (!strncmp(line, "exit ", 5))
			return atoi(line + 5);
		if (fputs(line, out) < 0 || fflush(out))
			return 1;
	}
	return 1;
}

int main(int argc, char **argv)
{
	sigset_t set;
	int signal;

	if (argc == 3 && !strcmp(argv[1], "kmsg"))
		return kmsg(argv[2]);
	if (argc >= 3 && !strcmp(argv[1], "say"))
		return say(argv[2], argv[3]);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* An ignored SIGCHLD, as process 1 has it, would never arrive. */
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = ignore }, NULL);
	while (sigwait(&set, &signal) == 0 && signal == SIGCHLD)
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	return 0;
}
