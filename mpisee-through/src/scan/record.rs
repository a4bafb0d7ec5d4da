//! Splits a record of a table into fields, and reads the numbers in them.

use super::BadField;
use super::blocks::Columns;
use std::borrow::Cow;

/// Where a field is.
#[derive(Clone, Copy, Debug)]
struct FieldSpan {
    start: usize,
    end: usize,
    /// In the unquoted text instead of the block.
    unquoted: bool,
}

/// Splits records into fields, by the rules of RFC 4180.
#[derive(Debug, Default)]
pub struct Splitter {
    spans: Vec<FieldSpan>,
    /// Fields with quotation marks in them, with each pair as one.
    unquoted: Vec<u8>,
}

/// The error for a row without an end.
const CUT_OFF: &str = "the row has no end; the file may be cut off";

impl Splitter {
    /// Splits the record at this place and says where the next one begins.
    pub fn split(&mut self, block: &[u8], mut at: usize) -> Result<usize, String> {
        self.spans.clear();
        self.unquoted.clear();
        loop {
            if block.get(at) == Some(&b'"') {
                at = self.quoted(block, at)?;
            } else {
                let length = plain_length(&block[at..]).ok_or(CUT_OFF)?;
                let mut end = at + length;
                if block[end] == b'"' {
                    return Err("a quotation mark is in a field that does not begin with one".to_owned());
                }
                // A carriage return before the line feed belongs to the end of the line.
                if block[end] == b'\n' && length > 0 && block[end - 1] == b'\r' {
                    end -= 1;
                }
                self.spans.push(FieldSpan { start: at, end, unquoted: false });
                at += length;
            }
            at += 1;
            if block[at - 1] == b'\n' {
                return Ok(at);
            }
        }
    }

    /// Takes a field in quotation marks; returns the place of the comma or line feed after it.
    fn quoted(&mut self, block: &[u8], open: usize) -> Result<usize, String> {
        let never_closed =
            || "a quotation mark is opened and never closed; the file may be cut off".to_owned();
        let text_start = self.unquoted.len();
        let mut from = open + 1;
        let close = loop {
            let close = from + memchr::memchr(b'"', &block[from..]).ok_or_else(never_closed)?;
            if block.get(close + 1) != Some(&b'"') {
                break close;
            }
            self.unquoted.extend_from_slice(&block[from..=close]);
            from = close + 2;
        };
        self.spans.push(if self.unquoted.len() == text_start {
            FieldSpan { start: open + 1, end: close, unquoted: false }
        } else {
            self.unquoted.extend_from_slice(&block[from..close]);
            FieldSpan { start: text_start, end: self.unquoted.len(), unquoted: true }
        });
        match block.get(close + 1) {
            Some(b',' | b'\n') => Ok(close + 1),
            Some(b'\r') if block.get(close + 2) == Some(&b'\n') => Ok(close + 2),
            Some(_) => Err("a closing quotation mark is not at the end of its field".to_owned()),
            None => Err(CUT_OFF.to_owned()),
        }
    }

    /// Returns whether the record is an empty line.
    pub fn is_blank(&self) -> bool {
        matches!(self.spans[..], [FieldSpan { start, end, .. }] if start == end)
    }

    /// The record that was split, if it has as many fields as the header row.
    pub fn record<'a>(&'a self, block: &'a [u8], columns: &'a Columns) -> Result<Record<'a>, String> {
        if self.spans.len() != columns.count {
            return Err(format!(
                "the row has {} fields instead of {}; the file may be cut off",
                self.spans.len(),
                columns.count
            ));
        }
        Ok(Record { splitter: self, block, columns })
    }
}

/// How many bytes come before a comma, a line feed or a quotation mark.
///
/// PERF: eight at a time, after "Determine if a word has a byte equal to n" in S. E. Anderson, *Bit
/// Twiddling Hacks*: of the bytes that seem to be equal, the lowest is. Fields are too short for
/// memchr.
fn plain_length(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let equal = |word: u64, byte: u8| {
        let zero_where_equal = word ^ (ONES * u64::from(byte));
        zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & (ONES << 7)
    };
    let (words, rest) = text.as_chunks::<8>();
    for (index, &word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(word);
        let ends = equal(word, b',') | equal(word, b'\n') | equal(word, b'"');
        if ends != 0 {
            return Some(8 * index + ends.trailing_zeros() as usize / 8);
        }
    }
    let in_rest = rest.iter().position(|byte| b",\n\"".contains(byte))?;
    Some(text.len() - rest.len() + in_rest)
}

/// The fields of a record by the columns of the format.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    splitter: &'a Splitter,
    block: &'a [u8],
    columns: &'a Columns,
}

impl<'a> Record<'a> {
    /// Returns whether the table has a column, by the column's number in the format.
    pub fn has(&self, column: usize) -> bool {
        self.columns.fields[column].is_some()
    }

