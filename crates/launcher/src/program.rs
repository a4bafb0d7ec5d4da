//! The program's file, and the shared libraries that it needs.

use crate::failure::Failure;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program's properties, as far as they are known before it runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// The kind of file.
    pub kind: ProgramKind,
    /// True if it runs with other rights than ours, so that the dynamic loader ignores LD_PRELOAD.
    pub privileged: bool,
    /// True if it is what starts MPI programs: `mpirun` and the like.
    pub launcher: bool,
    /// The first launcher that a script calls.
    pub calls_launcher: Option<String>,
}

/// The kinds of program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Loaded by the dynamic loader, with these libraries.
    Dynamic(Vec<Needed>),
    /// Loaded by the dynamic loader, with libraries that are unknown, for this reason.
    Unlisted(String),
    /// Without the dynamic loader.
    Static,
    /// Loaded by the dynamic loader of musl, a C library that cannot load the profiler.
    Musl,
    /// For a processor or mode that the profiler is not built for.
    Foreign,
    /// Run by an interpreter.
    Script,
    /// A dynamic loader, which starts the program that its arguments name, as in bundles that bring
    /// their C library.
    Loader,
    /// A file that may be executed, but not read.
    Unreadable,
}

/// A shared library that a program needs, itself or through other libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The name under which a program needs it.
    pub soname: String,
    /// The file that the dynamic loader finds.
    pub path: Option<PathBuf>,
}

impl Program {
    /// Finds the program as `execvp` does and looks at it; `searches_here`: after PATH in the
    /// working directory, as Open MPI's launcher does, and MPICH's does not.
    pub fn find(name: &OsStr, searches_here: bool) -> Result<Self, Failure> {
        let mut search = std::env::var_os("PATH").unwrap_or("/bin:/usr/bin".into());
        if searches_here {
            search.push(":.");
        }
        let (path, metadata) = resolve(name, &search)?;
        let kind = File::open(&path).map_or(ProgramKind::Unreadable, |file| kind(&path, file));
        let calls_launcher = if kind == ProgramKind::Script { launcher_in(&path) } else { None };
        Ok(Program {
            kind,
            privileged: privileged(&path, &metadata),
            launcher: is_launcher(&path),
            calls_launcher,
            path,
        })
    }
}

/// The file that `name` stands for.
fn resolve(name: &OsStr, search: &OsStr) -> Result<(PathBuf, Metadata), Failure> {
    let not_found = || Failure::NotFound { program: name.to_owned() };
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else if name.is_empty() {
        return Err(not_found());
    } else {
        // An empty entry is the working directory, and must stay a path for whoever executes it.
        let folder = |it: PathBuf| if it.as_os_str().is_empty() { PathBuf::from(".") } else { it };
        std::env::split_paths(search).map(|it| folder(it).join(name)).collect()
    };
    let mut refused = None;
    for path in candidates {
        let why = match path.metadata() {
            Ok(it) if it.is_dir() => "is a directory",
            Ok(it) if it.permissions().mode() & 0o111 == 0 => "is not executable: chmod +x makes it so",
            Ok(it) => return Ok((path, it)),
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
                "cannot be reached: permission denied"
            }
            Err(_) => continue,
        };
        // In PATH, something executable further on wins.
        refused.get_or_insert(Failure::NotExecutable { path, why });
    }
    Err(refused.unwrap_or_else(not_found))
}

/// Decides by the name, also where a suffix distinguishes several installations: `mpirun.openmpi`.
fn is_launcher(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    matches!(name.split('.').next(), Some("mpirun" | "mpiexec" | "orterun" | "prterun" | "srun"))
}

/// The first launcher that is called in a script's first lines, comments aside.
fn launcher_in(script: &Path) -> Option<String> {
    const MOST_BYTES: u64 = 1 << 16;
    let mut text = Vec::new();
    File::open(script).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with('#'));
    let mut words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || ";&|()'\"`".contains(c)));
    words.find(|word| is_launcher(Path::new(word))).map(str::to_owned)
}

