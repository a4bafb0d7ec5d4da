//! AddressSanitizer's shared runtime, which ends a program at its start if another library comes
//! before it.
//!
//! It wants to be the first that defines `malloc`, and insists on coming before every library. The
//! profiler defines nothing of the C library, so that their order does not matter: the runtime is
//! ordered not to insist. Preloading it before the profiler would do, too, but reach the program's
//! children: of each shell it would report leaks. A runtime that cannot be ordered (GCC's before
//! version 9) is preloaded nevertheless. The runtimes of the other sanitizers do not insist.

use crate::preload::can_be_preloaded;
use crate::program::ProgramKind;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The variable with the runtime's options.
pub const OPTIONS: &str = "ASAN_OPTIONS";
/// The option: 0 is not to insist.
const ORDER: &str = "verify_asan_link_order";

/// The way in which the profiler and the sanitizer's runtime share a process.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// The program needs no such runtime.
    None,
    /// The runtime is ordered not to insist.
    Option,
    /// The library goes first into LD_PRELOAD.
    First(OsString),
}

impl Arrangement {
    /// The one that a program of this kind needs.
    pub fn for_program(kind: &ProgramKind) -> Self {
        let ProgramKind::Dynamic(needed) = kind else { return Arrangement::None };
        let Some(runtime) = needed.iter().find(|library| is_runtime(library.soname.as_ref())) else {
            return Arrangement::None;
        };
        match &runtime.path {
            Some(path) if has_option(path) => Arrangement::Option,
            Some(path) if can_be_preloaded(path) => Arrangement::First(path.into()),
            _ => Arrangement::First(runtime.soname.clone().into()),
        }
    }
}

/// `ASAN_OPTIONS` with the option, which what the user says of it overrides.
pub fn options(before: &OsStr) -> OsString {
    let mut options = OsString::from(format!("{ORDER}=0"));
    if !before.is_empty() {
        options.push(":");
        options.push(before);
    }
    options
}

/// Decides by the name of GCC's runtime, `libasan.so.8`, and LLVM's, `libclang_rt.asan-x86_64.so`.
pub fn is_runtime(library: &OsStr) -> bool {
    let name = Path::new(library).file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libasan.so") || (name.starts_with("libclang_rt.asan") && name.contains(".so"))
}

/// A runtime that has an option has its name.
fn has_option(runtime: &Path) -> bool {
    let content = std::fs::read(runtime).unwrap_or_default();
    content.windows(ORDER.len()).any(|bytes| OsStr::from_bytes(bytes) == ORDER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Needed;

    #[test]
    fn runtimes_are_known_by_their_names() {
        let is = |name: &str| is_runtime(name.as_ref());
        for name in
            ["libasan.so", "/usr/lib/libasan.so.8.0.0", "libclang_rt.asan-x86_64.so", "libclang_rt.asan.so"]
        {
            assert!(is(name), "{name}");
        }
        // What is linked statically is in no list; the others do not insist.
        for name in
            ["libtsan.so.2", "libubsan.so.1", "liblsan.so.0", "libasana.so", "libclang_rt.asan-x86_64.a", ""]
        {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn a_runtime_without_the_option_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old, spaced] = ["libasan.so.8", "libasan.so.5", "a b"].map(|name| folder.path().join(name));
        std::fs::write(&new, "…\0verify_asan_link_order\0…").unwrap();
        std::fs::write(&old, "…\0detect_leaks\0…").unwrap();
        let of = |path: Option<&Path>| {
            let libc = Needed { soname: "libc.so.6".to_owned(), path: None };
            let runtime = Needed { soname: "libasan.so.5".to_owned(), path: path.map(Path::to_owned) };
            Arrangement::for_program(&ProgramKind::Dynamic(vec![libc, runtime]))
        };
        assert_eq!(of(Some(&new)), Arrangement::Option);
        assert_eq!(of(Some(&old)), Arrangement::First(old.into()));
        assert_eq!(of(Some(&spaced)), Arrangement::First("libasan.so.5".into()));
        assert_eq!(of(None), Arrangement::First("libasan.so.5".into()));
        assert_eq!(Arrangement::for_program(&ProgramKind::Dynamic(Vec::new())), Arrangement::None);
        assert_eq!(Arrangement::for_program(&ProgramKind::Script), Arrangement::None);
    }

    #[test]
    fn options_of_the_user_come_later_and_win() {
        assert_eq!(options("".as_ref()), "verify_asan_link_order=0");
        assert_eq!(options("detect_leaks=0".as_ref()), "verify_asan_link_order=0:detect_leaks=0");
    }
}
