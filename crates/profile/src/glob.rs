//! Patterns for names: `*` stands for any text, also none and also with `/` in it, `?` for one
//! character.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use wildmatch::WildMatch;

/// A pattern that is matched against whole names.
#[derive(Clone, Debug)]
pub struct Glob(WildMatch);

impl FromStr for Glob {
    type Err = Infallible;

    fn from_str(pattern: &str) -> Result<Self, Infallible> {
        Ok(Glob::new(pattern))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Glob {
    /// Any text is a pattern.
    pub fn new(pattern: &str) -> Self {
        Glob(WildMatch::new(pattern))
    }

    /// Returns whether the pattern covers all of `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_marks_cover_names() {
        let matches = |pattern: &str, name: &str| Glob::new(pattern).matches(name);
        assert!(matches("W_s2.*", "W_s2.0"));
        assert!(!matches("W_s2.*", "W_s21.0"));
        assert!(matches("*", ""));
        assert!(matches("", ""));
        assert!(!matches("", "W"));
        assert!(!matches("?", ""));
        assert!(matches("solver/*", "solver/halo/x"));
        assert!(matches("W_?1*", "W_a1_s2.0"));
        assert!(matches("**a*b", "xaab") && !matches("*a*b", "xab "));
    }
}
