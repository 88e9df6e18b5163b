use sapwood_cli::numbers::short;

use super::page;
use crate::records::metric::title;
use crate::records::read_records;

#[path = "../../../../program/cli/tests/cli/page.rs"]
mod parts;

use parts::{between, plain, rows, stands_alone};

#[test]
fn each_row_of_the_repositorys_records_is_in_a_table_of_its_case() {
    let records = read_records(&crate::shown::records()).unwrap();
    let text = page(&records, &[]).unwrap();
    stands_alone(&text);
    for (i, record) in records.iter().enumerate() {
        let id = format!("<section id=\"record-{}\">", i + 1);
        let section = text.split(&id).nth(1).unwrap();
        let section = section.split("</section>").next().unwrap();
        assert!(section.starts_with(&format!("<h3>{} ", record.name)));
        let mut left: Vec<_> = record.rows.iter().collect();
        let end = "</details></figure></details>";
        for part in between(section, "<details class=\"case\">", end) {
            let case = plain(between(part, "<summary><b>", "</b>").next().unwrap());
            let table = rows(part);
            left.retain(|row| {
                let column = table[0].iter().position(|head| *head == title(row));
                let engine = table.iter().find(|cells| cells[0] == row.engine);
                let cell = column.zip(engine).map(|(column, engine)| &engine[column]);
                let shown = |cell: &str| {
                    let value = short(row.value);
                    cell == value || cell.starts_with(&format!("{value} ("))
                };
                !(row.case == case && cell.is_some_and(|cell| cell.split("; ").any(shown)))
            });
        }
        assert!(left.is_empty(), "{}: not in a table: {left:?}", record.name);
    }
}
