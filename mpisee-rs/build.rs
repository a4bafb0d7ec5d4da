//! Hands the description of the MPI that this library is for (`flavour.json`, written by
//! `cargo xtask build`) to the compiler: which functions to export, and what handles look like.

use serde_json::Value;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPISEE_BUILD_FLAVOUR");
    println!("cargo::rustc-check-cfg=cfg(mpi, values(any()))");
    println!(r#"cargo::rustc-check-cfg=cfg(mpi_family, values("openmpi", "mpich", "standard"))"#);
    // Whoever links with -lmpisee finds it by this name, wherever it was built.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libmpisee.so");
    if let Err(why) = has_frame_pointers().and_then(|()| describe()) {
        println!("cargo::error={why}");
    }
}

/// `storage/frame.rs` reads the return address beside the frame pointer, which without this flag is
/// any number.
fn has_frame_pointers() -> Result<(), String> {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("force-frame-pointers=yes") {
        return Ok(());
    }
    Err("libmpisee.so needs `-C force-frame-pointers=yes` among the flags for rustc, which take the place of those in \
         .cargo/config.toml if they are given in another way"
        .to_owned())
}

fn describe() -> Result<(), String> {
    let Some(path) = std::env::var_os("MPISEE_BUILD_FLAVOUR").map(std::path::PathBuf::from) else {
        return Err("libmpisee.so is built once per MPI: use `cargo xtask build`".to_owned());
    };
    println!("cargo::rerun-if-changed={}", path.display());
    let flavour: Value = std::fs::read(&path)
        .map_err(|why| why.to_string())
        .and_then(|text| serde_json::from_slice(&text).map_err(|why| why.to_string()))
        .map_err(|why| format!("reading {}: {why}", path.display()))?;
    let missing = |key: &str| format!("{} has no '{key}'", path.display());
    let text = |key: &str| flavour[key].as_str().ok_or_else(|| missing(key));

    println!("cargo::rustc-cfg=mpi_family=\"{}\"", text("family")?);
    println!("cargo::rustc-env=MPISEE_FLAVOUR={}", text("name")?);
    println!("cargo::rustc-env=MPISEE_FLAVOUR_LIBRARY={}", text("library_version")?);
    let functions = flavour["functions"].as_array().ok_or_else(|| missing("functions"))?;
    for function in functions.iter().filter_map(Value::as_str) {
        println!("cargo::rustc-cfg=mpi=\"{function}\"");
    }
    Ok(())
}
