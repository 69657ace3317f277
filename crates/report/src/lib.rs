//! Renderers: terminal tables, JSON lines, SVG plots, one self-contained HTML file.
