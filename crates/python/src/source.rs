//! Scenarios, policies and drives. Their sources are built-in names, files, texts, or mappings with
//! the keys of these files.

use crate::error::{failed, usage, wrong};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyType};
use std::path::{Path, PathBuf};
use weir_config::profile::{self, DriveProfile};
use weir_config::scenario::{self, Script};
use weir_config::{Problem, policy};

/// The source of an object, from which the object can be created again in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ObjectSource {
    /// A name, or the path of a file, which is read again.
    Word(String),
    /// A text, and its name in error messages.
    Text(String, String),
}

impl ObjectSource {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(path) = given.extract::<PathBuf>() {
            return Self::word(&path);
        }
        let Ok(mapping) = given.cast::<PyMapping>() else {
            let kind = given.get_type().name()?;
            let reason =
                format!("expected a name, a path or a mapping with the keys of a file, not {kind}");
            return Err(PyTypeError::new_err(reason));
        };
        let json = mapping.py().import("json")?;
        // `json` accepts only dictionaries, so that other mappings are copied to one.
        let plain = mapping.py().get_type::<pyo3::types::PyDict>();
        let text: String = json
            .call_method1("dumps", (plain.call1((mapping,))?,))?
            .extract()?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(usage)?;
        // A mapping is read as a file, so that it is checked by the same rules and has the same
        // error messages.
        let text = toml::to_string(&value).map_err(|e| usage(format!("the mapping: {e}")))?;
        Ok(Self::Text(text, String::new()))
    }

    fn word(path: &Path) -> PyResult<Self> {
        let word = path.to_str().ok_or_else(|| {
            usage(format!(
                "{}: the name must be UTF-8; rename the file",
                path.display()
            ))
        })?;
        // A relative path would mean another file in a process with another working directory.
        let is_file = path.extension().is_some_and(|e| e == "toml" || e == "fio")
            // An inline drive begins with a brace and may contain slashes.
            || (word.contains('/') && !word.starts_with('{'));
        let absolute = is_file.then(|| std::path::absolute(path).ok()).flatten();
        let absolute = absolute.and_then(|path| path.to_str().map(str::to_owned));
        Ok(Self::Word(absolute.unwrap_or_else(|| word.to_owned())))
    }

    /// Returns the callable and the arguments that create the object again: `parse` of the class,
    /// or the class itself.
    fn again<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<PickleCall<'py>> {
        Ok(match self {
            Self::Word(word) => (class.clone().into_any(), vec![word.clone()]),
            Self::Text(text, file) => (class.getattr("parse")?, vec![text.clone(), file.clone()]),
        })
        .map(|(make, words)| {
            (
                make,
                pyo3::types::PyTuple::new(class.py(), words).expect("strings"),
            )
        })
    }
}

/// The callable and the arguments for `pickle`.
type PickleCall<'py> = (Bound<'py, PyAny>, Bound<'py, pyo3::types::PyTuple>);

fn read<T>(read: Result<T, Vec<Problem>>) -> PyResult<T> {
    read.map_err(|problems| wrong(&problems))
}

/// A scenario: a drive, clients, and the promises to them.
#[pyclass(frozen, eq, module = "weir", name = "Scenario")]
#[derive(Debug)]
pub(crate) struct PyScenario {
    source: ObjectSource,
    /// The scripts of the scenario. A suite has several.
    pub(crate) scripts: Vec<Script>,
}

impl PartialEq for PyScenario {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

#[pymethods]
impl PyScenario {
    /// Creates the scenario of a name (`weir.scenarios()` lists them), of a file (.toml, or a job
    /// file of fio), or of a mapping with the keys of a file.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(ObjectSource::of(source)?)
    }

    /// Creates the scenario of a text, whose name in error messages is `file`.
    #[staticmethod]
    #[pyo3(signature = (text, file = ""))]
    fn parse(text: &str, file: &str) -> PyResult<Self> {
        Self::of(ObjectSource::Text(text.into(), file.into()))
    }

    /// The name of the scenario in results. Random numbers depend on it.
    #[getter]
    fn name(&self) -> String {
        let names = self.scripts.iter().map(Script::name);
        names.collect::<Vec<_>>().join("+")
    }

    /// A description of the scenario, in a line.
    #[getter]
    fn about(&self) -> &str {
        self.scripts[0].about()
    }

    /// The names of its cases.
    #[getter]
    fn cases(&self) -> Vec<String> {
        self.scripts[0].cases().to_vec()
    }

    /// The drives on which it runs by default.
    #[getter]
    fn drives(&self) -> Vec<String> {
        self.scripts[0].drives().to_vec()
    }

    /// The policies under which it runs by default.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.scripts[0].policies().to_vec()
    }

    /// Remarks about its file.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let notes = self.scripts.iter().flat_map(Script::notes);
        notes.map(ToString::to_string).collect()
    }

    /// The text of its file, which can be edited.
    #[getter]
    fn text(&self) -> PyResult<String> {
        match &self.source {
            ObjectSource::Text(text, _) => Ok(text.clone()),
            ObjectSource::Word(word) => match scenario::source(word) {
                Some(text) => Ok(text.to_owned()),
                None => Ok(std::fs::read_to_string(word)?),
            },
        }
    }

    fn __repr__(&self) -> String {
        format!("<weir.Scenario {}>", self.name())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleCall<'py>> {
        slf.get().source.again(&slf.get_type())
    }
}

