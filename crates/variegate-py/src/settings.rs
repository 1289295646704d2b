//! The families' tables of settings, and settings on their way in.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};
use variegate::model::{self, FAMILIES, Kind};

use crate::error::raise;

/// Names of the model families.
#[pyfunction]
pub fn families() -> Vec<&'static str> {
    FAMILIES.iter().map(|f| f.name()).collect()
}

/// What a family is and which settings it has: `title`, `about`, and `settings`, a list of dictionaries with `name`, `kind`,
/// `allowed`, `help` and `default`.
#[pyfunction]
pub fn family_info<'py>(py: Python<'py>, family: &str) -> PyResult<Bound<'py, PyDict>> {
    let family = model::family(family).map_err(raise)?;
    let table = PyList::empty(py);
    for setting in family.settings() {
        let kind = match setting.kind {
            Kind::Integer { .. } => "integer",
            Kind::Number { .. } => "number",
            Kind::OptionalInteger { .. } => "optional integer",
            Kind::OptionalNumber { .. } => "optional number",
            Kind::Word(_) => "word",
            Kind::Switch => "switch",
            Kind::Text { optional: false, .. } => "text",
            Kind::Text { optional: true, .. } => "optional text",
            Kind::NumberOrText { optional: false, .. } => "number or text",
            Kind::NumberOrText { optional: true, .. } => "optional number or text",
            Kind::Nested { .. } => "nested",
        };
        let entry = PyDict::new(py);
        entry.set_item("name", setting.name)?;
        entry.set_item("kind", kind)?;
        entry.set_item("allowed", setting.kind.allowed())?;
        entry.set_item("help", setting.help)?;
        entry.set_item("default", to_python(py, &setting.default)?)?;
        table.append(entry)?;
    }
    let info = PyDict::new(py);
    info.set_item("title", family.title())?;
    info.set_item("about", family.about())?;
    info.set_item("settings", table)?;
    Ok(info)
}

/// Settings as a dictionary.
pub fn settings_to_python<'py>(py: Python<'py>, settings: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, value) in settings {
        out.set_item(name, to_python(py, value)?)?;
    }
    Ok(out)
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Number(n) => match n.as_u64() {
            Some(i) => i.into_pyobject(py)?.into_any(),
            None => n.as_f64().into_pyobject(py)?,
        },
        Value::String(s) => PyString::new(py, s).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            items.iter().try_for_each(|item| list.append(to_python(py, item)?))?;
            list.into_any()
        }
        Value::Object(table) => settings_to_python(py, table)?.into_any(),
    })
}

/// Settings from a dictionary. A value that JSON has no form for (NaN, an object) travels as its text, so that the one place that
/// checks settings refuses it by name.
pub fn from_python(given: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    given.iter().map(|(name, value)| Ok((name.extract::<String>()?, setting(&value, 0)?))).collect()
}

/// How deep lists and tables may lie in each other: one that holds itself is refused like any other wrong value.
const DEEPEST: usize = 50;

fn setting(value: &Bound<'_, PyAny>, deep: usize) -> PyResult<Value> {
    let text = |v: &Bound<'_, PyAny>| -> PyResult<Value> { Ok(Value::String(v.repr()?.to_string_lossy().into_owned())) };
    let list = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| items.map(|v| setting(&v, deep + 1)).collect::<PyResult<_>>();
    Ok(if value.is_none() {
        Value::Null
    } else if let Ok(b) = value.cast::<PyBool>() {
        Value::Bool(b.is_true())
    } else if value.cast::<PyInt>().is_ok() {
        match value.extract::<i128>().ok().and_then(Number::from_i128) {
            Some(n) => Value::Number(n),
            None => text(value)?,
        }
    } else if let Ok(f) = value.cast::<PyFloat>() {
        match Number::from_f64(f.value()) {
            Some(n) => Value::Number(n),
            None => text(value)?,
        }
    } else if let Ok(s) = value.cast::<PyString>() {
        Value::String(s.to_string_lossy().into_owned())
    } else if deep >= DEEPEST {
        text(value)?
    } else if let Ok(items) = value.cast::<PyList>() {
        Value::Array(list(&mut items.iter())?)
    } else if let Ok(items) = value.cast::<PyTuple>() {
        Value::Array(list(&mut items.iter())?)
    } else if let Ok(table) = value.cast::<PyDict>() {
        let entry = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((name.str()?.to_string(), setting(&value, deep + 1)?));
        Value::Object(table.iter().map(entry).collect::<PyResult<_>>()?)
    } else {
        text(value)?
    })
}
