//! Reads the spec: one entry per MPI function, its signature and what a call of it means.
//! The format is described in `tools/xtask/spec/README.md`.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One MPI function.
pub struct Function {
    /// `MPI_Send`.
    pub name: String,
    /// The chapter of the standard.
    pub chapter: Chapter,
    /// In the order of the C binding.
    pub params: Vec<Param>,
    /// Return type, as a kind of the standard; `ERROR_CODE` for nearly all.
    pub returns: String,
    /// True if the C binding ends in `...`.
    pub variadic: bool,
    /// Meaning of a call to the profiler; `None` for functions that are not interposed.
    pub meaning: Option<Meaning>,
    /// The kind of operation it counts as; `None` for functions that count nothing.
    pub kind: Option<OperationKind>,
    /// True if every member of the communicator makes the call, in the same order as the others
    /// (MPI 4.1, 6.1), and does so without a request.
    pub is_collective: bool,
    /// Why it is not interposed, where no rule of the list of coverage has the reason.
    pub not_interposed: Option<String>,
    /// The standard's function of which it is a forerunner under another name, and as which it
    /// counts.
    pub counts_as: Option<String>,
}

/// A chapter of the standard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chapter {
    /// Its number in the standard; the first, where a file has parts of two, and `u32::MAX` where
    /// it has none.
    pub number: u32,
    /// `Collective communication (MPI 4.1, chapter 6)`.
    pub title: String,
}

/// One parameter.
#[derive(Clone)]
pub struct Param {
    /// As in the standard.
    pub name: String,
    /// The standard's kind: `POLYXFER_NUM_ELEM_NNI`.
    pub kind: String,
    /// Direction: the call reads or writes it.
    pub direction: Direction,
    /// True for an array.
    pub array: bool,
    /// True if only the large-count variant has it.
    pub large_only: bool,
    /// True if it points to something that is `const` in the headers of some MPIs alone.
    pub const_or_not: bool,
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

/// Meaning of a call.
#[derive(Clone)]
pub enum Meaning {
    /// It has a body in `mpisee-rs/src/wrappers/`.
    ByHand {
        /// The body's name, where several functions share one, whose first argument is the
        /// operation; else the function's own.
        shared: Option<String>,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// It is one of the wrappers in `mpisee-rs/src/wrappers/` that several functions share.
    Verb {
        /// The function there.
        verb: String,
        /// Its arguments after the operation.
        args: Vec<Expr>,
    },
}

impl Meaning {
    /// The arguments that it names.
    pub fn args(&self) -> &[Expr] {
        let (Meaning::Verb { args, .. } | Meaning::ByHand { args, .. }) = self;
        args
    }
}

/// An argument in a meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A parameter.
    Param(String),
    /// `count * datatype`: what a count, an array of counts, or a plain 1 says about bytes.
    Block(String, String),
    /// A volume rule with its arguments.
    Volume(String, Vec<Expr>),
}

/// The group of an operation in reports.
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
    /// Windows, and accesses to the memory of others.
    OneSided,
    /// Files.
    Io,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    params: Option<String>,
    returns: Option<String>,
    meaning: Option<String>,
    kind: Option<OperationKind>,
    #[serde(default)]
    collective: bool,
    not_interposed: Option<String>,
    counts_as: Option<String>,
}

/// Reads every `*.toml` in `directory`; functions come sorted by name.
pub fn read(directory: &Path) -> Result<Vec<Function>> {
    let mut functions = BTreeMap::new();
    let mut forerunners = Vec::new();
    for file in std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let entries: BTreeMap<String, Entry> =
            toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        for (name, entry) in entries {
            if let Entry {
                params: None,
                returns: None,
                meaning: None,
                kind: None,
                collective: false,
                not_interposed: None,
                counts_as: Some(standard),
            } = entry
            {
                forerunners.push((name, standard));
                continue;
            }
            let function = parse_chapter(&text)
                .and_then(|chapter| parse(&name, &chapter, entry))
                .with_context(|| format!("{name} in {}", path.display()))?;
            ensure!(functions.insert(name.clone(), function).is_none(), "{name} is in the spec twice");
        }
    }
    for (name, standard) in forerunners {
        let function = forerunner(&name, &standard, &functions).with_context(|| name.clone())?;
        ensure!(functions.insert(name.clone(), function).is_none(), "{name} is in the spec twice");
    }
    Ok(functions.into_values().collect())
}

