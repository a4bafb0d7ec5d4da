//! Whether the dynamic loader takes the library into a program. The loader lists what it would
//! load, and the program does not run.

use super::Check;
use crate::flavours::Flavour;
use crate::preload::can_be_preloaded;
use crate::program::{Program, ProgramKind, loader};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// A program that takes longer is ended: ranks wait for each other.
pub const TIMEOUT: Duration = Duration::from_secs(6);

/// The output of a command on stdout and stderr; an error if it cannot be started, takes too long,
/// or is ended by a signal.
pub fn output_of(command: &mut Command) -> io::Result<(String, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    let [stdout, stderr] = [reader(child.stdout.take()), reader(child.stderr.take())];
    // Its children may hold the pipes beyond its end.
    let ended = loop {
        match child.try_wait()? {
            Some(status) if stdout.is_finished() && stderr.is_finished() => break status,
            _ if begin.elapsed() > TIMEOUT => {
                let _ = child.kill();
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            _ => sleep(Duration::from_millis(2)),
        }
    };
    if let Some(signal) = ended.signal() {
        return Err(io::Error::other(format!("it is ended by signal {signal}")));
    }
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok((text(stdout), text(stderr)))
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Has the loader list the libraries of the program, or of this one where none is named.
pub fn check(flavour: &Flavour, program: Option<&Program>) -> Check {
    let library = &flavour.profiler;
    if !can_be_preloaded(library) {
        let found = format!("LD_PRELOAD cannot hold {}, which has a space or a colon", library.display());
        return Check::fails("preload", found, "install mpisee in another folder");
    }
    let own = std::env::current_exe().unwrap_or_default();
    let path = match program {
        None => &own,
        Some(Program { kind: ProgramKind::Dynamic(_) | ProgramKind::Unlisted(_), path, .. }) => path,
        Some(program) => {
            let found = format!("the libraries of {} cannot be listed", program.path.display());
            return Check::note("preload", found, "see whether a short run leaves a profile");
        }
    };
    let Some(loader) = loader(path) else {
        return Check::note(
            "preload",
            format!("{} cannot be read", path.display()),
            "make it readable: chmod +r",
        );
    };
    let alone = || output_of(Command::new(&loader).arg("--list").arg(path).env_remove("LD_PRELOAD"));
    match output_of(Command::new(&loader).arg("--list").arg(path).env("LD_PRELOAD", library)) {
        Ok((listed, complaints)) => {
            preloaded(library, &listed, &complaints, || alone().map(|(listed, _)| listed).unwrap_or_default())
        }
        Err(why) if why.kind() == io::ErrorKind::Other && alone().is_ok() => Check::fails(
            "preload",
            format!("the dynamic loader cannot load {}: {why}", library.display()),
            "install mpisee again: the file may be cut off",
        ),
        Err(why) if why.kind() == io::ErrorKind::TimedOut => {
            let found = format!("the dynamic loader took longer than {} s", TIMEOUT.as_secs());
            Check::note("preload", found, "see whether a short run leaves a profile")
        }
        Err(why) => Check::fails(
            "preload",
            format!("the dynamic loader {} does not start: {why}", loader.display()),
            "build the program for this machine",
        ),
    }
}

/// Reads what the dynamic loader said when it listed the libraries of a program; `alone` is its
/// list without the profiler.
fn preloaded(library: &Path, listed: &str, complaints: &str, alone: impl FnOnce() -> String) -> Check {
    let name = library.display().to_string();
    let said = |line: &str| line.trim().trim_end_matches('.').to_owned();
    let file_is_bad = ["cannot open", "too short", "invalid ELF", "file data"];
    if let Some(why) = complaints.lines().find(|line| line.contains(&name)) {
        let to_do = match file_is_bad.iter().any(|part| why.contains(part)) {
            true => "install mpisee again, so that all may read it",
            false => "build mpisee on this machine, or take a wheel for its C library",
        };
        return Check::fails(
            "preload",
            format!("the dynamic loader does not take the library: {}", said(why)),
            to_do,
        );
    }
    let missing = complaints.lines().chain(listed.lines());
    if let Some(why) =
        missing.into_iter().find(|line| line.contains("error while loading") || line.ends_with("not found"))
    {
        if listed.contains(&name) && !alone().contains("not found") {
            let found = format!("the library of mpisee does not start: {}", said(why));
            return Check::fails("preload", found, "install the missing library, such as libgcc_s.so.1");
        }
        let to_do = "load the module of the program's MPI, or set LD_LIBRARY_PATH";
        return Check::fails("preload", format!("the program does not start: {}", said(why)), to_do);
    }
    match listed.contains(&name) {
        true => Check::ok("preload", "the dynamic loader takes the library"),
        false => Check::fails(
            "preload",
            "the dynamic loader ignores LD_PRELOAD",
            "see whether the program has other rights than its user, or is in a sandbox",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn words_of_the_loader_become_a_reason_and_a_remedy() {
        let library = Path::new("/opt/mpisee/libmpisee.so");
        let listed = "\t/opt/mpisee/libmpisee.so (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n";
        let preloaded = |library: &Path, listed: &str, complaints: &str| {
            super::preloaded(library, listed, complaints, || "libmpi.so.41 => not found\n".to_owned())
        };
        assert_eq!(preloaded(library, listed, "").outcome, Outcome::Ok);
        let own = format!("{listed}\tlibgcc_s.so.1 => not found\n");
        let check =
            super::preloaded(library, &own, "", || "\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n".to_owned());
        assert!(check.found.contains("of mpisee does not start: libgcc_s.so.1"), "{check:?}");
        assert!(preloaded(library, &own, "").found.starts_with("the program does not start"));
        let older =
            "./app: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /opt/mpisee/libmpisee.so)\n";
        let check = preloaded(library, listed, older);
        assert!(check.found.ends_with("(required by /opt/mpisee/libmpisee.so)"), "{check:?}");
        let unreadable = "ERROR: ld.so: object '/opt/mpisee/libmpisee.so' from LD_PRELOAD cannot be preloaded \
                          (cannot open shared object file): ignored.\n";
        let check = preloaded(library, "", unreadable);
        assert!(check.found.ends_with("ignored") && check.to_do.unwrap().starts_with("install mpisee again"));
        let lacks =
            "./app: error while loading shared libraries: libmpi.so.41: cannot open shared object file\n";
        let check = preloaded(library, "", lacks);
        assert!(check.outcome == Outcome::Fails && check.found.contains("libmpi.so.41"), "{check:?}");
        let other = "\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n";
        assert_eq!(preloaded(library, other, "").found, "the dynamic loader ignores LD_PRELOAD");
    }

    #[test]
    fn a_command_is_read_or_given_up() {
        let shell = |script: &str| output_of(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo a; echo b >&2").unwrap(), ("a\n".to_owned(), "b\n".to_owned()));
        assert_eq!(shell("exec sleep 100").unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(output_of(&mut Command::new("/nowhere")).is_err());
        let holds_pipes = shell("sleep 100 & exit");
        assert_eq!(holds_pipes.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(shell("kill -7 $$").unwrap_err().to_string(), "it is ended by signal 7");
    }
}
