#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
use catena_guest::*;
use catena_wire::Value;

#[tokio::test]
async fn smoke() {
    let t = std::time::Instant::now();
    let sandbox =
        Sandbox::new(SandboxConfig { cache_dir: Some("/tmp/guest-cache".into()), ..SandboxConfig::default() }).unwrap();
    println!("new {:?}", t.elapsed());
    let f = sandbox.function(
        FunctionKind::JavaScript,
        "mail.js",
        r#"
import { call, emit, log } from "catena";
export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 10) emit({ subject: mail.subject });
  log("size " + mail.size);
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
"#,
    );
    let t = std::time::Instant::now();
    let image = sandbox.load(f.hash(), &f.encode()).await.unwrap();
    println!("load {:?} image {} bytes", t.elapsed(), image.len_bytes());
    let mut s = sandbox.begin(&image).await.unwrap();
    let input = json(r#"{"user":"ann","id":7}"#);
    let turn = s.start(&input, Start { started_at_ms: 1000, seed: 5 }).await.unwrap();
    println!("{turn:?}");
    let k = s.suspend().unwrap();
    println!("continuation {}", k.len());
    let mut s = sandbox.resume(&image, &k).await.unwrap();
    let turn = s.settle(0, Ok(&json(r#"{"size": 50, "subject": "hi", "body": "text"}"#))).await.unwrap();
    println!("{turn:?}");
    let k = s.suspend().unwrap();
    println!("continuation {}", k.len());
    let mut s = sandbox.resume(&image, &k).await.unwrap();
    let turn = s.settle(1, Ok(&json(r#""buy""#))).await.unwrap();
    println!("{turn:?}");
    println!("{:?}", sandbox.stats());
}

fn json(text: &str) -> Value {
    fn put(e: &mut minicbor::Encoder<Vec<u8>>, v: &serde_json::Value) {
        use serde_json::Value as J;
        match v {
            J::Null => drop(e.null()),
            J::Bool(b) => drop(e.bool(*b)),
            J::Number(n) => {
                if let Some(i) = n.as_i64() {
                    e.i64(i).unwrap();
                } else {
                    e.f64(n.as_f64().unwrap()).unwrap();
                }
            }
            J::String(s) => drop(e.str(s)),
            J::Array(a) => {
                e.array(a.len() as u64).unwrap();
                a.iter().for_each(|v| put(e, v))
            }
            J::Object(o) => {
                e.map(o.len() as u64).unwrap();
                for (k, v) in o {
                    e.str(k).unwrap();
                    put(e, v)
                }
            }
        }
    }
    let mut e = minicbor::Encoder::new(Vec::new());
    put(&mut e, &serde_json::from_str(text).unwrap());
    Value::from_cbor(e.into_writer().into()).unwrap()
}