/// A function that is in all but its name the one that it counts as.
fn forerunner(name: &str, standard: &str, functions: &BTreeMap<String, Function>) -> Result<Function> {
    let same =
        functions.get(standard).with_context(|| format!("it counts as {standard}, which is not there"))?;
    Ok(Function {
        name: name.to_owned(),
        params: same.params.clone(),
        returns: same.returns.clone(),
        variadic: same.variadic,
        meaning: same.meaning.clone(),
        kind: same.kind,
        is_collective: same.is_collective,
        counts_as: Some(standard.to_owned()),
        chapter: same.chapter.clone(),
        not_interposed: None,
    })
}

impl Function {
    /// The name without `MPI_` or `MPIX_`, of the function as which it counts.
    pub fn short_name(&self) -> &str {
        let name = self.counts_as.as_ref().unwrap_or(&self.name);
        name.strip_prefix("MPI_").or(name.strip_prefix("MPIX_")).unwrap_or(name)
    }

    /// True if it is not in the standard.
    pub fn is_extension(&self) -> bool {
        self.name.starts_with("MPIX_")
    }

    /// True if the standard has an `_c` variant of it, with counts of type `MPI_Count`.
    pub fn has_large_variant(&self) -> bool {
        self.counts_as.is_none()
            && self.params.iter().any(|param| param.kind.starts_with("POLY") || param.large_only)
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

/// The first line of a file names its chapter: `# Collective communication (MPI 4.1, chapter 6)`.
/// What has none in the standard comes last.
fn parse_chapter(text: &str) -> Result<Chapter> {
    let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
    let title = title.context("the first line does not say what the file is about")?;
    let number = title.split_once("chapter").and_then(|(_, after)| {
        after.split(|letter: char| !letter.is_ascii_digit()).find(|word| !word.is_empty())
    });
    let number = number.map_or(Ok(u32::MAX), str::parse)?;
    Ok(Chapter { number, title: title.to_owned() })
}

fn parse(name: &str, chapter: &Chapter, entry: Entry) -> Result<Function> {
    let mut params = Vec::new();
    let mut variadic = false;
    ensure!(entry.counts_as.is_none(), "an entry with `counts_as` has nothing else");
    let text = entry.params.context("it has no `params`")?;
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        if text == "..." {
            variadic = true;
        } else {
            params.push(parse_param(text)?);
        }
    }
    let meaning = entry.meaning.as_deref().map(parse_meaning).transpose()?;
    let kind = entry.kind.or(meaning.as_ref().and_then(default_kind));
    ensure!(
        meaning.is_none() || entry.not_interposed.is_none(),
        "it has a meaning, and a reason why it is not interposed"
    );
    let function = Function {
        name: name.to_owned(),
        chapter: chapter.clone(),
        params,
        returns: entry.returns.unwrap_or_else(|| "ERROR_CODE".to_owned()),
        variadic,
        is_collective: entry.collective
            || kind == Some(OperationKind::Collective) && !begins(name, meaning.as_ref()),
        meaning,
        kind,
        not_interposed: entry.not_interposed,
        counts_as: None,
    };
    check_names(&function)?;
    Ok(function)
}

/// Returns whether the call of a collective operation leaves a request to be completed, or to be
/// started.
fn begins(name: &str, meaning: Option<&Meaning>) -> bool {
    let starts = matches!(meaning, Some(Meaning::Verb { verb, .. }) if verb.starts_with("start_"));
    starts || name.ends_with("_init")
}

fn default_kind(meaning: &Meaning) -> Option<OperationKind> {
    let Meaning::Verb { verb, .. } = meaning else { return None };
    match verb.as_str() {
        "collective" | "start_collective" | "prepare_collective" => Some(OperationKind::Collective),
        "create_window"
        | "free_window"
        | "on_window"
        | "access"
        | "access_and_get"
        | "start_access"
        | "start_access_and_get" => Some(OperationKind::OneSided),
        "group_start" | "group_simulate_end" | "poll" => None,
        "open_file" | "close_file" | "on_file" | "transfer" | "start_transfer" => Some(OperationKind::Io),
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
    let (mut large_only, mut const_or_not) = (false, false);
    for word in words {
        match word {
            "large_only" => large_only = true,
            "const_or_not" => const_or_not = true,
            _ => bail!("'{word}' in '{text}' means nothing"),
        }
    }
    let (kind, array) = match kind.split_once('[') {
        Some((kind, _length)) => (kind, true),
        None => (kind, false),
    };
    let (name, kind) = (name.trim().to_owned(), kind.to_owned());
    Ok(Param { name, kind, direction, array, large_only, const_or_not })
}

fn parse_meaning(text: &str) -> Result<Meaning> {
    match parse_expr(text)? {
        Expr::Volume(verb, args) if verb == "by_hand" => Ok(Meaning::ByHand { shared: None, args }),
        Expr::Volume(verb, args) if verb.starts_with("by_hand.") => {
            Ok(Meaning::ByHand { shared: verb.strip_prefix("by_hand.").map(str::to_owned), args })
        }
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

/// In place of a count: a single element.
pub const ONE: &str = "1";

/// Every name in a meaning is a parameter of the function.
fn check_names(function: &Function) -> Result<()> {
    fn names<'e>(expr: &'e Expr, found: &mut Vec<&'e str>) {
        match expr {
            Expr::Param(name) => found.push(name),
            Expr::Block(count, datatype) if count == ONE => found.push(datatype),
            Expr::Block(count, datatype) => found.extend([count.as_str(), datatype.as_str()]),
            Expr::Volume(_, args) => args.iter().for_each(|arg| names(arg, found)),
        }
    }
    let Some(meaning) = &function.meaning else { return Ok(()) };
    let mut found = Vec::new();
    meaning.args().iter().for_each(|arg| names(arg, &mut found));
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

    fn refused(entry: &str) -> String {
        let chapter = parse_chapter("# Probing (MPI 4.1, chapter 3)\n").unwrap();
        parse("MPI_Probe", &chapter, toml::from_str(entry).unwrap()).err().unwrap().to_string()
    }

    #[test]
    fn a_name_that_is_no_parameter_is_refused() {
        let error = refused("params = 'comm: COMMUNICATOR'\nmeaning = 'plain(com)'");
        assert!(error.contains("'com'"), "{error}");
    }

    #[test]
    fn a_reason_for_leaving_out_what_has_a_meaning_is_refused() {
        let error = refused("params = ''\nmeaning = 'by_hand()'\nnot_interposed = 'local'");
        assert!(error.contains("not interposed"), "{error}");
    }

    #[test]
    fn a_file_of_two_chapters_stands_at_the_first() {
        let chapter = parse_chapter("# Bindings (MPI 4.1, chapters 13 and 19)\n# More\n").unwrap();
        assert_eq!(chapter.number, 13);
        assert!(parse_chapter("# Extensions\n").unwrap() > chapter);
        assert!(parse_chapter("[MPI_Send]\n").is_err());
    }

    #[test]
    fn a_forerunner_is_its_standard_function_under_another_name() {
        let chapter = parse_chapter("# Many (MPI 4.1, chapter 6)\n").unwrap();
        let entry = "params = 'count: POLYXFER_NUM_ELEM_NNI, datatype: DATATYPE, comm: COMMUNICATOR'\n\
                     meaning = 'collective(comm, every_process(count * datatype))'";
        let standard = parse("MPI_Many", &chapter, toml::from_str(entry).unwrap()).unwrap();
        assert!(standard.has_large_variant());
        let functions = BTreeMap::from([(standard.name.clone(), standard)]);
        let early = forerunner("MPIX_Many", "MPI_Many", &functions).unwrap();
        assert_eq!((early.name.as_str(), early.short_name()), ("MPIX_Many", "Many"));
        assert_eq!((early.params.len(), early.kind), (3, Some(OperationKind::Collective)));
        assert!(!early.has_large_variant(), "the extension has the one variant");
        assert!(forerunner("MPIX_None", "MPI_None", &functions).is_err());
    }
}
