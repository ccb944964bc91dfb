//! Enumerations whose values have names.

/// Declares an enumeration whose values have stable names. A single line declares a value, its name
/// and its entry in `ALL`, so that no entry can be forgotten.
macro_rules! named_values {
    ($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$value_doc:meta])* $value:ident: $text:literal,)+
    }) => {
        $(#[$doc])*
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// The number of values.
            pub const COUNT: usize = [$(Self::$value),+].len();

            /// All values, in order of their index.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$value),+];

            /// Returns the value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }

            /// Returns the stable name, which recordings also contain.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}
pub(crate) use named_values;
