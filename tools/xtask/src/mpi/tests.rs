//! An MPI of three functions and its compiler wrapper, made with the compiler that Rust links with.

use super::*;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

const VERSION: &str = "Open MPI v9.8.7, package: made for a test";

struct FakeMpi {
    folder: TempDir,
    /// One at a time: a process that another test starts while this one writes a wrapper has the
    /// wrapper open for a moment, and the kernel does not execute it then.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl FakeMpi {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mpi = FakeMpi { folder: tempfile::tempdir().unwrap(), _alone: alone };
        mpi.file(
            "mpi.h",
            "enum { MPI_MAX_LIBRARY_VERSION_STRING = 256 };\n\
             int MPI_Get_library_version(char *text, int *length);\n",
            0o644,
        );
        mpi.file(
            "mpi.c",
            &format!(
                "#include <string.h>\n\
                 int PMPI_Get_library_version(char *text, int *length) {{\n\
                   strcpy(text, \"{VERSION}\\nsecond line\"); *length = strlen(text); return 0; }}\n\
                 int MPI_Get_library_version(char *, int *) __attribute__((alias(\"PMPI_Get_library_version\")));\n\
                 int PMPI_Send(void) {{ return 0; }}\n\
                 int MPI_Send(void) __attribute__((weak, alias(\"PMPI_Send\")));\n\
                 int MPIX_Without_twin(void) {{ return 0; }}\n\
                 int MPI_UNWEIGHTED, PMPI_UNWEIGHTED;\n\
                 int ompi_internal(void) {{ return 0; }}\n"
            ),
            0o644,
        );
        let (source, library) = (mpi.path("mpi.c"), mpi.path("libmpi.so.99.1"));
        mpi.cc(&["-shared", "-fPIC", "-Wl,-soname,libmpi.so.99", &source, "-o", &library]);
        for link in ["libmpi.so.99", "libmpi.so"] {
            std::os::unix::fs::symlink("libmpi.so.99.1", mpi.path(link)).unwrap();
        }
        mpi
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, contents: &str, mode: u32) {
        fs::write(self.path(name), contents).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn wrapper(&self, name: &str, link: &str) -> PathBuf {
        let folder = self.folder.path().display();
        self.file(name, &format!("#!/bin/sh\nexec cc -I{folder} \"$@\" {link} -Wl,-rpath,{folder}\n"), 0o755);
        PathBuf::from(self.path(name))
    }

    fn cc(&self, arguments: &[&str]) {
        assert!(Command::new("cc").args(arguments).status().unwrap().success(), "cc {arguments:?}");
    }
}

#[test]
fn a_wrapper_leads_to_a_flavour() {
    let mpi = FakeMpi::new();
    let wrapper = mpi.wrapper("mpicc.test", &mpi.path("libmpi.so"));
    // Two wrappers of one MPI are one flavour.
    let flavours = find(&[wrapper.clone(), mpi.wrapper("mpicc", &mpi.path("libmpi.so"))]).unwrap();
    assert_eq!(
        flavours,
        [Flavour {
            name: "openmpi-9.8".to_owned(),
            family: crate::flavour::Family::OpenMpi,
            soname: "libmpi.so.99".to_owned(),
            library: Path::new(&mpi.path("libmpi.so.99.1")).canonicalize().unwrap(),
            library_version: VERSION.to_owned(),
            mpicc: wrapper,
            functions: vec!["MPI_Get_library_version".to_owned(), "MPI_Send".to_owned()],
        }]
    );
}

#[test]
fn a_wrapper_that_leads_nowhere_is_an_error_with_its_reason() {
    let mpi = FakeMpi::new();
    let message = |wrapper: PathBuf| format!("{:#}", find(&[wrapper]).unwrap_err());
    let unlinked = message(mpi.wrapper("mpicc.unlinked", ""));
    assert!(unlinked.contains("mpicc.unlinked: it does not compile an MPI program: "), "{unlinked}");
    let statically = message(mpi.wrapper("mpicc.static", &mpi.path("mpi.c")));
    assert!(statically.contains("MPI_Send is not in a shared library"), "{statically}");
    assert!(message(PathBuf::from(mpi.path("mpicc.missing"))).contains("starting"));
}

