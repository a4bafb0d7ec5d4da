//! For the program that is built once per MPI: the flavour's name, and where its MPI library lies.

use serde_json::Value;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPISEE_BUILD_FLAVOUR");
    let Some(path) = std::env::var_os("MPISEE_BUILD_FLAVOUR").map(std::path::PathBuf::from) else {
        println!("cargo::rustc-env=MPISEE_FLAVOUR=");
        return;
    };
    println!("cargo::rerun-if-changed={}", path.display());
    let read = std::fs::read(&path).map_err(|why| why.to_string());
    match read.and_then(|text| serde_json::from_slice::<Value>(&text).map_err(|why| why.to_string())) {
        Ok(flavour) => describe(&flavour),
        Err(why) => println!("cargo::error=reading {}: {why}", path.display()),
    }
}

fn describe(flavour: &Value) {
    println!("cargo::rustc-env=MPISEE_FLAVOUR={}", flavour["name"].as_str().unwrap_or_default());
    // An MPI outside of the system's folders has to be found by the program alone, as its mpicc
    // would have it.
    let library = std::path::Path::new(flavour["library"].as_str().unwrap_or_default());
    if let Some(folder) = library.parent().filter(|folder| !folder.starts_with("/usr/lib")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{}", folder.display());
    }
}
