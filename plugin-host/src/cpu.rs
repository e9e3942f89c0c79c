//! Facts about the CPU, from the kernel's files and the CPU itself. Each group of facts is read at
//! its first use, so that opening a device reads only the facts that it needs.

use crate::physical;
use longshore_plugin_api::FpCapability;
use std::fmt::Write;
use std::fs::read_to_string;
use std::sync::OnceLock;

/// The facts about the CPU that do not change.
pub(crate) struct Cpu {
    /// "AMD EPYC 9754 128-Core Processor".
    pub(crate) name: String,
    /// "AuthenticAMD".
    pub(crate) vendor: String,
    /// The vendor's PCI number, where it has one.
    pub(crate) vendor_id: Option<u32>,
    /// Logical CPUs that this process may run on.
    pub(crate) cores: u32,
    identity: u128,
    cpuinfo: CpuInfo,
    clock_mhz: OnceLock<u32>,
    memory_bytes: OnceLock<u64>,
    features: OnceLock<Features>,
    properties: OnceLock<String>,
}

impl Cpu {
    /// Reads the facts that identify the CPU. A fact that the machine does not provide gets a
    /// default.
    pub(crate) fn read() -> Cpu {
        let cpuinfo = CpuInfo(read_to_string("/proc/cpuinfo").unwrap_or_default());
        let name = cpuinfo.field("model name").unwrap_or(std::env::consts::ARCH).to_owned();
        let implementer = cpuinfo.field("vendor_id").or(cpuinfo.field("CPU implementer"));
        let vendor = implementer.unwrap_or("unknown").to_owned();
        Cpu {
            vendor_id: pci_vendor(&vendor),
            cores: usable_cores(),
            identity: identity(&name, &vendor),
            name,
            vendor,
            cpuinfo,
            clock_mhz: OnceLock::new(),
            memory_bytes: OnceLock::new(),
            features: OnceLock::new(),
            properties: OnceLock::new(),
        }
    }

    /// Returns the highest clock in MHz.
    pub(crate) fn clock_mhz(&self) -> u32 {
        *self.clock_mhz.get_or_init(|| clock_mhz(&self.cpuinfo))
    }

    /// Returns the number of bytes of memory that this process may use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        *self.memory_bytes.get_or_init(physical::total_bytes)
    }

    /// Returns the vector and floating-point features.
    pub(crate) fn features(&self) -> &Features {
        self.features.get_or_init(Features::detect)
    }

    /// Returns `name=value` lines: cores, caches, features.
    pub(crate) fn properties(&self) -> &str {
        self.properties.get_or_init(|| properties(&self.cpuinfo, self.cores))
    }

    /// Returns a UUID (version 8) for device `index`. The UUID is the same in every run on this
    /// machine, and differs between machines.
    pub(crate) fn uuid(&self, index: u32) -> [u8; 16] {
        let mut uuid = hash(self.identity, &index.to_le_bytes()).to_be_bytes();
        uuid[6] = 0x80 | (uuid[6] & 0x0f);
        uuid[8] = 0x80 | (uuid[8] & 0x3f);
        uuid
    }
}

/// Widths of vector registers in bytes, and floating-point abilities.
pub(crate) struct Features {
    /// Register width for integers of 8 and 16 bits.
    pub(crate) small_integer_bytes: u32,
    /// Register width for integers of 32 and 64 bits.
    pub(crate) integer_bytes: u32,
    /// Register width for single and double precision.
    pub(crate) float_bytes: u32,
    /// Register width for half precision; 0 if the CPU does not compute in half precision.
    pub(crate) half_bytes: u32,
    /// `FpCapability` bits of single and double precision.
    pub(crate) float_config: u32,
}