/// Returns whether executing the file changes the user, the group or the capabilities, so that the
/// dynamic loader ignores LD_PRELOAD.
fn privileged(path: &Path, program: &Metadata) -> bool {
    let Ok(own) = Path::new("/proc/self").metadata() else { return false };
    let has = |bit: u32| program.mode() & bit == bit;
    // Set-group-ID without the group's right to execute means something else.
    let changes = (has(0o4000) && program.uid() != own.uid()) || (has(0o2010) && program.gid() != own.gid());
    // Capabilities that the kernel refuses to give make the dynamic loader careful all the same.
    let is_careful = (changes && !gets_no_new_rights()) || (own.uid() != 0 && has_capabilities(path));
    is_careful && !is_without_rights(path)
}

/// Returns whether the file has capabilities, which root has anyway.
fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both texts end in a zero, and with a length of zero nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Returns whether the kernel changes neither user nor group of what this process executes.
fn gets_no_new_rights() -> bool {
    // SAFETY: the call takes numbers alone.
    unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 }
}

/// Returns whether the file is on a file system whose files give no rights (`nosuid`).
fn is_without_rights(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut about = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the text ends in a zero, and the structure, valid if it is all zeros, may be written.
    let flags = unsafe {
        libc::statvfs(path.as_ptr(), about.as_mut_ptr());
        about.assume_init().f_flag
    };
    flags & libc::ST_NOSUID != 0
}

