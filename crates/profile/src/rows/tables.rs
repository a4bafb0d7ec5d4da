//! The list of all tables, in the order in which they are described.

use super::columns::table_description;
use super::{
    ArrivalRow, BinaryRow, CallRow, CollectiveRow, Column, CommRow, CopyRow, DeviceLinkRow, DeviceRow,
    GpuRow, GpuTotalRow, MessageRow, NcclPeerRow, NcclTimeRow, NicRow, NodeRow, OffsetRow, OrderRow,
    OrderRuleRow, OrderStepRow, OrderTimeRow, OutsideRow, OutsideTotalRow, PathRow, PathTotalRow, PeRow,
    PeerRow, RankRow, RegionRow, RegionTotalRow, Row, SiteRow, SiteTotalRow, SpreadRow, StackRow, StagedRow,
    StreamRow, TotalRow, VariableRow, VariableTotalRow,
};

/// A table that a profile may have.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The file's name in the profile directory.
    pub file: &'static str,
    /// The columns, in the order in which they are written.
    pub columns: &'static [Column],
    /// Columns that the tables of earlier formats may lack.
    pub optional: &'static [&'static str],
    about: &'static str,
    row: &'static str,
}

impl Table {
    const fn for_row<R: Row>(row: &'static str) -> Self {
        Table { file: R::FILE, columns: R::COLUMNS, optional: R::OPTIONAL, about: R::ABOUT, row }
    }

    /// The name without `.csv`.
    pub fn name(&self) -> &'static str {
        self.file.trim_end_matches(".csv")
    }

    /// The meaning of a row, in Markdown.
    pub fn description(&self) -> String {
        table_description(self.about)
    }
}

/// Does something with every row type.
pub trait TableVisitor {
    /// The error that ends the visit.
    type Error;

    /// Is called for one row type after another.
    fn table<R: Row>(&mut self) -> Result<(), Self::Error>;
}

macro_rules! tables {
    ($($row:ident),* $(,)?) => {
        /// All tables: those of both layouts, of profiles by rank, and of sums over ranks.
        pub const TABLES: &[Table] = &[$(Table::for_row::<$row>(stringify!($row))),*];

        /// Calls the visitor with the row types of [`TABLES`], in their order.
        pub fn visit_tables<V: TableVisitor>(visitor: &mut V) -> Result<(), V::Error> {
            $(visitor.table::<$row>()?;)*
            Ok(())
        }
    };
}

tables!(
    RankRow,
    CommRow,
    CallRow,
    PeerRow,
    OutsideRow,
    NcclPeerRow,
    NcclTimeRow,
    RegionRow,
    VariableRow,
    ArrivalRow,
    CollectiveRow,
    MessageRow,
    StreamRow,
    OrderRow,
    OrderRuleRow,
    OrderStepRow,
    OrderTimeRow,
    SiteRow,
    PathRow,
    StackRow,
    GpuRow,
    BinaryRow,
    PeRow,
    DeviceRow,
    DeviceLinkRow,
    NicRow,
    CopyRow,
    StagedRow,
    NodeRow,
    TotalRow,
    SpreadRow,
    OffsetRow,
    OutsideTotalRow,
    RegionTotalRow,
    PathTotalRow,
    SiteTotalRow,
    VariableTotalRow,
    GpuTotalRow,
);

/// The file with the rows of a type, by the type's name.
pub(super) fn file_of_row(row: &str) -> &str {
    TABLES.iter().find(|table| table.row == row).map_or(row, |table| table.file)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names(Vec<(&'static str, &'static [&'static str])>);

    impl TableVisitor for Names {
        type Error = std::convert::Infallible;

        fn table<R: Row>(&mut self) -> Result<(), Self::Error> {
            self.0.push((R::FILE, R::columns()));
            Ok(())
        }
    }

    #[test]
    fn described_columns_are_those_that_are_written() {
        let mut names = Names(Vec::new());
        visit_tables(&mut names).unwrap();
        let described = TABLES.iter().map(|table| (table.file, table.columns));
        assert_eq!(names.0.len(), TABLES.len());
        for ((file, columns), (described_file, described)) in names.0.into_iter().zip(described) {
            assert_eq!(file, described_file);
            assert!(described.iter().map(|column| column.name).eq(columns.iter().copied()), "{file}");
        }
    }

    #[test]
    fn names_tell_units() {
        for column in TABLES.iter().flat_map(|table| table.columns) {
            assert_eq!(column.name.ends_with("_s"), column.unit() == Some("s"), "{}", column.name);
            let bytes = ["bytes", "size", "width"].iter().any(|word| column.name.contains(word));
            let is_number_of_bytes = bytes && !column.name.ends_with("_rank") && column.name != "size";
            assert_eq!(column.unit() == Some("bytes"), is_number_of_bytes, "{}", column.name);
        }
    }

    #[test]
    fn descriptions_are_sentences() {
        for table in TABLES {
            for text in table.columns.iter().map(Column::description).chain([table.description()]) {
                assert!(text.ends_with(['.', ')']), "{}: {text}", table.file);
                assert!(!text.contains("[`") && !text.contains("::"), "{}: {text}", table.file);
            }
        }
    }
}
