//! The checks, each a line with the finding and the remedy.

use super::Check;
use super::interpreter::is_python;
use crate::choose::{Facts, Message, Reason, needs_mpi, note};
use crate::cli::Run;
use crate::environment::Hint;
use crate::failure::Failure;
use crate::flavours::{Family, Flavour, Installation};
use crate::gpu::Setup;
use crate::program::{Needed, Program, ProgramKind};
use mpisee_collect::process;
use mpisee_collect::process::linked_mpi::{LinkedMpi, ProgramFile};
use mpisee_collect::process::mapped_files::is_mpi;
use mpisee_profile::options::{Options, variables};
use mpisee_profile::tsc;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ReadCache};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Less room for the segment of a rank is worth a note; most take far less.
const ROOM_PER_RANK_MB: u64 = 16;

/// The libraries of the profiler that are there.
pub fn installation(found: &Installation) -> Check {
    let folder = found.folder.display();
    let names: Vec<&str> = found.flavours.iter().map(|flavour| flavour.name.as_str()).collect();
    match (&found.complaints[..], &names[..]) {
        ([], []) => {
            Check::fails("install", format!("{folder} has no library for any MPI"), "run `cargo xtask dist`")
        }
        (complaints, []) => {
            Check::fails("install", complaints.join("; "), "install mpisee again, so that all may read it")
        }
        ([], names) => Check::ok("install", format!("{folder} has {}", names.join(", "))),
        (complaints, _) => Check::note("install", complaints.join("; "), "install mpisee again"),
    }
}

