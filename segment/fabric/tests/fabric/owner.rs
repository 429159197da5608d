//! The owner's process: does what it is told by lines.

use std::{
    io::{BufRead, BufReader, Write, stdin, stdout},
    mem::offset_of,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
};

use catena_fabric::{Fabric, Terms, ffi};
use catena_segment::{Allow, Memory, Offer, RemoteMemory, Width};

pub(crate) const BYTES: u64 = 128 << 10;

/// What the owner does; it ends with its standard input.
pub(crate) fn run(provider: &str) {
    let address = provider.starts_with("tcp").then_some("127.0.0.1");
    let fabric = Fabric::open(provider, address, Terms::default()).unwrap();
    let memory = Arc::new(Memory::own(BYTES).unwrap());
    let mut offers: Vec<Option<Offer>> = Vec::new();
    for line in stdin().lines() {
        let line = line.unwrap();
        let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let number = || argument.parse::<u64>().unwrap();
        let answer = match verb {
            "offer" => {
                let allow = if argument == "read" { Allow::Read } else { Allow::All };
                let offer = fabric.offer(Arc::clone(&memory), allow).unwrap();
                let token = offer.token.iter().map(|byte| format!("{byte:02x}")).collect();
                offers.push(Some(offer));
                token
            }
            "drop" => {
                offers[number() as usize] = None;
                String::new()
            }
            "fill" => {
                memory.write(0, &vec![number() as u8; BYTES as usize]).unwrap();
                String::new()
            }
            "same" => {
                let mut all = vec![0; BYTES as usize];
                memory.read(0, &mut all).unwrap();
                all.iter().all(|byte| u64::from(*byte) == number()).to_string()
            }
            "word" => {
                let mut word = [0; 8];
                memory.read(number(), &mut word).unwrap();
                u64::from_ne_bytes(word).to_string()
            }
            "race" => {
                race(&memory, number());
                String::new()
            }
            _ => panic!("{verb}?"),
        };
        println!("{answer}");
        stdout().flush().unwrap();
    }
}

/// Adds one to the first word so often, each time by a swap, and lets others run in between.
fn race(memory: &Memory, rounds: u64) {
    let mut now = 0;
    for _ in 0..rounds {
        loop {
            let was = memory.compare_and_swap(0, Width::Eight, now, now + 1).unwrap();
            let done = was == now;
            now = if done { now + 1 } else { was };
            if done {
                break;
            }
        }
        thread::yield_now();
    }
}

/// That process, as its partner sees it.
pub(crate) struct Owner {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Owner {
    pub(crate) fn start(provider: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        let mut process =
            command.arg(format!("owner={provider}")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, to, from: BufReader::new(from) }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the owner is gone");
        line.trim().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.answer()
    }

