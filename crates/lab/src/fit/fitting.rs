//! Fits a drive to its sheet, and compares its figures with the published ones.

use crate::fit::search::{CLOSE, REPETITIONS, Tie, search};
use crate::fit::{DriveFigure, FitError, Measure};
use weir_config::sheet::{PublishedFigure, Sheet};
use weir_model::drive::DriveConfig;

/// A published figure and the figure of the model.
#[derive(Clone, Debug)]
pub struct FigureRow {
    /// The figure that was measured.
    pub figure: DriveFigure,
    /// The published value and its source.
    pub published: PublishedFigure,
    /// The value of the model, in bytes per second or nanoseconds.
    pub model: f64,
}

/// Returns the ties of a sheet.
///
/// # Errors
/// Returns an error if a figure has no experiment, no published value, no tolerance, or a value of
/// the wrong unit.
pub(crate) fn ties(sheet: &Sheet) -> Result<Vec<Tie>, FitError> {
    let tie = |fit: &weir_config::sheet::Fit| {
        let published = sheet.figures.iter().find(|f| f.figure == fit.figure);
        let published = published.ok_or_else(|| FitError::Unpublished(fit.figure.clone()))?;
        let within = published.within;
        let within = within.ok_or_else(|| FitError::Tolerance(fit.figure.clone()))?;
        Ok(Tie {
            parameter: fit.range.parameter,
            from: fit.range.from,
            to: fit.range.to,
            figure: figure(published)?,
            published: published.value,
            // Sheets state tolerances in per cent.
            tolerance: f64::from(within) / 100.0,
        })
    };
    sheet.fit.iter().map(tie).collect()
}

/// Returns the drive of a sheet with its tied parameters fitted.
///
/// # Errors
/// Returns an error if a figure cannot be measured on the drive, or if the sheet ties a parameter
/// to a figure without an experiment, a published value or a tolerance, or with a value of the
/// wrong unit.
pub fn fit(sheet: &Sheet) -> Result<DriveConfig, FitError> {
    search(&sheet.profile.drive, &ties(sheet)?, CLOSE)
}

/// Compares every published figure of a sheet with that of a drive.
///
/// # Errors
/// Returns the errors of [`fit`].
pub fn compare(sheet: &Sheet, drive: &DriveConfig) -> Result<Vec<FigureRow>, FitError> {
    sheet.figures.iter().map(|f| row(f, drive)).collect()
}

/// Compares the fitted figures of a sheet with those of a drive.
pub(crate) fn compare_fitted(
    sheet: &Sheet,
    drive: &DriveConfig,
) -> Result<Vec<FigureRow>, FitError> {
    // Only fitted figures have a tolerance.
    let fitted = sheet.figures.iter().filter(|f| f.within.is_some());
    fitted.map(|f| row(f, drive)).collect()
}

fn row(published: &PublishedFigure, drive: &DriveConfig) -> Result<FigureRow, FitError> {
    let figure = figure(published)?;
    Ok(FigureRow {
        figure,
        published: published.clone(),
        model: figure.of(drive, REPETITIONS)?,
    })
}

impl FigureRow {
    /// Returns the relative error of the model's figure, which is positive if the figure is too
    /// high.
    pub fn relative_error(&self) -> f64 {
        self.model / self.published.value - 1.0
    }

    /// Returns whether a fitted figure is within its tolerance, or `None` if the figure was not
    /// fitted.
    pub fn is_within_tolerance(&self) -> Option<bool> {
        let within = self.published.within?;
        Some(self.relative_error().abs() <= f64::from(within) / 100.0)
    }
}

/// Returns the experiment of a published figure.
fn figure(published: &PublishedFigure) -> Result<DriveFigure, FitError> {
    let name = &published.figure;
    let figure = DriveFigure::find(name).ok_or_else(|| FitError::Figure(name.clone()))?;
    if published.is_time != (figure.measure() == Measure::Time) {
        return Err(FitError::Measure(name.clone()));
    }
    Ok(figure)
}
