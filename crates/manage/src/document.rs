//! The configuration as text written by people. Edits preserve its comments and order.
//!
//! [`ConfigDocument::edit`] changes a key and returns the replaced value, with which
//! [`ConfigDocument::put_back`] undoes the edit.

use crate::api::{Edit, JsonTable};
use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

/// The maximum number of names in a key, and of nested tables.
const DEPTH_MAX: usize = 8;

/// A configuration text with its tables and keys.
#[derive(Clone, Debug)]
pub(crate) struct ConfigDocument(DocumentMut);

/// The effect of an edit: its key, and the values before and after it.
#[derive(Clone, Debug)]
pub(crate) struct ReplacedValue {
    pub(crate) key: Vec<String>,
    was: Option<Item>,
    now: Option<Json>,
}

impl ReplacedValue {
    /// Returns the inverse of [`ConfigDocument::put_back`] with this value. Must be called before
    /// it.
    pub(crate) fn inverse(&self, document: &ConfigDocument) -> Self {
        Self {
            key: self.key.clone(),
            was: document.item(&self.key).cloned(),
            now: self.was.as_ref().and_then(json),
        }
    }
}

impl ConfigDocument {
    /// Parses a text that has already been read as a configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|e| e.to_string())
    }

    /// Returns the value of a key as JSON.
    pub(crate) fn get(&self, key: &[String]) -> Option<Json> {
        json(self.item(key)?)
    }

    fn item(&self, key: &[String]) -> Option<&Item> {
        key.iter().try_fold(self.0.as_item(), |item, name| {
            // toml_edit represents a missing item as `Item::None`.
            item.as_table_like()?.get(name).filter(|i| !i.is_none())
        })
    }

    /// Returns the tables of a kind, such as `volume`, with their names and content.
    pub(crate) fn tables(&self, kind: &str) -> Vec<(String, JsonTable)> {
        let tables = self.0.get(kind).and_then(Item::as_table_like);
        let tables = tables.into_iter().flat_map(TableLike::iter);
        let words = |(name, item): (&str, &Item)| match json(item)? {
            Json::Object(words) => Some((name.to_owned(), words)),
            _ => None,
        };
        tables.filter_map(words).collect()
    }

    /// Makes an edit, and returns the value that it replaced.
    pub(crate) fn edit(&mut self, edit: &Edit) -> Result<ReplacedValue, String> {
        let Some((last, path)) = edit.key.split_last() else {
            return Err(
                "an edit requires a key, for example [\"volume\", \"alpha\", \"min\"]".to_owned(),
            );
        };
        if edit.key.len() > DEPTH_MAX {
            return Err(format!("a key can have at most {DEPTH_MAX} names"));
        }
        let replaced = ReplacedValue {
            was: self.item(&edit.key).cloned(),
            now: (!edit.value.is_null()).then(|| edit.value.clone()),
            key: edit.key.clone(),
        };
        let new = (!edit.value.is_null()).then(|| item(&edit.value, edit.key.len()));
        // An invalid value is refused before the document changes.
        let new = new.transpose()?;
        // Removing a missing key must not make the tables above it.
        if new.is_none() && replaced.was.is_none() {
            return Ok(replaced);
        }
        // If a rate is expanded to a table for this edit, undoing it must restore the rate.
        let rate = self.item(path).filter(|item| item.is_str()).cloned();
        let table = self.table(path)?;
        match new {
            None => {
                table.remove(last);
                self.tidy(path);
            }
            Some(new) => {
                put(table, last, new);
                self.align(path);
            }
        }
        Ok(match rate {
            None => replaced,
            Some(rate) => ReplacedValue {
                was: Some(rate),
                now: self.get(path),
                key: path.to_vec(),
            },
        })
    }

    /// Restores the value that an edit replaced. Returns false if the key has been changed since.
    pub(crate) fn put_back(&mut self, replaced: &ReplacedValue) -> Result<bool, String> {
        if self.get(&replaced.key) != replaced.now {
            return Ok(false);
        }
        let Some((last, path)) = replaced.key.split_last() else {
            return Ok(true);
        };
        match &replaced.was {
            Some(item) => {
                self.table(path)?.insert(last, item.clone());
            }
            // The edit removed a key that did not exist.
            None if replaced.now.is_none() => {}
            None => {
                self.table(path)?.remove(last);
                self.tidy(path);
            }
        }
        Ok(true)
    }

    /// Returns the table at a path, and makes it if it does not exist.
    fn table(&mut self, path: &[String]) -> Result<&mut dyn TableLike, String> {
        let mut at: &mut dyn TableLike = self.0.as_table_mut();
        for (depth, name) in path.iter().enumerate() {
            if at.get(name).is_none_or(Item::is_none) {
                at.insert(name, empty(depth));
            }
            // `volume.NAME.max` and `tenant.NAME.max`: a rate stands for a table with a bandwidth.
            if name == "max" && depth == 2 {
                spell_out(at, name);
            }
            at = at
                .get_mut(name)
                .and_then(Item::as_table_like_mut)
                .ok_or_else(|| format!("{} is not a table", path[..=depth].join(".")))?;
        }
        Ok(at)
    }

    /// Normalises the spaces in an inline table, so that an added key looks like the others.
    fn align(&mut self, path: &[String]) {
        let item = path.iter().try_fold(self.0.as_item_mut(), |item, name| {
            item.as_table_like_mut()?.get_mut(name)
        });
        if let Some(table) = item.and_then(Item::as_inline_table_mut) {
            table.fmt();
        }
    }

    /// Removes a table that has become empty, if it is inside a volume, tenant or drive.
    fn tidy(&mut self, path: &[String]) {
        // A volume, tenant or drive stays even if it is empty.
        if path.len() < 3
            || !self
                .get(path)
                .is_some_and(|j| j.as_object().is_some_and(JsonTable::is_empty))
        {
            return;
        }
        if let Some((last, above)) = path.split_last()
            && let Ok(table) = self.table(above)
        {
            table.remove(last);
        }
    }
}

