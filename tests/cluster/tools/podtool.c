/* What the rig's own pods run, one static binary.
 *   podtool                  waits for SIGTERM: the pause container, a gang's worker
 *   podtool kmsg PATH        tells how the kernel log can be read from in here
 *   podtool say FIFO [FILE]  writes each line of FIFO to stdout, or to FILE, %p in whose name is
 *                            the process's number; a line "exit N" ends it: a training process
 *   podtool attack KIND      a log that harms whoever reads it, as fast as it can: `new` names ever
 *                            new things, `fill` fills up what one container may have, `verdicts` are
 *                            a sidecar's, `endless` has no end of a line
 *   podtool hold FILE COMMAND...  runs the command once the file is there
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

/* A line for each kind of thing that NCCL's reader keeps; then what looks like a runtime's frame, a
 * record of the kernel, and a line that is too long. */
static void new_thing(unsigned n)
{
	unsigned k = n / 11;

	switch (n % 11) {
	case 0: printf("host-%u:%u:%u [0] NCCL INFO Using network Socket\n", k, k, k); break;
	case 1: printf("h:7:%u [0] NCCL INFO comm 0x%x rank %u nranks 70000 commId 0x%x - Init START\n", k % 999, k, k % 60000, k); break;
	case 2: printf("h:7:%u [0] NCCL INFO Channel %u/0 : %u[0] -> %u[0] [send] via NET/IB/%u/GDRDMA\n", k % 999, k, k, k + 1, k); break;
	case 3: printf("h:%u:9 [0] NCCL INFO Channel 00/0 : %u[0] -> %u[0] [receive] via NET/Socket/0\n", k % 999, k, k + 1); break;
	case 4: printf("h:7:9 [0] NCCL INFO NCCL_X%u set by environment to %0500u\n", k, k); break;
	case 5: printf("h:7:9 [0] NCCL INFO NET/IB : Using [%u]mlx5_%u:1/IB [RO]; OOB eth%u:10.0.0.1<0>\n", k, k, k); break;
	case 6: printf("h:7:9 [0] %u.cc:1 NCCL WARN Call to ibv_create_qp failed %02000u\n", k, k); break;
	case 7: printf("h:7:9 [0] NCCL INFO Using network Plugin%u\n", k); break;
	case 8: printf("NCCL version %u.%u.%u\n", k, k, k); break;
	case 9: printf("h:7:9 [0] NCCL INFO \033[2J\a 2026-05-01T12:00:00.000000000Z stdout F NVRM: Xid (PCI:0000:1b:00): 79, pid=1, %u\r\n", k); break;
	default: printf("2026-05-01T12:00:00.000000000Z stdout P h:7:9 [0] NCCL INFO %u %030000u\n", k, k); break;
	}
}

/* As a sidecar has them, of ever new files. */
static void verdict(unsigned n)
{
	printf("{\"schema\":\"selvage.dev/nccl-verdict/v1\",\"time\":\"2026-05-01T12:00:00Z\",\"verdict\":{\"name\":\"%u\",\"nccl_version\":\"%u\",\"network\":\"socket\",\"channels\":{\"net_socket\":%u},\"multi_node\":true,\"tcp_fallback\":\"yes\",\"causes\":[\"no_device\"],\"evidence\":[{\"line\":%u,\"text\":\"%0900u\"}],\"summary\":\"%u\",\"remedies\":[],\"warnings\":{\"no_device\":%u},\"nccl_lines\":%u,\"unknown_lines\":0}}\n", n, n, n, n, n, n, n, n);
}

static int attack(const char *kind)
{
	static char buffer[1 << 16];
	unsigned n;

	signal(SIGTERM, leave);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	for (n = 0; !ferror(stdout); n++) {
		unsigned process = n % 64, thread = n / 64 % 48;

		if (!strcmp(kind, "new"))
			new_thing(n);
		else if (!strcmp(kind, "verdicts"))
			verdict(n);
		else if (!strcmp(kind, "fill") && n % 3 == 0 && thread < 32)
			printf("h:%u:%u [0] NCCL INFO comm 0x1 rank %u nranks 70000 commId 0x%x - Init START\n", process, thread, n / 64, thread);
		else
			printf("h:%u:%u [0] NCCL INFO Channel 0/0 : %u[0] -> %u[0] [send] via NET/IB/%u%s",
			       process, thread, n, n + 1, n, *kind == 'e' ? " " : "\n");
	}
	return 1;
}

/* For as long as its caller has not prepared what the command is to find. */
static int hold(const char *file, char **command)
{
	while (access(file, F_OK))
		usleep(20000);
	execv(command[0], command);
	perror(command[0]);
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
	if (argc == 3 && !strcmp(argv[1], "attack"))
		return attack(argv[2]);
	if (argc >= 4 && !strcmp(argv[1], "hold"))
		return hold(argv[2], argv + 3);
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
