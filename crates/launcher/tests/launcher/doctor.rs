//! `mpisee doctor` where a program cannot be profiled, or only in part.

use crate::support::{Installation, MPICH, OPEN_MPI, script};
use std::path::Path;

/// The line of a check: outcome, and what is said.
fn line<'a>(said: &'a str, check: &str) -> (&'a str, &'a str) {
    let mut lines = said.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find_map(|(outcome, rest)| {
        let (name, text) = rest.trim_start().split_once(' ')?;
        (name == check).then_some((outcome, text.trim_start()))
    });
    found.unwrap_or_else(|| panic!("no line of {check}:\n{said}"))
}

#[test]
fn nothing_fails_where_all_is_there_and_the_program_does_not_run() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    installed.library("libmpi.so.40", "int MPI_Init() { return 0; }", &[]);
    let (source, library) = ("int MPI_Init(); int main() { return 77 + MPI_Init(); }", "-l:libmpi.so.40");
    let folder = installed.file("x", "", 0o644);
    let folder = format!("-L{}", folder.strip_suffix("/x").unwrap());
    let app = installed.program("app", source, &[&folder, library, "-g"]);
    let run = installed.mpisee(&["doctor", &app]).run();
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    for check in
        ["install", "program", "MPI", "library", "lines", "preload", "segments", "output", "clock", "GPU"]
    {
        assert_eq!(line(&run.stdout, check).0, "ok", "{check}: {run:?}");
    }
    assert!(
        line(&run.stdout, "MPI").1.ends_with("/libmpi.so.40, with which the program is linked"),
        "{run:?}"
    );
    assert_eq!(line(&run.stdout, "library").1, "openmpi-4.1");
    let plain = installed.program("plain", source, &[&folder, library]);
    let said = installed.mpisee(&["doctor", &plain]).run().stdout;
    assert_eq!(line(&said, "lines").0, "note");
    assert!(line(&said, "lines").1.ends_with("To do: compile it with -g"), "{said}");
    let other = installed.mpisee(&["doctor", &plain]).variable("PMI_RANK", "0").run().stdout;
    assert_eq!(line(&other, "launcher").0, "note", "{other}");
}

#[test]
fn what_keeps_a_program_from_being_profiled_is_a_line_with_what_to_do() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let whole = installed.program("whole", "int main() { return 0; }", &["-static"]);
    let job = installed.file("job.sh", script("mpirun -n 2 ./app"), 0o755);
    let app = installed.file("app.sh", script("exec ./app"), 0o755);
    // The first bytes of a program for 32 bits.
    let foreign = installed.file("foreign", b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0", 0o755);
    installed.library("libmpi_ibm.so.3", "int MPI_Init() { return 0; }", &[]);
    let folder = format!("-L{}", whole.strip_suffix("/whole").unwrap());
    let source = "int MPI_Init(); int main() { return MPI_Init(); }";
    let unknown = installed.program("unknown", source, &[&folder, "-l:libmpi_ibm.so.3"]);
    let loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let musl = installed.program("musl", "int main() { return 0; }", &[loader]);
    for (program, why, to_do) in [
        (&whole, "is linked statically", "Link the program dynamically"),
        (&foreign, "is not a 64-bit", "Build both for the same 64-bit processor"),
        (&musl, "uses the C library musl", "Build the program and its MPI for glibc"),
        (&job, "is a script that calls mpirun", "mpirun … mpisee PROGRAM"),
        (&app, "is a script, and nothing shows which MPI", "--flavour (mpich-4.0, openmpi-4.1)"),
        (&unknown, "needs libmpi_ibm.so.3, for which no flavour", "`cargo xtask dist --mpicc PATH`"),
    ] {
        let run = installed.mpisee(&["doctor", program]).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        let (outcome, said) = line(&run.stdout, "library");
        let (found, said_to_do) = said.split_once(". To do: ").unwrap_or_else(|| panic!("{said}"));
        assert!(outcome == "FAILS" && found.contains(why) && said_to_do.contains(to_do), "{said}");
    }
}

#[test]
fn a_program_with_a_static_mpi_fails_the_check_of_its_mpi() {
    let installed = Installation::with_flavours(&[MPICH]);
    let source = "int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }";
    let app = installed.program("app", source, &[]);
    let run = installed.mpisee(&["doctor", &app]).variable("PMI_RANK", "0").run();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let expected = "the program is linked with a static MPI, whose calls do not reach the profiler. To do: link MPI dynamically";
    assert_eq!(line(&run.stdout, "MPI"), ("FAILS", expected));
}

