//! The ranks of programs and of their nodes, among the processes that one launcher has started.

use std::path::Path;

/// The ranks of one program process and its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crew {
    /// The rank of the program's process.
    pub program: i32,
    /// The ranks of its nodes, ascending.
    pub nodes: Vec<i32>,
}

/// The first word of a node's command line, without its folder.
pub const NODE: &str = "longshore-node";

/// Returns the program and nodes that `rank` belongs to; `None` if there are no nodes. The first
/// `programs` of `size` ranks are programs, and share the rest as nodes.
pub fn crew(rank: i32, size: i32, programs: i32) -> Option<Crew> {
    let nodes = size.checked_sub(programs).filter(|nodes| *nodes > 0 && programs > 0)?;
    let share = |program: i32| {
        let first = i64::from(nodes) * i64::from(program) / i64::from(programs);
        programs + first as i32
    };
    let program = match rank < programs {
        true => rank,
        false => (0..programs).find(|program| rank < share(program + 1))?,
    };
    let nodes: Vec<i32> = (share(program)..share(program + 1)).collect();
    (!nodes.is_empty()).then_some(Crew { program, nodes })
}

/// Returns the number of program ranks according to the environment: the user's, or the launcher's
/// where it describes several programs. `None` if both are silent.
pub fn programs(set: Option<i32>, variable: impl Fn(&str) -> Option<String>) -> Option<i32> {
    if set.is_some() {
        return set;
    }
    // Open MPI: the numbers of processes of each program; the nodes are the last.
    let counts = variable("OMPI_APP_CTX_NUM_PROCS")?;
    let counts: Vec<i32> = counts.split(' ').filter_map(|count| count.parse().ok()).collect();
    let (_, programs) = counts.split_last()?;
    let programs = programs.iter().sum();
    (programs > 0).then_some(programs)
}

/// Returns whether a launcher has started this process: one of the variables that launchers set for
/// each process is there.
pub fn is_launched(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PMI_FD", "MPI_LOCALRANKID"]
        .into_iter()
        .any(|name| variable(name).is_some())
}

/// The place of a process in the job of its launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launched {
    rank: i32,
    size: i32,
    programs: i32,
    /// Number of processes on this machine; 0 if the launcher does not say.
    here: i32,
}

/// Variables with the rank and the number of processes, of each launcher.
const PLACES: [[&str; 2]; 2] =
    [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]];

impl Launched {
    /// Reads the variables that launchers set for each process.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<i32>().ok();
        let [rank, size] = PLACES
            .into_iter()
            .map(|place| place.map(number))
            .find(|place| place.iter().all(Option::is_some))?;
        let set = number("LONGSHORE_MPI_PROGRAMS");
        let programs = programs(set, &variable).unwrap_or(1);
        let here = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
        let here = here.into_iter().find_map(number).unwrap_or(0);
        Some(Self { rank: rank?, size: size?, programs, here })
    }

    /// Returns whether all processes of the job are on this machine.
    pub fn are_all_here(&self) -> bool {
        self.here == self.size
    }

    /// Returns the process of the node's program, if the same process of the launcher has started
    /// both.
    pub fn program(&self) -> Option<u32> {
        let wanted = crew(self.rank, self.size, self.programs)?.program.to_string();
        children(parent(std::process::id())?).into_iter().find(|process| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let mut entries = environment.split(|byte| *byte == 0);
            entries.any(|entry| {
                let entry = String::from_utf8_lossy(entry);
                let entry = entry.split_once('=');
                entry.is_some_and(|(name, value)| {
                    PLACES.iter().any(|[rank, _]| name == *rank) && value == wanted
                })
            })
        })
    }
}

/// Returns whether an ancestor of this process is a launcher whose command line has nodes.
pub fn launcher_has_nodes() -> bool {
    let mut process = std::process::id();
    for _ in 0..16 {
        let Some(parent) = parent(process).filter(|parent| *parent > 1) else { return false };
        let line = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
        if has_nodes(&line) {
            return true;
        }
        process = parent;
    }
    false
}

fn has_nodes(command_line: &[u8]) -> bool {
    let words = command_line.split(|byte| *byte == 0);
    let mut words = words.map(|word| String::from_utf8_lossy(word));
    let is_launcher = words.next().is_some_and(|word| {
        let name = Path::new(&*word).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        ["mpirun", "mpiexec", "orterun", "prterun", "srun"]
            .iter()
            .any(|known| name == *known || name.starts_with(&format!("{known}.")))
    });
    is_launcher && words.any(|word| Path::new(&*word).file_name().is_some_and(|name| name == NODE))
}

fn children(process: u32) -> Vec<u32> {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children")).ok()?;
        Some(list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>())
    });
    lists.flatten().collect()
}

fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_share_of_the_nodes() {
        let crew_of = |rank| crew(rank, 9, 1).unwrap();
        assert_eq!(crew_of(0), Crew { program: 0, nodes: (1..9).collect() });
        assert!((0..9).all(|rank| crew_of(rank) == crew_of(0)));
        let split: Vec<_> = (0..7).map(|rank| crew(rank, 7, 2).unwrap()).collect();
        assert_eq!(split[0], Crew { program: 0, nodes: vec![2, 3] });
        assert_eq!(split[1], Crew { program: 1, nodes: vec![4, 5, 6] });
        assert!((2..4).all(|rank| split[rank] == split[0]));
        assert!((4..7).all(|rank| split[rank] == split[1]));
        assert_eq!((crew(0, 4, 4), crew(0, 1, 1), crew(0, 1, 2)), (None, None, None));
        // One node for two programs: the first program has none.
        assert_eq!(crew(0, 3, 2), None);
        assert_eq!(crew(1, 3, 2), Some(Crew { program: 1, nodes: vec![2] }));
    }

    #[test]
    fn launchers_say_where_a_process_is() {
        let of = |variables: &'static [(&str, &str)]| {
            Launched::from_environment(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let mpich = of(&[("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("LONGSHORE_MPI_PROGRAMS", "2")]);
        assert_eq!(mpich, Some(Launched { rank: 3, size: 4, programs: 2, here: 0 }));
        let open_mpi = of(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("OMPI_APP_CTX_NUM_PROCS", "1 2"),
        ]);
        assert_eq!(open_mpi, Some(Launched { rank: 1, size: 3, programs: 1, here: 3 }));
        assert!(open_mpi.is_some_and(|place| place.are_all_here()));
        assert_eq!(of(&[("PMI_RANK", "3")]), None);
    }

    #[test]
    fn the_launcher_says_which_ranks_are_nodes() {
        let of = |counts: &'static str| {
            programs(None, |name| (name == "OMPI_APP_CTX_NUM_PROCS").then(|| counts.to_owned()))
        };
        assert_eq!((of("1 8"), of("2 1 4"), of("4")), (Some(1), Some(3), None));
        assert_eq!(programs(Some(3), |_| None), Some(3));
        assert_eq!(programs(None, |_| None), None);
        assert!(has_nodes(
            b"/usr/bin/mpirun.openmpi\0-n\x001\0./a\0:\0-n\x008\0/x/longshore-node\0"
        ));
        assert!(!has_nodes(b"mpirun\0-n\x001\0./a\0") && !has_nodes(b"vi\0longshore-node\0"));
    }
}
