//! The rules of a grammar that grows no more: written, read, and walked without expanding them.

use crate::{IS_RULE, Repeated, Symbol};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::fmt;

/// Rules, each a list of symbols with counts. The first is the sequence; a rule uses only rules
/// after itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rules {
    bodies: Vec<Vec<Repeated>>,
    /// Terminals of each rule when it is expanded.
    lengths: Vec<u64>,
}

/// The reason for which bytes are no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end within a number, or a list.
    CutOff,
    /// Bytes follow the last rule.
    TooLong,
    /// A rule uses itself, one before itself, or one that is not there.
    UnknownRule,
    /// A symbol is repeated 0 times, or the sequence is longer than 2⁶³.
    Count,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DecodeError::CutOff => "it is cut off",
            DecodeError::TooLong => "something follows it",
            DecodeError::UnknownRule => "a symbol is neither a step nor a rule after its own",
            DecodeError::Count => "a rule is empty, or repeated 0 times or without end",
        })
    }
}

impl Rules {
    /// The rules with these bodies, the sequence first. Those that it does not use are left out.
    pub fn from_bodies(bodies: &[Vec<Repeated>]) -> Rules {
        let mut order = Vec::new();
        let mut states = vec![0u8; bodies.len()];
        // Rules come after all that use them: in the reverse of the order in which they are left.
        let mut open = vec![(0u32, 0usize)];
        while let Some((rule, at)) = open.last_mut() {
            let body = bodies.get(*rule as usize).map_or(&[][..], Vec::as_slice);
            match body.get(*at) {
                Some((symbol, _)) => {
                    *at += 1;
                    if let Some(inner) = symbol.as_rule()
                        && states[inner as usize] == 0
                    {
                        states[inner as usize] = 1;
                        open.push((inner, 0));
                    }
                }
                None => {
                    order.push(*rule);
                    open.pop();
                }
            }
        }
        order.reverse();
        let mut numbers = vec![0u32; bodies.len()];
        for (number, &rule) in order.iter().enumerate() {
            if let Some(entry) = numbers.get_mut(rule as usize) {
                *entry = number as u32;
            }
        }
        let renumbered = |&(symbol, count): &Repeated| {
            (symbol.as_rule().map_or(symbol, |rule| Symbol::rule(numbers[rule as usize])), count)
        };
        let bodies: Vec<Vec<Repeated>> = order
            .iter()
            .map(|&rule| bodies.get(rule as usize).into_iter().flatten().map(renumbered).collect())
            .collect();
        let lengths = lengths(&bodies).unwrap_or_default();
        Rules { bodies, lengths }
    }

    /// The number of terminals in the sequence.
    pub fn len(&self) -> u64 {
        self.lengths.first().copied().unwrap_or(0)
    }

    /// True of an empty sequence.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bodies of the rules, the sequence first.
    pub fn bodies(&self) -> &[Vec<Repeated>] {
        &self.bodies
    }

    /// How often each rule is expanded in the sequence.
    pub fn uses(&self) -> Vec<u64> {
        let mut uses = vec![0u64; self.bodies.len()];
        if let Some(first) = uses.first_mut() {
            *first = 1;
        }
        for (number, body) in self.bodies.iter().enumerate() {
            for &(symbol, count) in body {
                if let Some(rule) = symbol.as_rule() {
                    uses[rule as usize] += uses[number] * count;
                }
            }
        }
        uses
    }

    /// How often each terminal is in the sequence.
    pub fn terminals(&self) -> BTreeMap<u32, u64> {
        let mut terminals = BTreeMap::new();
        for (body, uses) in self.bodies.iter().zip(self.uses()) {
            for &(symbol, count) in body {
                if let Some(terminal) = symbol.as_terminal() {
                    *terminals.entry(terminal).or_default() += uses * count;
                }
            }
        }
        terminals
    }

    /// The different terminals, in the order of their first places in the sequence.
    pub fn by_first_place(&self) -> Vec<u32> {
        let mut terminals = Vec::new();
        let mut seen = FxHashSet::default();
        let mut is_open = vec![false; self.bodies.len()];
        // The terminals of a rule are seen at its first place.
        let mut open = vec![(0usize, 0usize)];
        while let Some((rule, at)) = open.last_mut() {
            let Some(&(symbol, _)) = self.bodies.get(*rule).and_then(|body| body.get(*at)) else {
                open.pop();
                continue;
            };
            *at += 1;
            match symbol.as_rule() {
                Some(inner) if !std::mem::replace(&mut is_open[inner as usize], true) => {
                    open.push((inner as usize, 0));
                }
                Some(_) => {}
                None if seen.insert(symbol.0) => terminals.push(symbol.0),
                None => {}
            }
        }
        terminals
    }

    /// The sequence with further terminals at its end.
    pub fn followed_by(mut self, terminals: &[u32]) -> Rules {
        if self.bodies.is_empty() {
            self.bodies.push(Vec::new());
        }
        let sequence = &mut self.bodies[0];
        for &terminal in terminals {
            let symbol = Symbol::terminal(terminal);
            match sequence.last_mut() {
                Some((last, count)) if *last == symbol => *count += 1,
                _ => sequence.push((symbol, 1)),
            }
        }
        Rules { lengths: lengths(&self.bodies).unwrap_or_default(), bodies: self.bodies }
    }

