//! The filter of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, sock_filter,
};

/// Installs the filters, for this thread and the threads that it starts.
pub(super) fn filter() -> Result<(), String> {
    let refused = rules(std::process::id()).map_err(|error| error.to_string())?;
    let mut refused = program(refused, libc::EPERM)?;
    refused.splice(0..0, other_numbers());
    seccompiler::apply_filter(&refused).map_err(|error| error.to_string())?;
    // The flags of `clone3` are in memory, which a filter cannot read. With `ENOSYS` the C library
    // falls back to `clone`.
    let unknown = program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    seccompiler::apply_filter(&unknown).map_err(|error| error.to_string())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(rules: Rules, error: i32) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH.try_into();
    let refusal = SeccompAction::Errno(error.unsigned_abs());
    let filter = architecture.and_then(|architecture| {
        SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)
    });
    filter.and_then(BpfProgram::try_from).map_err(|error: BackendError| error.to_string())
}

/// Returns a filter that refuses the system calls of the x32 interface, which have other numbers on
/// the same architecture.
fn other_numbers() -> Vec<sock_filter> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    const X32: u32 = 0x4000_0000;
    let (load, jump, reply) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let step = |code: u32, jf, k| sock_filter { code: code as u16, jt: 0, jf, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    vec![step(load, 0, 0), step(jump, 1, X32), step(reply, 0, refusal)]
}

/// Returns the rules of refusal. A call is refused if one of its rules matches, or if its list is
/// empty.
fn rules(process: u32) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let own = [0, u64::from(process)];
    for (call, argument) in OF_A_PROCESS {
        rules.insert(*call, vec![none_of(*argument, &own)?]);
    }
    for call in SIGNALS {
        rules.insert(*call, vec![none_of(0, &own[1..])?]);
    }
    for (call, process_kind) in
        [(libc::SYS_setpriority, libc::PRIO_PROCESS as u64), (libc::SYS_ioprio_set, 1)]
    {
        rules.insert(call, vec![none_of(0, &[process_kind])?, none_of(1, &own)?]);
    }
    // `PR_SET_PDEATHSIG` sets the signal by which the process ends with its controller.
    rules.insert(libc::SYS_prctl, one_of(0, &[libc::PR_SET_PDEATHSIG as u64])?);
    rules.insert(libc::SYS_clone, clones()?);
    rules.insert(libc::SYS_fcntl, owners_of_files(process)?);
    rules.insert(libc::SYS_ioctl, one_of(1, &[TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP])?);
    rules.insert(libc::SYS_mknodat, nodes(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, nodes(1)?);
    // Allows only pairs of sockets that cannot send to a third one.
    rules.insert(
        libc::SYS_socketpair,
        masked(1, SOCKET_TYPES, &[libc::SOCK_DGRAM, libc::SOCK_RAW])?,
    );
    let to_an_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![to_an_address])?]);
    for (call, flags) in [(libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules
            .insert(call, vec![bits(flags, libc::MSG_FASTOPEN as u64, libc::MSG_FASTOPEN as u64)?]);
    }
    Ok(rules)
}

/// Returns the rules that refuse new processes and namespaces; threads are allowed.
fn clones() -> Result<Vec<SeccompRule>, BackendError> {
    let mut rules = vec![bits(0, libc::CLONE_THREAD as u64, 0)?];
    for namespace in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
    ] {
        rules.push(bits(0, namespace as u64, namespace as u64)?);
    }
    Ok(rules)
}

/// Returns the rules that refuse another owner of a file, which would receive any signal set for
/// the file.
fn owners_of_files(process: u32) -> Result<Vec<SeccompRule>, BackendError> {
    let is_set = compare(1, SeccompCmpOp::Eq, libc::F_SETOWN as u64)?;
    let is_other = compare(2, SeccompCmpOp::Ne, u64::from(process))?;
    let by_address = compare(1, SeccompCmpOp::Eq, F_SETOWN_EX)?;
    Ok(vec![SeccompRule::new(vec![is_set, is_other])?, SeccompRule::new(vec![by_address])?])
}

fn nodes(mode: u8) -> Result<Vec<SeccompRule>, BackendError> {
    masked(mode, u64::from(libc::S_IFMT), &[libc::S_IFCHR as i32, libc::S_IFBLK as i32])
}

/// Returns the rules that match an argument with one of these values under a mask.
fn masked(argument: u8, mask: u64, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| bits(argument, mask, value.unsigned_abs().into())).collect()
}

fn bits(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![compare(argument, SeccompCmpOp::MaskedEq(mask), value)?])
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value| SeccompRule::new(vec![compare(argument, SeccompCmpOp::Eq, value)?]);
    values.iter().map(|value| rule(*value)).collect()
}

fn none_of(argument: u8, values: &[u64]) -> Result<SeccompRule, BackendError> {
    let conditions = values.iter().map(|value| compare(argument, SeccompCmpOp::Ne, *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Returns a condition on the lower 32 bits of an argument; the kernel uses no more of these
/// arguments.
fn compare(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

const SOCKET_TYPES: u64 = 0xf;
const F_SETOWN_EX: u64 = 15;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;

/// Calls about a process, allowed for this one, and the index of the argument that names the
/// process.
const OF_A_PROCESS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpgid, 0),
];

/// Calls that send a signal, allowed to this process only; their first argument names the process.
const SIGNALS: &[i64] =
    &[libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];

const REFUSED: &[i64] = &[
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_kcmp,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // The network and local services. Existing connections remain.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    // The system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Rings of system calls, which bypass filters.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
