//! The modules of the library that are compiled here see that they are in a model checker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=loom");
}