    /// The text in a column, by the column's number in the format; empty of a column that the table
    /// lacks.
    pub fn text(&self, column: usize) -> &'a [u8] {
        let Some(field) = self.columns.fields[column] else { return b"" };
        let place = self.splitter.spans[field];
        if place.unquoted {
            &self.splitter.unquoted[place.start..place.end]
        } else {
            &self.block[place.start..place.end]
        }
    }

    /// A whole number.
    pub fn number(&self, column: usize, name: &'static str) -> Result<u64, BadField> {
        let text = self.text(column);
        let mut number: u64 = 0;
        // PERF: 19 digits are below 2^64.
        let (head, tail) = text.split_at(text.len().min(19));
        for &byte in head {
            number = number * 10 + digit(byte).ok_or_else(|| not_a_number(text, name))?;
        }
        for &byte in tail {
            let longer = digit(byte).and_then(|digit| number.checked_mul(10)?.checked_add(digit));
            number = longer.ok_or_else(|| not_a_number(text, name))?;
        }
        if text.is_empty() { Err(not_a_number(text, name)) } else { Ok(number) }
    }

    /// A rank.
    pub fn rank(&self, column: usize, name: &'static str) -> Result<u32, BadField> {
        let bad = || BadField { column: name, why: format!("'{}' is not a rank", shown(self.text(column))) };
        self.number(column, name).ok().and_then(|rank| u32::try_from(rank).ok()).ok_or_else(bad)
    }

    /// A number of operations, of which there is one at least.
    pub fn count(&self, column: usize, name: &'static str) -> Result<u32, BadField> {
        let bad = || BadField {
            column: name,
            why: format!("'{}' is no number from 1 on", shown(self.text(column))),
        };
        let count = self.number(column, name).ok().and_then(|count| u32::try_from(count).ok());
        count.filter(|&count| count > 0).ok_or_else(bad)
    }

    /// A whole number of 32 bits with a sign.
    pub fn signed(&self, column: usize, name: &'static str) -> Result<i32, BadField> {
        let text = self.text(column);
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| BadField { column: name, why: format!("'{}' is not a tag", shown(text)) })
    }

    /// A whole number; none where the field is empty.
    pub fn number_if_any(&self, column: usize, name: &'static str) -> Result<Option<u64>, BadField> {
        if self.text(column).is_empty() { Ok(None) } else { self.number(column, name).map(Some) }
    }

    /// A time in seconds, as nanoseconds; none where the field is empty.
    pub fn nanoseconds_if_any(&self, column: usize, name: &'static str) -> Result<Option<u64>, BadField> {
        if self.text(column).is_empty() { Ok(None) } else { self.nanoseconds(column, name).map(Some) }
    }

    /// A time in seconds, as nanoseconds.
    pub fn nanoseconds(&self, column: usize, name: &'static str) -> Result<u64, BadField> {
        let text = self.text(column);
        plain_nanoseconds(text).map_or_else(|| any_nanoseconds(text, name), Ok)
    }
}

/// Reads the fields of a record one after the other, where they are as the tables are written: in
/// the order of the format, without quotation marks. Anything else is nothing here, and left to
/// [`Splitter`].
///
/// PERF: a number's digits are looked at once, for its value and for its end.
pub struct Cursor<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins with the record at this place.
    pub fn new(block: &'a [u8], at: usize) -> Self {
        Cursor { block, at }
    }

    /// Where the next field begins.
    pub fn at(&self) -> usize {
        self.at
    }

    /// A text that ends with a comma.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.block.get(self.at..)?;
        let length = plain_length(rest)?;
        self.at += length + 1;
        (rest[length] == b',').then(|| &rest[..length])
    }

    /// A whole number that ends with a comma.
    pub fn number(&mut self) -> Option<u64> {
        self.number_before(b',')
    }

    /// A whole number with this after it.
    pub fn number_before(&mut self, end: u8) -> Option<u64> {
        let (number, digits) = self.digits(19)?;
        (digits > 0 && self.next()? == end).then_some(number)
    }

    /// A whole number with this after it, or nothing before it.
    pub fn number_if_any(&mut self, end: u8) -> Option<Option<u64>> {
        if self.block.get(self.at) == Some(&end) {
            self.at += 1;
            return Some(None);
        }
        self.number_before(end).map(Some)
    }

    /// A time in seconds with nine decimals and this after it, as nanoseconds, or nothing before
    /// it.
    pub fn nanoseconds_if_any(&mut self, end: u8) -> Option<Option<u64>> {
        if self.block.get(self.at) == Some(&end) {
            self.at += 1;
            return Some(None);
        }
        self.nanoseconds(end).map(Some)
    }

    /// A whole number of 32 bits with a sign that ends with a comma.
    pub fn signed(&mut self) -> Option<i32> {
        let is_negative = self.block.get(self.at) == Some(&b'-');
        self.at += usize::from(is_negative);
        let size = i64::try_from(self.number()?).ok()?;
        i32::try_from(if is_negative { -size } else { size }).ok()
    }

    /// A time in seconds with nine decimals and this after it, as nanoseconds.
    pub fn nanoseconds(&mut self, end: u8) -> Option<u64> {
        let (whole, digits) = self.digits(10)?;
        let (point, decimals) = (self.next()?, self.block.get(self.at..self.at + 10)?);
        self.at += 10;
        if digits == 0 || point != b'.' || decimals[9] != end {
            return None;
        }
        Some((whole * 100_000_000 + eight_digits(*decimals.first_chunk()?)?) * 10 + digit(decimals[8])?)
    }

    /// Digits up to anything else, and how many; none if there are more than `most`, which are
    /// below 20.
    fn digits(&mut self, most: usize) -> Option<(u64, usize)> {
        let mut number: u64 = 0;
        for (count, &byte) in self.block.get(self.at..)?.iter().enumerate() {
            let Some(digit) = digit(byte) else {
                self.at += count;
                return Some((number, count));
            };
            if count == most {
                return None;
            }
            number = number * 10 + digit;
        }
        None
    }

    fn next(&mut self) -> Option<u8> {
        self.at += 1;
        self.block.get(self.at - 1).copied()
    }
}

