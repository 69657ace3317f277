//! Profiles of drives, and sheets of what was published of them.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const PROFILE: Shape = Shape {
    name: "a profile",
    about: "A drive model under a name, for `weir drives NAME` and `--drive FILE`. In addition to these keys, it has `kind` and the parameters \
            of that kind of [model](#models).",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
            default: DefaultValue::Needed,
            about: "The drive's name. It begins with a letter or a digit.",
            example: "\"my-drive\"",
        },
        Key {
            name: "about",
            kind: Kind::Text("text"),
            default: DefaultValue::Needed,
            about: "A description. Its first line, which must not be empty, names the drive. The other lines state the known facts about it \
                    and their sources.",
            example: "\"A disk of 2012\"",
        },
    ]],
};

pub(crate) const SHEET: Shape = Shape {
    name: "a sheet",
    about: "A profile together with published measurements of the drive, from which `weir drives fit` finds parameters. The parameters in it \
            are starting values. A sheet has the keys of a profile and the following keys.",
    keys: &[&[
        Key {
            name: "fit",
            kind: Kind::Table("one entry for each parameter, by its name"),
            default: DefaultValue::Value("{}"),
            about: "The parameters to find. They are fitted one after the other, in the order of the file.",
            example: "{ service = { figure = \"one-reader\", from = \"1us\", to = \"500us\" } }",
        },
        Key {
            name: "plausible",
            kind: Kind::Table("one entry for each parameter, by its name"),
            default: DefaultValue::Value("{}"),
            about: "The parameters that no published figure determines, with their plausible ranges. Predictions are then given as intervals \
                    over these ranges.",
            example: "{ tags = { from = 2, to = 8 } }",
        },
        Key {
            name: "figure",
            kind: Kind::List("tables, one `[[figure]]` for each"),
            default: DefaultValue::Value("[]"),
            about: "The published figures.",
            example: "[{ name = \"sequential-read\", value = \"515MB/s\", source = \"data sheet\" }]",
        },
    ]],
};

const FROM: Key = Key {
    name: "from",
    kind: Kind::Other("a value of the parameter, above zero"),
    default: DefaultValue::Needed,
    about: "The lower end of the range.",
    example: "\"1us\"",
};

const TO: Key = Key {
    name: "to",
    kind: Kind::Other("a value of the parameter, at least `from`"),
    default: DefaultValue::Needed,
    about: "The upper end of the range.",
    example: "\"500us\"",
};

pub(crate) const FIT: Shape = Shape {
    name: "[fit]",
    about: "An entry of `[fit]`: a parameter that is adjusted until the model reproduces a published figure.",
    keys: &[&[
        Key {
            name: "figure",
            kind: Kind::Text("a figure that `weir drives figures` lists"),
            default: DefaultValue::Needed,
            about: "The published figure that determines the parameter.",
            example: "\"one-reader\"",
        },
        FROM,
        TO,
    ]],
};

pub(crate) const PLAUSIBLE: Shape = Shape {
    name: "[plausible]",
    about: "An entry of `[plausible]`: the range of a parameter that no published figure determines.",
    keys: &[&[FROM, TO]],
};

pub(crate) const FIGURE: Shape = Shape {
    name: "[[figure]]",
    about: "A published measurement.",
    keys: &[&[
        Key {
            name: "name",
            kind: Kind::Text("a figure that `weir drives figures` lists"),
            default: DefaultValue::Needed,
            about: "The measured quantity.",
            example: "\"sequential-read\"",
        },
        Key {
            name: "value",
            kind: Kind::Text("a rate or a time, above zero"),
            default: DefaultValue::Needed,
            about: "The published value.",
            example: "\"515MB/s\"",
        },
        Key {
            name: "within",
            kind: Kind::Count(1, 100),
            default: DefaultValue::Words("no parameter is fitted to the figure"),
            about: "The permitted difference between the model and the published figure, in per cent.",
            example: "10",
        },
        Key {
            name: "source",
            kind: Kind::Text("text"),
            default: DefaultValue::Needed,
            about: "The publication.",
            example: "\"data sheet\"",
        },
        Key {
            name: "note",
            kind: Kind::Text("text"),
            default: DefaultValue::Words("none"),
            about: "The reason why a model can differ from this figure.",
            example: "\"measured with a warm cache\"",
        },
    ]],
};
