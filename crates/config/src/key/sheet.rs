//! Profiles of drives, and sheets of what was published of them.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const PROFILE: Shape = Shape {
    name: "a profile",
    about: "A drive by name, as `weir drives NAME` and `--drive FILE` take it. Beside these keys it has `kind` and the parameters of that \
            kind of [model](#models).",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
            default: DefaultValue::Needed,
            about: "Its name. It begins with a letter or a digit.",
            example: "\"my-drive\"",
        },
        Key {
            name: "about",
            kind: Kind::Text("a text"),
            default: DefaultValue::Needed,
            about: "What it stands for in its first line, which may not be empty; behind that what is known of it and from where.",
            example: "\"A disk of 2012\"",
        },
    ]],
};

pub(crate) const SHEET: Shape = Shape {
    name: "a sheet",
    about: "A profile and what was published of the drive, for `weir drives fit`. Its parameters are values to begin with. It has the keys of \
            a profile and these.",
    keys: &[&[
        Key {
            name: "fit",
            kind: Kind::Table("one entry for each parameter, by its name"),
            default: DefaultValue::Value("{}"),
            about: "The parameters to be found, one after the other in the order of the file.",
            example: "{ service = { figure = \"one-reader\", from = \"1us\", to = \"500us\" } }",
        },
        Key {
            name: "plausible",
            kind: Kind::Table("one entry for each parameter, by its name"),
            default: DefaultValue::Value("{}"),
            about: "The parameters that nothing published shows, and their ranges: predictions are intervals over them.",
            example: "{ tags = { from = 2, to = 8 } }",
        },
        Key {
            name: "figure",
            kind: Kind::List("tables, one `[[figure]]` for each"),
            default: DefaultValue::Value("[]"),
            about: "What was published.",
            example: "[{ name = \"sequential-read\", value = \"515MB/s\", source = \"data sheet\" }]",
        },
    ]],
};

const FROM: Key = Key {
    name: "from",
    kind: Kind::Other("a value of the parameter, above zero"),
    default: DefaultValue::Needed,
    about: "Where its range begins.",
    example: "\"1us\"",
};

const TO: Key = Key {
    name: "to",
    kind: Kind::Other("a value of the parameter, at least `from`"),
    default: DefaultValue::Needed,
    about: "Where its range ends.",
    example: "\"500us\"",
};

pub(crate) const FIT: Shape = Shape {
    name: "[fit]",
    about: "An entry of `[fit]`: a parameter that is to make a figure come out.",
    keys: &[&[
        Key {
            name: "figure",
            kind: Kind::Text("a figure that `weir drives figures` lists"),
            default: DefaultValue::Needed,
            about: "The figure that shows the parameter.",
            example: "\"one-reader\"",
        },
        FROM,
        TO,
    ]],
};

pub(crate) const PLAUSIBLE: Shape = Shape {
    name: "[plausible]",
    about: "An entry of `[plausible]`: the range of a parameter.",
    keys: &[&[FROM, TO]],
};

pub(crate) const FIGURE: Shape = Shape {
    name: "[[figure]]",
    about: "A figure that was published.",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("a figure that `weir drives figures` lists"),
            default: DefaultValue::Needed,
            about: "What was measured.",
            example: "\"sequential-read\"",
        },
        Key {
            name: "value",
            kind: Kind::Text("a rate or a time, above zero"),
            default: DefaultValue::Needed,
            about: "What came out.",
            example: "\"515MB/s\"",
        },
        Key {
            name: "within",
            kind: Kind::Count(1, 100),
            default: DefaultValue::Words("the figure is not fitted to"),
            about: "How far off a fitted figure may be, per cent.",
            example: "10",
        },
        Key {
            name: "source",
            kind: Kind::Text("a text"),
            default: DefaultValue::Needed,
            about: "Where it was published.",
            example: "\"data sheet\"",
        },
        Key {
            name: "note",
            kind: Kind::Text("a text"),
            default: DefaultValue::Words("none"),
            about: "Why a model may give another one.",
            example: "\"measured with a warm cache\"",
        },
    ]],
};
