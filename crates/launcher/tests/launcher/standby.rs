//! Programs that nobody profiles, though the launcher preloaded the profiler: one sentence at the
//! end says why.

use super::support::{Flavour, Installation, MPICH, OPEN_MPI, Outcome, script};
use std::ffi::CString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// An installation whose profiler is loaded and never begins to record.
fn silent() -> Installation {
    silent_for(OPEN_MPI)
}

fn silent_for(flavour: Flavour) -> Installation {
    let installed = Installation::with_flavours(&[flavour]);
    let library = installed.library("libnothing.so", "", &[]);
    let place = Path::new("lib/mpisee").join(flavour.name).join("libmpisee.so");
    installed.file(place, std::fs::read(library).unwrap(), 0o644);
    installed
}

/// A program linked with an MPI that sleeps for as many seconds as PAUSE says.
fn program(installed: &Installation) -> String {
    let mpi = installed.library("libmpi.so.40", "int MPI_Init(void) { return 0; }", &[]);
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
                  int MPI_Init(void); int main(void) { sleep(atoi(getenv(\"PAUSE\"))); return MPI_Init(); }";
    installed.program("app", source, &[&mpi])
}

/// Runs a command whose program sleeps, for long enough that the standby looks at its processes
/// meanwhile.
fn looked_at(run: impl Fn(&str) -> Outcome) -> Outcome {
    let mut runs = ["1", "4", "16", "64"].into_iter().map(run);
    let is_general = |run: &Outcome| run.stderr.contains("nothing that");
    let first = runs.next().expect("there are four");
    if is_general(&first) { runs.find(|run| !is_general(run)).unwrap_or(first) } else { first }
}

#[test]
fn a_wrapper_that_replaces_or_unsets_the_preload_is_named() {
    let installed = silent();
    let app = program(&installed);
    let libm = installed.library("libother.so", "", &[]);
    for (line, how) in [
        (format!("export LD_PRELOAD={libm}; \"$@\"; exit 7"), "with another LD_PRELOAD"),
        ("unset LD_PRELOAD; \"$@\"; exit 7".to_owned(), "without LD_PRELOAD"),
    ] {
        let wrapper = installed.file("wrapper.sh", script(&line), 0o755);
        let run = looked_at(|seconds| installed.mpisee(&[&wrapper, &app]).variable("PAUSE", seconds).run());
        let said = format!(
            "mpisee: no profile was written: {wrapper} started {app} {how}, so {app} had no profiler; put `mpisee` directly before \
             the program\n"
        );
        assert_eq!((run.status.code(), run.stderr), (Some(7), said));
    }
    // The program takes the place of what was started.
    for clearing in [&["env", "-u", "LD_PRELOAD"][..], &["env", "-i"]] {
        let run = looked_at(|seconds| {
            let pause = format!("PAUSE={seconds}");
            installed.mpisee(&[clearing, &[&pause, &app]].concat()).run()
        });
        assert!(run.stderr.contains(&format!("env started {app} without LD_PRELOAD")), "{run:?}");
    }
}

/// A program that sleeps for as many seconds as PAUSE says, and calls a function of its own.
fn program_with_mpi(installed: &Installation, name: &str, mpi: &str, link: &[&str]) -> String {
    let source = format!(
        "#include <stdlib.h>\n#include <unistd.h>\nint {mpi}(void) {{ return 0; }}\n\
         int main(void) {{ sleep(atoi(getenv(\"PAUSE\"))); return {mpi}(); }}"
    );
    installed.program(name, &source, link)
}

#[test]
fn a_static_program_behind_a_wrapper_is_named() {
    let installed = silent();
    let linked = program_with_mpi(&installed, "linked", "PMPI_Init", &["-static"]);
    let stripped = program_with_mpi(&installed, "stripped", "PMPI_Init", &["-static", "-s"]);
    let help = "link it dynamically";
    for (line, code) in [("exec \"$@\"", 0), ("\"$@\"; exit 7", 7)] {
        let wrapper = installed.file("wrapper.sh", script(line), 0o755);
        for (app, why) in [
            (&linked, format!("so {linked} had no profiler; {help}")),
            (&stripped, format!("if {stripped} is the MPI program, {help}")),
        ] {
            let separator = if app == &linked { "," } else { ";" };
            let run =
                looked_at(|seconds| installed.mpisee(&[&wrapper, app]).variable("PAUSE", seconds).run());
            let said = format!(
                "mpisee: no profile was written: {wrapper} started {app}, which is linked statically{separator} {why}\n"
            );
            assert_eq!((run.status.code(), run.stderr), (Some(code), said));
        }
    }
}

/// The dynamic loader preloads the profiler, and the program calls past it.
#[test]
fn a_program_with_a_static_mpi_is_named() {
    let installed = silent();
    let app = program_with_mpi(&installed, "app", "PMPI_Init", &[]);
    let run = looked_at(|seconds| {
        installed.mpisee(&["sh", "-c", "\"$0\"; exit 7", &app]).variable("PAUSE", seconds).run()
    });
    let said = format!(
        "mpisee: no profile was written: {app} is linked with a static MPI, whose calls do not reach the profiler; link MPI \
         dynamically\n"
    );
    assert_eq!((run.status.code(), run.stderr), (Some(7), said));
}

#[test]
fn a_static_program_whose_symbols_show_that_it_has_no_mpi_is_not_named() {
    let installed = silent();
    let other = program_with_mpi(&installed, "other", "begin", &["-static"]);
    let app = program(&installed);
    let line = "\"$0\"; exec env -u LD_PRELOAD \"$1\"";
    let run = looked_at(|seconds| {
        installed.mpisee(&["sh", "-c", line, &other, &app]).variable("PAUSE", seconds).run()
    });
    assert!(run.stderr.contains(&format!("sh started {app} without LD_PRELOAD")), "{run:?}");
    let run = installed.mpisee(&["env", &other]).variable("PAUSE", "1").run();
    assert!(run.stderr.contains("nothing that env ran called MPI_Init"), "{run:?}");
}

#[test]
fn a_program_that_is_gone_before_it_is_looked_at_is_still_reported() {
    let installed = silent();
    let run = installed.mpisee(&["env", "-u", "LD_PRELOAD", "true"]).run();
    let said = "mpisee: no profile was written: nothing that env ran called MPI_Init with the profiler loaded; if an MPI program \
                ran, put `mpisee` directly before it\n";
    assert_eq!((run.status.code(), run.stderr.as_str()), (Some(0), said));
    let mpi = installed.library("libmpi.so.40", "int MPI_Init(void) { return 0; }", &[]);
    let crash = "#include <stdlib.h>\nint MPI_Init(void); int main(int c, char **v) { return c ? abort(), 0 : MPI_Init() + !v; }";
    let app = installed.program("crash", crash, &[&mpi]);
    let run = installed.mpisee(&[&app]).run();
    assert_eq!(run.stderr, format!("mpisee: no profile was written: {app} ended before MPI_Init was done\n"));
}

#[test]
fn one_rank_speaks_and_who_begins_to_record_is_believed() {
    let installed = silent();
    let unset = ["env", "-u", "LD_PRELOAD", "true"];
    let run = installed.mpisee(&unset).variable("PMI_RANK", "1").run();
    assert_eq!((run.variable("MPISEE_BEGIN_SOCKET"), run.stderr.as_str()), (None, ""));
    // Its profiler tells the standby, in the first process.
    let run = Installation::with_flavours(&[OPEN_MPI]).mpisee(&unset).run();
    assert_eq!(run.stderr, "");
}

/// The launcher of an installation.
fn launcher(installed: &Installation) -> String {
    let folder = Path::new(&installed.profiler(OPEN_MPI)).ancestors().nth(4).unwrap().to_owned();
    folder.join("bin/mpisee").to_str().unwrap().to_owned()
}

/// A program that adopts orphans and becomes what its arguments say.
fn adopting(installed: &Installation) -> String {
    let source = "#include <sys/prctl.h>\n#include <unistd.h>\n\
                  int main(int c, char **v) { prctl(PR_SET_CHILD_SUBREAPER, c); return execv(v[1], v + 1); }";
    installed.program("adopting", source, &[])
}

#[test]
fn of_launchers_within_each_other_exactly_one_speaks() {
    let installed = silent();
    let inner = launcher(&installed);
    let adopting = adopting(&installed);
    let linked_statically = installed.program("alone", "int main(void) { return 0; }", &["-static"]);
    let as_child = format!("{inner} true; :");
    for (command, said) in [
        (vec!["env", &inner, "true"], "nothing that true ran"),
        (vec!["sh", "-c", &as_child], "nothing that true ran"),
        (vec!["env", &inner, "env", &inner, "true"], "nothing that true ran"),
        // The inner one has no standby.
        (vec![&adopting, &inner, "/bin/true"], "adopting ran"),
        (vec!["env", &inner, &linked_statically], "is linked statically"),
    ] {
        let run = installed.mpisee(&command).run();
        assert!(run.stderr.lines().count() == 1 && run.stderr.contains(said), "{command:?}: {run:?}");
    }
}

#[test]
fn launchers_around_one_whose_program_records_are_silent() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    // The profiler of the inner launcher alone begins to record.
    let run = silent().mpisee(&["env", &launcher(&installed), "true"]).run();
    assert_eq!((run.status.code(), run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_program_that_cannot_be_started_is_reported_once() {
    let installed = silent();
    let orphan = installed.file("orphan", "#!/no/such/interpreter\n", 0o755);
    let run = installed.mpisee(&[&orphan]).run();
    assert_eq!((run.status.code(), run.stderr.lines().count()), (Some(127), 1), "{run:?}");
}

#[test]
fn the_standby_is_no_child_of_the_program_and_has_none_of_its_descriptors() {
    let installed = silent();
    // A shell that waits for all its children ends, and what it prints has an end before it does.
    // It counts its children by itself: a pipeline of two commands has one or both when the first
    // reads.
    let commands = "wait; ls /proc/self/fd | wc -l; read -r all </proc/$$/task/$$/children; set -- $all; echo $#; exec true";
    let plain = installed.mpisee(&["sh", "-c", commands]).variable("PMI_RANK", "1").run();
    let watched = installed.mpisee(&["sh", "-c", commands]).run();
    assert_eq!(watched.stdout, plain.stdout);
    assert!(watched.stderr.contains("nothing that sh ran"), "{watched:?}");
}

#[test]
fn a_program_that_adopts_orphans_waits_for_its_own_children_alone() {
    let installed = silent();
    let adopting = adopting(&installed);
    let waiting = "#include <sys/wait.h>\nint main(void) { int n = 0; while (wait(0) > 0) n++; return n; }";
    let waiting = installed.program("waiting", waiting, &[]);
    let output = Command::new(adopting).arg(launcher(&installed)).arg(waiting).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// In a container, where that may be made.
#[test]
fn few_zombies_stay_where_the_first_process_waits_for_none() {
    let installed = silent();
    let source = "#include <sys/wait.h>\n#include <unistd.h>\n\
                  int main(int c, char **v) { int ended, own = fork(); if (!own) return execvp(v[1], v + 1); \
                  waitpid(own, &ended, 0); return c ? WEXITSTATUS(ended) : 0; }";
    let first = installed.program("first", source, &[]);
    let container = ["-Urpf", "--mount-proc"];
    if !Command::new("unshare").args(container).arg("true").status().is_ok_and(|status| status.success()) {
        return;
    }
    let commands = format!(
        "exec 2>/dev/null; for i in $(seq 8); do {} true; while grep -q '(mpisee) [^Z]' /proc/[0-9]*/stat; do sleep 0.01; done; done; \
         exit $(cat /proc/[0-9]*/stat | grep -c '(mpisee) Z')",
        launcher(&installed)
    );
    let status =
        Command::new("unshare").args(container).args([&first, "sh", "-c", &commands]).status().unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn nothing_is_said_while_a_process_is_left_that_may_record() {
    let installed = silent();
    let run = installed.mpisee(&["sh", "-c", "sleep 1 & exit 0"]).run();
    assert_eq!((run.status.code(), run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn whoever_reads_the_programs_stderr_sees_its_end() {
    let installed = silent();
    let commands = "exec 2>&-; for i in $(seq 200); do [ -e seen ] && exit 0; sleep 0.1; done; exit 1";
    let folder = Path::new(&installed.profiler(OPEN_MPI)).parent().unwrap().to_owned();
    let mut started = Command::new(launcher(&installed));
    started.args(["sh", "-c", commands]).current_dir(&folder).stderr(std::process::Stdio::piped());
    let mut started = started.spawn().unwrap();
    std::io::copy(&mut started.stderr.take().unwrap(), &mut std::io::sink()).unwrap();
    std::fs::write(folder.join("seen"), "").unwrap();
    assert_eq!(started.wait().unwrap().code(), Some(0));
}

#[test]
fn a_program_that_forbids_to_look_at_it_is_of_no_other_user() {
    let installed = silent();
    let source = "#include <sys/prctl.h>\n#include <unistd.h>\n\
                  int main(void) { prctl(PR_SET_DUMPABLE, 0); sleep(1); return 0; }";
    let program = installed.program("hidden", source, &[]);
    let run = installed.mpisee_of_user(&[], &["env", "-u", "LD_PRELOAD", &program]).run();
    assert!(run.stderr.contains("nothing that env ran called MPI_Init with the profiler loaded"), "{run:?}");
}

#[test]
fn a_program_whose_first_thread_has_ended_is_looked_at() {
    let installed = silent();
    let mpi = installed.library("libmpi.so.40", "int MPI_Init(void) { return 0; }", &[]);
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\nint MPI_Init(void);\n\
                  static void *work(void *none) { sleep(atoi(getenv(\"PAUSE\"))); MPI_Init(); exit(3); return none; }\n\
                  int main(void) { pthread_t thread; pthread_create(&thread, 0, work, 0); pthread_exit(0); }";
    let app = installed.program("threads", source, &[&mpi, "-pthread"]);
    let run = looked_at(|seconds| {
        let pause = format!("PAUSE={seconds}");
        installed.mpisee(&["env", "-u", "LD_PRELOAD", &pause, &app]).run()
    });
    assert_eq!(run.status.code(), Some(3));
    assert!(run.stderr.contains(&format!("env started {app} without LD_PRELOAD")), "{run:?}");
}

/// Gives a file the capability `CAP_NET_BIND_SERVICE`, as `setcap` does; capabilities(7). Root
/// alone may.
fn give_capability(program: &str) -> std::io::Result<()> {
    /// `VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE`, then what is permitted and inheritable, in
    /// two parts.
    const CAPABILITY: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    let value: Vec<u8> = CAPABILITY.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = CString::new(program).unwrap();
    let name = c"security.capability".as_ptr();
    // SAFETY: both texts end in a zero, and the length is the value's.
    match unsafe { libc::setxattr(path.as_ptr(), name, value.as_ptr().cast(), value.len(), 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Root has all capabilities: another user runs it, where root runs the tests.
#[test]
fn a_program_with_file_capabilities_is_said_to_have_other_rights() {
    for flavour in [OPEN_MPI, MPICH] {
        let installed = silent_for(flavour);
        let program = installed.file("capable", std::fs::read("/bin/true").unwrap(), 0o755);
        match give_capability(&program) {
            Err(why) if why.kind() == ErrorKind::PermissionDenied => return,
            given => given.unwrap(),
        }
        let run = installed.mpisee_of_user(&[], &[&program]).run();
        let said = run.stderr;
        assert!(run.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains("set-group-ID or file capabilities). The system ignores LD_PRELOAD"), "{said}");
    }
}

#[test]
fn an_undecided_program_is_explained_at_the_start_alone() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let run = installed.mpisee(&["true"]).run();
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
}
