//! The configuration as a text that people write: edits leave comments and order as they are.

use crate::api::{Edit, Words};
use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

/// Deepest key, names.
const DEPTH_MAX: usize = 8;

/// A text with tables and keys.
#[derive(Clone, Debug)]
pub(crate) struct Document(DocumentMut);

/// What an edit replaced: where, what was there, and what was put there.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) key: Vec<String>,
    was: Option<Item>,
    now: Option<Json>,
}

impl Replaced {
    /// What takes its [`Document::put_back`] back, before that is done in the document.
    pub(crate) fn inverse(&self, document: &Document) -> Self {
        Self {
            key: self.key.clone(),
            was: document.item(&self.key).cloned(),
            now: self.was.as_ref().and_then(json),
        }
    }
}

impl Document {
    /// Reads a text that the configuration was read from before.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|e| e.to_string())
    }

    /// What is at a key.
    pub(crate) fn get(&self, key: &[String]) -> Option<Json> {
        json(self.item(key)?)
    }

    fn item(&self, key: &[String]) -> Option<&Item> {
        key.iter().try_fold(self.0.as_item(), |item, name| {
            item.as_table_like()?.get(name).filter(|i| !i.is_none())
        })
    }

    /// The tables of a kind, as `volume`: their names, and what is written in each.
    pub(crate) fn tables(&self, kind: &str) -> Vec<(String, Words)> {
        let tables = self.0.get(kind).and_then(Item::as_table_like);
        let tables = tables.into_iter().flat_map(TableLike::iter);
        let words = |(name, item): (&str, &Item)| match json(item)? {
            Json::Object(words) => Some((name.to_owned(), words)),
            _ => None,
        };
        tables.filter_map(words).collect()
    }

    /// Makes an edit, and says what it replaced.
    pub(crate) fn edit(&mut self, edit: &Edit) -> Result<Replaced, String> {
        let Some((last, path)) = edit.key.split_last() else {
            return Err(
                "an edit requires a key, for example [\"volume\", \"alpha\", \"min\"]".to_owned(),
            );
        };
        if edit.key.len() > DEPTH_MAX {
            return Err(format!("a key can have at most {DEPTH_MAX} names"));
        }
        let replaced = Replaced {
            was: self.item(&edit.key).cloned(),
            now: (!edit.value.is_null()).then(|| edit.value.clone()),
            key: edit.key.clone(),
        };
        let new = (!edit.value.is_null()).then(|| item(&edit.value, edit.key.len()));
        let new = new.transpose()?;
        if new.is_none() && replaced.was.is_none() {
            return Ok(replaced);
        }
        // A rate alone that becomes a table for this is put back as it was.
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
            Some(rate) => Replaced {
                was: Some(rate),
                now: self.get(path),
                key: path.to_vec(),
            },
        })
    }

    /// Puts back what an edit replaced; `false` if what it put there is not there any more.
    pub(crate) fn put_back(&mut self, replaced: &Replaced) -> Result<bool, String> {
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
            None if replaced.now.is_none() => {}
            None => {
                self.table(path)?.remove(last);
                self.tidy(path);
            }
        }
        Ok(true)
    }

    /// The table at a path, made if it is not there.
    fn table(&mut self, path: &[String]) -> Result<&mut dyn TableLike, String> {
        let mut at: &mut dyn TableLike = self.0.as_table_mut();
        for (depth, name) in path.iter().enumerate() {
            if at.get(name).is_none_or(Item::is_none) {
                at.insert(name, empty(depth));
            }
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

    /// Spaces what stands in a line anew, so that what was added does not show.
    fn align(&mut self, path: &[String]) {
        let item = path.iter().try_fold(self.0.as_item_mut(), |item, name| {
            item.as_table_like_mut()?.get_mut(name)
        });
        if let Some(table) = item.and_then(Item::as_inline_table_mut) {
            table.fmt();
        }
    }

    /// Takes away a table inside of a volume's, tenant's or drive's that has become empty.
    fn tidy(&mut self, path: &[String]) {
        if path.len() < 3
            || !self
                .get(path)
                .is_some_and(|j| j.as_object().is_some_and(Words::is_empty))
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

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A table at a depth: `[volume]` is not written, `[volume.alpha]` is, and what is inside is written in a line.
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

/// Writes a max that is a rate alone, `max = "50MB/s"`, as the table that it stands for.
fn spell_out(table: &mut dyn TableLike, name: &str) {
    let rate = table.get(name).and_then(Item::as_str);
    if let Some(rate) = rate.map(str::to_owned) {
        let max = InlineTable::from_iter([("bandwidth", rate)]);
        put(table, name, value(max));
    }
}

/// Sets a key: a value that was there before keeps what is written around it.
fn put(table: &mut dyn TableLike, name: &str, mut new: Item) {
    let before = table.get(name).and_then(Item::as_value);
    if let (Some(before), Some(new)) = (before, new.as_value_mut()) {
        *new.decor_mut() = before.decor().clone();
    }
    table.insert(name, new);
}

/// A value as it is written at a depth.
fn item(json: &Json, depth: usize) -> Result<Item, String> {
    match json {
        Json::Object(words) if depth <= 2 => {
            let mut table = Table::new();
            table.set_implicit(depth == 1);
            for (name, json) in words {
                if !json.is_null() {
                    table.insert(name, item(json, depth + 1)?);
                }
            }
            Ok(Item::Table(table))
        }
        other => written(other, depth).map(value),
    }
}

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

/// What is written, as JSON.
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

fn words(table: &dyn TableLike) -> Words {
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
        // The configuration has none.
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
        let mut document = Document::parse(TEXT).unwrap();
        let replaced: Vec<Replaced> = edits.iter().map(|e| document.edit(e).unwrap()).collect();
        let text = document.to_string();
        for replaced in replaced.iter().rev() {
            assert_eq!(document.put_back(replaced), Ok(true));
        }
        let before = Document::parse(TEXT).unwrap();
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
    fn what_is_added_is_written_as_people_write_it() {
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
    fn a_rate_alone_gets_company_as_a_table() {
        let rate = edit("volume.alpha.max", json!("9MB/s"));
        let text = edited(std::slice::from_ref(&rate));
        assert!(text.contains("max = \"9MB/s\" # always"), "{text}");
        let text = edited(&[rate, edit("volume.alpha.max.iops", json!(7))]);
        let table = "max = { bandwidth = \"9MB/s\", iops = 7 } # always";
        assert!(text.contains(table), "{text}");
    }

    #[test]
    fn what_goes_leaves_no_empty_table() {
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
    fn what_was_changed_since_is_not_put_back() {
        let mut document = Document::parse(TEXT).unwrap();
        let first = document
            .edit(&edit("volume.alpha.min", json!("20MB/s")))
            .unwrap();
        document
            .edit(&edit("volume.alpha.min", json!("30MB/s")))
            .unwrap();
        assert_eq!(document.put_back(&first), Ok(false));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut document = Document::parse(TEXT).unwrap();
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
