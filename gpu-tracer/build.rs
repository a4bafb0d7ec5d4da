//! Sees to it that `libmpisee_gpu.so` is never unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // CUPTI, the Sanitizer, the C library's exit and `libmpisee.so` keep addresses of its
    // functions.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
