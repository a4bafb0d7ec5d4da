//! Reads the spec: one entry per MPI function, its signature and what a call of it means.
//! The format is described in `xtask/spec/README.md`.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One MPI function.
pub struct Function {
    /// `MPI_Send`.
    pub name: String,
    /// In the order of the C binding.
    pub params: Vec<Param>,
    /// What it returns, as a kind of the standard; `ERROR_CODE` for nearly all.
    pub returns: String,
    /// Whether the C binding ends in `...`.
    pub variadic: bool,
    /// What a call means to the profiler; `None` for functions that are not interposed.
    pub meaning: Option<Meaning>,
    /// The kind of operation it counts as; `None` for functions that count nothing.
    pub kind: Option<OperationKind>,
}

/// One parameter.
pub struct Param {
    /// As in the standard.
    pub name: String,
    /// The standard's kind: `POLYXFER_NUM_ELEM_NNI`.
    pub kind: String,
    /// Whether the call reads or writes it.
    pub direction: Direction,
    /// Whether it is an array.
    pub array: bool,
    /// Whether only the large-count variant has it.
    pub large_only: bool,
}

/// Direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Read by the call.
    In,
    /// Written by the call.
    Out,
    /// Both.
    InOut,
}

/// What a call means.
pub enum Meaning {
    /// It has a body of its own in `mpisee-rs/src/by_hand/`, with these arguments.
    ByHand(Vec<Expr>),
    /// It is one of the meanings in `mpisee-rs/src/meaning/`.
    Verb {
        /// The function there.
        verb: String,
        /// Its arguments after the operation.
        args: Vec<Expr>,
    },
}

/// An argument in a meaning.
#[derive(Debug, PartialEq)]
pub enum Expr {
    /// A parameter.
    Param(String),
    /// `count * datatype`: what a count, or an array of counts, says about bytes.
    Block(String, String),
    /// A volume rule with its arguments.
    Volume(String, Vec<Expr>),
}

/// How an operation is grouped in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Sends and receives and what starts them.
    PointToPoint,
    /// Collective operations, neighbourhood ones included.
    Collective,
    /// Waits, tests and what else ends requests.
    Completion,
    /// Probes.
    Probe,
    /// Creation and destruction of communicators.
    Communicator,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    params: String,
    returns: Option<String>,
    meaning: Option<String>,
    kind: Option<OperationKind>,
}

/// Reads every `*.toml` in `directory`; functions come sorted by name.
pub fn read(directory: &Path) -> Result<Vec<Function>> {
    let mut functions = BTreeMap::new();
    for file in std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let entries: BTreeMap<String, Entry> =
            toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        for (name, entry) in entries {
            let function = parse(&name, entry).with_context(|| format!("{name} in {}", path.display()))?;
            ensure!(functions.insert(name.clone(), function).is_none(), "{name} is in the spec twice");
        }
    }
    Ok(functions.into_values().collect())
}

impl Function {
    /// The name without `MPI_`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("MPI_").unwrap_or(&self.name)
    }

    /// Whether the standard has an `_c` variant of it, with counts of type `MPI_Count`.
    pub fn has_large_variant(&self) -> bool {
        self.params.iter().any(|param| param.kind.starts_with("POLY") || param.large_only)
    }

    /// The parameter of that name, which the meaning mentions.
    pub fn param(&self, name: &str) -> &Param {
        let found = self.params.iter().find(|param| param.name == name);
        found.expect("the names in a meaning were checked")
    }

    /// The parameters of the variant.
    pub fn params_of(&self, large: bool) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(move |param| large || !param.large_only)
    }
}

fn parse(name: &str, entry: Entry) -> Result<Function> {
    let mut params = Vec::new();
    let mut variadic = false;
    for text in entry.params.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        if text == "..." {
            variadic = true;
        } else {
            params.push(parse_param(text)?);
        }
    }
    let meaning = entry.meaning.as_deref().map(parse_meaning).transpose()?;
    let kind = entry.kind.or(meaning.as_ref().and_then(default_kind));
    let function = Function {
        name: name.to_owned(),
        params,
        returns: entry.returns.unwrap_or_else(|| "ERROR_CODE".to_owned()),
        variadic,
        meaning,
        kind,
    };
    check_names(&function)?;
    Ok(function)
}

