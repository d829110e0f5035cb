"""Which calls of the kernel the bundle's code can make: those that calculating, reading files and threads need.

What is not listed does not exist for it (ENOSYS, so that libraries take their older way); what is known and forbidden
is not permitted (EPERM): sockets, programs, processes, signals to others.
"""

import ctypes
import os
import struct

from .kernel import MACHINE, NoWall, prctl, syscall

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
SECCOMP = {"x86_64": 317, "aarch64": 277}
NO_NEW_PRIVILEGES, SET_FILTER, ALL_THREADS = 38, 1, 1
ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
LOAD, IF_EQUAL, IF_AT_LEAST, IF_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_VALUE = 0, 4, 16
OTHER_INTERFACE = 0x40000000
"""From here on the numbers of x86's third calling form, under which the same calls have other numbers."""
THREAD = 0x10000

CALLS = """
read 0 63;write 1 64;readv 19 65;writev 20 66;pread64 17 67;lseek 8 62;close 3 57;close_range 436 436;dup 32 23;
dup2 33 -;dup3 292 24;pipe 22 -;pipe2 293 59;open 2 -;openat 257 56;stat 4 -;fstat 5 80;lstat 6 -;newfstatat 262 79;
statx 332 291;access 21 -;faccessat 269 48;faccessat2 439 439;readlink 89 -;readlinkat 267 78;getdents64 217 61;
getcwd 79 17;chdir 80 49;fchdir 81 50;mmap 9 222;munmap 11 215;mremap 25 216;mprotect 10 226;madvise 28 233;brk 12 214;
membarrier 324 283;futex 202 98;futex_waitv 449 449;get_robust_list 274 100;set_robust_list 273 99;rseq 334 293;
set_tid_address 218 96;sched_yield 24 124;sched_getaffinity 204 123;sched_getparam 143 121;sched_getscheduler 145 120;
getcpu 309 168;rt_sigaction 13 134;rt_sigprocmask 14 135;rt_sigreturn 15 139;rt_sigpending 127 136;
rt_sigtimedwait 128 137;rt_sigsuspend 130 133;sigaltstack 131 132;setitimer 38 103;getitimer 36 102;alarm 37 -;
pause 34 -;restart_syscall 219 128;getpid 39 172;getppid 110 173;gettid 186 178;getuid 102 174;geteuid 107 175;
getgid 104 176;getegid 108 177;getpgid 121 155;getpgrp 111 -;getsid 124 156;getgroups 115 158;getresuid 118 148;
getresgid 120 150;uname 63 160;sysinfo 99 179;getrlimit 97 163;getrusage 98 165;times 100 153;gettimeofday 96 169;
time 201 -;clock_gettime 228 113;clock_getres 229 114;clock_nanosleep 230 115;nanosleep 35 101;getrandom 318 278;
select 23 -;pselect6 270 72;poll 7 -;ppoll 271 73;epoll_create 213 -;epoll_create1 291 20;epoll_ctl 233 21;
epoll_wait 232 -;epoll_pwait 281 22;epoll_pwait2 441 441;eventfd 284 -;eventfd2 290 19;sendto 44 206;recvfrom 45 207;
sendmsg 46 211;recvmsg 47 212;shutdown 48 210;getsockname 51 204;getpeername 52 205;getsockopt 55 209;exit 60 93;
exit_group 231 94
"""
FORBIDDEN = """
socket 41 198;connect 42 203;bind 49 200;listen 50 201;accept 43 202;accept4 288 242;fork 57 -;vfork 58 -;
execve 59 221;execveat 322 281;ptrace 101 117;tkill 200 130;unlink 87 -;unlinkat 263 35;mkdir 83 -;mkdirat 258 34;
rename 82 -;creat 85 -;truncate 76 45;ftruncate 77 46;prctl 157 167;memfd_create 319 279
"""
SPECIAL = {"clone": (56, 220), "kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261), "ioctl": (16, 29),
           "fcntl": (72, 25), "socketpair": (53, 199)}
TERMINAL_CALLS = (0x5401, 0x5421, 0x5451, 0x5450, 0x5413)
"""Whether it is a terminal, whether it blocks, whether programs inherit it. None passes signals on or types."""
DESCRIPTOR_CALLS = (0, 1, 2, 3, 4, 1030, 1032)
"""Duplicating and flags. None that makes the kernel send another process a signal."""


def install() -> None:
    """Filter every call from here on, in every thread. Raises NoWall."""
    try:
        if MACHINE not in ARCHITECTURES:
            raise OSError(ENOSYS, f"the calls of {MACHINE} are not known here")
        program = _program(*ARCHITECTURES[MACHINE])
        kept = ctypes.create_string_buffer(program)
        filter_ = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(kept))
        prctl("no_new_privs", NO_NEW_PRIVILEGES, 1)
        syscall("seccomp", SECCOMP[MACHINE], SET_FILTER, ALL_THREADS, ctypes.c_char_p(filter_))
    except OSError as error:
        raise NoWall("seccomp", str(error)) from error


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _answer(error: int) -> bytes:
    return _step(RETURN, ERROR | error)


def _program(column: int, architecture: int) -> bytes:
    """The filter: one pair of steps a plain call, a few more where a value decides."""
    steps = [_step(LOAD, ARCHITECTURE), _step(IF_EQUAL, architecture, 1), _step(RETURN, KILL), _step(LOAD, NUMBER),
             _step(IF_AT_LEAST, OTHER_INTERFACE, 0, 1), _answer(ENOSYS)]
    for number in _numbers(CALLS, column):
        steps += [_step(IF_EQUAL, number, 0, 1), _step(RETURN, ALLOW)]
    for number in _numbers(FORBIDDEN, column):
        steps += [_step(IF_EQUAL, number, 0, 1), _answer(EPERM)]
    own = (os.getpid(),)
    steps += _where(column, "clone", 0, (THREAD,), IF_BITS)
    for name, place, values in (("kill", 0, own), ("tgkill", 0, own), ("prlimit64", 0, (0,)), ("socketpair", 0, (1,)),
                                ("ioctl", 1, TERMINAL_CALLS), ("fcntl", 1, DESCRIPTOR_CALLS)):
        steps += _where(column, name, place, values, IF_EQUAL)
    return b"".join([*steps, _answer(ENOSYS)])


def _numbers(listed: str, column: int) -> list[int]:
    words = [call.split() for call in listed.replace("\n", "").split(";")]
    return [int(word[1 + column]) for word in words if word[1 + column] != "-"]


def _where(column: int, name: str, place: int, values: tuple[int, ...], test: int) -> list[bytes]:
    """A call that is allowed for some values of one of its arguments, and not permitted for others."""
    choices = [step for value in values for step in (_step(test, value, 0, 1), _step(RETURN, ALLOW))]
    body = [_step(LOAD, FIRST_VALUE + 8 * place), *choices, _answer(EPERM)]
    return [_step(IF_EQUAL, SPECIAL[name][column], 0, len(body)), *body]