#[test]
fn a_script_is_checked_with_its_interpreter_and_only_python_is_asked() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let doctor = |program: &str| installed.mpisee(&["doctor", program]).run().stdout;
    let broken = installed.file("broken.sh", "#!/nowhere/sh\n", 0o755);
    assert!(line(&doctor(&broken), "program").1.contains("broken.sh, a script"));
    assert!(doctor(&broken).contains("needs /nowhere/sh"), "{}", doctor(&broken));
    let python = installed.file("python", script("echo 3.77; echo 4.1.2; echo MPICH Version: 4.0.2"), 0o755);
    let app = installed.file("app.py", format!("#!{python} -u\n"), 0o755);
    for program in [&python, &app] {
        let said = doctor(program);
        assert_eq!(
            line(&said, "Python"),
            ("ok", "3.77 has mpi4py 4.1.2 with MPICH Version: 4.0.2"),
            "{said}"
        );
    }
    let trace = installed.file("trace", "", 0o666);
    let solver = installed.file("python_solver", script(&format!("echo ran > {trace}")), 0o755);
    assert!(!doctor(&solver).contains("Python"));
    assert_eq!(std::fs::read_to_string(trace).unwrap(), "", "it must not run");
}

#[test]
fn a_program_that_would_not_start_says_why() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    installed.library("libgone.so.1", "int gone() { return 0; }", &[]);
    let folder = installed.file("x", "", 0o644);
    let folder = format!("-L{}", folder.strip_suffix("/x").unwrap());
    let app =
        installed.program("app", "int gone(); int main() { return gone(); }", &[&folder, "-l:libgone.so.1"]);
    std::fs::remove_file(app.replace("/app", "/libgone.so.1")).unwrap();
    let said = installed.mpisee(&["doctor", &app]).run().stdout;
    assert!(line(&said, "preload").1.contains("libgone.so.1"), "{said}");
    assert!(line(&said, "preload").1.contains("To do: load the module"), "{said}");
    let none =
        installed.program("none", "int main() { return 0; }", &["-Wl,--dynamic-linker=/nowhere/ld.so"]);
    let said = installed.mpisee(&["doctor", &none]).run().stdout;
    assert!(line(&said, "preload").1.contains("/nowhere/ld.so does not start"), "{said}");
}

#[test]
fn a_library_that_cannot_be_preloaded_is_found_without_running_anything() {
    let installed = Installation::in_folder("with space", &[OPEN_MPI]);
    let said = installed.mpisee(&["doctor", "env"]).run().stdout;
    assert_eq!(line(&said, "preload").0, "FAILS", "{said}");
    assert!(line(&said, "preload").1.ends_with("To do: install mpisee in another folder"), "{said}");
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    installed.file("lib/mpisee/openmpi-4.1/libmpisee.so", "no library", 0o644);
    let said = installed.mpisee(&["doctor", "env"]).run().stdout;
    let (outcome, why) = line(&said, "preload");
    assert!(outcome == "FAILS" && why.contains("libmpisee.so"), "{said}");
    let said = Installation::with_flavours(&[]).mpisee(&["doctor"]).run().stdout;
    assert_eq!(line(&said, "install").0, "FAILS", "{said}");
}

#[test]
fn folders_and_limits_that_harm_are_named() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let said = installed.mpisee(&["doctor", "--segments", "/nowhere/at/all", "env"]).run().stdout;
    assert_eq!(line(&said, "segments").0, "note", "there is a profile all the same: {said}");
    let said = installed.mpisee(&["doctor", "env"]).variable("MPISEE_SEGMENTS", "here").run().stdout;
    assert!(line(&said, "options").1.contains("'here' is not an absolute path"), "{said}");
    let said = installed.mpisee(&["doctor", "env"]).variable("MPISEE_OUTPUT", "/proc/x.mpisee").run().stdout;
    assert_eq!(line(&said, "output").0, "note", "{said}");
    let folder = installed.file("out/file", "", 0o644);
    let folder = Path::new(&folder).parent().unwrap().canonicalize().unwrap();
    let goes = |output: &str| {
        let output = format!("{}/{output}", folder.display());
        let said = installed.mpisee(&["doctor", "--output", &output, "env"]).run().stdout;
        let (outcome, found) = line(&said, "output");
        (outcome.to_owned(), found.replace(&folder.display().to_string(), "OUT"))
    };
    for (output, into) in [("new/", "OUT/new/"), ("new/a", "OUT/new"), ("a", "OUT"), ("", "OUT")] {
        assert_eq!(goes(output), ("ok".to_owned(), format!("the profile goes into {into}")), "{output}");
    }
    assert_eq!(goes("no/such/").0, "note", "a path of folders is not made");
    let said = installed.mpisee_after("ulimit -v 4000000", &["doctor", "env"]).run().stdout;
    assert!(line(&said, "limits").1.starts_with("address space is limited to 4096 MB (ulimit -v)"), "{said}");
}
