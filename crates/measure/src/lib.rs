//! Histograms, windows, summaries and the result record.
