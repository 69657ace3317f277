//! A drive fitted to its sheet, and its figures compared to the published ones.

use crate::fit::search::{CLOSE, REPETITIONS, Tie, search};
use crate::fit::{Error, Figure, Measure};
use weir_config::sheet::{Published, Sheet};
use weir_model::drive::Config;

/// A published figure and the model's.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub figure: Figure,
    /// The published value, and its source.
    pub published: Published,
    /// The model's value: bytes per second or nanoseconds.
    pub model: f64,
}

/// The ties of a sheet.
///
/// # Errors
/// A figure has no experiment, no published value or no tolerance, or a value of the wrong unit.
pub(crate) fn ties(sheet: &Sheet) -> Result<Vec<Tie>, Error> {
    let tie = |fit: &weir_config::sheet::Fit| {
        let published = sheet.figures.iter().find(|f| f.figure == fit.figure);
        let published = published.ok_or_else(|| Error::Unpublished(fit.figure.clone()))?;
        let within = published.within;
        let within = within.ok_or_else(|| Error::Tolerance(fit.figure.clone()))?;
        Ok(Tie {
            parameter: fit.range.parameter,
            from: fit.range.from,
            to: fit.range.to,
            figure: figure(published)?,
            published: published.value,
            tolerance: f64::from(within) / 100.0,
        })
    };
    sheet.fit.iter().map(tie).collect()
}

/// The drive of a sheet with its tied parameters fitted.
///
/// # Errors
/// The sheet ties a parameter to a figure that has no experiment, no published value, no tolerance, or a value of the wrong unit; or
/// a figure cannot be measured on the drive.
pub fn fit(sheet: &Sheet) -> Result<Config, Error> {
    search(&sheet.profile.drive, &ties(sheet)?, CLOSE)
}

/// Compares every published figure of a sheet to that of a drive.
///
/// # Errors
/// As [`fit`].
pub fn compare(sheet: &Sheet, drive: &Config) -> Result<Vec<Row>, Error> {
    sheet.figures.iter().map(|f| row(f, drive)).collect()
}

/// As [`compare`], but for the fitted figures only.
pub(crate) fn compare_fitted(sheet: &Sheet, drive: &Config) -> Result<Vec<Row>, Error> {
    let fitted = sheet.figures.iter().filter(|f| f.within.is_some());
    fitted.map(|f| row(f, drive)).collect()
}

fn row(published: &Published, drive: &Config) -> Result<Row, Error> {
    let figure = figure(published)?;
    Ok(Row {
        figure,
        published: published.clone(),
        model: figure.of(drive, REPETITIONS)?,
    })
}

impl Row {
    /// Relative error of the model's figure; positive if it is too high.
    pub fn off(&self) -> f64 {
        self.model / self.published.value - 1.0
    }

    /// Whether a fitted figure is within its tolerance; `None` for one that was not fitted.
    pub fn holds(&self) -> Option<bool> {
        let within = self.published.within?;
        Some(self.off().abs() <= f64::from(within) / 100.0)
    }
}

/// The experiment of a published figure.
fn figure(published: &Published) -> Result<Figure, Error> {
    let name = &published.figure;
    let figure = Figure::find(name).ok_or_else(|| Error::Figure(name.clone()))?;
    if published.is_time != (figure.measure() == Measure::Time) {
        return Err(Error::Measure(name.clone()));
    }
    Ok(figure)
}
