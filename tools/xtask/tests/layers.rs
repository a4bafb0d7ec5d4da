//! Layers of crates: a module imports from its own layer and those below, and no two modules need
//! each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate whose folders are layers.
struct LayeredCrate {
    /// Its sources.
    root: &'static str,
    /// The layers from below to above.
    layers: &'static [&'static str],
    /// The least number of modules, so that a test that reads nothing fails.
    least_modules: usize,
}

/// In `generated`, the table of MPI's functions belongs to `mpi`; the exports are on top.
const RECORDER: LayeredCrate = LayeredCrate {
    root: "../../mpisee-rs/src",
    layers: &[
        "mpi",
        "storage",
        "binaries",
        "state",
        "naming",
        "recording",
        "finalize",
        "wrappers",
        "exports",
    ],
    least_modules: 60,
};

const FORMATS: LayeredCrate = LayeredCrate {
    root: "../../crates/profile/src",
    layers: &[
        "error",
        "operation",
        "nccl",
        "network",
        "tsc",
        "glob",
        "ids",
        "ticks",
        "ranks",
        "site",
        "comm_name",
        "memory",
        "gpu",
        "rows",
        "run",
        "path_text",
        "own_process",
        "segment",
        "options",
        "reader",
        "csv_text",
        "writer",
        "requests",
    ],
    least_modules: 20,
};

const COLLECTION: LayeredCrate = LayeredCrate {
    root: "../../crates/collect/src",
    layers: &[
        "process",
        "gpu",
        "ticks",
        "overhead",
        "node_clock",
        "form",
        "messages",
        "arrivals",
        "order",
        "site_tables",
        "rank_tables",
        "devices",
        "aggregate",
        "nodes",
        "output_places",
        "run",
        "wire",
        "files",
        "left_rows",
        "segments",
        "gathering",
        "node_ranks",
        "profile",
    ],
    least_modules: 18,
};

const GPU_TRACER: LayeredCrate = LayeredCrate {
    root: "../../gpu-tracer/src",
    layers: &[
        "generated",
        "trace",
        "process",
        "device",
        "memory",
        "counting",
        "copies",
        "tracer",
        "events",
        "backends",
        "injection",
    ],
    least_modules: 30,
};

/// The modules beside `command` are what commands share.
const THROUGH: LayeredCrate = LayeredCrate {
    root: "../../mpisee-through/src",
    layers: &["shared", "command", "cli"],
    least_modules: 80,
};

const LAUNCHER: LayeredCrate = LayeredCrate {
    root: "../../crates/launcher/src",
    layers: &[
        "failure",
        "signals",
        "preload",
        "program",
        "sanitizer",
        "flavours",
        "environment",
        "choose",
        "standard_descriptors",
        "descendants",
        "standby",
        "companion",
        "variables",
        "gpu",
        "nccl",
        "cli",
        "watch",
        "launch",
        "doctor",
        "repeat",
    ],
    least_modules: 14,
};

/// A module by its path, `state::request`.
type Module = Vec<String>;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn module_of(file: &Path) -> Module {
    let mut names: Module =
        file.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| last == "mod");
    names
}

fn layer_of(house: &LayeredCrate, module: &Module) -> usize {
    let name = match (module[0].as_str(), module.get(1).map(String::as_str)) {
        ("generated", Some("pmpi" | "signatures" | "interposed")) => "mpi",
        ("generated", _) if !house.layers.contains(&"generated") => "exports",
        (name, _) if house.layers[0] == "shared" && !house.layers.contains(&name) => "shared",
        (name, _) => name,
    };
    house.layers.iter().position(|&layer| layer == name).unwrap_or_else(|| panic!("'{name}' is in no layer"))
}

