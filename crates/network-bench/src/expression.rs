//! Integer expressions of pattern files: `2 * i + n / p`.

use crate::sizes;
use std::collections::BTreeMap;

/// The variables that an expression may use, with their values.
pub type Variables = BTreeMap<String, i64>;

/// An expression on integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A number.
    Number(i64),
    /// The value of a variable.
    Variable(String),
    /// The negative of an expression.
    Negative(Box<Expression>),
    /// Two expressions combined.
    Binary(Box<Expression>, Operator, Box<Expression>),
}

/// The operators, of which `*`, `/` and `%` bind closer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`, rounded down
    Divide,
    /// `%`, never negative
    Remainder,
}

impl Operator {
    fn binds_closer(self) -> bool {
        matches!(self, Operator::Times | Operator::Divide | Operator::Remainder)
    }

    fn from_token(token: &Token) -> Option<Operator> {
        match token {
            Token::Symbol("+") => Some(Operator::Plus),
            Token::Symbol("-") => Some(Operator::Minus),
            Token::Symbol("*") => Some(Operator::Times),
            Token::Symbol("/") => Some(Operator::Divide),
            Token::Symbol("%") => Some(Operator::Remainder),
            _ => None,
        }
    }
}

impl Expression {
    /// The value.
    pub fn value(&self, variables: &Variables) -> Result<i64, String> {
        match self {
            Expression::Number(number) => Ok(*number),
            Expression::Variable(name) => {
                variables.get(name).copied().ok_or_else(|| unknown(name, variables))
            }
            Expression::Negative(inner) => inner.value(variables)?.checked_neg().ok_or_else(too_large),
            Expression::Binary(left, operator, right) => {
                combined(left.value(variables)?, *operator, right.value(variables)?)
            }
        }
    }
}

fn combined(left: i64, operator: Operator, right: i64) -> Result<i64, String> {
    if right == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
        return Err("a division by zero".to_owned());
    }
    let value = match operator {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Times => left.checked_mul(right),
        Operator::Divide => left.checked_div_euclid(right),
        Operator::Remainder => left.checked_rem_euclid(right),
    };
    value.ok_or_else(too_large)
}

fn too_large() -> String {
    "a number is too large".to_owned()
}

fn unknown(name: &str, variables: &Variables) -> String {
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    format!("there is no variable '{name}' here; there are {}", names.join(", "))
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A number, with its suffix multiplied in.
    Number(i64),
    /// A keyword or a name.
    Word(String),
    /// A sign, such as `->` or `%`.
    Symbol(&'static str),
}

/// Symbols besides words and numbers; longer ones first, so that `->` is not `-` and `>`.
const SYMBOLS: [&str; 12] = ["->", "..", ":", ",", "(", ")", "+", "-", "*", "/", "%", "="];

/// The tokens of a line, up to a `#`.
pub fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut rest = line.split('#').next().unwrap_or_default().trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let length = if let Some(symbol) = symbol {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            // A `-` joins the letters of names such as `all-to-all`, and separates everything else.
            let word = match first.is_ascii_digit() {
                true => leading(rest, |letter| letter.is_ascii_alphanumeric()),
                false => leading(rest, is_part),
            };
            let word = if first.is_ascii_digit() { word } else { joined(word) };
            tokens.push(if first.is_ascii_digit() { number(word)? } else { Token::Word(word.to_owned()) });
            word.len()
        } else {
            return Err(format!("'{first}' has no meaning here"));
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn leading(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|letter: char| !is_part(letter)).unwrap_or(text.len())]
}

/// A word up to the first `-` that no letter follows or that a single letter precedes: `i-1` and
/// `i-j` are subtractions.
fn joined(word: &str) -> &str {
    let is_name = |parts: &[&str]| {
        parts.len() > 1
            && parts.iter().all(|part| part.starts_with(|letter: char| letter.is_ascii_alphabetic()))
            && parts[0].len() > 2
    };
    let parts: Vec<&str> = word.split('-').collect();
    if is_name(&parts) { word } else { parts[0] }
}

fn number(word: &str) -> Result<Token, String> {
    let digits = leading(word, |letter| letter.is_ascii_digit());
    let value = sizes::factor(&word[digits.len()..])
        .and_then(|factor| i64::try_from(factor).ok()?.checked_mul(digits.parse().ok()?));
    value.map(Token::Number).ok_or_else(|| format!("'{word}' is not a number like 512, 64k or 4M"))
}

/// Reads tokens one after the other.
pub struct Reader<'t> {
    rest: &'t [Token],
    /// Operators so far.
    operators: usize,
}

/// Operators of a line; a bound on the stack, too, since each is within the next.
const MOST_OPERATORS: usize = 1000;

/// Parentheses and signs within each other; a bound on the stack.
const DEEPEST: usize = 32;

impl<'t> Reader<'t> {
    /// Reads these tokens.
    pub fn new(tokens: &'t [Token]) -> Self {
        Reader { rest: tokens, operators: 0 }
    }

