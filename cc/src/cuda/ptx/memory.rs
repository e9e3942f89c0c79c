//! Instructions that move data: moves, loads, stores, copies and atomic operations.

use super::registers::{bits, plain};
use super::{Instruction, Translator, list};
use std::fmt::Write;

impl Translator {
    pub(crate) fn memory(&self, it: &Instruction<'_>) -> Option<String> {
        let name = it.parts[0];
        match name {
            "prefetch" | "prefetchu" | "discard" => return Some(String::new()),
            "cp" => return self.copy(it),
            "cvta" => {
                let [target, source] = it.operands[..] else { return None };
                let value = self.value(source)?;
                let value = match (it.has("shared"), it.has("to")) {
                    (true, true) => {
                        format!("(longshore_ptx::W)__cvta_generic_to_shared((const void *){value})")
                    }
                    (true, false) => format!("longshore_ptx::of_shared({value})"),
                    (false, _) => value,
                };
                return Some(format!("{} = {value};", self.target(target)?));
            }
            "mov" => return self.moved(it),
            _ => {}
        }
        let ty = it.ty()?;
        let ty =
            if ty.starts_with('b') { format!("u{}", bits(ty)?) } else { plain(ty)?.to_owned() };
        let is_store = name == "st";
        let [one, other] = it.operands[..] else { return None };
        let (address, values) = if is_store { (one, other) } else { (other, one) };
        let values = match values.trim().strip_prefix('{') {
            Some(values) => list(values.strip_suffix('}')?)?,
            None => vec![values],
        };
        let lanes = [("v2", 2), ("v4", 4), ("v8", 8)].into_iter().find(|(lanes, _)| it.has(lanes));
        if lanes.map_or(1, |(_, lanes)| lanes) != values.len() {
            return None;
        }
        let spaces = ["param", "const", "tex"];
        if it.parts.iter().any(|part| spaces.iter().any(|space| part.starts_with(space))) {
            return None;
        }
        let address = self.address(address, it.parts.iter().any(|it| it.starts_with("shared")))?;
        let mut code = format!("{{ const longshore_ptx::W longshore_at_ = {address}; ");
        let ordered = ["acquire", "release"].into_iter().any(|order| it.has(order));
        let way = match it.has("relaxed") || ordered || it.has("mmio") {
            true => "_atomic",
            false if it.has("volatile") => "_volatile",
            false => "",
        };
        if way == "_atomic" && !matches!(bits(&ty)?, 32 | 64) {
            return None;
        }
        let more = if way == "_atomic" { format!(", {ordered}") } else { String::new() };
        for (index, value) in values.iter().enumerate() {
            let at = format!("longshore_at_ + {}", index * bits(&ty)? as usize / 8);
            let _ = match is_store {
                true => write!(
                    code,
                    "longshore_ptx::store{way}<longshore_ptx::{ty}>({at}, {}{more}); ",
                    self.value(value)?
                ),
                false => {
                    let load = format!("longshore_ptx::load{way}<longshore_ptx::{ty}>({at}{more})");
                    // A register of more bits than the type gets the sign too.
                    let load = match ty.as_str() {
                        "s8" | "s16" | "s32" => format!(
                            "(longshore_ptx::W)(longshore_ptx::s64)longshore_ptx::as<longshore_ptx::\
                             {ty}>({load})"
                        ),
                        _ => load,
                    };
                    write!(code, "{} = {load}; ", self.target(value)?)
                }
            };
        }
        code.push('}');
        Some(code)
    }

