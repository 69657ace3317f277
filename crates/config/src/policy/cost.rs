//! Settings of `io.cost` in the format of Linux's files: `ctrl=user rpct=95.00 rlat=75000 …` and
//! `ctrl=user model=linear rbps=… …`.

use crate::document::{Document, KeyEntry};
use crate::low::{is_device, whole};
use crate::nearest;
use crate::text::quoted;
use crate::tunable;
use std::fmt::Write as _;
use std::ops::Range;
use weir_core::control::cost::{Config, Control, KEPT, MODEL, OWN};
use weir_core::tunable::{Tunable, TunableUnit, Tuned};

/// One of Linux's two files with settings of `io.cost`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CostFile {
    /// `io.cost.qos`: the latency targets and the bounds of vrate.
    Qos,
    /// `io.cost.model`: the throughput of the drive.
    Model,
}

/// A problem with a line: a description and the help.
type CostProblem = (String, String);

impl CostFile {
    /// Iterates over the tunables of the file with their indices in the core's table, beginning
    /// with `ctrl`.
    fn tunables(self) -> impl Iterator<Item = (usize, &'static Tunable)> + Clone {
        let places = match self {
            // The core's table begins with the tunables of `qos` and those of `model`. The tunables
            // that Linux does not have follow.
            Self::Qos => 0..place(MODEL),
            Self::Model => place(MODEL)..place(OWN),
        };
        let all = Config::TUNABLES.iter().enumerate();
        all.skip(places.start).take(places.len())
    }

    /// Returns the file's key in the table `[cost]`.
    fn key(self) -> &'static str {
        match self {
            Self::Qos => "qos",
            Self::Model => "model",
        }
    }

    /// Returns the word for a tunable in this file.
    fn word(self, tunable: &Tunable) -> &'static str {
        if tunable.name == self.key() {
            "ctrl"
        } else {
            tunable.name
        }
    }

    /// Returns the line of the file for a configuration. It contains only the values that the user
    /// set. Values of the drive's profile are left out, because writing a value makes it the
    /// user's.
    pub(crate) fn line(self, config: &Config) -> String {
        let mut line = String::new();
        for (place, tunable) in self.tunables() {
            if config.keeps(place) {
                continue;
            }
            let value = number(tunable, config.get(place));
            let _ = write!(line, " {}={value}", self.word(tunable));
            if tunable.name == self.key() {
                // With `ctrl=auto` all values are those of the profile, so nothing follows.
                if config.get(place) == Control::Auto as u64 {
                    break;
                }
                if self == Self::Model {
                    line += " model=linear";
                }
            }
        }
        // Each word was preceded by a space, and `ctrl` is always written.
        line[1..].to_owned()
    }

    /// Returns a line with all words and the defaults.
    pub(crate) fn example(self) -> String {
        self.line(&Config {
            qos: Control::User,
            model: Control::User,
            ..Config::default()
        })
    }

    /// Reads a line in the same way as Linux (`ioc_qos_write`, `ioc_cost_model_write`). The last
    /// word decides whose values apply: `ctrl`, or a number, which makes the values the user's. A
    /// word that is left out keeps the value of the drive's profile.
    fn read(self, line: &str, config: &mut Config) -> Result<(), CostProblem> {
        let mut user = false;
        let mut stated = Vec::new();
        for (nth, word) in line.split_whitespace().enumerate() {
            // Linux requires the number of the device in front. It is accepted, so that a line can
            // be copied.
            if nth == 0 && is_device(word) {
                continue;
            }
            let Some((name, value)) = word.split_once('=') else {
                let what = format!("{} is not a setting", quoted(word));
                return Err((what, format!("write it as {}", self.example())));
            };
            let fixed = match (self, name) {
                // A policy with `io.cost` always has it enabled, and with the only kind of model
                // that Linux has.
                (Self::Qos, "enable") => Some("1"),
                (Self::Model, "model") => Some("linear"),
                _ => None,
            };
            if let Some(only) = fixed {
                if value != only {
                    let what = format!("{} cannot be {}", quoted(name), quoted(value));
                    return Err((what, format!("write {name}={only}, or remove it")));
                }
                continue;
            }
            let found = self.tunables().find(|(_, t)| self.word(t) == name);
            let Some((place, tunable)) = found else {
                let names = self.tunables().map(|(_, t)| self.word(t));
                let what = format!("unknown setting {}", quoted(name));
                return Err((what, nearest::help(name, names)));
            };
            let (least, most) = tunable.bounds;
            match parse(tunable, value) {
                Some(value) if (least..=most).contains(&value) => {
                    let is_control = tunable.name == self.key();
                    user = !is_control || value == Control::User as u64;
                    if !is_control {
                        stated.push((place, value));
                    }
                }
                _ => {
                    let what = format!("{name} cannot be {}", quoted(value));
                    return Err((what, format!("write {name}={}", allowed(tunable))));
                }
            }
        }
        self.set(user, &stated, config);
        Ok(())
    }

    /// Applies a line. `user` is true if the user's values apply, and `stated` has their indices
    /// and values.
    fn set(self, user: bool, stated: &[(usize, u64)], config: &mut Config) {
        for (place, tunable) in self.tunables() {
            if tunable.name == self.key() {
                config.set(place, u64::from(user));
            } else {
                // A value that the line does not state is that of the drive's profile.
                config.keep(place, user);
            }
        }
        for &(place, value) in stated.iter().filter(|_| user) {
            config.set(place, value);
            config.keep(place, false);
        }
    }
}