impl std::fmt::Display for ConfigDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns an empty table for a depth. `[volume]` is implicit, `[volume.alpha]` is a section, and
/// deeper tables are inline.
fn empty(depth: usize) -> Item {
    match depth {
        0 => {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        }
        1 => Item::Table(Table::new()),
        _ => value(InlineTable::new()),
    }
}

/// Expands a max that is a rate, `max = "50MB/s"`, to the table that it stands for.
fn spell_out(table: &mut dyn TableLike, name: &str) {
    let rate = table.get(name).and_then(Item::as_str);
    if let Some(rate) = rate.map(str::to_owned) {
        let max = InlineTable::from_iter([("bandwidth", rate)]);
        put(table, name, value(max));
    }
}

/// Sets a key. The comments and spaces around an existing value are preserved.
fn put(table: &mut dyn TableLike, name: &str, mut new: Item) {
    let before = table.get(name).and_then(Item::as_value);
    if let (Some(before), Some(new)) = (before, new.as_value_mut()) {
        *new.decor_mut() = before.decor().clone();
    }
    table.insert(name, new);
}

/// Returns a value in the form in which it is written at a depth.
fn item(json: &Json, depth: usize) -> Result<Item, String> {
    match json {
        Json::Object(words) if depth <= 2 => {
            let mut table = Table::new();
            table.set_implicit(depth == 1);
            for (name, json) in words {
                // TOML has no null. In an added table, the key is left out.
                if !json.is_null() {
                    table.insert(name, item(json, depth + 1)?);
                }
            }
            Ok(Item::Table(table))
        }
        other => written(other, depth).map(value),
    }
}

/// Returns a value in its inline form.
fn written(json: &Json, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("tables can be nested at most {DEPTH_MAX} deep"));
    }
    Ok(match json {
        Json::Null => return Err("a list cannot contain null".to_owned()),
        Json::Bool(flag) => (*flag).into(),
        Json::String(text) => text.as_str().into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(number)) => number.into(),
            (None, None) => return Err(format!("the number {number} is too large")),
        },
        Json::Array(elements) => {
            let elements = elements.iter().map(|e| written(e, depth + 1));
            elements.collect::<Result<Array, String>>()?.into()
        }
        Json::Object(words) => {
            let mut table = InlineTable::new();
            for (name, json) in words.iter().filter(|w| !w.1.is_null()) {
                table.insert(name, written(json, depth + 1)?);
            }
            table.into()
        }
    })
}

/// Returns an item of the document as JSON.
fn json(item: &Item) -> Option<Json> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(of_value(value)),
        Item::Table(table) => Some(Json::Object(words(table))),
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter().map(|table| Json::Object(words(table)));
            Some(Json::Array(tables.collect()))
        }
    }
}

fn words(table: &dyn TableLike) -> JsonTable {
    let entries = table.iter();
    let entries = entries.filter_map(|(name, item)| Some((name.to_owned(), json(item)?)));
    entries.collect()
}

