//! Pages of the documentation, followed as a reader follows them.
//!
//! A fenced block is a file if its info string has `file=PATH`. It is a terminal session if the
//! info string is `console`. Other blocks are ignored. [`Reader::follow`] writes the files and
//! types the commands, in the order of the page, in a folder outside the workspace.
//!
//! In a session, a line `$ COMMAND` is typed; a `\` at its end continues the command on the next
//! line. The lines below are its output. In the output, `...` stands for any text, and a line of
//! `...` for any number of lines. A run of blanks matches any other run of blanks. Without such
//! lines the output is not compared. The command must succeed, with two exceptions: its output has
//! a line that starts with "error", or the next command is `echo $?`.

mod cargo;
mod output;
mod reader;
mod steps;

pub use reader::Reader;
pub use steps::is_followed;
