//! Functions of the C library that this library calls whatever else has their names.
//!
//! The names that ISO C does not reserve belong to the program: a simulation of birds may have a
//! `flock()`. A definition of the program's is found before the C library's, from here, too, so
//! that such a function would be called with the arguments of the C library's, or run in the middle
//! of `MPI_Init`. The names that MPI uses itself no program can take; this library must not add
//! others to them.
//!
//! So it has a hidden function of each name, to which its calls, and those of Rust's library within
//! it, are bound when it is linked. The function jumps to the address that the C library itself
//! gives, which is looked up at the first call of any of them: that may come before this library's
//! constructors.
//!
//! Not here are memory management, as a program may bring its own, which is to be used by all;
//! `dlsym` and its like, which are needed to look up the rest; and `clock_gettime`, as it is called
//! for each call of MPI, and by MPI as well. A test compares what is left with a list
//! (`tests/tests/e2e/own_names.rs`).

#![cfg(all(not(test), any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::arch::global_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function: its name, and its address once it is known, first that of what looks it up.
#[repr(C)]
struct Function {
    name: *const c_char,
    address: AtomicPtr<c_void>,
}

// SAFETY: the name is constant, and the address atomic.
unsafe impl Sync for Function {}

unsafe extern "C" {
    #[link_name = "mpisee_libc_functions"]
    static FIRST: Function;
    #[link_name = "mpisee_libc_functions_end"]
    static END: Function;
}

/// The hidden function `$name`, which jumps to the address in the table, and its place in the
/// table.
macro_rules! functions {
    ($($name:ident)*) => {
        global_asm!(
            ".pushsection .data.mpisee_libc,\"aw\",@progbits",
            ".p2align 3",
            ".globl mpisee_libc_functions",
            ".hidden mpisee_libc_functions",
            "mpisee_libc_functions:",
            ".popsection",
            $(
                concat!(
                    ".pushsection .rodata.mpisee_libc,\"a\",@progbits\n",
                    "mpisee_libc_name_", stringify!($name), ": .asciz \"", stringify!($name), "\"\n",
                    ".popsection\n",
                    ".pushsection .data.mpisee_libc,\"aw\",@progbits\n",
                    ".quad mpisee_libc_name_", stringify!($name), "\n",
                    "mpisee_libc_address_", stringify!($name), ": ",
                    ".quad mpisee_libc_first_", stringify!($name), "\n",
                    ".popsection\n",
                    ".pushsection .text.mpisee_libc,\"ax\",@progbits\n",
                    ".p2align 4\n",
                    ".globl ", stringify!($name), "\n",
                    ".hidden ", stringify!($name), "\n",
                    ".type ", stringify!($name), ",@function\n",
                    stringify!($name), ":\n",
                    jump!(stringify!($name)),
                    ".size ", stringify!($name), ", . - ", stringify!($name), "\n",
                    "mpisee_libc_first_", stringify!($name), ":\n",
                    jump_at_first!(stringify!($name)),
                    ".popsection",
                ),
            )*
            ".pushsection .data.mpisee_libc,\"aw\",@progbits",
            ".globl mpisee_libc_functions_end",
            ".hidden mpisee_libc_functions_end",
            "mpisee_libc_functions_end:",
            ".popsection",
        );
    };
}

/// To the address in the table.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($name:expr) => {
        concat!("jmp qword ptr [rip + mpisee_libc_address_", $name, "]\n")
    };
}

