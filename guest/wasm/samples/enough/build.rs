//! A small stack, and a heap that lies in the image: a node scans all of the memory at each hop, and a guest whose memory grows
//! cannot be put back to its image, so that the next one has to begin with a new instance.

fn main() {
    println!("cargo::rustc-link-arg=-zstack-size=65536");
    println!("cargo::rustc-link-arg=--initial-memory=393216");
    println!("cargo::rerun-if-changed=build.rs");
}