/// `12.345678901`, as the tables are written: exact.
fn plain_nanoseconds(text: &[u8]) -> Option<u64> {
    let (whole, fraction) = text.split_at_checked(text.len().checked_sub(10)?)?;
    let (&[b'.', last], eight) = (&[fraction[0], fraction[9]], fraction[1..9].first_chunk()?) else {
        return None;
    };
    // 10 digits and 9 more are below 2^64.
    if whole.is_empty() || whole.len() > 10 {
        return None;
    }
    let mut number: u64 = 0;
    for &byte in whole {
        number = number * 10 + digit(byte)?;
    }
    Some((number * 100_000_000 + eight_digits(*eight)?) * 10 + digit(last)?)
}

fn digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// PERF: eight digits at a time, pairs, then fours, then all: D. Lemire, "Quickly parsing eight
/// digits".
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(text);
    let high = 0xf0f0_f0f0_f0f0_f0f0;
    // Of '0' to '9', and of nothing else, the high half is 3 also after adding 6.
    let all_digits = (word & high) | ((word.wrapping_add(0x0606_0606_0606_0606) & high) >> 4);
    if all_digits != 0x3333_3333_3333_3333 {
        return None;
    }
    let digits = word - 0x3030_3030_3030_3030;
    let pairs = digits.wrapping_mul(10) + (digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let next = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    Some(low.wrapping_add(next) >> 32)
}

/// Any other way to write a number, rounded to nanoseconds.
fn any_nanoseconds(text: &[u8], column: &'static str) -> Result<u64, BadField> {
    let bad = |why: &str| BadField { column, why: format!("'{}' is {why}", shown(text)) };
    let seconds: f64 = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| bad("not a number"))?;
    let nanoseconds = (seconds * 1e9).round();
    match nanoseconds {
        _ if !seconds.is_finite() || seconds < 0.0 => Err(bad("not a time in seconds")),
        // 2^63 ns are 292 years.
        _ if nanoseconds >= 9.2e18 => Err(bad("longer than any run")),
        _ => Ok(nanoseconds as u64),
    }
}

fn not_a_number(text: &[u8], column: &'static str) -> BadField {
    let all_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let what = if all_digits { "is beyond 2^64" } else { "is not a whole number" };
    BadField { column, why: format!("'{}' {what}", shown(text)) }
}

/// The text of a field for a message.
pub fn shown(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_end_where_they_end(text in proptest::collection::vec(
            proptest::sample::select(&b"ab\x2d\x2b\x0b\x09\x21\x23\xac\x8a\xa2\0,\n\""[..]), 0..40
        )) {
            prop_assert_eq!(plain_length(&text), text.iter().position(|byte| b",\n\"".contains(byte)));
        }
    }

    proptest! {
        #[test]
        fn eight_digits_are_a_number(text in proptest::collection::vec(b'/'..=b':', 8)) {
            let text: [u8; 8] = text.try_into().unwrap();
            let expected = std::str::from_utf8(&text).unwrap().parse::<u64>().ok();
            prop_assert_eq!(eight_digits(text), expected);
        }

        #[test]
        fn numbers_are_what_they_say(number in any::<u64>()) {
            let text = format!("{:08}", number % 100_000_000);
            prop_assert_eq!(eight_digits(text.as_bytes().try_into().unwrap()), Some(number % 100_000_000));
        }
    }

    #[test]
    fn times_are_exact_as_written() {
        for (text, expected) in [
            ("0.000000001", Some(1)),
            ("12.345678901", Some(12_345_678_901)),
            ("9999999999.999999999", Some(9_999_999_999_999_999_999)),
            ("0.5", Some(500_000_000)),
            ("1e-3", Some(1_000_000)),
            ("3", Some(3_000_000_000)),
            ("-0.000000001", None),
            ("1.00000000x", None),
            ("", None),
            ("nan", None),
            ("inf", None),
            ("1e300", None),
        ] {
            let read = plain_nanoseconds(text.as_bytes())
                .map_or_else(|| any_nanoseconds(text.as_bytes(), "time_s").ok(), Some);
            assert_eq!(read, expected, "{text}");
        }
    }
}