    pub(crate) fn offer(&mut self, what: &str) -> Vec<u8> {
        let token = self.ask(&format!("offer {what}"));
        (0..token.len()).step_by(2).map(|at| u8::from_str_radix(&token[at..at + 2], 16).unwrap()).collect()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// How often its threads gave way of themselves: how often they were woken.
    pub(crate) fn wakes(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let switches = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        tasks.map(|task| switches(std::fs::read_to_string(task.unwrap().path().join("status")).unwrap())).sum()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // What the provider shm of 1.17 leaves behind when its process is killed.
        let mine = format!("{}:", self.process.id());
        for file in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with(&mine) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// Signals that this process handles, as bits; without those above 31, which the C library keeps for itself.
pub(crate) fn caught_signals() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() as u32
}

/// Compares the tables in Rust with what a C compiler makes of the installed headers.
pub(crate) fn layout_is_that_of_the_headers() {
    macro_rules! rows {
        ($($c:literal, $rust:ty { $($field:literal = $own:ident),* };)*) => {
            [$($(($c, $field, offset_of!($rust, $own)),)*)*]
        };
    }
    let rows = rows! {
        "struct fi_info", ffi::Info { "caps" = caps, "mode" = mode, "addr_format" = addr_format, "src_addrlen" = src_addrlen, "src_addr" = src_addr,
            "tx_attr" = tx_attr, "rx_attr" = rx_attr, "ep_attr" = ep_attr, "domain_attr" = domain_attr, "fabric_attr" = fabric_attr };
        "struct fi_tx_attr", ffi::TxAttr { "size" = size, "caps" = caps };
        "struct fi_rx_attr", ffi::RxAttr { "size" = size };
        "struct fi_ep_attr", ffi::EpAttr { "type" = kind, "max_msg_size" = max_msg_size };
        "struct fi_domain_attr", ffi::DomainAttr { "threading" = threading, "mr_mode" = mr_mode, "mr_key_size" = mr_key_size };
        "struct fi_fabric_attr", ffi::FabricAttr { "prov_name" = prov_name };
        "struct fid", ffi::Fid { "ops" = ops };
        "struct fi_ops", ffi::Ops { "close" = close, "bind" = bind, "control" = control };
        "struct fid_fabric", ffi::Fabric { "ops" = ops };
        "struct fi_ops_fabric", ffi::FabricOps { "domain" = domain, "trywait" = trywait };
        "struct fid_domain", ffi::Domain { "ops" = ops, "mr" = mr };
        "struct fi_ops_domain", ffi::DomainOps { "av_open" = av_open, "cq_open" = cq_open, "endpoint" = endpoint };
        "struct fi_ops_mr", ffi::MrOps { "reg" = reg };
        "struct fid_mr", ffi::Mr { "mem_desc" = descriptor, "key" = key };
        "struct fi_av_attr", ffi::AvAttr { "type" = kind, "count" = count, "flags" = flags };
        "struct fid_av", ffi::Av { "ops" = ops };
        "struct fi_ops_av", ffi::AvOps { "insert" = insert };
        "struct fi_cq_attr", ffi::CqAttr { "size" = size, "format" = format, "wait_obj" = wait_obj, "wait_set" = wait_set };
        "struct fid_cq", ffi::Cq { "ops" = ops };
        "struct fi_ops_cq", ffi::CqOps { "read" = read, "readerr" = readerr };
        "struct fi_cq_err_entry", ffi::CqErrEntry { "op_context" = op_context, "err" = err, "err_data_size" = err_data_size };
        "struct fid_ep", ffi::Ep { "cm" = cm, "rma" = rma, "atomic" = atomic };
        "struct fi_ops_cm", ffi::CmOps { "getname" = getname };
        "struct fi_ops_rma", ffi::RmaOps { "read" = read, "writemsg" = writemsg };
        "struct fi_msg_rma", ffi::MsgRma { "desc" = desc, "iov_count" = iov_count, "addr" = addr, "rma_iov" = rma_iov, "context" = context, "data" = data };
        "struct fi_rma_iov", ffi::RmaIov { "addr" = addr, "len" = len, "key" = key };
        "struct fi_ops_atomic", ffi::AtomicOps { "compwrite" = compwrite, "compwritevalid" = compwritevalid };
    };
    let numbers = [
        ("FI_RMA", ffi::RMA),
        ("FI_ATOMIC", ffi::ATOMIC),
        ("FI_READ", ffi::READ),
        ("FI_WRITE", ffi::WRITE),
        ("FI_REMOTE_READ", ffi::REMOTE_READ),
        ("FI_REMOTE_WRITE", ffi::REMOTE_WRITE),
        ("FI_TRANSMIT", ffi::TRANSMIT),
        ("FI_RECV", ffi::RECV),
        ("FI_DELIVERY_COMPLETE", ffi::DELIVERY_COMPLETE),
        ("FI_SOURCE", ffi::SOURCE),
        ("FI_MR_LOCAL", ffi::MR_LOCAL as u64),
        ("FI_MR_VIRT_ADDR", ffi::MR_VIRT_ADDR as u64),
        ("FI_MR_ALLOCATED", ffi::MR_ALLOCATED as u64),
        ("FI_MR_PROV_KEY", ffi::MR_PROV_KEY as u64),
        ("(FI_CONTEXT | FI_CONTEXT2)", ffi::MODE_CONTEXTS),
        ("FI_EP_RDM", ffi::EP_RDM as u64),
        ("FI_THREAD_DOMAIN", ffi::THREAD_DOMAIN as u64),
        ("FI_AV_TABLE", ffi::AV_TABLE as u64),
        ("FI_WAIT_FD", ffi::WAIT_FD as u64),
        ("FI_CQ_FORMAT_CONTEXT", ffi::CQ_CONTEXT as u64),
        ("FI_GETWAIT", ffi::GET_WAIT as u64),
        ("FI_ENABLE", ffi::ENABLE as u64),
        ("FI_UINT32", ffi::UINT32 as u64),
        ("FI_UINT64", ffi::UINT64 as u64),
        ("FI_CSWAP", ffi::CSWAP as u64),
        ("FI_EAVAIL", ffi::EAVAIL as u64),
        ("FI_ADDR_STR", u64::from(ffi::ADDRESS_STRING)),
    ];
    let headers = ["fabric", "fi_domain", "fi_endpoint", "fi_eq", "fi_rma", "fi_atomic", "fi_cm", "fi_errno"];
    let mut text: String = headers.map(|header| format!("#include <rdma/{header}.h>\n")).concat();
    for (name, field, own) in rows {
        text += &format!("_Static_assert(offsetof({name}, {field}) == {own}, \"{name}.{field}\");\n");
    }
    for (name, own) in numbers {
        text += &format!("_Static_assert((unsigned long long) {name} == {own}ULL, \"{name}\");\n");
    }
    let compiler = Command::new("cc").args(["-fsyntax-only", "-x", "c", "-"]).stdin(Stdio::piped()).spawn();
    let mut compiler = compiler.expect("a C compiler, and libfabric-dev: tools/bootstrap.sh tests installs it");
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "the tables are not those of the headers, or libfabric-dev is missing");
}
