//! `io.cost` as Linux's files have it: `ctrl=user rpct=95.00 rlat=75000 …` and `ctrl=user model=linear rbps=… …`.

use crate::document::{Document, Entry};
use crate::low::{is_device, whole};
use crate::nearest;
use crate::text::quoted;
use crate::tunable;
use std::fmt::Write as _;
use std::ops::Range;
use weir_core::control::cost::{Config, Control, KEPT, MODEL, OWN};
use weir_core::tunable::{Tunable, Tuned, Unit};

/// One of the two files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum File {
    /// `io.cost.qos`: targets and bounds of vrate.
    Qos,
    /// `io.cost.model`: what the drive can do.
    Model,
}

/// A word of a line: its name, what is wrong with it, and what to write.
type Wrong = (String, String);

impl File {
    /// The tunables that it sets, `ctrl` first, with their places in the core's table.
    fn tunables(self) -> impl Iterator<Item = (usize, &'static Tunable)> + Clone {
        let places = match self {
            Self::Qos => 0..place(MODEL),
            Self::Model => place(MODEL)..place(OWN),
        };
        let all = Config::TUNABLES.iter().enumerate();
        all.skip(places.start).take(places.len())
    }

    /// Its name as a key.
    fn key(self) -> &'static str {
        match self {
            Self::Qos => "qos",
            Self::Model => "model",
        }
    }

    /// What a tunable is called in it.
    fn word(self, tunable: &Tunable) -> &'static str {
        if tunable.name == self.key() {
            "ctrl"
        } else {
            tunable.name
        }
    }

    /// Its line for a configuration: with the words that are the user's. The numbers of a profile are the kernel's, and writing them
    /// makes them the user's.
    pub(crate) fn line(self, config: &Config) -> String {
        let mut line = String::new();
        for (place, tunable) in self.tunables() {
            if config.keeps(place) {
                continue;
            }
            let value = number(tunable, config.get(place));
            let _ = write!(line, " {}={value}", self.word(tunable));
            if tunable.name == self.key() {
                if config.get(place) == Control::Auto as u64 {
                    break;
                }
                if self == Self::Model {
                    line += " model=linear";
                }
            }
        }
        line[1..].to_owned()
    }

    /// A line with all words and the defaults.
    pub(crate) fn example(self) -> String {
        self.line(&Config {
            qos: Control::User,
            model: Control::User,
            ..Config::default()
        })
    }

    /// Reads a line as Linux does (`ioc_qos_write`, `ioc_cost_model_write`). The last word that says whose values hold decides: `ctrl`, or
    /// a number, which makes them the user's. A word that is left out keeps the value of the drive's profile.
    fn read(self, line: &str, config: &mut Config) -> Result<(), Wrong> {
        let mut user = false;
        let mut stated = Vec::new();
        for (nth, word) in line.split_whitespace().enumerate() {
            if nth == 0 && is_device(word) {
                continue;
            }
            let Some((name, value)) = word.split_once('=') else {
                let what = format!("{} is not a setting", quoted(word));
                return Err((what, format!("write it as {}", self.example())));
            };
            let fixed = match (self, name) {
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

    /// Sets what a line says: whose values hold, and the values of places.
    fn set(self, user: bool, stated: &[(usize, u64)], config: &mut Config) {
        for (place, tunable) in self.tunables() {
            if tunable.name == self.key() {
                config.set(place, u64::from(user));
            } else {
                config.keep(place, user);
            }
        }
        for &(place, value) in stated.iter().filter(|_| user) {
            config.set(place, value);
            config.keep(place, false);
        }
    }
}

/// A tunable in hundredths of a percent.
fn is_percent(tunable: &Tunable) -> bool {
    matches!(tunable.name, "rpct" | "wpct" | "min" | "max")
}

/// A value as Linux writes it: percent with two digits, whole microseconds.
fn number(tunable: &Tunable, value: u64) -> String {
    match tunable.unit {
        Unit::Time => (value / 1_000).to_string(),
        Unit::Word(words) => words[value as usize % words.len()].to_owned(),
        _ if is_percent(tunable) => format!("{}.{:02}", value / 100, value % 100),
        _ => value.to_string(),
    }
}

fn parse(tunable: &Tunable, text: &str) -> Option<u64> {
    match tunable.unit {
        Unit::Time => whole(text)?.checked_mul(1_000),
        Unit::Word(words) => Some(words.iter().position(|w| *w == text)? as u64),
        _ if is_percent(tunable) => {
            let (percent, hundredths) = text.split_once('.').unwrap_or((text, "0"));
            let part = match hundredths.len() {
                1 => whole(hundredths)? * 10,
                2 => whole(hundredths)?,
                _ => return None,
            };
            whole(percent)?.checked_mul(100)?.checked_add(part)
        }
        _ => whole(text),
    }
}

/// What a tunable can be.
pub(crate) fn allowed(tunable: &Tunable) -> String {
    let (least, most) = tunable.bounds;
    let unit = match tunable.unit {
        Unit::Word(words) => return words.join(" or "),
        Unit::Time => " microseconds",
        _ if is_percent(tunable) => " percent",
        _ => "",
    };
    format!(
        "{} to {}{unit}",
        number(tunable, least),
        number(tunable, most)
    )
}

/// Sets what an entry says.
pub(super) fn set<'a>(doc: &mut Document<'a>, entry: &Entry<'a>, file: File, config: &mut Config) {
    let example = format!("\"{}\"", file.example());
    let wanted = ("a line of settings in the form of Linux", &example[..]);
    let read = entry.parsed(doc, wanted, |line| file.read(line, config));
    if read.is_some() && file == File::Qos && config.validate().is_err() {
        let help = "write for example min=50.00 max=150.00";
        doc.report(entry, "min must not be above max", help);
        config.min = config.max;
    }
}

/// The settings of `io.cost.qos` that make Linux's io.cost this one, without the device and whether it is enabled.
pub fn cost_qos(config: &Config) -> String {
    File::Qos.line(config)
}

/// The settings of `io.cost.model`, as [`cost_qos`].
pub fn cost_model(config: &Config) -> String {
    File::Model.line(config)
}

/// The place of a tunable in the core's table.
fn place(name: &str) -> usize {
    let place = Config::TUNABLES.iter().position(|t| t.name == name);
    place.unwrap_or(Config::TUNABLES.len())
}

/// The places of the tunables that no file of Linux has, and that are keys of their own.
pub(crate) fn own_places() -> Range<usize> {
    place(OWN)..place(KEPT)
}

/// The lines of the tunables that no file of Linux has, and what they are.
pub(crate) fn own(config: &Config) -> impl Iterator<Item = (String, &'static Tunable)> {
    own_places().map(|place| {
        let tunable = &Config::TUNABLES[place];
        let value = tunable::toml(tunable, config.get(place));
        (format!("{} = {value}", tunable.name), tunable)
    })
}

/// The tunables of a file with the words for them.
pub(crate) fn words(file: File) -> impl Iterator<Item = (&'static str, &'static Tunable)> {
    file.tunables().map(move |(_, t)| (file.word(t), t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: File, line: &str) -> Result<Config, Wrong> {
        let mut config = Config::default();
        file.read(line, &mut config).map(|()| config)
    }

    #[test]
    fn linuxs_lines_are_read_and_printed() {
        let qos = "ctrl=user rpct=95.00 rlat=75000 wpct=95.00 wlat=150000 min=50.00 max=150.00";
        let config = read(File::Qos, &format!("8:16 enable=1 {qos}")).unwrap();
        assert_eq!(File::Qos.line(&config), qos);
        assert_eq!((config.rpct, config.rlat.as_nanos()), (9_500, 75_000_000));
        let model = "ctrl=user model=linear rbps=174019176 rseqiops=41708 rrandiops=370 wbps=178075866 wseqiops=42705 wrandiops=378";
        let config = read(File::Model, model).unwrap();
        assert_eq!(File::Model.line(&config), model);
        let enabled = read(File::Qos, "8:16 enable=1").unwrap();
        assert_eq!(enabled, Config::default());
        assert_eq!(read(File::Qos, ""), Ok(Config::default()));
    }

    #[test]
    fn the_last_word_decides_and_words_left_out_are_the_drives_own() {
        for (file, line, same) in [
            (
                File::Qos,
                "rpct=5.5 min=33",
                "ctrl=user rpct=5.50 min=33.00",
            ),
            (
                File::Qos,
                "ctrl=auto rpct=95.00 rlat=5000",
                "ctrl=user rpct=95.00 rlat=5000",
            ),
            (File::Qos, "rpct=5.5 ctrl=auto", "ctrl=auto"),
            (File::Qos, "8:16 enable=1 ctrl=user", "ctrl=user"),
            (File::Model, "ctrl=user", "ctrl=user model=linear"),
            (
                File::Model,
                "wbps=0 ctrl=user",
                "ctrl=user model=linear wbps=0",
            ),
            (File::Model, "ctrl=auto model=linear", "ctrl=auto"),
        ] {
            let config = read(file, line).unwrap();
            assert_eq!(file.line(&config), same, "{line}");
            assert_eq!(read(file, same), Ok(config), "{line}");
            assert_eq!(config.validate(), Ok(()), "{line}");
        }
        assert_eq!(read(File::Qos, "rpct=5.5 ctrl=auto"), Ok(Config::default()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |file, line| {
            let (what, help) = read(file, line).unwrap_err();
            format!("{what}; {help}")
        };
        for (line, part) in [
            ("rpct", "\"rpct\" is not a setting"),
            ("rcpt=5", "rpct"),
            ("rpct=101", "0.00 to 100.00 percent"),
            ("rpct=1.234", "0.00 to 100.00 percent"),
            ("rlat=-1", "0 to 60000000 microseconds"),
            ("rlat=99999999999999999999", "microseconds"),
            ("ctrl=me", "auto or user"),
            ("enable=0", "write enable=1"),
            ("rbps=5", "unknown setting"),
            ("min=", "1.00 to 10000.00 percent"),
        ] {
            let said = said(File::Qos, line);
            assert!(said.contains(part), "{line}: {said}");
        }
        assert!(said(File::Model, "model=cubic").contains("model=linear"));
        assert!(said(File::Model, "rbps=5MB").contains("0 to 1000000000000"));
    }
}
