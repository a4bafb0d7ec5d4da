//! Patterns for names: `*` stands for any text, also none and also with `/` in it, `?` for one character.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A pattern that is matched against whole names.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Vec<char>,
}

impl FromStr for Glob {
    type Err = Infallible;

    fn from_str(pattern: &str) -> Result<Self, Infallible> {
        Ok(Glob::new(pattern))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.iter().try_for_each(|c| write!(out, "{c}"))
    }
}

impl Glob {
    /// Any text is a pattern.
    pub fn new(pattern: &str) -> Self {
        Glob { pattern: pattern.chars().collect() }
    }

    /// Whether the pattern covers all of `name`.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at_pattern, mut at_name) = (0, 0);
        // Where to go on when the text after the last `*` does not fit: the star takes one more.
        let mut retry: Option<(usize, usize)> = None;
        while at_name < name.len() {
            match self.pattern.get(at_pattern) {
                Some('*') => {
                    at_pattern += 1;
                    retry = Some((at_pattern, at_name));
                }
                Some(&expected) if expected == '?' || expected == name[at_name] => {
                    at_pattern += 1;
                    at_name += 1;
                }
                _ => match retry {
                    Some((after_star, taken)) => {
                        retry = Some((after_star, taken + 1));
                        at_pattern = after_star;
                        at_name = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        self.pattern[at_pattern..].iter().all(|&rest| rest == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern).matches(name)
    }

    /// The definition, without a thought for speed.
    fn reference(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), None) => reference(rest, name),
            (Some(('*', rest)), Some((_, tail))) => reference(rest, name) || reference(pattern, tail),
            (Some((&p, rest)), Some((&n, tail))) => (p == '?' || p == n) && reference(rest, tail),
            _ => false,
        }
    }

    #[test]
    fn stars_and_marks_cover_names() {
        assert!(matches("W_s2.*", "W_s2.0"));
        assert!(!matches("W_s2.*", "W_s21.0"));
        assert!(matches("*", ""));
        assert!(matches("", ""));
        assert!(!matches("", "W"));
        assert!(matches("solver/*", "solver/halo/x"));
        assert!(matches("W_?1*", "W_a1_s2.0"));
    }

    proptest! {
        #[test]
        fn the_matcher_agrees_with_the_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            let expected = reference(
                &pattern.chars().collect::<Vec<_>>(),
                &name.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }
}
