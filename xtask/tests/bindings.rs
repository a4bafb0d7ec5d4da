//! The bindings of C headers, as they are checked in. Needs libclang.

use mpisee_bindings::{differences, own};
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

#[test]
fn constants_and_offsets_that_headers_lack_are_listed() {
    let checked_in = "pub const EXIT: Site = 1;
        pub const ENTER: Site = 0;
        [\"Size of Data\"][size_of::<Data>() - 16usize];
        [\"Offset of field: Data::context\"]
            [offset_of!(Data, context) - 8usize];";
    let longer = checked_in.replace("16usize", "24usize") + "pub const FORCE: Site = 7;";
    assert_eq!(differences(checked_in, &longer), Vec::<String>::new());
    let other = longer.replace("Site = 1", "Site = 2").replace("8usize", "4usize");
    assert_eq!(
        differences(checked_in, &other),
        [
            "pub const EXIT: Site = 1",
            "[\"Offset of field: Data::context\"] [offset_of!(Data, context) - 8usize]"
        ]
    );
}
