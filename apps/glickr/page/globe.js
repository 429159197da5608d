// A globe that turns, with things on it: the map by d3-geo, on a canvas; the things as elements above it.

const DEGREES_PER_S = 4;
const DEGREES_PER_PIXEL = 0.3;

/** The land of a world-atlas file, for every globe of a page. */
export async function land(url) {
  const atlas = await (await fetch(url)).json();
  return topojson.feature(atlas, atlas.objects.land);
}

export class Globe {
  #canvas = document.createElement("canvas");
  #projection = d3.geoOrthographic().clipAngle(90).precision(0.5);
  #land;
  #pins = [];
  #still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  #drawn = performance.now();

  constructor(box, land) {
    this.box = box;
    this.#land = land;
    box.append(this.#canvas);
    new ResizeObserver(() => this.#size()).observe(box);
    this.#size();
    this.#dragged();
    requestAnimationFrame((now) => this.#turn(now));
  }

  /** Puts an element where its `longitude` and `latitude` are. */
  add(element, longitude, latitude) {
    const pin = { element, at: [longitude, latitude] };
    this.#pins.push(pin);
    this.#place(pin);
    this.box.append(element);
  }

  clear() {
    for (const { element } of this.#pins) element.remove();
    this.#pins = [];
  }

  #size() {
    const size = this.box.clientWidth || 1;
    const sharp = window.devicePixelRatio || 1;
    this.#canvas.width = this.#canvas.height = Math.round(size * sharp);
    this.#canvas.getContext("2d").setTransform(sharp, 0, 0, sharp, 0, 0);
    this.#projection.scale(size / 2 - 2).translate([size / 2, size / 2]);
    this.#draw();
  }

  #turn(now) {
    const seconds = Math.min((now - this.#drawn) / 1000, 0.1);
    this.#drawn = now;
    if (!this.#still && this.box.clientWidth) {
      const [turned, tilted] = this.#projection.rotate();
      this.#projection.rotate([turned + seconds * DEGREES_PER_S, tilted]);
      this.#draw();
    }
    requestAnimationFrame((now) => this.#turn(now));
  }

  #draw() {
    const size = this.box.clientWidth;
    const context = this.#canvas.getContext("2d");
    const path = d3.geoPath(this.#projection, context);
    const colours = getComputedStyle(this.box);
    const fill = (shape, colour) => {
      context.beginPath();
      path(shape);
      context.fillStyle = colour;
      context.fill();
    };
    context.clearRect(0, 0, size, size);
    fill({ type: "Sphere" }, colours.getPropertyValue("--sea"));
    context.beginPath();
    path(d3.geoGraticule10());
    context.strokeStyle = "#ffffff14";
    context.stroke();
    fill(this.#land, colours.getPropertyValue("--land"));
    for (const pin of this.#pins) this.#place(pin);
  }

  #place({ element, at }) {
    const [turned, tilted] = this.#projection.rotate();
    const behind = d3.geoDistance(at, [-turned, -tilted]) > Math.PI / 2;
    element.hidden = behind;
    if (behind) return;
    const [x, y] = this.#projection(at);
    element.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) translate(-50%, -50%)`;
  }

  #dragged() {
    let from;
    this.box.addEventListener("pointerdown", ({ clientX, clientY, target }) => {
      if (target.closest(".pin")) return;
      from = { clientX, clientY, rotate: this.#projection.rotate(), still: this.#still };
      this.#still = true;
    });
    addEventListener("pointermove", ({ clientX, clientY }) => {
      if (!from) return;
      const [turned, tilted] = from.rotate;
      const tilt = tilted - (clientY - from.clientY) * DEGREES_PER_PIXEL;
      this.#projection.rotate([turned + (clientX - from.clientX) * DEGREES_PER_PIXEL, Math.max(-80, Math.min(80, tilt))]);
      this.#draw();
    });
    const drop = () => {
      if (from) this.#still = from.still;
      from = undefined;
    };
    addEventListener("pointerup", drop);
    addEventListener("pointercancel", drop);
  }
}
