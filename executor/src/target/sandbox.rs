//! A filter of system calls, for executors that are to run code and nothing else.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// From now on the process, and whatever it starts, cannot run programs, reach the network, look into other processes or change the
/// system: such calls fail with `EPERM`. Files and devices stay within reach. The process has one thread as yet.
pub(super) fn enter() -> Result<(), String> {
    let mut program = program().map_err(|error| format!("--sandbox: {error}"))?;
    program.splice(0..0, other_numbers());
    seccompiler::apply_filter(&program).map_err(|error| format!("--sandbox: {error}"))
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets()?);
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

/// Refuses the system calls of the x32 interface, which have other numbers on the same architecture.
fn other_numbers() -> Vec<sock_filter> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    const X32: u32 = 0x4000_0000;
    let (load, jump, answer) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let step = |code: u32, jf, k| sock_filter { code: code as u16, jt: 0, jf, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    vec![step(load, 0, 0), step(jump, 1, X32), step(answer, 0, refusal)]
}

/// Sockets of all families but Unix's, which drivers use.
fn sockets() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let unix = libc::AF_UNIX as u64;
    let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix)?;
    Ok(vec![SeccompRule::new(vec![other])?])
}

const DENIED: &[i64] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
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
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    // Rings of system calls get around filters.
    libc::SYS_io_uring_setup,
];
