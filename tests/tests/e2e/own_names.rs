//! Programs may have functions with names of the C library's. Definitions of the program's come
//! first when names are bound, so the library calls those of the C library by hidden names
//! (`mpisee-rs/src/storage/libc_functions.rs`).

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use mpisee_tests::{Mpi, Run, case};
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;

/// Names that are the program's, of functions that the library and Rust's library within it call,
/// or have called.
const NAMES_OF_PROGRAMS: &str = "bcmp chmod clock_nanosleep close closedir connect dirfd fchmod fdatasync flock fstat fstat64 getcwd \
     gethostname getpid getppid getrandom getrlimit getrusage gettid getuid ioctl lseek64 lstat64 madvise mkdir mmap mmap64 \
     munmap open open64 opendir poll posix_fallocate pread64 process_vm_readv pthread_attr_destroy \
     pthread_attr_getstack pthread_attr_init pthread_attr_setstacksize pthread_create pthread_detach \
     pthread_getattr_np pthread_key_create pthread_key_delete pthread_setcancelstate pthread_setspecific \
     pthread_sigmask pthread_timedjoin_np read readdir64 readlink realpath rename rmdir sched_getaffinity \
     sched_yield sendto sigaddset sigemptyset sigismember sigtimedwait socket stat64 statfs statx syscall \
     unlink waitid write writev";

/// The symbols that the library may import by name: functions of ISO C, whose names no program may
/// take; memory management, which a program that brings its own wants used by all; what looks names
/// up; and the clock, which is read for each call of MPI, and which MPI reads as well.
const ALLOWED: &str = "abort getenv memchr memcmp memcpy memmove memset strlen \
     calloc free malloc posix_memalign realloc \
     dl_iterate_phdr dladdr dlclose dlopen dlsym \
     clock_gettime environ";

#[case]
fn functions_of_the_program_are_not_called(mpi: &Mpi) {
    let own: String = NAMES_OF_PROGRAMS.split_whitespace().map(|name| format!("OWN({name}) ")).collect();
    let arguments = [format!("-DOWN_NAMES={own}"), "-rdynamic".to_owned(), "-ldl".to_owned()];
    let program = mpi.compile_with("hostile/own_names", &arguments.each_ref().map(String::as_str));
    Run::from_program(mpi, program.clone()).ranks(2).plain();
    let finished = Run::from_program(mpi, program).ranks(2).profiled();
    assert_eq!(finished.tables().sum("W_d1", "MPI_Allreduce").calls, 2);
    assert!(!finished.stderr.contains("the program's"), "{}", finished.stderr);
}

#[case]
fn no_further_function_is_called_by_a_name_that_is_the_programs(mpi: &Mpi) {
    let allowed: BTreeSet<&str> = ALLOWED.split_whitespace().collect();
    let programs: BTreeSet<&str> = NAMES_OF_PROGRAMS.split_whitespace().collect();
    let bytes = std::fs::read(mpi.library()).expect("the library can be read");
    let library = object::File::parse(&*bytes).expect("it is a library");
    let (imported, exported): (BTreeSet<_>, BTreeSet<_>) = {
        let names = |undefined| {
            let symbols = library.dynamic_symbols().filter(move |it| it.is_undefined() == undefined);
            symbols.filter_map(|it| it.name().ok()).filter(|name| !name.is_empty()).collect()
        };
        (names(true), names(false))
    };
    assert!(imported.contains("dlsym"), "{imported:?}");
    let further: Vec<&&str> =
        imported.iter().filter(|name| !name.starts_with('_') && !allowed.contains(*name)).collect();
    assert!(
        further.is_empty(),
        "{}: {further:?}: a program may have functions of these names, which would be called instead of the C \
         library's; add them to the list at the end of mpisee-rs/src/storage/libc_functions.rs, and to \
         NAMES_OF_PROGRAMS here",
        mpi.name
    );
    let given_away: Vec<_> = programs.intersection(&exported).collect();
    assert!(given_away.is_empty(), "{}: {given_away:?} are for this library alone", mpi.name);
}
