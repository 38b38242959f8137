/* base/os/windows/socket.h - Windows' headers of sockets, in the order that they need. */
#ifndef BASE_OS_WINDOWS_SOCKET_H
#define BASE_OS_WINDOWS_SOCKET_H

#include <winsock2.h>
#include <ws2tcpip.h>

/* Names of windows.h that are words of ours. */
#undef ERROR
#undef near
#undef far
#undef small
#undef interface

#endif
