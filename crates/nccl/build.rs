//! Sees to the flags on which `libmpisee.so` relies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // By the frames of this library `libmpisee.so` finds the place in the program from which NCCL
    // is called.
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.contains("force-frame-pointers=yes") {
        println!(
            "cargo::error=libmpisee_nccl.so needs `-C force-frame-pointers=yes` among the flags for rustc, which take the place of \
             those in .cargo/config.toml if they are given in another way"
        );
    }
}
