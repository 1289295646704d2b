//! The macros that declare settings: [`settings!`](crate::settings!) for the settings, [`words!`](crate::words!) for the words that one may be.

/// Declares settings: makes the plain struct, its defaults, a method that sets each field, and the table of [`Setting`](crate::model::Setting)s.
///
/// A field is its help, its name and type, its default, what it may be (a constructor of [`Kind`](crate::model::Kind)) and who reads it
/// beside the fit ([`Reader`](crate::model::Reader)). The settings of chains are the same for every sampler; a family says their defaults.
///
/// ```
/// use variegate::model::Declared;
///
/// variegate::settings! {
///     /// Settings of a fit.
///     pub struct Settings {
///         /// Prior precision of each weight.
///         prior_precision: f64 = 1.0, in positive(), read by Simulate;
///         /// Whether there is a bias.
///         fit_intercept: bool = true, in switch();
///         sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
///     }
/// }
///
/// let settings = Settings::default().prior_precision(2.0).n_draws(300);
/// assert_eq!((settings.prior_precision, settings.thin), (2.0, 1));
/// assert_eq!(Settings::table()[0].help, "Prior precision of each weight");
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Settings:ident {
            $(
                $(#[doc = $help:literal])+
                $name:ident : $type:ty = $default:expr, in $kind:ident ( $($bound:tt)* ) $(, read by $($reader:ident),+)? ;
            )*
            sampling { n_chains: $chains:expr, n_warmup: $warm_up:expr, n_draws: $draws:expr, thin: $thin:expr }
        }
    ) => {
        $crate::settings! {
            $(#[$meta])*
            $vis struct $Settings {
                $(
                    $(#[doc = $help])+
                    $name : $type = $default, in $kind ( $($bound)* ) $(, read by $($reader),+)? ;
                )*
                /// Independent chains, run in parallel.
                n_chains: u32 = $chains, in whole(1, 1000);
                /// Sweeps of each chain before its first draw.
                n_warmup: u64 = $warm_up, in whole(0, 100_000_000);
                /// Draws kept of each chain.
                n_draws: u64 = $draws, in whole(1, 100_000_000);
                /// Sweeps for each draw that is kept.
                thin: u64 = $thin, in whole(1, 1_000_000);
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Settings:ident {
            $(
                $(#[doc = $help:literal])+
                $name:ident : $type:ty = $default:expr, in $kind:ident ( $($bound:tt)* ) $(, read by $($reader:ident),+)? ;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        $vis struct $Settings {
            $( $(#[doc = $help])+ $vis $name: $type, )*
        }

        impl Default for $Settings {
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        #[allow(dead_code)] // not every family needs all that is made here
        impl $Settings {
            $(
                $(#[doc = $help])+
                #[must_use]
                $vis fn $name(mut self, value: $type) -> Self {
                    self.$name = value;
                    self
                }
            )*
        }

        impl $crate::model::Declared for $Settings {
            fn table() -> Vec<$crate::model::Setting> {
                let defaults = Self::default();
                vec![$(
                    $crate::model::Setting {
                        name: stringify!($name),
                        kind: $crate::model::Kind::$kind($($bound)*),
                        default: $crate::model::as_value(&defaults.$name),
                        help: concat!($($help),+).trim().trim_end_matches('.'),
                        readers: &[$( $( $crate::model::Reader::$reader ),+ )?],
                    },
                )*]
            }

            fn check_ranges(&self) -> $crate::Result<()> {
                let table = Self::table();
                let mut declared = table.iter();
                $(
                    if let Some(setting) = declared.next() {
                        setting.check_field(&self.$name)?;
                    }
                )*
                Ok(())
            }
        }
    };
}

/// Declares a choice between words: the enum, its words in files and on the command line, and the list of them for [`settings!`](crate::settings!).
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Choice:ident { $( $(#[$about:meta])* $Value:ident = $word:literal ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        $vis enum $Choice {
            $( $(#[$about])* #[serde(rename = $word)] $Value ),+
        }

        #[allow(dead_code)] // not every family needs all that is made here
        impl $Choice {
            /// The words that users choose from.
            $vis const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word that users write.
            $vis fn word(self) -> &'static str {
                match self {
                    $( Self::$Value => $word ),+
                }
            }
        }
    };
}