#[test]
fn a_wrapper_without_a_folder_is_looked_for() {
    let mpi = FakeMpi::new();
    let wrapper = mpi.wrapper("mpicc.mine", "");
    let folders = || ["/nowhere".into(), mpi.folder.path().to_owned()];
    assert_eq!(located(Path::new("mpicc.mine"), folders()).unwrap(), wrapper);
    assert_eq!(
        located(Path::new("./mpicc.mine"), folders()).unwrap(),
        std::path::absolute("mpicc.mine").unwrap()
    );
    let error = located(Path::new("mpicc.other"), folders()).unwrap_err().to_string();
    assert_eq!(error, "there is no mpicc.other in PATH");
}

#[test]
fn a_profiler_that_brings_an_mpi_along_is_refused() {
    let mpi = FakeMpi::new();
    mpi.file("profiler.c", "int MPI_Send(void); int f(void) { return MPI_Send(); }\n", 0o644);
    let (source, mpi_library) = (mpi.path("profiler.c"), mpi.path("libmpi.so"));
    let (linked, free) = (mpi.path("linked.so"), mpi.path("free.so"));
    mpi.cc(&["-shared", "-fPIC", &source, &mpi_library, "-o", &linked]);
    mpi.cc(&["-shared", "-fPIC", &source, "-o", &free]);
    let message = check_independence(Path::new(&linked)).unwrap_err().to_string();
    assert!(message.contains("is linked with libmpi.so.99"), "{message}");
    check_independence(Path::new(&free)).unwrap();
}

#[test]
fn only_executables_that_are_called_like_wrappers_are_tried() {
    let mpi = FakeMpi::new();
    for (name, mode, expected) in [
        ("mpicc", 0o755, true),
        ("mpicc.openmpi", 0o755, true),
        ("mpicc-4.1", 0o755, true),
        ("mpiccc", 0o755, false),
        ("mpicxx", 0o755, false),
        ("mpicc-wrapper-data.txt", 0o644, false),
    ] {
        mpi.file(name, "", mode);
        assert_eq!(is_wrapper(Path::new(&mpi.path(name))), expected, "{name}");
    }
}

#[test]
fn of_fortran_what_does_not_end_in_a_call_of_c_is_stood_in_for() {
    let mpi = FakeMpi::new();
    let names = [
        ["mpi_send_", "pmpi_send_"],
        ["mpi_send__", "pmpi_send__"],
        ["mpi_send", "pmpi_send"],
        ["MPI_SEND", "PMPI_SEND"],
        ["mpi_send_f08_", "pmpi_send_f08_"],
        ["mpix_bcast_init_", "pmpix_bcast_init_"],
        ["mpi_win_allocate_cptr_", "pmpi_win_allocate_cptr_"],
        ["mpi_comm_split_f08_", "pmpir_comm_split_f08_"],
        ["mpi_win_allocate_f08_large_", "pmpir_win_allocate_f08_large_"],
        ["mpi_bcast_f08ts_", "pmpir_bcast_f08ts_"],
        ["mpix_query_f08_", "without_a_twin"],
        ["ompi_send_f", "pompi_send_f"],
    ];
    let source: String = names.iter().flatten().map(|name| format!("void {name}(void) {{}}\n")).collect();
    mpi.file("fortran.c", &source, 0o644);
    let (source, c_library) = (mpi.path("fortran.c"), mpi.path("libmpi.so"));
    mpi.cc(&[
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        &source,
        &c_library,
        "-o",
        &mpi.path("libmpi_mpifh.so.9"),
    ]);
    let found = |soname: &str, family: Family| {
        let mut functions = fortran_functions(Path::new(&c_library), soname, family);
        functions.sort();
        functions
    };
    let of_open_mpi =
        ["mpi_send_", "mpi_send__", "mpi_send_f08_", "mpi_win_allocate_cptr_", "mpix_bcast_init_"];
    assert_eq!(found("libmpi.so.99", Family::OpenMpi), of_open_mpi);
    let of_mpich = ["mpi_comm_split_f08_", "mpi_win_allocate_f08_large_"];
    assert_eq!(found("libmpi.so.99", Family::Mpich), of_mpich);
    assert!(found("libmpi.so.99", Family::Standard).is_empty());
    assert!(found("libmpi.so.98", Family::OpenMpi).is_empty(), "it is another MPI's");
}
