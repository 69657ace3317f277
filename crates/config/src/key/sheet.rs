//! The keys of profiles and of sheets.

use super::{KeyDeclaration, Shape};

pub(crate) const PROFILE: Shape = Shape {
    name: "a profile",
    about: "A drive model under a name, for `weir drives NAME` and `--drive FILE`. In addition to these keys, it has `kind` and the parameters \
            of that kind of [model](#models).",
    keys: &[keys! {
        name: Text("1 to 64 letters, digits, dots, dashes and underscores"), "\"my-drive\"",
            "The drive's name. It begins with a letter or a digit.";
        about: Text("text"), "\"A disk of 2012\"",
            "A description. Its first line, which must not be empty, names the drive. The other lines state the known facts about it \
             and their sources.";
    }],
};

pub(crate) const SHEET: Shape = Shape {
    name: "a sheet",
    about: "A profile together with published measurements of the drive, from which `weir drives fit` finds parameters. The parameters in it \
            are starting values. A sheet has the keys of a profile and the following keys.",
    keys: &[keys! {
        fit: Table("one entry for each parameter, by its name") = "{}",
            "{ service = { figure = \"one-reader\", from = \"1us\", to = \"500us\" } }",
            "The parameters to find. They are fitted one after the other, in the order of the file.";
        plausible: Table("one entry for each parameter, by its name") = "{}", "{ tags = { from = 2, to = 8 } }",
            "The parameters that no published figure determines, with their plausible ranges. Predictions are then given as intervals \
             over these ranges.";
        figure: List("tables, one `[[figure]]` for each") = "[]",
            "[{ name = \"sequential-read\", value = \"515MB/s\", source = \"data sheet\" }]",
            "The published figures.";
    }],
};

/// The keys of an entry of `[fit]`. All except the first are also keys of an entry of
/// `[plausible]`.
const ENTRY: &[KeyDeclaration] = keys! {
    figure: Text("a figure that `weir drives figures` lists"), "\"one-reader\"",
        "The published figure that determines the parameter.";
    from: Other("a value of the parameter, above zero"), "\"1us\"",
        "The lower end of the range.";
    to: Other("a value of the parameter, at least `from`"), "\"500us\"",
        "The upper end of the range.";
};

pub(crate) const FIT: Shape = Shape {
    name: "[fit]",
    about: "An entry of `[fit]`: a parameter that is adjusted until the model reproduces a published figure.",
    keys: &[ENTRY],
};

pub(crate) const PLAUSIBLE: Shape = Shape {
    name: "[plausible]",
    about: "An entry of `[plausible]`: the range of a parameter that no published figure determines.",
    keys: &[ENTRY.split_at(1).1],
};

pub(crate) const FIGURE: Shape = Shape {
    name: "[[figure]]",
    about: "A published measurement.",
    keys: &[keys! {
        name: Text("a figure that `weir drives figures` lists"), "\"sequential-read\"",
            "The measured quantity.";
        value: Text("a rate or a time, above zero"), "\"515MB/s\"",
            "The published value.";
        within: Count(1, 100) or "no parameter is fitted to the figure", "10",
            "The permitted difference between the model and the published figure, in per cent.";
        source: Text("text"), "\"data sheet\"",
            "The publication.";
        note: Text("text") or "none", "\"measured with a warm cache\"",
            "The reason why a model can differ from this figure.";
    }],
};