fn of_value(value: &Value) -> Json {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(flag) => (*flag.value()).into(),
        // No key of the configuration has a date as its value.
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(array) => array.iter().map(of_value).collect(),
        Value::InlineTable(table) => Json::Object(words(table)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "\
# Ours.
[drive.fast]                   # the only one
capacity = { read = \"160MB/s\", write = \"120MB/s\" }

# The first customer.
[volume.alpha]
drive = \"fast\"
min = \"10MB/s\"                 # until May
max = { bandwidth = \"50MB/s\" } # always
";

    fn edit(key: &str, value: Json) -> Edit {
        let key = key.split('.').map(str::to_owned).collect();
        Edit { key, value }
    }

    fn edited(edits: &[Edit]) -> String {
        let mut document = ConfigDocument::parse(TEXT).unwrap();
        let replaced: Vec<ReplacedValue> =
            edits.iter().map(|e| document.edit(e).unwrap()).collect();
        let text = document.to_string();
        // Every test of edits also undoes them.
        for replaced in replaced.iter().rev() {
            assert_eq!(document.put_back(replaced), Ok(true));
        }
        let before = ConfigDocument::parse(TEXT).unwrap();
        for kind in ["volume", "drive"] {
            assert_eq!(document.tables(kind), before.tables(kind));
        }
        text
    }

    #[test]
    fn comments_and_order_stay() {
        let text = edited(&[edit("volume.alpha.min", json!("20MB/s"))]);
        assert_eq!(text, TEXT.replace("\"10MB/s\"  ", "\"20MB/s\"  "));
    }

    #[test]
    fn additions_have_the_form_that_people_write() {
        let words =
            json!({ "drive": "fast", "memory": true, "size": "1GiB", "max": { "iops": 5 } });
        let text = edited(&[
            edit("volume.beta", words),
            edit("volume.alpha.max.iops", json!(7)),
            edit("drive.fast.limits.volumes", json!(9)),
        ]);
        assert!(text.contains("[volume.beta]\ndrive = \"fast\"\nmax = { iops = 5 }\nmemory = true\nsize = \"1GiB\"\n"), "{text}");
        assert!(
            text.contains("max = { bandwidth = \"50MB/s\", iops = 7 } # always"),
            "{text}"
        );
        assert!(text.contains("limits = { volumes = 9 }"), "{text}");
    }

    #[test]
    fn a_lone_rate_becomes_a_table_when_a_key_is_added() {
        let rate = edit("volume.alpha.max", json!("9MB/s"));
        let text = edited(std::slice::from_ref(&rate));
        assert!(text.contains("max = \"9MB/s\" # always"), "{text}");
        // The rate becomes the bandwidth of a table, which the new key joins.
        let text = edited(&[rate, edit("volume.alpha.max.iops", json!(7))]);
        let table = "max = { bandwidth = \"9MB/s\", iops = 7 } # always";
        assert!(text.contains(table), "{text}");
    }

    #[test]
    fn removals_leave_no_empty_table() {
        let text = edited(&[
            edit("volume.alpha.max.bandwidth", Json::Null),
            edit("volume.alpha.min", Json::Null),
            edit("volume.alpha.nothing", Json::Null),
        ]);
        assert!(!text.contains("max") && !text.contains("min"), "{text}");
        let text = edited(&[edit("volume.alpha", Json::Null)]);
        assert!(!text.contains("alpha"), "{text}");
    }

    #[test]
    fn values_that_were_changed_since_are_not_restored() {
        let mut document = ConfigDocument::parse(TEXT).unwrap();
        let first = document
            .edit(&edit("volume.alpha.min", json!("20MB/s")))
            .unwrap();
        document
            .edit(&edit("volume.alpha.min", json!("30MB/s")))
            .unwrap();
        assert_eq!(document.put_back(&first), Ok(false));
    }

    #[test]
    fn invalid_edits_are_refused() {
        let mut document = ConfigDocument::parse(TEXT).unwrap();
        let deep = vec!["a".to_owned(); 9];
        for (edit, said) in [
            (
                Edit {
                    key: Vec::new(),
                    value: json!(1),
                },
                "requires a key",
            ),
            (
                Edit {
                    key: deep,
                    value: json!(1),
                },
                "at most 8",
            ),
            (
                edit("volume.alpha.min.x", json!(1)),
                "volume.alpha.min is not a table",
            ),
            (edit("volume.alpha.x", json!([null])), "cannot contain null"),
        ] {
            let error = document.edit(&edit).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
