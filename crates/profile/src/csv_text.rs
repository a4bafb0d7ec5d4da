//! Rows as CSV text.
//!
//! PERF: a rank may have hundreds of thousands of rows, which are written while a job waits for its
//! end. The csv crate, which reads them, looks at each byte for quotes, those of numbers, too.

use crate::rows::Row;
use serde::ser::{Impossible, Serialize, SerializeStruct, Serializer};
use std::fmt::{self, Display, Write as _};
use std::marker::PhantomData;

/// Rows as CSV text without a header row.
#[derive(Debug)]
pub struct CsvText<R> {
    text: Vec<u8>,
    rows: PhantomData<R>,
}

impl<R> Default for CsvText<R> {
    fn default() -> Self {
        CsvText { text: Vec::new(), rows: PhantomData }
    }
}

/// The text of the first fields of rows that have them in common.
#[derive(Debug)]
pub struct Begin {
    text: Vec<u8>,
    fields: usize,
}

impl Begin {
    /// Makes the text of fields.
    pub fn new(fields: &[&str]) -> Begin {
        let mut text = Vec::new();
        for (before, field) in fields.iter().enumerate() {
            text.extend((before > 0).then_some(b','));
            append_quoted(&mut text, field);
        }
        Begin { text, fields: fields.len() }
    }
}

impl<R: Row> CsvText<R> {
    fn add(&mut self, row: &R) {
        self.add_after(&Begin::new(&[]), row);
    }

    /// Adds a row whose first fields are those of `begin`.
    pub fn add_after(&mut self, begin: &Begin, row: &R) {
        self.text.extend_from_slice(&begin.text);
        let text = RowText { text: &mut self.text, fields: Some(0), begun: begin.fields };
        row.serialize(text).expect("a flat row serialises");
    }

    /// The text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }
}

impl<R: Row> Extend<R> for CsvText<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.add(&row));
    }
}

/// The rows as CSV text without a header row.
pub fn to_csv<R: Row>(rows: &[R]) -> Vec<u8> {
    let mut text = CsvText::default();
    rows.iter().for_each(|row| text.add(row));
    text.into_bytes()
}

/// A row has a field that is no number or text.
#[derive(Debug)]
pub struct NotFlat(String);

impl Display for NotFlat {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for NotFlat {}

impl serde::ser::Error for NotFlat {
    fn custom<T: Display>(message: T) -> Self {
        NotFlat(message.to_string())
    }
}

fn not_flat(kind: &str) -> NotFlat {
    NotFlat(format!("a field of a row is {kind}"))
}

/// A row, or a field of it, that is appended to a text.
struct RowText<'a> {
    text: &'a mut Vec<u8>,
    /// The fields of the row before this one; `None` of a field.
    fields: Option<usize>,
    /// The number of first fields that are written already.
    begun: usize,
}

impl RowText<'_> {
    fn number(self, digits: &str) {
        self.text.extend_from_slice(digits.as_bytes());
    }
}

/// Appends a field; one with a delimiter, a quote or a line break is quoted (RFC 4180, section 2).
fn append_quoted(text: &mut Vec<u8>, field: &str) {
    let bytes = field.as_bytes();
    // PERF: most fields have only larger bytes, which one comparison shows.
    if bytes.iter().all(|&byte| byte > b',')
        || !bytes.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
    {
        return text.extend_from_slice(bytes);
    }
    text.push(b'"');
    for &byte in bytes {
        text.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'"');
}

macro_rules! numbers {
    ($($name:ident: $number:ty = $digits:ty;)*) => {
        $(fn $name(self, number: $number) -> Result<(), NotFlat> {
            self.number(<$digits>::new().format(number));
            Ok(())
        })*
    };
}

impl<'a> Serializer for RowText<'a> {
    type Ok = ();
    type Error = NotFlat;
    type SerializeSeq = Impossible<(), NotFlat>;
    type SerializeTuple = Impossible<(), NotFlat>;
    type SerializeTupleStruct = Impossible<(), NotFlat>;
    type SerializeTupleVariant = Impossible<(), NotFlat>;
    type SerializeMap = Impossible<(), NotFlat>;
    type SerializeStruct = RowText<'a>;
    type SerializeStructVariant = Impossible<(), NotFlat>;

    numbers! {
        serialize_i8: i8 = itoa::Buffer;
        serialize_i16: i16 = itoa::Buffer;
        serialize_i32: i32 = itoa::Buffer;
        serialize_i64: i64 = itoa::Buffer;
        serialize_u8: u8 = itoa::Buffer;
        serialize_u16: u16 = itoa::Buffer;
        serialize_u32: u32 = itoa::Buffer;
        serialize_u64: u64 = itoa::Buffer;
        serialize_f32: f32 = ryu::Buffer;
        serialize_f64: f64 = ryu::Buffer;
    }

