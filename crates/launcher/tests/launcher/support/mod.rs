//! An installation to try, and what came of a try.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A flavour to install.
#[derive(Clone, Copy)]
pub struct Flavour {
    /// Its name.
    pub name: &'static str,
    family: &'static str,
    soname: &'static str,
    library_version: &'static str,
}

/// Debian's Open MPI.
pub const OPEN_MPI: Flavour = Flavour {
    name: "openmpi-4.1",
    family: "openmpi",
    soname: "libmpi.so.40",
    library_version: "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4",
};

/// Debian's MPICH.
pub const MPICH: Flavour = Flavour {
    name: "mpich-4.0",
    family: "mpich",
    soname: "libmpich.so.12",
    library_version: "MPICH Version:\t4.0.2",
};

/// A shell script.
pub fn script(commands: &str) -> String {
    format!("#!/bin/sh\n{commands}\n")
}

/// An installation of its own for a test.
pub struct Installation {
    _folder: tempfile::TempDir,
    prefix: PathBuf,
}

impl Installation {
    /// One with these flavours.
    pub fn with_flavours(flavours: &[Flavour]) -> Self {
        Self::in_folder("prefix", flavours)
    }

    /// One in a folder of that name.
    pub fn in_folder(name: &str, flavours: &[Flavour]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().canonicalize().unwrap().join(name);
        let installation = Installation { _folder: folder, prefix };
        // A symbolic link would not do: the launcher looks where its file really is.
        installation.file("bin/mpisee", fs::read(env!("CARGO_BIN_EXE_mpisee")).unwrap(), 0o755);
        for flavour in flavours {
            let place = Path::new("lib/mpisee").join(flavour.name);
            installation.file(place.join("libmpisee.so"), beginning_library(), 0o644);
            let description = serde_json::json!({
                "name": flavour.name,
                "family": flavour.family,
                "soname": flavour.soname,
                "library": format!("/nowhere/{}.1", flavour.soname),
                "library_version": flavour.library_version,
                "mpicc": "/nowhere/mpicc",
                "functions": ["MPI_Send"],
            });
            installation.file(place.join("flavour.json"), description.to_string(), 0o644);
        }
        installation
    }

    /// Puts a file there; returns its path.
    pub fn file(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>, mode: u32) -> String {
        let _guard = NO_WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.prefix.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Compiles a shared library that has its file's name; returns its path.
    pub fn library(&self, name: &str, source: &str, link: &[&str]) -> String {
        let soname = format!("-Wl,-soname,{name}");
        self.compile(name, source, &[&["-shared", "-fPIC", &soname], link].concat())
    }

    /// Compiles a program; returns its path.
    pub fn program(&self, name: &str, source: &str, link: &[&str]) -> String {
        self.compile(name, source, link)
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> String {
        let source = self.file(format!("{name}.c"), source, 0o644);
        let output = self.prefix.join(name).to_str().unwrap().to_owned();
        // Libraries of a test lie beside each other and are found there.
        cc(&[&[&source, "-o", &output, "-Wl,--disable-new-dtags,-rpath,$ORIGIN"], options].concat());
        output
    }

    /// The library to be preloaded for a flavour.
    pub fn profiler(&self, flavour: Flavour) -> String {
        let path = self.prefix.join("lib/mpisee").join(flavour.name).join("libmpisee.so");
        path.to_str().unwrap().to_owned()
    }

    /// The launcher with arguments, in an environment without any MPI's marks.
    pub fn mpisee(&self, arguments: &[&str]) -> Try {
        Self::without_marks(Command::new(self.prefix.join("bin/mpisee")), arguments)
    }

    /// The same, from a shell that does something first.
    pub fn mpisee_after(&self, commands: &str, arguments: &[&str]) -> Try {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{commands}; exec \"$0\" \"$@\"")).arg(self.prefix.join("bin/mpisee"));
        Self::without_marks(shell, arguments)
    }

    /// The launcher, after words that start it, as a user without special rights.
    pub fn mpisee_of_user(&self, before: &[&str], arguments: &[&str]) -> Try {
        for folder in self.prefix.ancestors().take(2) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let change: &[&str] = match is_root {
            true => &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
            false => &["env"],
        };
        let mpisee = self.prefix.join("bin/mpisee");
        let words = [change, before, &[mpisee.to_str().unwrap()], arguments].concat();
        Self::without_marks(Command::new(words[0]), &words[1..])
    }

    fn without_marks(mut command: Command, arguments: &[&str]) -> Try {
        command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        Try { command, input: String::new() }
    }
}

/// A command to try.
pub struct Try {
    command: Command,
    input: String,
}

/// The outcome of a run.
#[derive(Debug)]
#[allow(dead_code, reason = "a failing test shows all of it")]
pub struct Outcome {
    pub pid: u32,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Try {
    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it something to read.
    pub fn input(mut self, text: &str) -> Self {
        self.input = text.to_owned();
        self
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Outcome {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = {
            let _guard = NO_WRITING.lock().unwrap_or_else(PoisonError::into_inner);
            self.command.spawn().unwrap()
        };
        let pid = child.id();
        // Not every program reads its input.
        let _ = child.stdin.take().unwrap().write_all(self.input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        Outcome { pid, status: output.status, stdout, stderr }
    }
}

impl Outcome {
    /// A variable, of a program that printed its environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        let assigned = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        self.stdout.lines().find_map(assigned)
    }
}

/// Held while files are written and while processes are started: a child that a test starts while
/// another test writes an executable has that file open for a moment, and the kernel does not
/// execute it then.
static NO_WRITING: Mutex<()> = Mutex::new(());

/// A shared library that tells the launcher's standby at once that recording begins, as the
/// profiler does at `MPI_Init`.
fn beginning_library() -> &'static [u8] {
    const SOURCE: &str = r#"
        #include <stddef.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/socket.h>
        #include <sys/un.h>
        #include <unistd.h>
        __attribute__((constructor)) static void begin(void) {
            const char *name = getenv("MPISEE_BEGIN_SOCKET");
            if (!name) return;
            int socket_ = socket(AF_UNIX, SOCK_DGRAM, 0);
            while (*name) {
                size_t length = strcspn(name, ":");
                struct sockaddr_un to = { .sun_family = AF_UNIX };
                memcpy(to.sun_path + 1, name, length);
                sendto(socket_, "b", 1, MSG_DONTWAIT, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + length);
                name += length + (name[length] == ':');
            }
            close(socket_);
        }"#;
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let [source, library] = ["begin.c", "libbegin.so"].map(|name| folder.path().join(name));
        fs::write(&source, SOURCE).unwrap();
        cc(&["-shared", "-fPIC", source.to_str().unwrap(), "-o", library.to_str().unwrap()]);
        fs::read(library).unwrap()
    })
}

/// Runs the compiler that Rust links with.
fn cc(arguments: &[&str]) {
    let mut compiler = {
        let _guard = NO_WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        Command::new("cc").args(arguments).spawn().unwrap()
    };
    assert!(compiler.wait().unwrap().success(), "cc {arguments:?}");
}