/// The dynamic loader that a program names; `None` for what has none, and for files that cannot be
/// read.
pub fn loader(program: &Path) -> Option<PathBuf> {
    let data = ReadCache::new(File::open(program).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    let loader = segments.iter().find_map(|segment| segment.interpreter(endian, &data).ok().flatten())?;
    Some(PathBuf::from(OsStr::from_bytes(loader)))
}

fn kind(path: &Path, file: File) -> ProgramKind {
    let data = ReadCache::new(file);
    let magic = |length| object::ReadRef::read_bytes_at(&data, 0, length).unwrap_or_default();
    if magic(4) != b"\x7fELF" {
        return ProgramKind::Script;
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(&data) else { return ProgramKind::Foreign };
    let Ok(endian) = header.endian() else { return ProgramKind::Foreign };
    if !object_machine_is_ours(header.e_machine(endian)) {
        return ProgramKind::Foreign;
    }
    let segments = header.program_headers(endian, &data).unwrap_or_default();
    match segments.iter().find_map(|segment| segment.interpreter(endian, &data).ok().flatten()) {
        Some(loader) if is_loader_of_musl(Path::new(OsStr::from_bytes(loader))) => ProgramKind::Musl,
        Some(loader) => needed(OsStr::from_bytes(loader), path)
            .map_or_else(|why| ProgramKind::Unlisted(why.to_string()), ProgramKind::Dynamic),
        None if is_loader_of_musl(path) => ProgramKind::Musl,
        None if is_loader(path) => ProgramKind::Loader,
        None => ProgramKind::Static,
    }
}

/// Decides by the name: `ld-linux-x86-64.so.2`, `ld-2.31.so`, `ld-musl-x86_64.so.1`, `ld64.so.2`.
pub fn is_loader(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(".so") && ["ld-", "ld.", "ld64."].iter().any(|begin| name.starts_with(begin))
}

/// Decides by the name: `ld-musl-x86_64.so.1`.
fn is_loader_of_musl(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl-"))
}

fn object_machine_is_ours(machine: u16) -> bool {
    use object::elf;
    match std::env::consts::ARCH {
        "x86_64" => machine == elf::EM_X86_64,
        "aarch64" => machine == elf::EM_AARCH64,
        "powerpc64" => machine == elf::EM_PPC64,
        "riscv64" => machine == elf::EM_RISCV,
        _ => true,
    }
}

/// Lists the libraries that the program's own dynamic loader would load: it has the rules for
/// RPATH, LD_LIBRARY_PATH and its cache. Empty if it finds not all of them: the reason then comes
/// from the loader when the program is started.
fn needed(loader: &OsStr, program: &Path) -> io::Result<Vec<Needed>> {
    let listed = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(parse(&String::from_utf8_lossy(&listed.stdout)))
}

/// Reads lines such as `libmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f0000000000)`.
fn parse(listing: &str) -> Vec<Needed> {
    let library = |line: &str| {
        let line = line.trim();
        let line = line.rsplit_once(" (0x").map_or(line, |(library, _address)| library);
        let (name, path) = line.split_once(" => ").unwrap_or((line, line));
        let path = Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        let soname = Path::new(name).file_name()?.to_string_lossy().into_owned();
        Some(Needed { soname, path })
    };
    listing.lines().filter_map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_loaders_list_is_understood() {
        let listing = "\tlinux-vdso.so.1 (0x00007ff4c6e5e000)\n\
                       \tlibmpi.so.40 => /opt/my mpi/lib/libmpi.so.40 (0x00007ff4c6e4c000)\n\
                       \tlibm.so.6 => not found\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007ff4c6e60000)\n";
        let needed = |soname: &str, path: Option<&str>| Needed {
            soname: soname.to_owned(),
            path: path.map(PathBuf::from),
        };
        assert_eq!(
            parse(listing),
            [
                needed("linux-vdso.so.1", None),
                needed("libmpi.so.40", Some("/opt/my mpi/lib/libmpi.so.40")),
                needed("libm.so.6", None),
                needed("ld-linux-x86-64.so.2", Some("/lib64/ld-linux-x86-64.so.2")),
            ]
        );
    }

    #[test]
    fn this_test_is_a_dynamic_program() {
        let program = Program::find(std::env::current_exe().unwrap().as_os_str(), false).unwrap();
        let ProgramKind::Dynamic(needed) = program.kind else { panic!("{program:?}") };
        let libc = needed.iter().find(|library| library.soname.starts_with("libc.so")).unwrap();
        assert!(libc.path.as_ref().unwrap().exists());
        assert!(!program.privileged);
    }

    #[test]
    fn the_loader_starts_programs_and_is_not_linked_statically() {
        let ProgramKind::Dynamic(needed) =
            Program::find(std::env::current_exe().unwrap().as_os_str(), false).unwrap().kind
        else {
            panic!("this test is dynamic")
        };
        let loader = needed.iter().find(|library| library.soname.starts_with("ld-")).unwrap();
        let loader = loader.path.as_ref().unwrap();
        assert_eq!(Program::find(loader.as_os_str(), false).unwrap().kind, ProgramKind::Loader);
        assert!(!is_loader(Path::new("/opt/ld-analysis")));
    }

    #[test]
    fn a_program_of_musl_is_known_by_its_loader() {
        let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = loader(&std::env::current_exe().unwrap()).unwrap();
        let own = own.as_os_str().as_bytes();
        let mut other = b"/lib/ld-musl-x86_64.so.1".to_vec();
        other.resize(own.len(), 0);
        let at = program.windows(own.len()).position(|bytes| bytes == own).unwrap();
        program[at..at + own.len()].copy_from_slice(&other);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, program).unwrap();
        assert_eq!(kind(&path, File::open(&path).unwrap()), ProgramKind::Musl);
    }

    #[test]
    fn a_launcher_in_a_script_is_found_outside_of_comments() {
        let folder = tempfile::tempdir().unwrap();
        let called = |text: &str| {
            let script = folder.path().join("job.sh");
            fs::write(&script, text).unwrap();
            launcher_in(&script)
        };
        assert_eq!(called("#!/bin/sh\ncd run && mpirun -n 4 ./app\n").as_deref(), Some("mpirun"));
        assert_eq!(called("x=$(/opt/mpi/bin/mpiexec ./app)\n").as_deref(), Some("/opt/mpi/bin/mpiexec"));
        assert_eq!(called("#!/bin/sh\n# for mpirun\nexec ./app\n"), None);
    }

    #[test]
    fn the_search_goes_on_after_what_is_not_executable() {
        let [data, programs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for (folder, mode) in [(&data, 0o644), (&programs, 0o755)] {
            let file = folder.path().join("tool");
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let search = |folders: &[&tempfile::TempDir]| {
            let folders = std::env::join_paths(folders.iter().map(|folder| folder.path())).unwrap();
            resolve("tool".as_ref(), &folders).map(|(path, _)| path)
        };
        assert_eq!(search(&[&data, &programs]).unwrap(), programs.path().join("tool"));
        assert!(matches!(search(&[&data]), Err(Failure::NotExecutable { .. })));
        assert!(matches!(resolve("tool".as_ref(), "/nowhere".as_ref()), Err(Failure::NotFound { .. })));
    }
}
