/* Lets a Rust program below a host root use libumad2sim, which is preloaded after this. That library
 * wraps open(), where Rust calls open64(), and has one device, which it knows by its whole path: $UMAD is
 * the program's name of it. It asks libibumad, which the program does not use, how long a header is. Rust's
 * debug builds ask before each close() whether a descriptor is open, as those from 1024 on, which the library
 * makes up, are not. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *path, int flags, ...);

int open64(const char *path, int flags, ...)
{
	const char *umad = getenv("UMAD");
	va_list args;
	va_start(args, flags);
	unsigned int mode = va_arg(args, unsigned int);
	va_end(args);
	return open(umad && !strcmp(path, umad) ? "/dev/infiniband/umad0" : path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	long argument = va_arg(args, long);
	va_end(args);
	return fd >= 1024 ? 0 : syscall(SYS_fcntl, fd, command, argument);
}

/* With IB_USER_MAD_ENABLE_PKEY, without which it is 8 bytes shorter. */
int umad_size(void)
{
	return 64;
}

void *umad_get_mad(void *umad)
{
	return (char *)umad + 64;
}