/// Options and variables that the profiler will not understand.
pub fn options(given: &[(&'static str, String)]) -> Option<Check> {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let complaints = Options::from_environment(variables().chain(given)).1;
    (!complaints.is_empty()).then(|| Check::note("options", complaints.join("; "), "correct the variable"))
}

/// The program's file.
pub fn program(program: &Program) -> Check {
    let kind = match &program.kind {
        ProgramKind::Dynamic(_) => "loaded by the dynamic loader",
        ProgramKind::Unlisted(_) => "with libraries that cannot be listed",
        ProgramKind::Static => "linked statically",
        ProgramKind::Musl => "linked with the C library musl",
        ProgramKind::Foreign => "for another kind of processor",
        ProgramKind::Script => "a script",
        ProgramKind::Loader => "a dynamic loader",
        ProgramKind::Unreadable => "a file that cannot be read",
    };
    Check::ok("program", format!("{}, {kind}", program.path.display()))
}

/// The MPI that the program will load, and how that is known.
pub fn mpi(program: &Program, hint: Option<&Hint>) -> Check {
    match (linked(&program.kind), hint) {
        (Some(library), _) => match &library.path {
            Some(path) => {
                Check::ok("MPI", format!("{}, with which the program is linked", real(path).display()))
            }
            None => Check::fails(
                "MPI",
                format!(
                    "the program is linked with {}, which the dynamic loader does not find",
                    library.soname
                ),
                "load the module of that MPI, or set LD_LIBRARY_PATH",
            ),
        },
        (None, Some(hint)) if is_python(&program.path) => {
            Check::ok("MPI", format!("{}, if the program loads it", by_launcher(hint)))
        }
        (None, Some(hint)) => Check::note(
            "MPI",
            format!("{}, and the program is not linked with one", by_launcher(hint)),
            "name the program that calls MPI, or see whether a short run leaves a profile",
        ),
        (None, None) => Check::note(
            "MPI",
            "unknown: the program is not linked with one, and no launcher started this",
            "check as you will run it, `mpirun -n 2 mpisee doctor PROGRAM`",
        ),
    }
}

/// A failure for a program that has MPI in itself.
pub fn static_mpi(program: &Program) -> Option<Check> {
    let is_dynamic = matches!(program.kind, ProgramKind::Dynamic(_)) && linked(&program.kind).is_none();
    let file = File::open(&program.path).ok().filter(|_| is_dynamic)?;
    let found = "the program is linked with a static MPI, whose calls do not reach the profiler";
    (ProgramFile::read(file)?.linked_mpi() == LinkedMpi::Linked)
        .then(|| Check::fails("MPI", found, "link MPI dynamically"))
}

/// The MPI library with which a program is linked.
fn linked(kind: &ProgramKind) -> Option<&Needed> {
    let ProgramKind::Dynamic(needed) = kind else { return None };
    needed.iter().find(|library| is_mpi(&library.soname))
}

fn by_launcher(hint: &Hint) -> String {
    format!("{}, whose launcher started this ({} is set)", hint.family, hint.variable)
}

/// The file behind links.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or(path.to_owned())
}

/// The MPI of the launcher, where no program is named.
pub fn launcher(found: &Installation, hint: Option<&Hint>) -> Check {
    let Some(hint) = hint else {
        let found = "no program is named, and no launcher of MPI started this";
        return Check::note("program", found, "`mpirun -n 2 mpisee doctor PROGRAM`");
    };
    match crate::choose::flavour_of_launcher(&found.flavours, hint) {
        Some(flavour) => Check::ok("MPI", format!("{}: library {}", by_launcher(hint), flavour.name)),
        None => Check::fails(
            "MPI",
            format!("{}, for which there is no library", by_launcher(hint)),
            "build one by that MPI's compiler wrapper: `cargo xtask dist --mpicc PATH`",
        ),
    }
}

/// The library of the profiler that fits.
pub fn library(
    facts: &Facts<'_>,
    chosen: &Result<Result<&Flavour, Reason>, Failure>,
    run: &Run,
    found: &Installation,
) -> Check {
    match chosen {
        Err(why) => Check::fails("library", why, "`mpisee --flavours` lists them"),
        Ok(Err(reason)) => {
            let (program, installed, folder) = (&run.program, &found.flavours[..], &found.folder);
            let message = Message { program, reason, installed, folder };
            Check::fails("library", message.finding(), message.remedy())
        }
        Ok(Ok(flavour)) if linked(facts.kind).is_some_and(|it| !flavour.has_interface(&it.soname)) => {
            let found = format!(
                "{} is for another MPI than that of the program, so nothing is recorded",
                flavour.name
            );
            Check::fails("library", found, "leave out --flavour")
        }
        Ok(Ok(flavour)) => match note(facts, flavour) {
            Some(why) => {
                Check::note("library", why, "build one for this MPI: `cargo xtask dist --mpicc PATH`")
            }
            None => Check::ok("library", &flavour.name),
        },
    }
}

/// Compares the launcher with the program's MPI; nothing for a program whose MPI is unknown.
pub fn launcher_of_program(kind: &ProgramKind, hint: Option<&Hint>) -> Option<Check> {
    let linked = linked(kind)?;
    let Some(hint) = hint else {
        let found = "none started this, so a run has 1 rank";
        return Some(Check::note("launcher", found, "`mpirun -n 2 mpisee doctor PROGRAM`"));
    };
    let family = match linked.soname.as_str() {
        "libmpi.so.40" => Family::OpenMpi,
        name if name.ends_with(".so.12") => Family::Mpich,
        _ => return None,
    };
    let to_do = "start the program by the launcher of its own MPI, else each process is alone";
    let found = format!("the program has {family}, and the launcher is of {}", hint.family);
    (family != hint.family).then(|| Check::note("launcher", found, to_do))
}

/// Whether calls will have lines of the program, where it calls MPI itself.
pub fn lines(program: &Program) -> Option<Check> {
    needs_mpi(&program.kind).then(|| match has_lines(&program.path) {
        true => Check::ok("lines", "the program has debug information"),
        false => Check::note(
            "lines",
            "the program has no debug information, so calls have functions and no lines",
            "compile it with -g",
        ),
    })
}

/// Debug information in the file, or beside those of the system by the number of the build.
fn has_lines(program: &Path) -> bool {
    let Ok(file) = File::open(program) else { return false };
    let data = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&data) else { return false };
    let apart = || {
        let digits: Vec<String> = elf.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = digits.split_first()?;
        Some(Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{}.debug", rest.concat())))
    };
    elf.section_by_name(".debug_line").is_some() || apart().is_some_and(|path| path.exists())
}

/// The folder of the counters.
pub fn segments(options: &Options) -> Check {
    let folder = &options.segments;
    let shown = folder.display();
    if let Err(why) = try_to_write(folder) {
        let found = format!("{shown} takes no segment, so a killed rank loses its counts: {why}");
        return Check::note("segments", found, "choose a folder with --segments DIR");
    }
    let free_mb = free_bytes(folder).unwrap_or_default() / 1_000_000;
    let ranks = u64::from(process::local_size().unwrap_or(1));
    // Ranks look one after the other, and should see the same.
    let found = match free_mb {
        0..1000 => format!("{shown} has {} MB free", free_mb / 10 * 10),
        _ => format!("{shown} has {} GB free", free_mb / 1000),
    };
    match free_mb < ranks * ROOM_PER_RANK_MB {
        true => Check::note("segments", found, "free some, or choose a folder with --segments DIR"),
        false => Check::ok("segments", found),
    }
}

/// Writes so much that a full file system shows.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let file = folder.join(format!(".mpisee-doctor-{}-{now}", std::process::id()));
    let written = File::create_new(&file)?.write_all(&[1; 1 << 16]);
    fs::remove_file(file).and(written)
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut about = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the text ends in a zero, and the structure, valid if it is all zeros, may be written.
    let about =
        unsafe { (libc::statvfs(path.as_ptr(), about.as_mut_ptr()) == 0).then(|| about.assume_init())? };
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

/// The folder of the profile, which is made if it alone is missing.
pub fn output(options: &Options) -> Check {
    let wanted = options.output.as_deref().unwrap_or(Path::new(""));
    let is_folder = wanted.as_os_str().as_bytes().ends_with(b"/");
    let folder = if is_folder { Some(wanted) } else { wanted.parent() };
    let or_here = |folder: Option<&Path>| {
        folder.filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
    };
    let folder = or_here(folder);
    let tried = if folder.exists() { folder.clone() } else { or_here(folder.parent()) };
    let shown = real(&folder);
    match try_to_write(&tried) {
        Ok(()) => Check::ok("output", format!("the profile goes into {}", shown.display())),
        Err(why) => {
            let found = format!("{} takes no profile, which then goes elsewhere: {why}", shown.display());
            Check::note("output", found, "choose a folder with --output DIR/")
        }
    }
}

/// Limits of this process that ranks inherit, as `ulimit` shows them.
pub fn limits() -> Vec<Check> {
    let limits = [
        (libc::RLIMIT_AS, "-v", "address space", "calls may not be counted"),
        (libc::RLIMIT_FSIZE, "-f", "the size of files", "counters may not be saved"),
    ];
    let limited = limits.into_iter().filter_map(|(resource, letter, of_what, effect)| {
        let bytes = limit(resource)?;
        let found =
            format!("{of_what} is limited to {} MB (ulimit {letter}), so {effect}", bytes / 1_000_000);
        Some(Check::note("limits", found, format!("`ulimit {letter} unlimited`")))
    });
    let limited: Vec<Check> = limited.collect();
    match limited.is_empty() {
        true => vec![Check::ok("limits", "none on address space and files")],
        false => limited,
    }
}

/// A limit in bytes, if there is one.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the structure, valid if it is all zeros, may be written.
    let limit = unsafe {
        (libc::getrlimit(resource, limit.as_mut_ptr()) == 0).then(|| limit.assume_init().rlim_cur)?
    };
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

/// The clock of the times.
pub fn clock() -> Check {
    match tsc::is_reliable() {
        true => Check::ok("clock", "the processor's counter"),
        false => Check::ok(
            "clock",
            "the kernel's, since the processor's counter is not reliable here; it takes longer",
        ),
    }
}

/// Whether anything on GPUs can be counted.
pub fn gpu(folder: &Path, wanted: &Options) -> Check {
    // Each by itself: both together exclude each other.
    let options = Options { gpu: false, ..wanted.clone() };
    let setup = Setup { folder, options: &options, variable: &|name| std::env::var(name).ok() };
    match (setup.prepare_copies(), setup.prepare()) {
        (Err(why), _) if wanted.gpu || wanted.gpu_copies => {
            Check::note("GPU", format!("kernels and copies are not counted: {why}"), "leave the option out")
        }
        (Ok(_), Ok(_)) => Check::ok("GPU", "--gpu and --gpu-copies can be used"),
        (Ok(_), Err(why)) => Check::ok("GPU", format!("--gpu-copies can be used, and --gpu cannot: {why}")),
        (Err(why), _) => Check::ok("GPU", format!("kernels and copies of GPUs cannot be counted: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::loader;

    #[test]
    fn limits_room_and_loaders_are_read() {
        let own = std::env::current_exe().unwrap();
        let found = loader(&own).unwrap();
        assert!(found.is_absolute() && loader(Path::new("/etc/passwd")).is_none());
        assert!(limit(libc::RLIMIT_NOFILE).is_some_and(|limit| limit > 0));
        assert!(free_bytes(Path::new("/")).is_some() && free_bytes(Path::new("/nowhere")).is_none());
    }
}
