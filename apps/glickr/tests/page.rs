//! Glickr's page, in a real browser: what is to be seen, and when. How long an engine takes is up to the test. And what the gateway's own module
//! (`/catena.js`) does there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chromium;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use catena::{Client, Context, Node, Service};
use catena_gateway::{Config, Gateway};
use catena_glickr::{
    ENGINES, SEED,
    engine::Wait,
    stage::{self, Stage},
};
use chromium::Page;
use serde_json::json;
use tokio::sync::{mpsc, watch};

/// What an engine is asked, and that it is asked no more.
#[derive(Debug, PartialEq)]
enum Told {
    Asked(&'static str, String),
    /// It answered, or nobody waits for it any more.
    Over(&'static str, String),
}

/// What is told in a test is less than this.
const TOLD_MAX: usize = 1_024;

/// The engines that may answer; they hear of it at once.
type Open = watch::Sender<Vec<&'static str>>;

struct Tells(mpsc::Sender<Told>, &'static str, String);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.try_send(Told::Over(self.1, std::mem::take(&mut self.2)));
    }
}

/// Engines that answer when the test lets them.
fn held() -> (Wait, Arc<Open>, mpsc::Receiver<Told>) {
    let (open, _) = watch::channel(Vec::new());
    let (tell, told) = mpsc::channel(TOLD_MAX);
    let open = Arc::new(open);
    let gate = Arc::clone(&open);
    let wait: Wait = Arc::new(move |engine, keyword| {
        let (mut opened, tell, keyword) = (gate.subscribe(), tell.clone(), keyword.to_owned());
        Box::pin(async move {
            let _ = tell.try_send(Told::Asked(engine.id, keyword.clone()));
            let _tells = Tells(tell, engine.id, keyword);
            let _ = opened.wait_for(|open| open.contains(&engine.id)).await;
        })
    });
    (wait, open, told)
}

struct Glickr {
    page: Page,
    open: Arc<Open>,
    told: mpsc::Receiver<Told>,
    _gateway: Gateway,
    _stage: Stage,
}

async fn glickr() -> Glickr {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/glickr");
    let indexes = stage::indexes(&folder.join("places.json"), SEED).unwrap_or_else(|why| panic!("{why}"));
    let (wait, open, told) = held();
    let stage = Stage::open(indexes, wait).await.unwrap();
    let config =
        Config { offers: vec!["glickr/*".parse().unwrap()], files: Some(folder.join("page")), ..Config::default() };
    let gateway = Gateway::open(stage.client().await.unwrap(), config).await.unwrap();
    let page = Page::open(&format!("http://{}/", gateway.address()), "document.querySelector('[data-ready]')").await;
    Glickr { page, open, told, _gateway: gateway, _stage: stage }
}

impl Glickr {
    /// Lets these engines answer, from now on.
    fn opens(&self, engines: impl IntoIterator<Item = &'static str>) {
        self.open.send_modify(|open| open.extend(engines));
    }

    async fn shows(&mut self, which: &str) {
        self.page.value(&format!("document.querySelector('[name=show][value={which}]').click()")).await;
    }

    /// Waits until so many of these have been told.
    async fn hears(&mut self, count: usize, what: impl Fn(&Told) -> bool) {
        let mut left = count;
        while left > 0 {
            let told = tokio::time::timeout(std::time::Duration::from_secs(60), self.told.recv());
            left -= usize::from(what(&told.await.expect("nothing was told for a minute").unwrap()));
        }
    }
}

fn pins(mode: &str) -> String {
    format!("document.querySelectorAll('.panel[data-mode={mode}] .pin').length")
}

fn state(mode: &str, state: &str) -> String {
    format!("document.querySelector('.panel[data-mode={mode}]').dataset.state === '{state}'")
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_appear_before_the_slowest_engine_has_answered() {
    let mut glickr = glickr().await;
    let [slowest, others @ ..] = ENGINES.map(|engine| engine.id);
    glickr.page.types("tower").await;
    glickr.hears(24, |told| matches!(told, Told::Asked(_, keyword) if keyword == "tower")).await;
    glickr.opens(others);
    // The slowest one is held all the while.
    glickr.page.until("document.querySelectorAll('.panel[data-mode=search] .engines li[data-ms]').length === 11").await;
    let early = glickr.page.value(&pins("search")).await.as_u64().unwrap();
    assert!(early > 11, "{early} pins from eleven engines");
    assert_eq!(glickr.page.value(&pins("standard")).await, 0, "standard mode waits for all");
    assert_eq!(glickr.page.value(&state("search", "searching")).await, true);
    if let Some(file) = std::env::var_os("GLICKR_SCREENSHOT") {
        std::fs::write(file, glickr.page.screenshot().await).unwrap();
    }
    glickr.opens([slowest]);
    glickr.page.until(&state("search", "complete")).await;
    glickr.page.until(&state("standard", "complete")).await;
    let both = [glickr.page.value(&pins("search")).await, glickr.page.value(&pins("standard")).await];
    assert_eq!(both[0], both[1], "both modes find the same");
    assert!(both[0].as_u64().unwrap() > early);
    // Each stands where it was taken: within the globe, or behind it.
    let outside = "[...document.querySelectorAll('.panel[data-mode=search] .pin:not([hidden])')].filter((pin) => {
        const [one, all] = [pin, pin.parentElement].map((element) => element.getBoundingClientRect());
        return one.right < all.left || one.left > all.right || one.bottom < all.top || one.top > all.bottom; }).length";
    assert_eq!(glickr.page.value(outside).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_on_cancels_the_search_at_every_engine() {
    let mut glickr = glickr().await;
    glickr.shows("search").await;
    glickr.page.types("to").await;
    glickr.hears(12, |told| matches!(told, Told::Asked(_, keyword) if keyword == "to")).await;
    glickr.page.types("wer").await;
    glickr.hears(12, |told| matches!(told, Told::Over(_, keyword) if keyword == "to")).await;
    glickr.opens(ENGINES.map(|engine| engine.id));
    glickr.page.until(&state("search", "complete")).await;
    assert!(glickr.page.value(&pins("search")).await.as_u64().unwrap() > 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_blob_whole_and_another_in_part_and_neither_twice() {
    let photos = Service::new("photos").function_in("get", async |context: Context, bytes: u8| {
        Ok(context.blob(&(0..bytes).collect::<Vec<_>>(), "image/png")?)
    });
    let node = Node::builder("far").listen("127.0.0.1:0").service(photos).start().await.unwrap();
    let client = Client::connect(node.address().unwrap()).await.unwrap();
    let config = Config { offers: vec!["photos/*".parse().unwrap()], ..Config::default() };
    let gateway = Gateway::open(client, config).await.unwrap();
    let mut page = Page::open(&format!("http://{}/catena.js", gateway.address()), "document.body").await;
    let had = page.value(
        "import('/catena.js').then(async ({ blob, call }) => {
            const photo = await call('photos/get', 200);
            const whole = await blob(photo);
            const twice = await blob(photo).catch((why) => why.name);
            const part = await blob(await call('photos/get', 10), { from: 3, to: 6 });
            const bytes = async (blob) => [...new Uint8Array(await blob.arrayBuffer())];
            return [whole.type, await bytes(whole), twice, part.type, await bytes(part)];
        })",
    );
    let whole: Vec<u8> = (0..200).collect();
    assert_eq!(had.await, json!(["image/png", whole, "NoSuchBlob", "image/png", [3, 4, 5]]));
}
