//! Memory that the library uses as it must not, as valgrind sees it: a program that makes calls of
//! each kind, from C and Fortran.

use mpisee_tests::{LIMIT, Mpi, Place, case, root, within};
use std::path::Path;
use std::process::Command;

/// Beginnings of the files of a C library and of valgrind, whose functions work for others.
const HELPERS: [&str; 5] = ["libc.", "libc-", "ld-linux", "libpthread", "vgpreload_"];

/// The text of the elements `name` in XML that valgrind has written.
fn elements<'x>(xml: &'x str, name: &str) -> impl Iterator<Item = &'x str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&begin)
        .skip(1)
        .filter_map(move |rest| Some(rest.split_once(&end)?.0))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns whether the code in which an error appears is the library's, or that of a helper that it
/// has called. What stays allocated to the end is no error.
fn is_of_library(error: &str) -> bool {
    if elements(error, "kind").any(|kind| kind.starts_with("Leak_")) {
        return false;
    }
    let Some(stack) = elements(error, "stack").next() else { return false };
    let files = elements(stack, "obj").map(|path| path.rsplit('/').next().unwrap_or_default());
    let mut files = files.skip_while(|file| HELPERS.iter().any(|helper| file.starts_with(helper)));
    files.next().is_some_and(|file| file.starts_with("libmpisee"))
}

/// Has valgrind write what it finds in each process to a file `rank-PID.xml` of the working
/// directory.
const VALGRIND: [&str; 4] = ["valgrind", "--xml=yes", "--xml-file=rank-%p.xml", "--num-callers=40"];

/// The errors of each process of which valgrind has written a file there.
fn errors_in(folder: &Path) -> Vec<Vec<String>> {
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let files = files.map(|file| file.expect("it can be listed").path());
    let written = files.filter(|path| path.extension().is_some_and(|extension| extension == "xml"));
    let texts = written.map(|path| std::fs::read_to_string(path).expect("it is text"));
    texts
        .map(|xml| {
            assert!(xml.trim_end().ends_with("</valgrindoutput>"), "valgrind came to its end");
            elements(&xml, "error").map(str::to_owned).collect()
        })
        .collect()
}

/// The errors of each rank under valgrind, of a program with calls from C, and from Fortran where
/// the MPI has it.
fn errors(mpi: &Mpi) -> Vec<Vec<String>> {
    let place = Place::new();
    let mut command = place.command(mpi, 2);
    command.args(["--output", "test.mpisee"]).args(VALGRIND);
    let in_c = root().join("tests/programs/lifecycle/each_kind.c").display().to_string();
    let with_fortran =
        mpi.compile_fortran_with("fortran/kinds", "USE_MPI_F08", &["-DFORTRAN", "-pthread", &in_c]);
    let of_fortran: &[&str] =
        if with_fortran.is_some() { &["MPI_Exscan", "MPI_Get", "MPI_Issend"] } else { &[] };
    command.arg(with_fortran.unwrap_or_else(|| mpi.compile("lifecycle/each_kind")));
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {}\n{said}", mpi.name, output.status);
    let tables = place.tables("test.mpisee");
    let of_c = ["MPI_Mrecv", "MPI_Scan", "MPI_Startall", "MPI_Comm_idup", "MPI_Put", "MPI_File_iread_at"];
    for call in of_c.iter().chain(of_fortran) {
        let expected = if *call == "MPI_Mrecv" { 1 } else { 2 * times(call) };
        assert_eq!(tables.sum_where(|row| row.call == *call).calls, expected, "{call}");
    }
    errors_in(place.folder())
}

/// How often a rank makes a call.
fn times(call: &str) -> u64 {
    if call == "MPI_Startall" { 2 } else { 1 }
}

#[case]
fn valgrind_finds_no_error_in_the_library(mpi: &Mpi) {
    let errors = errors(mpi);
    assert_eq!(errors.len(), 2, "{}: a file for each rank", mpi.name);
    for error in errors.iter().flatten() {
        assert!(!is_of_library(error), "{}: {error}", mpi.name);
    }
}

/// An error in a library with our name is seen as one of the library.
#[case]
fn errors_of_the_library_are_found() {
    let place = Place::new();
    let compile = |source: &str, output: &str, arguments: &[&str]| {
        let file = place.path(&format!("{output}.c"));
        std::fs::write(&file, source).expect("there is room");
        let mut compiler = Command::new("cc");
        compiler.arg("-g").arg(&file).arg("-o").arg(place.path(output)).args(arguments);
        assert!(compiler.status().expect("there is a compiler").success());
    };
    let faulty = "#include <stdlib.h>\n\
                  int faulty(int last) { int *made = malloc(16), sum = made[0] ? 1 : 2; sum += made[last]; free(made); return sum; }";
    compile(faulty, "libmpisee.so", &["-shared", "-fPIC"]);
    let folder = place.folder().display().to_string();
    let library = place.path("libmpisee.so").display().to_string();
    let program = "int faulty(int); int main(void) { return faulty(4) == 0; }";
    compile(program, "program", &[&library, &format!("-Wl,-rpath,{folder}")]);
    let mut command = Command::new(VALGRIND[0]);
    command.args(&VALGRIND[1..]).arg(place.path("program")).current_dir(place.folder());
    assert!(within(LIMIT, &mut command).status.success());
    let errors = errors_in(place.folder()).concat();
    for kind in ["UninitCondition", "InvalidRead"] {
        let is_found = |error: &String| is_of_library(error) && elements(error, "kind").any(|it| it == kind);
        assert!(errors.iter().any(is_found), "{kind}: {errors:?}");
    }
}

#[case]
fn errors_are_told_apart_by_whose_code_makes_them() {
    let error = |files: &[&str]| {
        let frames: String =
            files.iter().map(|file| format!("<frame><obj>/lib/{file}</obj></frame>")).collect();
        format!("<kind>UninitCondition</kind><stack>{frames}</stack><auxwhat/><stack></stack>")
    };
    let leak = error(&["libmpisee.so"]).replace("UninitCondition", "Leak_PossiblyLost");
    assert!(!is_of_library(&leak));
    for (files, expected) in [
        (&["libmpisee.so", "each_kind"][..], true),
        (&["vgpreload_memcheck-amd64-linux.so", "libc.so.6", "libmpisee.so", "each_kind"], true),
        (&["libmpi.so.40", "libmpisee.so", "each_kind"], false),
        (&["vgpreload_memcheck-amd64-linux.so", "libucp.so.0", "libmpisee.so"], false),
        (&["each_kind"], false),
    ] {
        assert_eq!(is_of_library(&error(files)), expected, "{files:?}");
    }
}