fn default_kind(meaning: &Meaning) -> Option<OperationKind> {
    let Meaning::Verb { verb, .. } = meaning else { return None };
    match verb.as_str() {
        "collective" | "start_collective" => Some(OperationKind::Collective),
        _ => Some(OperationKind::PointToPoint),
    }
}

fn parse_param(text: &str) -> Result<Param> {
    let (name, rest) = text.split_once(':').with_context(|| format!("'{text}' has no kind"))?;
    let mut words = rest.split_whitespace().peekable();
    let direction = match words.peek() {
        Some(&"out") => Direction::Out,
        Some(&"inout") => Direction::InOut,
        _ => Direction::In,
    };
    if direction != Direction::In {
        words.next();
    }
    let kind = words.next().with_context(|| format!("'{text}' has no kind"))?;
    let large_only = words.next() == Some("large_only");
    let (kind, array) = match kind.split_once('[') {
        Some((kind, _length)) => (kind, true),
        None => (kind, false),
    };
    Ok(Param { name: name.trim().to_owned(), kind: kind.to_owned(), direction, array, large_only })
}

fn parse_meaning(text: &str) -> Result<Meaning> {
    match parse_expr(text)? {
        Expr::Volume(verb, args) if verb == "by_hand" => Ok(Meaning::ByHand(args)),
        Expr::Volume(verb, args) => Ok(Meaning::Verb { verb, args }),
        _ => bail!("the meaning '{text}' is not of the form verb(arguments)"),
    }
}

fn parse_expr(text: &str) -> Result<Expr> {
    let text = text.trim();
    if let Some((head, rest)) = text.split_once('(') {
        let inner = rest.strip_suffix(')').with_context(|| format!("'{text}' lacks its last bracket"))?;
        let args = split_arguments(inner).into_iter().map(parse_expr).collect::<Result<_>>()?;
        return Ok(Expr::Volume(head.trim().to_owned(), args));
    }
    Ok(match text.split_once('*') {
        Some((count, datatype)) => Expr::Block(count.trim().to_owned(), datatype.trim().to_owned()),
        None => Expr::Param(text.to_owned()),
    })
}

/// Splits at commas outside of brackets.
fn split_arguments(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

/// Every name in a meaning is a parameter of the function.
fn check_names(function: &Function) -> Result<()> {
    fn names<'e>(expr: &'e Expr, found: &mut Vec<&'e str>) {
        match expr {
            Expr::Param(name) => found.push(name),
            Expr::Block(count, datatype) => found.extend([count.as_str(), datatype.as_str()]),
            Expr::Volume(_, args) => args.iter().for_each(|arg| names(arg, found)),
        }
    }
    let Some(meaning) = &function.meaning else { return Ok(()) };
    let (Meaning::Verb { args, .. } | Meaning::ByHand(args)) = meaning;
    let mut found = Vec::new();
    args.iter().for_each(|arg| names(arg, &mut found));
    for name in found {
        ensure!(
            function.params.iter().any(|param| param.name == name),
            "the meaning names '{name}', which is no parameter"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_is_parsed() {
        let parsed = parse_expr("collective(comm, gather(sendbuf, sendcount * sendtype, root))").unwrap();
        let param = |name: &str| Expr::Param(name.to_owned());
        let block = Expr::Block("sendcount".to_owned(), "sendtype".to_owned());
        let gather = Expr::Volume("gather".to_owned(), vec![param("sendbuf"), block, param("root")]);
        assert_eq!(parsed, Expr::Volume("collective".to_owned(), vec![param("comm"), gather]));
    }

    #[test]
    fn a_name_that_is_no_parameter_is_refused() {
        let entry = Entry {
            params: "comm: COMMUNICATOR".to_owned(),
            returns: None,
            meaning: Some("plain(com)".to_owned()),
            kind: None,
        };
        let error = parse("MPI_Probe", entry).err().unwrap().to_string();
        assert!(error.contains("'com'"), "{error}");
    }
}
