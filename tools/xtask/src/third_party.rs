//! The crates of others in mpisee's programs and libraries: their licences, for whoever copies the
//! programs, and their list.

use crate::root;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The part of the output of `cargo metadata` that is read here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

/// A crate.
#[derive(Deserialize)]
pub struct Package {
    id: String,
    name: String,
    version: String,
    /// An SPDX expression.
    license: Option<String>,
    manifest_path: PathBuf,
    /// The registry; nothing of a crate of this project.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// `null` for what a program has in it, `dev` and `build` for others.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// The crates of others that the programs and libraries have in them, by name.
pub fn packages() -> Result<Vec<Package>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(root()).output().context("starting cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("reading cargo's metadata")?;
    Ok(shipped(metadata))
}

fn shipped(metadata: Metadata) -> Vec<Package> {
    let edges: HashMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let unshipped = ["tools", "tests"].map(|folder| root().join(folder));
    let is_program = |package: &Package| {
        package.source.is_none() && !unshipped.iter().any(|folder| package.manifest_path.starts_with(folder))
    };
    let mut open: Vec<&str> =
        metadata.packages.iter().filter(|it| is_program(it)).map(|it| it.id.as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            let needed = edges.get(id).into_iter().flat_map(|node| &node.deps);
            let inside = needed.filter(|it| it.dep_kinds.iter().any(|it| it.kind.is_none()));
            open.extend(inside.map(|it| it.pkg.as_str()));
        }
    }
    let found: BTreeSet<String> = found.into_iter().map(str::to_owned).collect();
    let mut packages = metadata.packages;
    packages.retain(|package| package.source.is_some() && found.contains(&package.id));
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    packages
}

/// The licences of all, each text once, under the names of its crates.
pub fn licences(packages: &[Package]) -> Result<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let name = format!(
            "{} {} ({})",
            package.name,
            package.version,
            package.license.as_deref().unwrap_or("see below")
        );
        let texts = licence_files(package)?;
        for text in if texts.is_empty() { vec![String::new()] } else { texts } {
            by_text.entry(text).or_default().push(name.clone());
        }
    }
    let mut sections: Vec<_> = by_text.into_iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    let mut out = "mpisee has these crates of others in it.\n".to_owned();
    for (names, text) in sections {
        let text = if text.is_empty() { "The crate has no file with its licence." } else { text.trim() };
        out += &format!("\n{}\n\n{}\n\n{text}\n", "-".repeat(72), names.join("\n"));
    }
    Ok(out)
}

/// The texts of a crate's licences; of several to choose from, MIT's alone.
fn licence_files(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let is_choice = package.license.as_deref().is_some_and(|text| !text.contains(" AND "));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let begins = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE"];
        if path.is_file() && begins.iter().any(|word| name.starts_with(word)) {
            files.push((name, path));
        }
    }
    if is_choice && files.iter().any(|(name, _)| name.contains("MIT")) {
        files.retain(|(name, _)| name.contains("MIT") || name.starts_with("NOTICE"));
    }
    files.sort();
    let texts =
        files.iter().map(|(_, path)| fs::read(path).map(|it| String::from_utf8_lossy(&it).into_owned()));
    texts.collect::<Result<_, _>>().with_context(|| format!("reading the licences in {}", folder.display()))
}

/// The list of the crates, as CycloneDX 1.5 has it (<https://cyclonedx.org/docs/1.5/json/>).
pub fn bill_of_materials(packages: &[Package], version: &str) -> Value {
    let components: Vec<Value> = packages
        .iter()
        .map(|it| {
            let licences: Vec<Value> =
                it.license.iter().map(|text| json!({ "expression": text.replace('/', " OR ") })).collect();
            json!({
                "type": "library",
                "name": it.name,
                "version": it.version,
                "purl": format!("pkg:cargo/{}@{}", it.name, it.version),
                "licenses": licences,
            })
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "mpisee", "version": version } },
        "components": components,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether an SPDX expression allows to use a crate under licences of the list.
    fn is_allowed(expression: &str, list: &[String]) -> bool {
        let expression = expression.trim().replace('/', " OR ");
        let parts = |word: &str| split_outside(&expression, word);
        if let Some(choices) = parts(" OR ") {
            return choices.iter().any(|choice| is_allowed(choice, list));
        }
        if let Some(all) = parts(" AND ") {
            return all.iter().all(|part| is_allowed(part, list));
        }
        match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) => is_allowed(inner, list),
            None => list.contains(&expression),
        }
    }

    /// The parts between the words that are in no parentheses; nothing if there is none.
    fn split_outside(expression: &str, word: &str) -> Option<Vec<String>> {
        let mut parts: Vec<String> = Vec::new();
        let mut open = String::new();
        for part in expression.split(word) {
            open = if open.is_empty() { part.to_owned() } else { open + word + part };
            if open.matches('(').count() == open.matches(')').count() {
                parts.push(std::mem::take(&mut open));
            }
        }
        (parts.len() > 1).then_some(parts)
    }

    /// The licences that deny.toml allows.
    fn allowed() -> Vec<String> {
        let text = fs::read_to_string(root().join("deny.toml")).unwrap();
        let rules: toml::Table = text.parse().unwrap();
        rules["licenses"]["allow"].clone().try_into().unwrap()
    }

    #[test]
    fn crates_have_licences_that_allow_to_copy_them() {
        let (packages, allowed) = (packages().unwrap(), allowed());
        let refused: Vec<_> = packages
            .iter()
            .filter(|it| !it.license.as_deref().is_some_and(|text| is_allowed(text, &allowed)))
            .map(|it| format!("{} {:?}", it.name, it.license))
            .collect();
        assert!(refused.is_empty(), "{refused:?}");
        let registries: BTreeSet<_> = packages.iter().filter_map(|it| it.source.as_deref()).collect();
        assert!(registries.iter().all(|it| it.starts_with("registry+")), "{registries:?}");
        let names: BTreeSet<_> = packages.iter().map(|it| it.name.as_str()).collect();
        assert!(names.contains("libc") && names.contains("comfy-table"), "{names:?}");
        assert!(
            !names.contains("proptest") && !names.contains("bindgen"),
            "programs have none of their tests and tools"
        );
        let text = licences(&packages).unwrap();
        assert!(packages.iter().all(|it| text.contains(&format!("\n{} {} (", it.name, it.version))));
        assert!(text.contains("UNICODE LICENSE"), "both of two licences that hold");
        let bill = bill_of_materials(&packages, "7.8.9");
        assert_eq!(bill["components"].as_array().unwrap().len(), packages.len());
    }

    #[test]
    fn expressions_have_choices() {
        let list = ["MIT", "Zlib"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT AND Zlib) OR GPL-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("(GPL-3.0 OR MIT) AND Zlib", true),
            ("MIT WITH exception", false),
        ] {
            assert_eq!(is_allowed(expression, &list), expected, "{expression}");
        }
    }
}