    /// The sequence, terminal by terminal.
    pub fn iter(&self) -> Sequence<'_> {
        let open = if self.bodies.is_empty() { Vec::new() } else { vec![Open { rule: 0, at: 0, done: 0 }] };
        Sequence { rules: self, open }
    }

    /// The rules in bytes: LEB128 numbers.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.bodies.len() as u64);
        for body in &self.bodies {
            put(&mut bytes, body.len() as u64);
            for &(symbol, count) in body {
                // Most symbols are not repeated: one bit says so.
                let number = match symbol.as_rule() {
                    Some(rule) => u64::from(rule) << 1 | 1,
                    None => u64::from(symbol.0) << 1,
                };
                put(&mut bytes, number << 1 | u64::from(count > 1));
                if count > 1 {
                    put(&mut bytes, count);
                }
            }
        }
        bytes
    }

    /// The bodies of the rules as text, separated by `;`: `7 r3 r4*100` is terminal 7, rule 3, and
    /// rule 4 a hundred times.
    pub fn to_text(&self) -> String {
        let name = |symbol: Symbol| match symbol.as_rule() {
            Some(rule) => format!("r{rule}"),
            None => symbol.0.to_string(),
        };
        let repeated = |&(symbol, count): &Repeated| match count {
            1 => name(symbol),
            _ => format!("{}*{count}", name(symbol)),
        };
        let body = |body: &Vec<Repeated>| Vec::from_iter(body.iter().map(repeated)).join(" ");
        Vec::from_iter(self.bodies.iter().map(body)).join(";")
    }

    /// Reads rules from such a text.
    pub fn from_text(text: &str) -> Result<Rules, DecodeError> {
        let repeated = |text: &str| {
            let (name, count) = text.split_once('*').unwrap_or((text, "1"));
            let (number, is_rule) = name.strip_prefix('r').map_or((name, false), |number| (number, true));
            let number: u32 = number.parse().ok().filter(|it| it & IS_RULE == 0)?;
            let symbol = if is_rule { Symbol::rule(number) } else { Symbol(number) };
            Some((symbol, count.parse().ok()?))
        };
        let body = |text: &str| text.split(' ').filter(|it| !it.is_empty()).map(repeated).collect();
        let bodies: Option<Vec<Vec<Repeated>>> = text.split(';').map(body).collect();
        Rules::checked(bodies.ok_or(DecodeError::UnknownRule)?)
    }

    /// Rules with these bodies, if there are such.
    fn checked(bodies: Vec<Vec<Repeated>>) -> Result<Rules, DecodeError> {
        let count = bodies.len();
        for (number, body) in bodies.iter().enumerate() {
            // An empty rule could be repeated without end.
            if body.is_empty() && number > 0 || body.iter().any(|&(_, count)| count == 0) {
                return Err(DecodeError::Count);
            }
            let mut rules = body.iter().filter_map(|(symbol, _)| symbol.as_rule());
            if !rules.all(|rule| (number + 1..count).contains(&(rule as usize))) {
                return Err(DecodeError::UnknownRule);
            }
        }
        let lengths = lengths(&bodies).ok_or(DecodeError::Count)?;
        Ok(Rules { bodies, lengths })
    }

    /// Reads rules from all of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Rules, DecodeError> {
        let mut rest = bytes;
        let count = take(&mut rest)?;
        let mut bodies = Vec::new();
        for _ in 0..count {
            let symbols = take(&mut rest)?;
            let mut body = Vec::new();
            for _ in 0..symbols {
                let packed = take(&mut rest)?;
                let symbol = u32::try_from(packed >> 2).ok().filter(|it| it & IS_RULE == 0);
                let symbol = symbol.ok_or(DecodeError::UnknownRule)?;
                let is_rule = packed & 2 != 0;
                let repeated = if packed & 1 != 0 { take(&mut rest)? } else { 1 };
                body.push((if is_rule { Symbol::rule(symbol) } else { Symbol(symbol) }, repeated));
            }
            bodies.push(body);
        }
        if !rest.is_empty() {
            return Err(DecodeError::TooLong);
        }
        Rules::checked(bodies)
    }
}

/// Terminals of each rule; `None` if the sequence is longer than 2⁶³.
fn lengths(bodies: &[Vec<Repeated>]) -> Option<Vec<u64>> {
    let mut lengths = vec![0u64; bodies.len()];
    for number in (0..bodies.len()).rev() {
        let mut length = 0u64;
        for &(symbol, count) in &bodies[number] {
            let once = symbol.as_rule().map_or(1, |rule| lengths[rule as usize]);
            length = length.checked_add(once.checked_mul(count)?).filter(|it| *it < 1 << 63)?;
        }
        lengths[number] = length;
    }
    Some(lengths)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(DecodeError::CutOff)?;
        *rest = after;
        if shift == 63 && byte > 1 {
            return Err(DecodeError::Count);
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(DecodeError::Count)
}

/// A place in a rule.
struct Open {
    rule: u32,
    at: usize,
    /// Repetitions of the symbol there that are over.
    done: u64,
}

/// The terminals of rules, in order.
pub struct Sequence<'r> {
    rules: &'r Rules,
    open: Vec<Open>,
}

impl Iterator for Sequence<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let Open { rule, at, done } = self.open.last_mut()?;
            match self.rules.bodies[*rule as usize].get(*at) {
                None => drop(self.open.pop()),
                Some((_, count)) if done == count => (*at, *done) = (*at + 1, 0),
                Some((symbol, _)) => {
                    *done += 1;
                    match symbol.as_rule() {
                        Some(inner) => self.open.push(Open { rule: inner, at: 0, done: 0 }),
                        None => return symbol.as_terminal(),
                    }
                }
            }
        }
    }
}