    fn serialize_bool(self, is_true: bool) -> Result<(), NotFlat> {
        self.number(if is_true { "true" } else { "false" });
        Ok(())
    }

    fn serialize_char(self, character: char) -> Result<(), NotFlat> {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, field: &str) -> Result<(), NotFlat> {
        append_quoted(self.text, field);
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, field: &T) -> Result<(), NotFlat> {
        let mut text = String::new();
        write!(text, "{field}").map_err(|_| not_flat("without a text"))?;
        self.serialize_str(&text)
    }

    fn serialize_none(self) -> Result<(), NotFlat> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, field: &T) -> Result<(), NotFlat> {
        field.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), NotFlat> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        field: &T,
    ) -> Result<(), NotFlat> {
        field.serialize(self)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<RowText<'a>, NotFlat> {
        if self.fields.is_some() { Ok(self) } else { Err(not_flat(name)) }
    }

    /// Appends a field that needs no quotes.
    fn serialize_bytes(self, field: &[u8]) -> Result<(), NotFlat> {
        self.text.extend_from_slice(field);
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), NotFlat> {
        Err(not_flat("a unit"))
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), NotFlat> {
        Err(not_flat(name))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: &T,
    ) -> Result<(), NotFlat> {
        Err(not_flat(variant))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, NotFlat> {
        Err(not_flat("a list"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, NotFlat> {
        Err(not_flat("a tuple"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, NotFlat> {
        Err(not_flat(name))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, NotFlat> {
        Err(not_flat(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, NotFlat> {
        Err(not_flat("a map"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, NotFlat> {
        Err(not_flat(variant))
    }
}

impl SerializeStruct for RowText<'_> {
    type Ok = ();
    type Error = NotFlat;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, field: &T) -> Result<(), NotFlat> {
        let before = self.fields.unwrap_or(0);
        self.fields = Some(before + 1);
        if before < self.begun {
            return Ok(());
        }
        if before > 0 {
            self.text.push(b',');
        }
        field.serialize(RowText { text: self.text, fields: None, begun: 0 })
    }

    fn end(self) -> Result<(), NotFlat> {
        // A row of one field that is empty would be an empty line, which readers skip.
        if self.fields == Some(1) && self.text.last().is_none_or(|&byte| byte == b'\n') {
            self.text.extend_from_slice(b"\"\"");
        }
        self.text.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{CallRow, Memory, RankRow, RegionRow, Seconds};
    use proptest::prelude::*;

    fn by_csv<R: Row>(rows: &[R]) -> Vec<u8> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        rows.iter().for_each(|row| writer.serialize(row).unwrap());
        writer.into_inner().unwrap()
    }

    proptest! {
        #[test]
        fn rows_are_those_of_the_csv_crate(
            texts in proptest::array::uniform3("[a-z,\"\n\r é]{0,6}"),
            numbers in proptest::array::uniform4(any::<u64>()),
            times_s in proptest::array::uniform3(any::<f64>()),
            is_known in any::<bool>(),
        ) {
            let [comm, region, call] = texts;
            let [calls, bytes, size_min, size_max] = numbers;
            let [time_s, min_s, max_s] = times_s.map(Seconds);
            let rank = calls as u32;
            let memory = if is_known { Memory::Host } else { Memory::Device };
            let site = None;
            let ranks = [RankRow {
                rank,
                host: comm.clone(),
                wall_s: time_s,
                cpu_quota: is_known.then_some(min_s.0),
                mpi_threads: is_known.then_some(rank),
                ..RankRow::default()
            }];
            let regions = [RegionRow {
                rank,
                region: region.clone(),
                wall_s: time_s,
                mpi_s: min_s,
                entries: calls,
                cpu_s: is_known.then_some(max_s),
                involuntary_switches: (!is_known).then_some(bytes),
                mpi_threads: None,
                mpi_thread_s: None,
            }];
            let calls = [CallRow {
                comm, rank, region, call, size_min, size_max, memory, site, calls, bytes, time_s, min_s, max_s,
                time_error_s: is_known.then_some(max_s),
            }];
            prop_assert_eq!(to_csv(&ranks), by_csv(&ranks));
            prop_assert_eq!(to_csv(&regions), by_csv(&regions));
            prop_assert_eq!(to_csv(&calls), by_csv(&calls));
            let mut text = CsvText::default();
            text.add_after(&Begin::new(&[&calls[0].comm, &rank.to_string(), &calls[0].region]), &calls[0]);
            prop_assert_eq!(text.into_bytes(), by_csv(&calls));
        }
    }
}