    /// Copies a value, or parts of it.
    fn moved(&self, it: &Instruction<'_>) -> Option<String> {
        let [target, source] = it.operands[..] else { return None };
        let inside = |text: &str| {
            let parts = text.trim().strip_prefix('{')?.strip_suffix('}')?;
            list(parts).map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let size = |parts: &[String]| {
            let bits = bits(it.ty()?)?;
            bits.checked_div(parts.len() as u32).filter(|bits| *bits >= 8)
        };
        match (inside(target), inside(source)) {
            (None, None) => {
                let ty = it.ty()?;
                let value = self.value(source)?;
                // The name of a variable is not the value of a register.
                let is_known = ty == "pred" || bits(ty).is_some();
                is_known.then_some(())?;
                Some(format!("{} = {value};", self.target(target)?))
            }
            (Some(parts), None) => {
                let (size, value) = (size(&parts)?, self.value(source)?);
                let mut code = format!("{{ const longshore_ptx::W longshore_all_ = {value}; ");
                for (index, part) in parts.iter().enumerate().filter(|(_, part)| *part != "_") {
                    let shifted = format!("longshore_all_ >> {}", index as u32 * size);
                    let part = self.target(part)?;
                    let _ = write!(code, "{part} = longshore_ptx::field({shifted}, 0, {size}); ");
                }
                code.push('}');
                Some(code)
            }
            (None, Some(parts)) => {
                let size = size(&parts)?;
                let values = parts.iter().enumerate().map(|(index, part)| {
                    let part = self.value(part)?;
                    let shift = index as u32 * size;
                    Some(format!("longshore_ptx::field({part}, 0, {size}) << {shift}"))
                });
                let values: Vec<String> = values.collect::<Option<_>>()?;
                Some(format!("{} = {};", self.target(target)?, values.join(" | ")))
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// Copies memory to the group's, at once instead of some time before the wait for it.
    fn copy(&self, it: &Instruction<'_>) -> Option<String> {
        if it.parts.get(1) != Some(&"async") || it.has("bulk") || it.has("mbarrier") {
            return None;
        }
        if matches!(it.parts.get(2), Some(&"commit_group" | &"wait_group" | &"wait_all")) {
            return Some(String::new());
        }
        let is_copy = it.has("global") && it.parts.iter().any(|part| part.starts_with("shared"));
        // The policy for the cache comes last, and changes no result.
        let operands = match it.has("L2::cache_hint") {
            true => it.operands.split_last().filter(|(policy, _)| self.value(policy).is_some())?.1,
            false => it.operands.as_slice(),
        };
        let (3 | 4, true) = (operands.len(), is_copy) else { return None };
        let (to, from) = (self.address(operands[0], true)?, self.address(operands[1], false)?);
        let bytes = self.typed(operands[2], "u32")?;
        let given = match operands.get(3) {
            None => bytes.clone(),
            // A true predicate means that no byte is read.
            Some(ignores) if self.is_predicate(ignores) => {
                format!("({} & 1 ? 0 : {bytes})", self.value(ignores)?)
            }
            Some(given) => self.typed(given, "u32")?,
        };
        Some(format!("longshore_ptx::copy({to}, {from}, {bytes}, {given});"))
    }

    pub(crate) fn atomic(&self, it: &Instruction<'_>) -> Option<String> {
        let (has_result, ty) = (it.parts[0] == "atom", it.ty()?);
        let operands = it.operands.get(usize::from(has_result)..)?;
        let ty =
            if ty.starts_with('b') { format!("u{}", bits(ty)?) } else { plain(ty)?.to_owned() };
        if !matches!(ty.as_str(), "u32" | "s32" | "u64" | "s64" | "f32" | "f64") {
            return None;
        }
        let names = [
            ("add", "Add"),
            ("min", "Min"),
            ("max", "Max"),
            ("and", "And"),
            ("or", "Or"),
            ("xor", "Xor"),
            ("exch", "Exch"),
            ("cas", "CAS"),
            ("inc", "Inc"),
            ("dec", "Dec"),
        ];
        let (operation, name) = names.into_iter().find(|(name, _)| it.has(name))?;
        let count = if operation == "cas" { 3 } else { 2 };
        if operands.len() != count || it.parts.iter().any(|part| part.starts_with('v')) {
            return None;
        }
        let scope = match (it.has("cta"), it.has("sys")) {
            (true, _) => "_block",
            (_, true) => "_system",
            _ => "",
        };
        let is_shared = it.parts.iter().any(|part| part.starts_with("shared"));
        let address = self.address(operands[0], is_shared)?;
        let values = operands[1..].iter().map(|value| self.typed(value, &ty));
        let values: Vec<String> = values.collect::<Option<_>>()?;
        let call = format!(
            "atomic{name}{scope}((longshore_ptx::{ty} *)({address}), {})",
            values.join(", ")
        );
        let orders = |words: &[&str]| words.iter().any(|word| it.has(word));
        let fence = |is_here: bool| if is_here { "__threadfence(); " } else { "" };
        let before = fence(orders(&["release", "acq_rel"]));
        let after = fence(orders(&["acquire", "acq_rel"]));
        Some(match has_result {
            true if it.operands[0].trim() != "_" => {
                let target = self.target(it.operands[0])?;
                format!("{{ {before}{target} = longshore_ptx::from({call}); {after}}}")
            }
            _ => format!("{{ {before}{call}; {after}}}"),
        })
    }
}