impl PyScenario {
    fn of(source: ObjectSource) -> PyResult<Self> {
        let scripts = match &source {
            ObjectSource::Word(word) => weir::scenarios(word).map_err(failed)?,
            ObjectSource::Text(text, file) => vec![read(scenario::parse(text, file))?],
        };
        Ok(Self { source, scripts })
    }

    /// Returns the only scenario, or an error for a suite.
    pub(crate) fn one(&self) -> PyResult<&Script> {
        match &self.scripts[..] {
            [one] => Ok(one),
            _ => Err(usage(format!(
                "{}: a suite is not supported; use one scenario",
                self.name()
            ))),
        }
    }
}

/// A policy: a way of sharing a drive.
#[pyclass(frozen, eq, module = "weir", name = "Policy")]
#[derive(Debug)]
pub(crate) struct PyPolicy {
    source: ObjectSource,
    pub(crate) policy: weir_config::Policy,
}

impl PartialEq for PyPolicy {
    /// Compares the settings of two policies, whatever their sources.
    fn eq(&self, other: &Self) -> bool {
        policy::print(&self.policy) == policy::print(&other.policy)
    }
}

#[pymethods]
impl PyPolicy {
    /// Creates the policy of a name (`weir.policies()` lists them), of a composition such as "bfq +
    /// io.latency", of a file, or of a mapping with the keys of a file.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(ObjectSource::of(source)?)
    }

    /// Creates the policy of a text, whose name in error messages is `file`.
    #[staticmethod]
    #[pyo3(signature = (text, file = ""))]
    fn parse(text: &str, file: &str) -> PyResult<Self> {
        Self::of(ObjectSource::Text(text.into(), file.into()))
    }

    /// The name of the policy in results.
    #[getter]
    fn name(&self) -> &str {
        &self.policy.name
    }

    /// A description of the policy, in a line.
    #[getter]
    fn about(&self) -> &str {
        self.policy.summary()
    }

    /// The policy as the text of a file, which can be edited.
    #[getter]
    fn text(&self) -> String {
        policy::print(&self.policy)
    }

    fn __repr__(&self) -> String {
        format!("<weir.Policy {}>", self.policy.name)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleCall<'py>> {
        slf.get().source.again(&slf.get_type())
    }
}

impl PyPolicy {
    fn of(source: ObjectSource) -> PyResult<Self> {
        let policy = match &source {
            ObjectSource::Word(word) => weir::policy(word).map_err(failed)?,
            ObjectSource::Text(text, file) => read(policy::read(text, file))?,
        };
        Ok(Self { source, policy })
    }
}

/// A modelled drive.
#[pyclass(frozen, eq, module = "weir", name = "Drive")]
#[derive(Debug)]
pub(crate) struct PyDrive {
    source: ObjectSource,
    pub(crate) profile: DriveProfile,
}

impl PartialEq for PyDrive {
    fn eq(&self, other: &Self) -> bool {
        (&self.profile.name, &self.profile.drive) == (&other.profile.name, &other.profile.drive)
    }
}

#[pymethods]
impl PyDrive {
    /// Creates the drive of a name (`weir.drives()` lists them), of its profile's file, or of a
    /// mapping with the keys of one.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(ObjectSource::of(source)?)
    }

    /// Creates the drive of a profile's text, whose name in error messages is `file`.
    #[staticmethod]
    #[pyo3(signature = (text, file = ""))]
    fn parse(text: &str, file: &str) -> PyResult<Self> {
        Self::of(ObjectSource::Text(text.into(), file.into()))
    }

    /// The name of the drive in results.
    #[getter]
    fn name(&self) -> &str {
        &self.profile.name
    }

    /// A description of the drive, in a line.
    #[getter]
    fn about(&self) -> &str {
        self.profile.summary()
    }

    /// The profile of the drive as the text of a file, which can be edited.
    #[getter]
    fn text(&self) -> String {
        profile::print(&self.profile)
    }

    fn __repr__(&self) -> String {
        format!("<weir.Drive {}>", self.profile.name)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleCall<'py>> {
        slf.get().source.again(&slf.get_type())
    }
}

impl PyDrive {
    fn of(source: ObjectSource) -> PyResult<Self> {
        let profile = match &source {
            ObjectSource::Word(word) => weir::drive(word).map_err(failed)?,
            ObjectSource::Text(text, file) => read(profile::read(text, file))?,
        };
        Ok(Self { source, profile })
    }
}

/// Returns the names of the built-in scenarios.
#[pyfunction]
pub(crate) fn scenarios() -> Vec<&'static str> {
    scenario::names().collect()
}

/// Returns the names of the built-in policies.
#[pyfunction]
pub(crate) fn policies() -> Vec<&'static str> {
    policy::all().iter().map(|p| p.name.as_str()).collect()
}

/// Returns the names of the built-in drives.
#[pyfunction]
pub(crate) fn drives() -> Vec<&'static str> {
    profile::names().collect()
}
