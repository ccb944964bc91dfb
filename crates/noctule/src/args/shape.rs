//! The options that shape a table.

use clap::Args as ClapArgs;

/// Which columns a table has, and what sorts it.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Shape of the table")]
pub(crate) struct Shape {
    /// These columns, in this order, such as `name,cpu`; with `+` before each they are added to the usual ones
    /// (docs/tables.md has their names)
    #[arg(
        short,
        long,
        value_name = "COLUMNS",
        value_delimiter = ',',
        conflicts_with = "json"
    )]
    pub(crate) columns: Vec<String>,
    /// Sort by this column: the largest at the top, or names from A to Z
    #[arg(long, value_name = "COLUMN", conflicts_with = "json")]
    pub(crate) sort: Option<String>,
    /// All columns and names in full, however narrow the terminal is
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
}
