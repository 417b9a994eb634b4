//! The data of an experiment, as in its file: a heading, and a line for each point.

use anyhow::{Context, Result};
use csv::StringRecord;
use serde::{Deserialize, Serialize};

/// Data read from CSV.
pub(crate) struct Data {
    headings: StringRecord,
    records: Vec<StringRecord>,
}

impl Data {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// Bytes that are not CSV.
    pub(crate) fn of(csv: &[u8]) -> Result<Self> {
        let mut reader = csv::Reader::from_reader(csv);
        let headings = reader.headers().context("the data are no CSV")?.clone();
        let records = reader.records().collect::<Result<_, _>>().context("the data are no CSV")?;
        Ok(Self { headings, records })
    }

    /// The names of the columns.
    pub(crate) fn headings(&self) -> Vec<&str> {
        self.headings.iter().collect()
    }

    /// The lines, as written.
    pub(crate) fn records(&self) -> &[StringRecord] {
        &self.records
    }

    /// The points.
    ///
    /// # Errors
    /// Columns of other data.
    pub(crate) fn rows<'a, Row: Deserialize<'a>>(&'a self) -> Result<Vec<Row>> {
        let row = |record: &'a StringRecord| record.deserialize(Some(&self.headings));
        self.records.iter().map(row).collect::<Result<_, _>>().context("the data have other columns")
    }
}

/// The CSV file of `rows`.
pub(super) fn csv<Row: Serialize>(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.serialize(row)).context("the data do not encode as CSV")?;
    writer.into_inner().context("the data do not encode as CSV")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Row<'a> {
        bytes: Option<u32>,
        policy: &'a str,
        iops: f64,
    }

    #[test]
    fn data_are_read_as_they_were_written() {
        let rows = [Row { bytes: None, policy: "paced", iops: 0.1 }, Row { bytes: Some(4), policy: "a, b", iops: 3.0 }];
        let data = Data::of(&csv(&rows).unwrap()).unwrap();
        assert_eq!((data.headings(), data.rows::<Row<'_>>().unwrap()), (vec!["bytes", "policy", "iops"], rows.into()));
    }

    #[test]
    fn data_with_other_columns_are_refused() {
        let data = Data::of(b"bytes,policies\n1,paced\n").unwrap();
        assert_eq!(data.rows::<Row<'_>>().unwrap_err().to_string(), "the data have other columns");
    }
}
