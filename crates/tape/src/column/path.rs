//! Paths, each of which takes several columns.

use arrow_array::ArrayRef;
use arrow_schema::Field;
use noctule_model::FilePath;
use noctule_schema::column::Words;

use super::{Column, ColumnResult, Columns};

impl Column for FilePath {
    fn fields(name: &str, out: &mut Vec<Field>) {
        Words::fields(name, out);
        flags(name).iter().for_each(|flag| bool::fields(flag, out));
    }

    fn arrays(values: &[&Self], out: &mut Vec<ArrayRef>) {
        let paths: Vec<Words> = values
            .iter()
            .map(|path| Words(path.bytes.clone()))
            .collect();
        Words::arrays(&paths.iter().collect::<Vec<_>>(), out);
        let columns: [fn(&Self) -> &bool; 3] = [
            |path| &path.truncated,
            |path| &path.deleted,
            |path| &path.unreachable,
        ];
        for column in columns {
            bool::arrays(
                &values.iter().map(|path| column(path)).collect::<Vec<_>>(),
                out,
            );
        }
    }

    fn read(from: &Columns<'_>, name: &str) -> ColumnResult<Vec<Self>> {
        let [truncated, deleted, unreachable] = flags(name);
        let truncated = bool::read(from, &truncated)?;
        let deleted = bool::read(from, &deleted)?;
        let unreachable = bool::read(from, &unreachable)?;
        let paths = Words::read(from, name)?.into_iter().enumerate();
        Ok(paths
            .map(|(row, path)| Self {
                bytes: path.0,
                truncated: truncated[row],
                deleted: deleted[row],
                unreachable: unreachable[row],
            })
            .collect())
    }
}

fn flags(name: &str) -> [String; 3] {
    ["truncated", "deleted", "unreachable"].map(|flag| format!("{name}_{flag}"))
}
