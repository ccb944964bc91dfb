//! Options for the columns of a table.

use clap::Args as ClapArgs;

/// Columns and sort order of a table.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Table layout")]
pub(crate) struct Shape {
    /// Columns, in this order, such as `name,cpu`; with a `+` before each name they are added to
    /// the default ones (docs/tables.md lists the names)
    #[arg(
        short,
        long,
        value_name = "COLUMNS",
        value_delimiter = ',',
        conflicts_with = "json"
    )]
    pub(crate) columns: Vec<String>,
    /// Sort by this column: largest values first, or names from A to Z
    #[arg(long, value_name = "COLUMN", conflicts_with = "json")]
    pub(crate) sort: Option<String>,
    /// All columns and full names, regardless of the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
}