    /// The next token, which stays the next.
    pub fn peek(&self) -> Option<&'t Token> {
        self.rest.first()
    }

    /// The next token.
    pub fn take(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Takes the next token if it is this symbol.
    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        if is_it {
            self.take();
        }
        is_it
    }

    /// Takes the next token if it is this word.
    pub fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        if is_it {
            self.take();
        }
        is_it
    }

    /// Takes a symbol that has to come next.
    pub fn need_symbol(&mut self, symbol: &str) -> Result<(), String> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.instead(&format!("'{symbol}'"))) }
    }

    /// Takes a word that has to come next, whatever it is.
    pub fn need_name(&mut self, what: &str) -> Result<&'t str, String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.take();
                Ok(word)
            }
            _ => Err(self.instead(what)),
        }
    }

    /// Fails if something is left.
    pub fn need_end(&self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.instead("the end of the line")) }
    }

    /// Says what should come in place of what does.
    pub fn instead(&self, wanted: &str) -> String {
        match self.peek() {
            None => format!("the line ends where {wanted} should be"),
            Some(Token::Number(number)) => format!("{number} is where {wanted} should be"),
            Some(Token::Word(word)) => format!("'{word}' is where {wanted} should be"),
            Some(Token::Symbol(symbol)) => format!("'{symbol}' is where {wanted} should be"),
        }
    }

    /// Takes an expression.
    pub fn expression(&mut self) -> Result<Expression, String> {
        self.sum(0)
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, String> {
        let mut left = self.product(depth)?;
        while let Some(operator) = self.operator(false)? {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.product(depth)?));
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<Expression, String> {
        let mut left = self.factor(depth)?;
        while let Some(operator) = self.operator(true)? {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.factor(depth)?));
        }
        Ok(left)
    }

    fn operator(&mut self, closer: bool) -> Result<Option<Operator>, String> {
        let next = self.peek().and_then(Operator::from_token).filter(|it| it.binds_closer() == closer);
        if next.is_some() {
            self.take();
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                return Err(format!("more than {MOST_OPERATORS} operators are in one line"));
            }
        }
        Ok(next)
    }

    fn factor(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} signs or parentheses are within each other"));
        }
        if self.take_symbol("-") {
            return Ok(Expression::Negative(Box::new(self.factor(depth + 1)?)));
        }
        if self.take_symbol("(") {
            let inner = self.sum(depth + 1)?;
            self.need_symbol(")")?;
            return Ok(inner);
        }
        match self.peek() {
            Some(Token::Number(number)) => {
                self.take();
                Ok(Expression::Number(*number))
            }
            Some(Token::Word(name)) => {
                self.take();
                Ok(Expression::Variable(name.clone()))
            }
            _ => Err(self.instead("a number or a variable")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        let tokens = tokens(text)?;
        let mut reader = Reader::new(&tokens);
        let expression = reader.expression()?;
        reader.need_end()?;
        let names = [("i", 3), ("n", 1024), ("p", 8), ("right", 5)];
        expression.value(&names.map(|(name, value)| (name.to_owned(), value)).into())
    }

    #[test]
    fn expressions_have_the_usual_order() {
        assert_eq!(value("1 + 2 * 3"), Ok(7));
        assert_eq!(value("(1 + 2) * 3"), Ok(9));
        assert_eq!(value("10 - 3 - 2"), Ok(5));
        assert_eq!(value("n/p*i"), Ok(384));
        assert_eq!(value("i-1"), Ok(2));
        assert_eq!(value("-i + p"), Ok(5));
        assert_eq!(value("(i - 5) % p"), Ok(6));
        assert_eq!(value("4k"), Ok(4096));
        assert_eq!(value("right-1"), Ok(4));
    }

    #[test]
    fn wrong_expressions_say_what_is_wrong() {
        assert_eq!(value("1 +"), Err("the line ends where a number or a variable should be".to_owned()));
        assert!(value("j").unwrap_err().contains("there is no variable 'j' here; there are i, n, p"));
        assert_eq!(value("1 / (i - 3)"), Err("a division by zero".to_owned()));
        assert_eq!(value("9223372036854775807 + 1"), Err("a number is too large".to_owned()));
        assert!(value("12x").unwrap_err().contains("'12x' is not a number"));
        assert!(value(&"(".repeat(100)).unwrap_err().contains("within each other"));
        assert!(value(&"-".repeat(100_000)).unwrap_err().contains("within each other"));
        for operator in ["+", "*"] {
            let long = |terms: usize| vec!["1"; terms].join(operator);
            assert!(value(&long(1000)).is_ok());
            assert_eq!(value(&long(200_000)), Err("more than 1000 operators are in one line".to_owned()));
        }
        assert!(value("1 2").unwrap_err().contains("2 is where the end of the line"));
        assert!(value("ü").unwrap_err().contains("'ü' has no meaning"));
    }
}
