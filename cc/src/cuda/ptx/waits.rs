//! Barriers, fences, operations of warps, and the end of a thread.

use super::registers::sized;
use super::{Instruction, Translator};

impl Translator {
    /// Translates barriers, fences, operations of warps, and the end of an item.
    pub(crate) fn wait(&self, it: &Instruction<'_>) -> Option<String> {
        let operands = &it.operands;
        let word = |index: usize| self.typed(operands.get(index)?, "u32");
        let truth = |index: usize| {
            let text = operands.get(index)?.trim();
            Some(match text.strip_prefix('!') {
                Some(opposite) => format!("(int)(~{} & 1)", self.value(opposite)?),
                None => format!("(int)({} & 1)", self.value(text)?),
            })
        };
        let all = "0xffffffffu".to_owned();
        Some(match it.parts[0] {
            "bar" | "barrier" if it.has("warp") => format!("__syncwarp({});", word(0)?),
            "bar" | "barrier" if it.has("red") => {
                let kinds = [("popc", "count"), ("and", "and"), ("or", "or")];
                let (_, kind) = kinds.into_iter().find(|(name, _)| it.has(name))?;
                (operands.len() == 3 && operands[1].trim() == "0").then_some(())?;
                format!("{} = __syncthreads_{kind}({});", self.target(operands[0])?, truth(2)?)
            }
            // All threads of the block meet at barrier 0.
            "bar" | "barrier" => {
                (it.has("sync") && operands.len() == 1 && operands[0].trim() == "0")
                    .then_some(())?;
                "__syncthreads();".to_owned()
            }
            "membar" | "fence" if !it.has("proxy") && !it.has("mbarrier_init") => {
                match (it.has("cta"), it.has("sys")) {
                    (true, _) => "__threadfence_block();".to_owned(),
                    (_, true) => "__threadfence_system();".to_owned(),
                    _ => "__threadfence();".to_owned(),
                }
            }
            "activemask" => format!("{} = __activemask();", self.target(operands.first()?)?),
            "vote" => {
                let lanes = if it.has("sync") { word(2)? } else { all };
                let kinds = ["all", "any", "uni", "ballot"];
                let kind = kinds.into_iter().find(|kind| it.has(kind))?;
                let call = format!("__{kind}_sync({lanes}, {})", truth(1)?);
                let call = if kind == "ballot" { call } else { format!("({call} != 0)") };
                format!("{} = {call};", self.target(operands.first()?)?)
            }
            "match" if it.has("any") => {
                let (value, lanes) = (self.typed(operands.get(1)?, sized(it.ty()?)?)?, word(2)?);
                format!("{} = __match_any_sync({lanes}, {value});", self.target(operands[0])?)
            }
            "redux" if !it.ty()?.starts_with('f') => {
                let kinds = ["add", "min", "max", "and", "or", "xor"];
                let kind = kinds.into_iter().find(|kind| it.has(kind))?;
                let value = self.typed(operands.get(1)?, sized(it.ty()?)?)?;
                let call = format!("__reduce_{kind}_sync({}, {value})", word(2)?);
                format!("{} = longshore_ptx::from({call});", self.target(operands[0])?)
            }
            "shfl" => {
                let kinds = ["up", "down", "bfly", "idx"];
                let kind = kinds.into_iter().position(|kind| it.has(kind))?;
                let (target, inside) = match operands.first()?.split_once('|') {
                    Some((target, inside)) => (target, Some(self.target(inside)?)),
                    None => (operands[0], None),
                };
                let lanes = if it.has("sync") { word(4)? } else { all };
                let set = inside.map_or(String::new(), |it| format!("{it} = longshore_in_; "));
                format!(
                    "{{ longshore_ptx::W longshore_in_; {} = longshore_ptx::shuffle({lanes}, {}, {}, \
                     {}, {kind}, &longshore_in_); {set}}}",
                    self.target(target)?,
                    word(1)?,
                    word(2)?,
                    word(3)?
                )
            }
            "nanosleep" => format!("__nanosleep({});", word(0)?),
            "trap" => "__trap();".to_owned(),
            "brkpt" | "griddepcontrol" => String::new(),
            "exit" => "longshore_ptx::leave();".to_owned(),
            _ => return None,
        })
    }
}
