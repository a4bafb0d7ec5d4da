//! Finds debug information that lies apart from its binary: by build ID, by the name in the binary,
//! in the cache of debuginfod's client.

use super::object_file::{build_id, cached};
use mpisee_profile::options::DEBUG_DIRS;
use object::{Object, ReadRef};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable with the servers of debuginfod.
const SERVERS: &str = "DEBUGINFOD_URLS";
/// The folder of the distribution.
const SYSTEM: &str = "/usr/lib/debug";
/// Asks the servers, and keeps what they have in the cache.
const CLIENT: &str = "debuginfod-find";

/// Where debug information is looked for.
#[derive(Clone, Debug, Default)]
pub struct DebugFiles {
    /// Folders, the user's own first.
    dirs: Vec<PathBuf>,
    /// The cache of debuginfod's client.
    cache: Option<PathBuf>,
    /// True if servers are asked for what is not there.
    asks_servers: bool,
    /// The client's last words where it got nothing.
    refusals: RefCell<BTreeSet<String>>,
}

impl DebugFiles {
    /// As the environment says; servers are asked if the user wants that.
    pub fn from_environment(asks_servers: bool) -> Self {
        let own = std::env::var_os(DEBUG_DIRS).unwrap_or_default();
        let own = std::env::split_paths(&own).filter(|dir| !dir.as_os_str().is_empty());
        let dirs = own.chain([PathBuf::from(SYSTEM)]).collect();
        DebugFiles { dirs, cache: client_cache(), asks_servers, refusals: RefCell::default() }
    }

    /// Why servers cannot be asked, if so.
    pub fn servers_problem() -> Option<String> {
        let has_servers = std::env::var_os(SERVERS).is_some_and(|servers| !servers.is_empty());
        if !has_servers {
            return Some(format!("--debuginfod asks the servers that {SERVERS} names, and it names none"));
        }
        let mut client = Command::new(CLIENT);
        client.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let error = client.status().err()?;
        Some(format!(
            "--debuginfod asks servers by {CLIENT}, which cannot be started: {error}; most distributions have it in the package debuginfod"
        ))
    }

    /// A sentence on what servers did not give, if they were asked for something in vain.
    pub fn note(&self) -> Option<String> {
        let refusals = self.refusals.borrow();
        let said = refusals.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        (!refusals.is_empty()).then(|| {
            format!(
                "The servers of {SERVERS} did not give all that they were asked for; {CLIENT} said: {said}."
            )
        })
    }

    /// The file with the debug information of a binary.
    pub fn of_binary<'d, R: ReadRef<'d>>(
        &self,
        path: &Path,
        binary: &object::File<'d, R>,
    ) -> Option<PathBuf> {
        let id = build_id(binary);
        let found = self.of_build_id(&id).or_else(|| self.by_link(path, binary, &id));
        found.or_else(|| self.by_name(path, &id)).or_else(|| self.download(&id))
    }

    /// The file with the debug information of a binary that is not there.
    pub fn of_missing(&self, path: &Path, id: &str) -> Option<PathBuf> {
        self.of_build_id(id).or_else(|| self.by_name(path, id)).or_else(|| self.download(id))
    }

    /// A file of the binary's own name in one of the folders: a copy with debug information.
    fn by_name(&self, path: &Path, id: &str) -> Option<PathBuf> {
        let name = path.file_name().filter(|_| !id.is_empty())?;
        let mut with_ending = name.to_owned();
        with_ending.push(".debug");
        let below = self.dirs.iter().flat_map(|dir| [dir.join(name), dir.join(&with_ending)]);
        below.into_iter().find(|found| found != path && found.is_file() && has_build_id(found, id))
    }

    /// The file in one of the folders, or in the client's cache.
    fn of_build_id(&self, id: &str) -> Option<PathBuf> {
        let (first, rest) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
        let name = format!("{rest}.debug");
        let below = self
            .dirs
            .iter()
            .flat_map(|dir| [dir.join(".build-id").join(first).join(&name), dir.join(first).join(&name)]);
        let cached = self.cache.iter().map(|cache| cache.join(id).join("debuginfo"));
        below.chain(cached).find(|path| path.is_file() && has_build_id(path, id))
    }

    /// The file that the binary names, beside it or in one of the folders.
    fn by_link<'d, R: ReadRef<'d>>(
        &self,
        path: &Path,
        binary: &object::File<'d, R>,
        id: &str,
    ) -> Option<PathBuf> {
        let (name, checksum) = binary.gnu_debuglink().ok().flatten()?;
        let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent()?;
        let beside = [folder.join(name), folder.join(".debug").join(name)];
        let relative = folder.strip_prefix("/").unwrap_or(folder);
        let below = self.dirs.iter().flat_map(|dir| [dir.join(relative).join(name), dir.join(name)]);
        let is_it = |found: &PathBuf| {
            *found != path
                && found.is_file()
                && if id.is_empty() { has_checksum(found, checksum) } else { has_build_id(found, id) }
        };
        beside.into_iter().chain(below).find(is_it)
    }

    /// The file that the servers have, if they are to be asked.
    fn download(&self, id: &str) -> Option<PathBuf> {
        if !self.asks_servers || id.is_empty() {
            return None;
        }
        let mut client = Command::new(CLIENT);
        client.args(["debuginfo", id]).stdin(Stdio::null());
        let answer = client.output().ok()?;
        if !answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            self.refusals.borrow_mut().insert(last.unwrap_or("nothing").trim().to_owned());
            return None;
        }
        let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim_end());
        Some(path).filter(|path| path.is_file() && has_build_id(path, id))
    }

    /// The file with what several debug files have in common (dwz), if `path` refers to one.
    pub fn supplement<'d, R: ReadRef<'d>>(&self, path: &Path, file: &object::File<'d, R>) -> Option<PathBuf> {
        let (name, id) = file.gnu_debugaltlink().ok().flatten()?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let folder = path.canonicalize().ok()?;
        let named = folder.parent()?.join(name);
        let in_dirs = self.dirs.iter().map(|dir| dir.join(".dwz").join(name.file_name().unwrap_or_default()));
        let found = [named].into_iter().chain(in_dirs).find(|path| path.is_file() && has_build_id(path, &id));
        found.or_else(|| self.of_build_id(&id)).or_else(|| self.download(&id))
    }
}

/// Where debuginfod's client keeps what it got.
fn client_cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("DEBUGINFOD_CACHE_PATH")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("debuginfod_client")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/debuginfod_client")))
}

/// Returns whether a file is that of the build ID.
pub fn has_build_id(path: &Path, id: &str) -> bool {
    let Ok(cache) = cached(path) else { return false };
    object::File::parse(&cache).is_ok_and(|file| build_id(&file) == id)
}

/// Returns whether a file is the one whose checksum the binary has.
fn has_checksum(path: &Path, expected: u32) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut hasher = crc32fast::Hasher::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block) {
            Ok(0) => return hasher.finalize() == expected,
            Ok(length) => hasher.update(&block[..length]),
            Err(_) => return false,
        }
    }
}