/// Returns true if a tunable counts in hundredths of a percent.
fn is_percent(tunable: &Tunable) -> bool {
    matches!(tunable.name, "rpct" | "wpct" | "min" | "max")
}

/// Returns the text of a value in the format of Linux: percentages with two decimal places, and
/// times in whole microseconds.
fn number(tunable: &Tunable, value: u64) -> String {
    match tunable.unit {
        TunableUnit::Time => (value / 1_000).to_string(),
        // The remainder prevents a panic for a value that no word has.
        TunableUnit::Word(words) => words[value as usize % words.len()].to_owned(),
        _ if is_percent(tunable) => format!("{}.{:02}", value / 100, value % 100),
        _ => value.to_string(),
    }
}

/// Parses the text of a value in the format of Linux.
fn parse(tunable: &Tunable, text: &str) -> Option<u64> {
    match tunable.unit {
        // Linux counts in microseconds, and the core in nanoseconds.
        TunableUnit::Time => whole(text)?.checked_mul(1_000),
        TunableUnit::Word(words) => Some(words.iter().position(|w| *w == text)? as u64),
        _ if is_percent(tunable) => {
            let (percent, hundredths) = text.split_once('.').unwrap_or((text, "0"));
            let part = match hundredths.len() {
                // `5.5` is 5.50 per cent.
                1 => whole(hundredths)? * 10,
                2 => whole(hundredths)?,
                _ => return None,
            };
            whole(percent)?.checked_mul(100)?.checked_add(part)
        }
        _ => whole(text),
    }
}

/// Returns the range of a tunable for a help text.
pub(crate) fn allowed(tunable: &Tunable) -> String {
    let (least, most) = tunable.bounds;
    let unit = match tunable.unit {
        TunableUnit::Word(words) => return words.join(" or "),
        TunableUnit::Time => " microseconds",
        _ if is_percent(tunable) => " percent",
        _ => "",
    };
    format!(
        "{} to {}{unit}",
        number(tunable, least),
        number(tunable, most)
    )
}

/// Reads an entry with a line of a file into the configuration.
pub(super) fn set<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    file: CostFile,
    config: &mut Config,
) {
    let example = format!("\"{}\"", file.example());
    let wanted = ("a line of settings in the form of Linux", &example[..]);
    let read = entry.parsed(doc, wanted, |line| file.read(line, config));
    if read.is_some() && file == CostFile::Qos && config.validate().is_err() {
        let help = "write for example min=50.00 max=150.00";
        doc.report(entry, "min must not be above max", help);
        // The configuration must be valid for the rest of the policy, although it is not used after
        // a problem.
        config.min = config.max;
    }
}

/// Returns the settings for `io.cost.qos` that make Linux's `io.cost` equal to this configuration,
/// without the device and `enable`.
pub fn cost_qos(config: &Config) -> String {
    CostFile::Qos.line(config)
}

/// Returns the settings for `io.cost.model` in the form of [`cost_qos`].
pub fn cost_model(config: &Config) -> String {
    CostFile::Model.line(config)
}

/// Returns the index of a tunable in the core's table.
fn place(name: &str) -> usize {
    let place = Config::TUNABLES.iter().position(|t| t.name == name);
    place.unwrap_or(Config::TUNABLES.len())
}

/// Returns the indices of the tunables that are in neither file of Linux. They are keys of the
/// table `[cost]`.
pub(crate) fn own_places() -> Range<usize> {
    place(OWN)..place(KEPT)
}

