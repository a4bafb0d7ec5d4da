//! The language of pattern files (docs/reference/patterns.md).
//!
//! ```text
//! let g = 4                        # ranks of a node; --set g=8 changes it
//! step split using put
//!   for i in 1..g                  # without g
//!     0 -> i : n/g from i*n/g to 0
//!   end
//! step together
//!   MPI_Allreduce on 0..p by 2 : n
//! ```
//!
//! `n` is the size that is measured, in bytes, `p` the number of ranks.

mod evaluate;

use crate::backend::Backend;
use crate::collective::Collective;
use crate::expression::{Expression, Reader, Token, tokens};
use std::fmt;

/// A fault of a pattern file, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The fault, and what to do.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Mistake {}

/// A pattern file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    statements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Statement {
    line: usize,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Parts(Expression),
    Let { name: String, value: Expression },
    Step { name: Option<String>, backend: Option<Backend> },
    For { variable: String, from: Expression, to: Expression, body: Vec<Statement> },
    Message(MessageLine),
    Collective(CollectiveLine),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MessageLine {
    source: Expression,
    destination: Expression,
    bytes: Expression,
    from: Option<Expression>,
    to: Option<Expression>,
    times: Option<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CollectiveLine {
    collective: Collective,
    /// All ranks, if there is none.
    members: Vec<Members>,
    bytes: Expression,
    root: Option<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    One(Expression),
    Range { from: Expression, to: Expression, by: Option<Expression> },
}

/// Words that are no variables.
const KEYWORDS: [&str; 13] =
    ["let", "step", "for", "end", "in", "using", "from", "to", "times", "root", "on", "by", "parts"];
/// Variables that have their value from the run.
const GIVEN: [&str; 2] = ["n", "p"];
/// Loops within each other; a bound on the stack.
const DEEPEST_LOOP: usize = 16;

impl Program {
    /// Reads a pattern file.
    pub fn parse(text: &str) -> Result<Program, Mistake> {
        // The innermost open loop is last; its statements are collected beside it.
        let mut open: Vec<(usize, Kind)> = Vec::new();
        let mut collected: Vec<Vec<Statement>> = vec![Vec::new()];
        for (number, text) in text.lines().enumerate() {
            let line = number + 1;
            let mistake = |what| Mistake { line, what };
            let tokens = tokens(text).map_err(mistake)?;
            if tokens.is_empty() {
                continue;
            }
            let mut reader = Reader::new(&tokens);
            if reader.take_word("end") {
                reader.need_end().map_err(mistake)?;
                close(&mut open, &mut collected).map_err(mistake)?;
                continue;
            }
            let kind = statement(&mut reader).and_then(|kind| reader.need_end().map(|()| kind));
            match kind.map_err(mistake)? {
                Kind::For { .. } if open.len() == DEEPEST_LOOP => {
                    return Err(mistake(format!("more than {DEEPEST_LOOP} loops are within each other")));
                }
                kind @ Kind::For { .. } => {
                    open.push((line, kind));
                    collected.push(Vec::new());
                }
                kind => collected
                    .last_mut()
                    .into_iter()
                    .for_each(|it| it.push(Statement { line, kind: kind.clone() })),
            }
        }
        match open.last() {
            Some(&(line, _)) => Err(Mistake { line, what: "this loop has no 'end'".to_owned() }),
            None => Ok(Program { statements: collected.pop().unwrap_or_default() }),
        }
    }
}

fn close(open: &mut Vec<(usize, Kind)>, collected: &mut Vec<Vec<Statement>>) -> Result<(), String> {
    let (Some((line, Kind::For { variable, from, to, .. })), Some(body)) = (open.pop(), collected.pop())
    else {
        return Err("there is no 'for' that this 'end' could belong to".to_owned());
    };
    let kind = Kind::For { variable, from, to, body };
    collected.last_mut().into_iter().for_each(|it| it.push(Statement { line, kind: kind.clone() }));
    Ok(())
}

fn statement(reader: &mut Reader) -> Result<Kind, String> {
    if reader.take_word("parts") {
        return Ok(Kind::Parts(reader.expression()?));
    }
    if reader.take_word("let") {
        let name = variable(reader)?;
        reader.need_symbol("=")?;
        return Ok(Kind::Let { name, value: reader.expression()? });
    }
    if reader.take_word("step") {
        return step(reader);
    }
    if reader.take_word("for") {
        let variable = variable(reader)?;
        if !reader.take_word("in") {
            return Err(reader.instead("'in'"));
        }
        let from = reader.expression()?;
        reader.need_symbol("..")?;
        return Ok(Kind::For { variable, from, to: reader.expression()?, body: Vec::new() });
    }
    if let Some(Token::Word(word)) = reader.peek()
        && word.starts_with("MPI_")
    {
        return collective(word, reader).map(Kind::Collective);
    }
    message(reader).map(Kind::Message)
}

fn variable(reader: &mut Reader) -> Result<String, String> {
    let name = reader.need_name("the name of a variable")?;
    if KEYWORDS.contains(&name) {
        return Err(format!("'{name}' is a keyword and cannot be a variable"));
    }
    if GIVEN.contains(&name) {
        return Err(format!("'{name}' has its value from the run; take another name"));
    }
    Ok(name.to_owned())
}

fn step(reader: &mut Reader) -> Result<Kind, String> {
    let mut name = None;
    if !reader.take_word("using") {
        if reader.peek().is_none() {
            return Ok(Kind::Step { name, backend: None });
        }
        name = Some(reader.need_name("a name or 'using'")?.to_owned());
        if !reader.take_word("using") {
            return Ok(Kind::Step { name, backend: None });
        }
    }
    let backend = reader.need_name("a backend")?.parse()?;
    Ok(Kind::Step { name, backend: Some(backend) })
}

fn message(reader: &mut Reader) -> Result<MessageLine, String> {
    let source = reader.expression()?;
    reader.need_symbol("->")?;
    let destination = reader.expression()?;
    reader.need_symbol(":")?;
    let bytes = reader.expression()?;
    let mut optional = |word: &str| -> Result<Option<Expression>, String> {
        reader.take_word(word).then(|| reader.expression()).transpose()
    };
    let (from, to, times) = (optional("from")?, optional("to")?, optional("times")?);
    Ok(MessageLine { source, destination, bytes, from, to, times })
}

fn collective(word: &str, reader: &mut Reader) -> Result<CollectiveLine, String> {
    let collective = word.parse()?;
    reader.take();
    let mut members = Vec::new();
    if reader.take_word("on") {
        loop {
            let from = reader.expression()?;
            if reader.take_symbol("..") {
                let to = reader.expression()?;
                let by = reader.take_word("by").then(|| reader.expression()).transpose()?;
                members.push(Members::Range { from, to, by });
            } else {
                members.push(Members::One(from));
            }
            if !reader.take_symbol(",") {
                break;
            }
        }
    }
    reader.need_symbol(":")?;
    let bytes = reader.expression()?;
    let root = reader.take_word("root").then(|| reader.expression()).transpose()?;
    Ok(CollectiveLine { collective, members, bytes, root })
}

#[cfg(test)]
mod tests;
