//! Interns the names and sizes of groups as numbers.

use crate::scan::BadField;
use hashbrown::HashMap;
use std::hash::Hash;

/// Numbers for values, in the order in which they come up.
#[derive(Debug)]
pub struct Numbers<T> {
    numbers: HashMap<T, u32>,
    pub values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    /// The number of the value.
    pub fn number(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }
}

/// Numbers for names, each with the filter's decision from when it was first seen.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<Vec<u8>, (u32, bool)>,
    pub names: Vec<String>,
    /// PERF: neighbouring rows mostly have the same name.
    last: (Vec<u8>, Option<u32>),
}

impl Names {
    /// The number of the name, if the filter takes it; `is_wanted` is called once per name.
    pub fn number(
        &mut self,
        name: &[u8],
        column: &'static str,
        is_wanted: impl FnOnce(&str) -> bool,
    ) -> Result<Option<u32>, BadField> {
        if self.last.0 == name && !self.names.is_empty() {
            return Ok(self.last.1);
        }
        let (number, wanted) = match self.numbers.get(name) {
            Some(&known) => known,
            None => {
                let text = std::str::from_utf8(name)
                    .map_err(|_| BadField { column, why: "the text is not UTF-8".to_owned() })?;
                self.insert(text, is_wanted(text))
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = wanted.then_some(number);
        Ok(self.last.1)
    }

    /// The number of a name that is wanted.
    pub fn number_of(&mut self, name: &str) -> u32 {
        let known = self.numbers.get(name.as_bytes()).copied();
        known.unwrap_or_else(|| self.insert(name, true)).0
    }

    fn insert(&mut self, name: &str, is_wanted: bool) -> (u32, bool) {
        let next = (self.names.len() as u32, is_wanted);
        self.numbers.insert(name.as_bytes().to_vec(), next);
        self.names.push(name.to_owned());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_judged_once() {
        let mut names = Names::default();
        assert_eq!(names.number(b"W", "comm", |_| true), Ok(Some(0)));
        assert_eq!(names.number(b"S", "comm", |_| false), Ok(None));
        assert_eq!(names.number(b"W", "comm", |_| unreachable!()), Ok(Some(0)));
        assert_eq!(names.number(b"S", "comm", |_| unreachable!()), Ok(None));
        assert_eq!(names.names, ["W", "S"]);
        assert_eq!(names.number(b"\xff", "comm", |_| true).unwrap_err().column, "comm");
    }

    #[test]
    fn the_first_name_may_be_empty() {
        let mut names = Names::default();
        assert_eq!(names.number(b"", "region", |_| true), Ok(Some(0)));
        assert_eq!(names.number(b"", "region", |_| unreachable!()), Ok(Some(0)));
    }
}
