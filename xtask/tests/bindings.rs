//! The bindings of C headers, as they are checked in. Needs libclang.

use mpisee_bindings::own;
use std::path::{Path, PathBuf};

/// The checkout's present folder, which differs from the one of the build if it was moved since.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).parent().expect("xtask is in the root").to_owned()
}

#[test]
fn bindings_of_our_headers_are_those_checked_in() {
    for bindings in own(&root()).unwrap() {
        let checked_in = std::fs::read_to_string(root().join(bindings.file)).unwrap();
        assert!(checked_in == bindings.text, "{} differs: run `cargo xtask generate`", bindings.file);
    }
}