impl Features {
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Features {
        use std::arch::is_x86_feature_detected as has;
        let wide = |avx512: bool, avx: bool| match (avx512, avx) {
            (true, _) => 64,
            (_, true) => 32,
            _ => 16,
        };
        Features {
            small_integer_bytes: wide(has!("avx512bw"), has!("avx2")),
            integer_bytes: wide(has!("avx512f"), has!("avx2")),
            float_bytes: wide(has!("avx512f"), has!("avx")),
            half_bytes: if has!("avx512fp16") { 64 } else { 0 },
            float_config: float_config(has!("fma")),
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn detect() -> Features {
        let half_bytes = if std::arch::is_aarch64_feature_detected!("fp16") { 16 } else { 0 };
        Features {
            small_integer_bytes: 16,
            integer_bytes: 16,
            float_bytes: 16,
            half_bytes,
            float_config: float_config(true),
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn detect() -> Features {
        Features {
            small_integer_bytes: 1,
            integer_bytes: 8,
            float_bytes: 8,
            half_bytes: 0,
            float_config: float_config(false),
        }
    }

    /// Returns the `FpCapability` bits of half precision. Where the CPU has no half precision,
    /// compilers compute in single precision and round.
    pub(crate) fn half_config(&self) -> u32 {
        if self.half_bytes > 0 {
            return self.float_config;
        }
        let emulated = [FpCapability::RoundToNearest, FpCapability::InfNan, FpCapability::Denorm];
        emulated.iter().fold(FpCapability::SoftFloat as u32, |bits, one| bits | *one as u32)
    }
}

/// Returns the `FpCapability` bits of IEEE 754, which every CPU that Rust supports implements.
fn float_config(fma: bool) -> u32 {
    let ieee = [
        FpCapability::CorrectlyRoundedDivideSqrt,
        FpCapability::RoundToNearest,
        FpCapability::RoundToZero,
        FpCapability::RoundToInf,
        FpCapability::InfNan,
        FpCapability::Denorm,
    ];
    let fma = if fma { FpCapability::Fma as u32 } else { 0 };
    ieee.iter().fold(fma, |bits, one| bits | *one as u32)
}

/// `/proc/cpuinfo`: a paragraph of "name : value" lines for each CPU.
struct CpuInfo(String);

impl CpuInfo {
    /// Returns the first value of a field, if it is not empty.
    fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).find(|value| !value.is_empty())
    }

    fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            (found.trim() == name).then_some(value.trim())
        })
    }
}

fn pci_vendor(vendor: &str) -> Option<u32> {
    match vendor {
        "AuthenticAMD" => Some(0x1022),
        "GenuineIntel" => Some(0x8086),
        "HygonGenuine" => Some(0x1d94),
        "CentaurHauls" => Some(0x1106),
        "Shanghai" => Some(0x1d17),
        // The implementer's code on 64-bit Arm.
        "0x41" => Some(0x13b5),
        "0x4e" => Some(0x10de),
        "0x51" => Some(0x17cb),
        _ => None,
    }
}

fn usable_cores() -> u32 {
    let cores = rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count());
    cores.max(1)
}

/// Returns the CPU's maximum clock in MHz, else its current clock, else 1 GHz.
fn clock_mhz(cpuinfo: &CpuInfo) -> u32 {
    let highest = (0..rustix::thread::CpuSet::MAX_CPU)
        .map_while(|cpu| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
            read_to_string(file).ok()?.trim().parse::<u32>().ok()
        })
        .max();
    let now = cpuinfo.fields("cpu MHz").filter_map(|mhz| mhz.parse::<f64>().ok());
    let now = now.fold(0.0, f64::max).round() as u32;
    match highest {
        Some(khz) if khz >= 1000 => khz / 1000,
        _ if now > 0 => now,
        _ => 1000,
    }
}

fn properties(cpuinfo: &CpuInfo, cores: u32) -> String {
    let mut lines = format!("cores={cores}\n");
    for index in 0.. {
        let read = |what: &str| {
            let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            read_to_string(file).map(|value| value.trim().to_lowercase())
        };
        let (Ok(level), Ok(kind), Ok(size)) = (read("level"), read("type"), read("size")) else {
            break;
        };
        // "l1-data", "l1-instruction", "l2-unified".
        let _ = writeln!(lines, "cache-l{level}-{kind}={}", size.to_uppercase());
    }
    if let Some(features) = cpuinfo.field("flags").or(cpuinfo.field("Features")) {
        let _ = writeln!(lines, "features={features}");
    }
    lines
}

/// Returns a number for this machine. The machine's id is hashed, because it must not become
/// public.
fn identity(name: &str, vendor: &str) -> u128 {
    let machine = read_to_string("/etc/machine-id").unwrap_or_default();
    let parts = ["longshore host", machine.trim(), vendor, name];
    parts.iter().fold(FNV_BASIS, |so_far, part| hash(hash(so_far, part.as_bytes()), &[0]))
}

const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// Continues the 128-bit FNV-1a hash `so_far`.
fn hash(so_far: u128, bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(so_far, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_blanks() {
        let info = CpuInfo("cpu MHz\t\t: 1000.5\nmodel name : A: B\nempty\t:\ncpu MHz: 2\n".into());
        assert_eq!(info.field("model name"), Some("A: B"));
        assert_eq!(info.fields("cpu MHz").collect::<Vec<_>>(), ["1000.5", "2"]);
        assert_eq!(info.field("empty"), None);
        assert_eq!(info.field("model"), None);
    }

    #[test]
    fn the_properties_are_lines_of_name_and_value() {
        let cpu = Cpu::read();
        assert!(cpu.properties().lines().all(|line| line.contains('=')));
        assert!(cpu.properties().contains(&format!("cores={}\n", cpu.cores)));
    }

    #[test]
    fn a_uuid_has_version_and_variant() {
        let uuid = Cpu::read().uuid(3);
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2));
    }
}
