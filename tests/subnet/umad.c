/* Lets a Rust program below a host root use libumad2sim, which is preloaded after this. That library
 * wraps open(), where Rust calls open64(), and knows its device by the whole path only. It asks
 * libibumad, which the program does not use, how long a header is. */
#include <stdarg.h>
#include <string.h>

int open(const char *path, int flags, ...);

int open64(const char *path, int flags, ...)
{
	const char *umad = strstr(path, "/dev/infiniband/umad");
	va_list args;
	va_start(args, flags);
	unsigned int mode = va_arg(args, unsigned int);
	va_end(args);
	return open(umad ? umad : path, flags, mode);
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
