//! Programs in other languages against a node of another process: one in C, compiled with the header that is committed, does everything that the interface has, and does it wrong;
//! and the libraries for Python and Java, whose views are of the very bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use catena::{Export, Node, Rights, Segment};
use tokio::task::JoinHandle;

// The library has to be built for the program.
use catena_c as _;

fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("libcatena_c.so").exists(), "there is no libcatena_c.so in {}", folder.display());
    folder
}

fn compiled(folder: &Path, source: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, library) = (folder.join("program"), library());
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
    cc.arg(here.join("tests").join(source)).arg("-I").arg(here.join("include"));
    cc.arg("-L").arg(&library).arg("-lcatena_c").arg(format!("-Wl,-rpath,{}", library.display()));
    let output = cc.output().expect("a C compiler, cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A node for programs in other languages: `shared`, `secret`, and the service `echo`.
async fn served() -> (Node, [Segment; 2], JoinHandle<()>) {
    let node = Node::builder("rust").listen("127.0.0.1:0").start().await.unwrap();
    let all = Export { anyone: Rights::ALL, ..Export::default() };
    let shared = node.export("shared", 1 << 16, all).unwrap();
    shared.write(0, b"from rust").unwrap();
    let secret = node.export("secret", 64, Export::default()).unwrap();
    let mailbox = node.mailbox("echo").unwrap();
    let echo = tokio::spawn(async move {
        loop {
            let message = mailbox.receive().await;
            let answer = match message.buffers().first() {
                Some(buffer) => buffer.fetch(1 << 20).await.unwrap(),
                None => message.items().concat().into(),
            };
            let _ = message.answer(answer).await;
        }
    });
    (node, [shared, secret], echo)
}

/// Runs a program to its end; gives what it said.
async fn run(mut program: Command) -> String {
    let ran = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{:?}: {said}", ran.status);
    said
}

#[test]
fn the_program_in_c_uses_every_function() {
    let functions = |text: &'static str| {
        text.split('(').filter_map(|before| before.rsplit(|end: char| !end.is_alphanumeric() && end != '_').next())
    };
    let used: Vec<_> = functions(include_str!("program.c")).collect();
    let declared = include_str!("../include/catena.h").lines().filter(|line| line.ends_with(");"));
    let declared: Vec<_> = declared.flat_map(functions).filter(|name| name.starts_with("catena_")).collect();
    assert!(declared.len() > 30, "{declared:?}");
    let unused: Vec<_> = declared.iter().filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_c_uses_all_of_it_against_a_node_of_another_process() {
    let (node, [shared, _secret], echo) = served().await;
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(compiled(folder.path(), "program.c"));
    program.arg(node.address().unwrap());
    let said = run(program).await;
    assert!(said.ends_with("all of it\n"), "{said}");
    let mut word = [0; 6];
    shared.read(100, &mut word).unwrap();
    assert_eq!(&word, b"from c", "it was written in place");
    echo.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_package_for_python_copies_nothing() {
    let (node, [shared, _secret], echo) = served().await;
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    // The first in PATH may be another than the system's, which has the system's packages.
    let has = |python: &&str| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|done| done.status.success())
    };
    let python =
        ["python3", "/usr/bin/python3"].into_iter().find(has).expect("a Python with NumPy: tools/bootstrap.sh tests");
    let mut python = Command::new(python);
    python.arg("-B").arg(package.join("tests/test_catena.py")).arg(node.address().unwrap());
    python.env("PYTHONPATH", &package).env("CATENA_LIBRARY", library().join("libcatena_c.so"));
    let said = run(python).await;
    assert!(said.contains("Ran 8 tests") && said.ends_with("OK\n"), "{said}");
    let mut word = [0; 11];
    shared.read(200, &mut word).unwrap();
    assert_eq!(&word, b"from python", "it was written in place");
    echo.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_for_java_uses_all_of_it_and_copies_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    run(Command::new(root.join("tools/java.sh"))).await;
    let (node, [shared, _secret], echo) = served().await;
    let built = root.join("target/java");
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{0}/lib/*:{0}/catena/test-classes", built.display()));
    java.args(["-ea", "catena.Program", node.address().unwrap()])
        .env("CATENA_LIBRARY", library().join("libcatena_c.so"));
    let said = run(java).await;
    assert!(said.ends_with("all of it\n"), "{said}");
    let mut word = [0; 9];
    shared.read(300, &mut word).unwrap();
    assert_eq!(&word, b"from java", "it was written in place");
    shared.read(400, &mut word).unwrap();
    assert_eq!(&word, b"by a copy");
    echo.abort();
}
