// Preloaded into programs whose TCP is measured: every TCP socket uses cubic, whatever the default
// of the system is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int
socket(int domain, int type, int protocol) {
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    const int fd = next(domain, type, protocol);
    if (fd >= 0 && (domain == AF_INET || domain == AF_INET6) && (type & 0xF) == SOCK_STREAM) {
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    }
    return fd;
}