/// Paths that begin with `crate::` or `super::`, braces taken apart.
fn paths(text: &str, module: &Module) -> Vec<Module> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    for (begin, base) in [("crate::", &[][..]), ("super::", &module[..module.len() - 1])] {
        for (at, _) in code.match_indices(begin) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at + begin.len()..];
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let names: Module = base
                .iter()
                .cloned()
                .chain(rest[..length].split("::").filter(|name| !name.is_empty()).map(str::to_owned))
                .collect();
            match rest[length..].strip_prefix('{').and_then(|list| list.split_once('}')) {
                Some((list, _)) => found.extend(list.split(',').map(|name| {
                    let first = name.trim().split([':', ' ']).next().unwrap_or_default().to_owned();
                    names.iter().cloned().chain([first]).collect()
                })),
                None => found.push(names),
            }
        }
    }
    found
}

/// The modules that each module imports from.
fn imports(house: &LayeredCrate) -> BTreeMap<Module, BTreeSet<Module>> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    let root = Path::new(&package).join(house.root);
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_module = |file: &Path| !["lib.rs", "main.rs", "tests.rs"].iter().any(|name| file.ends_with(name));
    files.retain(|file| is_module(file));
    let files: BTreeMap<Module, String> = files
        .iter()
        .map(|file| {
            let module = module_of(file.strip_prefix(&root).expect("it is below"));
            (module, std::fs::read_to_string(file).expect("it can be read"))
        })
        .collect();
    let resolve = |mut path: Module| {
        while !path.is_empty() && !files.contains_key(&path) {
            path.pop();
        }
        path
    };
    files
        .iter()
        .map(|(module, text)| {
            let all = paths(text, module).into_iter().map(resolve);
            (module.clone(), all.filter(|path| !path.is_empty() && path != module).collect())
        })
        .collect()
}

fn is_part(one: &Module, other: &Module) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Returns whether `from` needs `to`, by way of others. A module and its parts are one.
fn needs(imports: &BTreeMap<Module, BTreeSet<Module>>, from: &Module, to: &Module) -> bool {
    let mut open = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten().filter(|next| !is_part(next, module)) {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

/// Imports from a layer above.
fn upwards(house: &LayeredCrate, imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    imports
        .iter()
        .flat_map(|(module, all)| all.iter().map(move |other| (module, other)))
        .filter(|(module, other)| layer_of(house, other) > layer_of(house, module))
        .map(|(module, other)| format!("{} imports from {}", module.join("::"), other.join("::")))
        .collect()
}

/// Modules that need each other.
fn cycles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    imports
        .iter()
        .flat_map(|(module, all)| all.iter().map(move |other| (module, other)))
        .filter(|(module, other)| !is_part(module, other) && needs(imports, other, module))
        .map(|(module, other)| format!("{} and {}", module.join("::"), other.join("::")))
        .collect()
}

fn assert_layered(house: &LayeredCrate) {
    let imports = imports(house);
    assert!(imports.len() >= house.least_modules, "{} has {} modules", house.root, imports.len());
    assert_eq!(upwards(house, &imports), Vec::<String>::new());
    assert_eq!(cycles(&imports), Vec::<String>::new());
}

#[test]
fn the_recorder_imports_downwards_without_cycles() {
    assert_layered(&RECORDER);
}

#[test]
fn the_formats_import_downwards_without_cycles() {
    assert_layered(&FORMATS);
}

#[test]
fn the_collection_imports_downwards_without_cycles() {
    assert_layered(&COLLECTION);
}

#[test]
fn the_gpu_tracer_imports_downwards_without_cycles() {
    assert_layered(&GPU_TRACER);
}

#[test]
fn the_launcher_imports_downwards_without_cycles() {
    assert_layered(&LAUNCHER);
}

#[test]
fn mpisee_through_imports_downwards_without_cycles() {
    assert_layered(&THROUGH);
}

#[test]
fn an_import_upwards_and_a_cycle_are_found() {
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let pairs = [("memory::registry", "tracer"), ("tracer", "counting"), ("counting", "memory::registry")];
    let imports: BTreeMap<Module, BTreeSet<Module>> =
        pairs.iter().map(|(from, to)| (module(from), BTreeSet::from([module(to)]))).collect();
    assert_eq!(upwards(&GPU_TRACER, &imports), ["memory::registry imports from tracer"]);
    assert_eq!(cycles(&imports).len(), 3);
}
