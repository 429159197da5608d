// Glickr: photos of a keyword where they were taken, as each engine answers; and beside it, all at once.
import { call, replies } from "/catena.js";
import { Globe, land } from "./globe.js";

/** How long nobody types before a search begins. */
const QUIET_MS = 200;

const field = document.querySelector("#keyword");
const { engines, keywords } = await call("glickr/about");
const map = await land("vendor/land-110m.json");

/** One way of searching: its globe, its clock, and what each engine has found. */
class Panel {
  #leave;
  #ticking;

  constructor(section) {
    this.section = section;
    this.mode = section.dataset.mode;
    this.clock = element("output", "clock", "0.0 s");
    this.said = element("span", "said", "");
    const line = element("div", "line");
    line.append(this.said, this.clock);
    const box = element("div", "globe");
    this.engines = element("ul", "engines");
    for (const { id, name } of engines) {
      const item = element("li", "", name);
      item.dataset.id = id;
      this.engines.append(item);
    }
    section.append(line, box, this.engines);
    this.globe = new Globe(box, map);
    this.say("idle", "type a word");
  }

  /** Stops what is under way: on every server too. */
  stop() {
    this.#leave?.abort();
    clearInterval(this.#ticking);
  }

  async search(keyword) {
    this.stop();
    this.globe.clear();
    for (const item of this.engines.children) delete item.dataset.ms;
    if (!keyword) return this.say("idle", "type a word");
    const leave = (this.#leave = new AbortController());
    this.began = performance.now();
    this.photos = 0;
    this.arrivals = 0;
    this.tick();
    this.#ticking = setInterval(() => this.tick(), 100);
    this.say("searching", `asking ${engines.length} engines`);
    try {
      if (this.mode === "search") {
        for await (const found of replies("glickr/search", { keyword }, { signal: leave.signal })) this.show(found);
      } else {
        for (const found of await call("glickr/standard", { keyword }, { signal: leave.signal })) this.show(found);
      }
      this.say("complete", this.summary());
    } catch (why) {
      if (leave.signal.aborted) return;
      this.say("partial", `${this.summary()}; then: ${why.message}`);
    } finally {
      if (this.#leave === leave) {
        clearInterval(this.#ticking);
        this.tick();
      }
    }
  }

  show({ engine, photos }) {
    const ms = Math.round(performance.now() - this.began);
    this.photos += photos.length;
    this.arrivals += photos.length * ms;
    const item = this.engines.querySelector(`[data-id="${CSS.escape(engine)}"]`);
    if (item) item.dataset.ms = ms;
    for (const { title, longitude, latitude, picture } of photos) {
      const pin = element("button", "pin");
      const image = new Image();
      pin.type = "button";
      pin.title = image.alt = title;
      pin.dataset.engine = engine;
      image.src = `data:image/svg+xml,${encodeURIComponent(picture)}`;
      pin.append(image);
      this.globe.add(pin, longitude, latitude);
    }
    this.say("searching", this.summary());
  }

  /** The paper's measure: how long a photo took on average. */
  summary() {
    return this.photos ? `${this.photos} photos, on average after ${Math.round(this.arrivals / this.photos)} ms` : "no photos";
  }

  say(state, text) {
    this.section.dataset.state = state;
    this.said.textContent = text;
  }

  tick() {
    this.clock.textContent = `${((performance.now() - this.began) / 1000).toFixed(1)} s`;
  }
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

const panels = [...document.querySelectorAll(".panel")].map((section) => new Panel(section));
const shown = () => panels.filter(({ mode }) => ["both", mode].includes(document.body.dataset.show));
for (const keyword of keywords) document.querySelector("#keywords").append(new Option(keyword));

let quiet;
field.addEventListener("input", () => {
  // Nobody waits for the old word any more.
  for (const panel of panels) panel.stop();
  clearTimeout(quiet);
  quiet = setTimeout(begin, QUIET_MS);
});

function begin() {
  const keyword = field.value.trim();
  for (const panel of panels) panel.stop();
  for (const panel of shown()) panel.search(keyword);
}

for (const choice of document.querySelectorAll("[name=show]")) {
  choice.addEventListener("change", () => {
    document.body.dataset.show = choice.value;
    begin();
  });
}
document.body.dataset.ready = "yes";
