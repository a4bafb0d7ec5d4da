//! The bindings of C headers, as they are checked in. Needs libclang.

use mpisee_bindings::{differences, has_green_contexts, own};
use std::path::{Path, PathBuf};

/// The checkout's present folder, which differs from the one of the build if it was moved since.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("xtask is two folders below the root").to_owned()
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

/// Offsets of fields as headers have them: of two structures with a context, and of one field
/// behind these that stays.
fn offsets(device: usize, stream: usize, handle: usize, module: usize) -> String {
    let offset = |structure: &str, field: &str, at: usize| {
        format!(
            "[\"Offset of field: {structure}::{field}\"]
                [::std::mem::offset_of!({structure}, {field}) - {at}usize];\n"
        )
    };
    [
        offset("Sanitizer_ResourceContextData", "context", 0),
        offset("Sanitizer_ResourceContextData", "device", device),
        offset("Sanitizer_ResourceStreamData", "stream", stream),
        offset("Sanitizer_ResourceStreamData", "hStream", handle),
        offset("Sanitizer_ResourceModuleData", "module", module),
    ]
    .concat()
}

#[test]
fn headers_with_green_contexts_are_accepted() {
    let checked_in = offsets(8, 8, 16, 8);
    assert_eq!(differences(&checked_in, &offsets(16, 16, 24, 8)), Vec::<String>::new());
    assert!(has_green_contexts(&checked_in, &offsets(16, 16, 24, 8)));
    assert!(!has_green_contexts(&checked_in, &checked_in));
}

#[test]
fn other_offsets_than_behind_green_contexts_are_refused() {
    let checked_in = offsets(8, 8, 16, 8);
    let fields = |found: &str| -> Vec<String> {
        let differ = differences(&checked_in, found).into_iter();
        differ
            .map(|it| it.split('"').nth(1).expect("a field").rsplit("::").next().unwrap().to_owned())
            .collect()
    };
    // One of them further on than by a pointer, or not moved: the tracer adds a pointer to all.
    assert_eq!(fields(&offsets(16, 16, 32, 8)), ["device", "stream", "hStream"]);
    assert_eq!(fields(&offsets(8, 16, 24, 8)), ["stream", "hStream"]);
    // A field of another structure, which the tracer reads in one place.
    assert_eq!(fields(&offsets(16, 16, 24, 16)), ["module"]);
}
