//! `io.cost` as a whole: held against Linux (`referee`), and its promises under configurations drawn at random (`rules`).

mod host;
mod referee;
mod rules;