/// Iterates over the tunables that are in neither file of Linux, each with its line in TOML.
pub(crate) fn own(config: &Config) -> impl Iterator<Item = (String, &'static Tunable)> {
    own_places().map(|place| {
        let tunable = &Config::TUNABLES[place];
        let value = tunable::toml(tunable, config.get(place));
        (format!("{} = {value}", tunable.name), tunable)
    })
}

/// Iterates over the tunables of a file with their words.
pub(crate) fn words(file: CostFile) -> impl Iterator<Item = (&'static str, &'static Tunable)> {
    file.tunables().map(move |(_, t)| (file.word(t), t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: CostFile, line: &str) -> Result<Config, CostProblem> {
        let mut config = Config::default();
        file.read(line, &mut config).map(|()| config)
    }

    #[test]
    fn linuxs_lines_are_read_and_printed() {
        let qos = "ctrl=user rpct=95.00 rlat=75000 wpct=95.00 wlat=150000 min=50.00 max=150.00";
        // The device and `enable` are accepted but not printed.
        let config = read(CostFile::Qos, &format!("8:16 enable=1 {qos}")).unwrap();
        assert_eq!(CostFile::Qos.line(&config), qos);
        assert_eq!((config.rpct, config.rlat.as_nanos()), (9_500, 75_000_000));
        let model = "ctrl=user model=linear rbps=174019176 rseqiops=41708 rrandiops=370 wbps=178075866 wseqiops=42705 wrandiops=378";
        let config = read(CostFile::Model, model).unwrap();
        assert_eq!(CostFile::Model.line(&config), model);
        let enabled = read(CostFile::Qos, "8:16 enable=1").unwrap();
        assert_eq!(enabled, Config::default());
        // An empty line changes nothing.
        assert_eq!(read(CostFile::Qos, ""), Ok(Config::default()));
    }

    #[test]
    fn the_last_word_counts_and_missing_words_default_to_the_drives_own() {
        for (file, line, same) in [
            (
                CostFile::Qos,
                "rpct=5.5 min=33",
                "ctrl=user rpct=5.50 min=33.00",
            ),
            (
                CostFile::Qos,
                // A number after `ctrl=auto` makes the values the user's.
                "ctrl=auto rpct=95.00 rlat=5000",
                "ctrl=user rpct=95.00 rlat=5000",
            ),
            // The later `ctrl` discards the values before it.
            (CostFile::Qos, "rpct=5.5 ctrl=auto", "ctrl=auto"),
            (CostFile::Qos, "8:16 enable=1 ctrl=user", "ctrl=user"),
            (CostFile::Model, "ctrl=user", "ctrl=user model=linear"),
            (
                CostFile::Model,
                "wbps=0 ctrl=user",
                "ctrl=user model=linear wbps=0",
            ),
            (CostFile::Model, "ctrl=auto model=linear", "ctrl=auto"),
        ] {
            let config = read(file, line).unwrap();
            // `same` is the shortest line with the same meaning, and reads back as the same
            // configuration.
            assert_eq!(file.line(&config), same, "{line}");
            assert_eq!(read(file, same), Ok(config), "{line}");
            assert_eq!(config.validate(), Ok(()), "{line}");
        }
        assert_eq!(
            read(CostFile::Qos, "rpct=5.5 ctrl=auto"),
            Ok(Config::default())
        );
    }

    #[test]
    fn wrong_lines_are_explained() {
        let said = |file, line| {
            let (what, help) = read(file, line).unwrap_err();
            format!("{what}; {help}")
        };
        for (line, part) in [
            ("rpct", "\"rpct\" is not a setting"),
            // A similar word is proposed.
            ("rcpt=5", "rpct"),
            ("rpct=101", "0.00 to 100.00 percent"),
            ("rpct=1.234", "0.00 to 100.00 percent"),
            ("rlat=-1", "0 to 60000000 microseconds"),
            ("rlat=99999999999999999999", "microseconds"),
            ("ctrl=me", "auto or user"),
            ("enable=0", "write enable=1"),
            // This word belongs to the other file.
            ("rbps=5", "unknown setting"),
            ("min=", "1.00 to 10000.00 percent"),
        ] {
            let said = said(CostFile::Qos, line);
            assert!(said.contains(part), "{line}: {said}");
        }
        assert!(said(CostFile::Model, "model=cubic").contains("model=linear"));
        assert!(said(CostFile::Model, "rbps=5MB").contains("0 to 1000000000000"));
    }
}