/// To what looks the addresses up, with the place of that which is needed in a register that no
/// call uses.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_at_first {
    ($name:expr) => {
        concat!("lea r11, [rip + mpisee_libc_address_", $name, "]\njmp mpisee_libc_look_up\n")
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($name:expr) => {
        concat!(
            "adrp x16, mpisee_libc_address_",
            $name,
            "\n",
            "ldr x16, [x16, :lo12:mpisee_libc_address_",
            $name,
            "]\n",
            "br x16\n",
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump_at_first {
    ($name:expr) => {
        concat!(
            "adrp x17, mpisee_libc_address_",
            $name,
            "\n",
            "add x17, x17, :lo12:mpisee_libc_address_",
            $name,
            "\n",
            "b mpisee_libc_look_up\n",
        )
    };
}

// Looks the addresses up and goes on to the one that is needed, with every register that may have
// an argument as it was.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.mpisee_libc,\"ax\",@progbits",
    ".p2align 4",
    ".globl mpisee_libc_look_up",
    ".hidden mpisee_libc_look_up",
    "mpisee_libc_look_up:",
    "push rbp",
    "mov rbp, rsp",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push r11",
    "sub rsp, 32",
    "movups xmmword ptr [rsp], xmm0",
    "movups xmmword ptr [rsp + 16], xmm1",
    "call {look_up}",
    "movups xmm0, xmmword ptr [rsp]",
    "movups xmm1, xmmword ptr [rsp + 16]",
    "add rsp, 32",
    "pop r11",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "pop rbp",
    "jmp qword ptr [r11]",
    ".popsection",
    look_up = sym look_up,
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.mpisee_libc,\"ax\",@progbits",
    ".p2align 4",
    ".globl mpisee_libc_look_up",
    ".hidden mpisee_libc_look_up",
    "mpisee_libc_look_up:",
    "stp x29, x30, [sp, #-128]!",
    "mov x29, sp",
    "stp x0, x1, [sp, #16]",
    "stp x2, x3, [sp, #32]",
    "stp x4, x5, [sp, #48]",
    "stp x6, x7, [sp, #64]",
    "stp x8, x17, [sp, #80]",
    "stp q0, q1, [sp, #96]",
    "bl {look_up}",
    "ldp q0, q1, [sp, #96]",
    "ldp x8, x17, [sp, #80]",
    "ldp x6, x7, [sp, #64]",
    "ldp x4, x5, [sp, #48]",
    "ldp x2, x3, [sp, #32]",
    "ldp x0, x1, [sp, #16]",
    "ldp x29, x30, [sp], #128",
    "ldr x16, [x17]",
    "br x16",
    ".popsection",
    look_up = sym look_up,
);

/// Looks all addresses up. Several threads may do so at once, and find the same.
extern "C" fn look_up() {
    let (first, end) = (&raw const FIRST, &raw const END);
    // SAFETY: both are the ends of one table.
    for at in 0..unsafe { end.offset_from(first) }.unsigned_abs() {
        // SAFETY: within the table, whose entries are constant but for an atomic.
        let function = unsafe { &*first.add(at) };
        // SAFETY: the table's names end in a zero.
        let name = unsafe { CStr::from_ptr(function.name) };
        let found = in_libc(name).or_else(|| by_version(name)).unwrap_or(missing as *const () as *mut c_void);
        function.address.store(found, Ordering::Relaxed);
    }
}

/// The address of the C library's function.
fn in_libc(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero; nothing is loaded.
    let libc = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let in_library = |library: *mut c_void| {
        // SAFETY: the library is open, or the special handle; the name ends in a zero.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    // Older C libraries consist of several, and others have another name.
    Some(libc).filter(|libc| !libc.is_null()).and_then(in_library).or_else(|| in_library(libc::RTLD_NEXT))
}

/// The functions that older versions of the GNU C library lack: up to 2.29 that for the thread's
/// number; up to 2.32 those for files are only to be linked statically, on top of others that take
/// the version of the structure.
fn by_version(name: &CStr) -> Option<*mut c_void> {
    const VERSION: c_int = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
    type Versioned<T> = unsafe extern "C" fn(c_int, T, *mut libc::stat) -> c_int;

    extern "C" fn of_file(file: c_int, stat: *mut libc::stat) -> c_int {
        let Some(found) = in_libc(c"__fxstat64") else { return missing() as c_int };
        // SAFETY: this is the type of the function; the arguments are the caller's.
        unsafe { transmute::<*mut c_void, Versioned<c_int>>(found)(VERSION, file, stat) }
    }

    fn of_path(function: &CStr, path: *const c_char, stat: *mut libc::stat) -> c_int {
        let Some(found) = in_libc(function) else { return missing() as c_int };
        // SAFETY: this is the type of both functions; the arguments are the caller's.
        unsafe { transmute::<*mut c_void, Versioned<*const c_char>>(found)(VERSION, path, stat) }
    }

    extern "C" fn of_target(path: *const c_char, stat: *mut libc::stat) -> c_int {
        of_path(c"__xstat64", path, stat)
    }

    extern "C" fn of_link(path: *const c_char, stat: *mut libc::stat) -> c_int {
        of_path(c"__lxstat64", path, stat)
    }

    extern "C" fn of_thread() -> libc::c_long {
        // SAFETY: the call has no arguments.
        unsafe { libc::syscall(libc::SYS_gettid) }
    }

    let found = match name.to_bytes() {
        b"gettid" => of_thread as *const (),
        b"fstat" | b"fstat64" => of_file as *const (),
        b"stat64" => of_target as *const (),
        b"lstat64" => of_link as *const (),
        _ => return None,
    };
    Some(found as *mut c_void)
}

/// In place of a function that the C library does not have: it fails.
extern "C" fn missing() -> isize {
    // SAFETY: the address of the calling thread's own number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

functions! {
    bcmp chmod clock_nanosleep close closedir connect dirfd fchmod fdatasync flock fstat fstat64 getcwd gethostname getpid getppid
    getrandom getrlimit getrusage gettid getuid hypot ioctl lseek64 lstat64 madvise mkdir mmap mmap64 munmap open open64 opendir poll
    posix_fallocate pread64 process_vm_readv pthread_attr_destroy pthread_attr_getstack pthread_attr_init pthread_attr_setstacksize
    pthread_create pthread_detach pthread_getattr_np pthread_key_create pthread_key_delete pthread_self pthread_setcancelstate
    pthread_setspecific pthread_sigmask pthread_timedjoin_np read
    readdir64 readlink realpath rename rmdir sched_getaffinity sched_yield sendto sigaddset sigemptyset sigismember sigtimedwait socket
    stat64 statfs statx syscall unlink waitid write writev
}
