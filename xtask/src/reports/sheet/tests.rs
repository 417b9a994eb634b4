use super::*;

fn sheet(columns: usize, rows: usize) -> Sheet {
    let mut sheet = Sheet::new((0..columns).map(|column| format!("column {column}")));
    for row in 0..rows {
        let word = |column: usize| Value::Word(format!("the word {}", row * column));
        let number = |column: usize| Value::Number((row * 1_000 + column).to_string());
        sheet.row((0..columns).map(|column| if column % 2 == 0 { word(column) } else { number(column) }));
    }
    sheet
}

#[test]
fn no_line_is_wider_than_asked_and_no_word_breaks() {
    for columns in [40, 60, 80, 100, 132, 160] {
        for (wide, long) in [(1, 1), (2, 3), (4, 20), (7, 5), (11, 64), (18, 3)] {
            let sheet = sheet(wide, long);
            let text = sheet.fit(columns);
            assert!(widest_line(&text) <= columns, "{columns}:\n{text}");
            let shown =
                |word: &str| text.split(|c: char| c.is_whitespace() || "┆│:".contains(c)).any(|one| one == word);
            let words = sheet.rows.iter().flatten().flat_map(|value| value.text().split_whitespace());
            words.for_each(|word| assert!(shown(word), "'{word}' is broken at {columns}:\n{text}"));
        }
    }
}

#[test]
fn a_table_stands_as_it_is_or_wrapped_or_as_blocks() {
    let mut sheet = Sheet::new(["name", "what it is", "number"]);
    sheet.row([
        Value::Word("alice".into()),
        Value::Word("a tenant of the first class".into()),
        Value::Number("7".into()),
    ]);
    sheet.row([Value::Word(String::new()), Value::Word("and more".into()), Value::Number("12345".into())]);
    let whole = "\
┌───────┬─────────────────────────────┬────────┐
│ name  ┆ what it is                  ┆ number │
╞═══════╪═════════════════════════════╪════════╡
│ alice ┆ a tenant of the first class ┆      7 │
│       ┆ and more                    ┆  12345 │
└───────┴─────────────────────────────┴────────┘";
    assert_eq!((sheet.fit(80), sheet.fit(48)), (whole.into(), whole.into()));
    let wrapped = "\
┌───────┬─────────────────┬────────┐
│ name  ┆ what it is      ┆ number │
╞═══════╪═════════════════╪════════╡
│ alice ┆ a tenant of the ┆      7 │
│       ┆ first class     ┆        │
│       ┆ and more        ┆  12345 │
└───────┴─────────────────┴────────┘";
    assert_eq!(sheet.fit(39), wrapped);
    let blocks = "\
name: alice
  what it is: a tenant of
    the first class
  number: 7
  what it is: and more
  number: 12345";
    assert_eq!(sheet.fit(26), blocks);
}

#[test]
fn values_of_blocks_stand_below_each_other() {
    let text = sheet(18, 2).fit(80);
    let places: Vec<_> = text.lines().filter_map(|line| line.find("column 2: ")).collect();
    assert_eq!(places.len(), 2, "{text}");
    assert_eq!(places.first(), places.last(), "{text}");
}
