//! The layers of the recorder: a module imports from its own layer and those below, and no two modules need each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// From below to above. Of what is generated the table of MPI's functions belongs to `mpi`; the exports are on top.
const LAYERS: [&str; 8] =
    ["mpi", "storage", "state", "naming", "recording", "finalize", "wrappers", "exports"];

/// A module by its path, `state::request`.
type Module = Vec<String>;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the recorder's sources").flatten() {
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

fn layer_of(module: &Module) -> usize {
    let name = match (module[0].as_str(), module.get(1).map(String::as_str)) {
        ("generated", Some("pmpi" | "signatures" | "interposed")) => "mpi",
        ("generated", _) => "exports",
        (name, _) => name,
    };
    LAYERS.iter().position(|&layer| layer == name).unwrap_or_else(|| panic!("'{name}' is in no layer"))
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
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    let root = Path::new(&package).join("../mpisee-rs/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.retain(|file| !file.ends_with("lib.rs") && !file.ends_with("tests.rs"));
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

/// Whether `from` needs `to`, by way of others. A module and its parts are one.
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

#[test]
fn imports_go_downwards() {
    let imports = imports();
    assert!(imports.len() > 60, "the recorder has more modules than {}", imports.len());
    let upwards: Vec<String> = imports
        .iter()
        .flat_map(|(module, all)| all.iter().map(move |other| (module, other)))
        .filter(|(module, other)| layer_of(other) > layer_of(module))
        .map(|(module, other)| format!("{} imports from {}", module.join("::"), other.join("::")))
        .collect();
    assert_eq!(upwards, Vec::<String>::new());
}

#[test]
fn no_two_modules_need_each_other() {
    let imports = imports();
    let pairs: Vec<String> = imports
        .iter()
        .flat_map(|(module, all)| all.iter().map(move |other| (module, other)))
        .filter(|(module, other)| !is_part(module, other) && needs(&imports, other, module))
        .map(|(module, other)| format!("{} and {}", module.join("::"), other.join("::")))
        .collect();
    assert_eq!(pairs, Vec::<String>::new());
}
